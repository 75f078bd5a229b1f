"""The prefilter: one pass over bytes that finds every literal and every wanted line shape.

Hyperscan does the work where it has a wheel; elsewhere a search in pure Python gives the same hits.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

from vllm_logdoctor.files import keep_bytes, kept_bytes
from vllm_logdoctor.scan.request_lines import MARK, marks_in
from vllm_logdoctor.scan.structure import EXPRESSIONS, LITERALS

_SHAPES = f"{zlib.crc32(repr((LITERALS, EXPRESSIONS)).encode()):08x}"

Hits = list[tuple[int, int]]
"""(end offset, number) in order of the end offset; see `Prefilter`."""

_BYTES_PER_HIT = 16
"""Logs have one hit in 50 to 120 bytes."""
_DENSE_PIECES = 15
"""Pieces that are taken to be full of hits too, behind one that is."""


class Prefilter(Protocol):
    """Finds literals and line shapes in bytes.

    Numbers 0 .. n-1 are the literals in the order given; from n on come the structural literals and
    then the structural expressions of `scan.structure`.
    """

    is_fast: bool
    literals: int
    texts: Sequence[str]

    def scan(self, data: bytes) -> Hits:
        """Return (end offset, number) for every hit, sorted."""

    def request_marks(self, data: bytes) -> list[int]:
        """Return the end offsets of `scan.request_lines.MARK`, in order."""


def build_prefilter(
    literals: Sequence[str], cache: Path | None = None, pure: bool = False, digest: str = ""
) -> Prefilter:
    """Build the prefilter for literals.

    Args:
        literals: the literals.
        cache: folder that may keep the compiled automaton, or None.
        pure: use pure Python even where hyperscan is there.
        digest: key of the literals; without one nothing is kept.
    """
    if not pure:
        with suppress(ImportError):
            return HyperscanPrefilter(literals, cache if digest else None, digest)
    return PythonPrefilter(literals)


class HyperscanPrefilter:
    """Literals found by hyperscan."""

    def __init__(self, literals: Sequence[str], cache: Path | None = None, digest: str = "") -> None:
        import hyperscan

        self.is_fast = True
        self.literals = len(literals)
        self._hyperscan = hyperscan
        self.texts = literals
        self._database = _database(hyperscan, literals, cache, digest)
        self._marks: Any = None
        self._dense_pieces = 0

    def scan(self, data: bytes) -> Hits:
        """Return (end offset, number) for every hit, sorted; of a literal that is very often on a line, the first one there."""
        if self._dense_pieces:
            self._dense_pieces -= 1
            return sorted(self._scan_dense(data))
        try:
            hits, found = _collector(len(data))
            self._database.scan(data, match_event_handler=found)
        except self._hyperscan.ScanTerminated:
            # What comes next is most often alike: a scan that is given up costs as much as a whole one.
            self._dense_pieces = _DENSE_PIECES
            hits = self._scan_dense(data)
        hits.sort()
        return hits

    def _scan_dense(self, data: bytes) -> Hits:
        """Scan bytes that are full of hits: those on a line that say nothing new would take more memory than the bytes."""
        hits: Hits = []
        noted: dict[int, int] = {}
        find, size = data.find, len(data)

        def found(number: int, _start: int, end: int, _flags: int, _context: object) -> None:
            if noted.get(number, 0) < end:
                line_end = find(b"\n", end - 1)
                noted[number] = line_end if line_end >= end else size if line_end < 0 else end
                hits.append((end, number))

        self._database.scan(data, match_event_handler=found)
        return hits

    def request_marks(self, data: bytes) -> list[int]:
        """Return the end offsets of `scan.request_lines.MARK`, in order: a search by itself, thrice as fast as a regex."""
        if self._marks is None:
            self._marks = _compiled(self._hyperscan, [_as_expression(MARK.decode())])
        ends: list[int] = []
        append = ends.append

        def found(_number: int, _start: int, end: int, _flags: int, _context: object) -> None:
            append(end)

        self._marks.scan(data, match_event_handler=found)
        return ends


def _collector(size: int) -> tuple[Hits, Callable[[int, int, int, int, object], bool]]:
    """Return a list of hits and what adds to it, which ends the scan where they get too many for so many bytes."""
    hits: Hits = []
    append, most = hits.append, size // _BYTES_PER_HIT + 1000

    def found(number: int, _start: int, end: int, _flags: int, _context: object) -> bool:
        append((end, number))
        return len(hits) > most

    return hits, found


def _as_expression(literal: str) -> bytes:
    return b"".join(b"\\x%02x" % byte for byte in literal.encode())


def _database(hyperscan: Any, literals: Sequence[str], cache: Path | None, digest: str) -> Any:
    """Compile, or load what an earlier start compiled; a cache that can't be read or written costs time only."""
    if not digest:
        return _compiled(hyperscan, _expressions(literals))
    if cache is None:
        return _loaded(hyperscan, _kept(tuple(literals)))
    stored = cache / f"literals-{digest}-{_SHAPES}-{hyperscan.__version__}.hs"
    with suppress(OSError, hyperscan.error):
        return _loaded(hyperscan, kept_bytes(stored))
    database = _compiled(hyperscan, _expressions(literals))
    keep_bytes(stored, hyperscan.dumpb(database))
    return database


@lru_cache(maxsize=2)
def _kept(literals: tuple[str, ...]) -> bytes:
    """Compile once for all logs that a program analyses; each gets a database of its own to scan with."""
    import hyperscan

    return bytes(hyperscan.dumpb(_compiled(hyperscan, _expressions(literals))))


def _loaded(hyperscan: Any, data: bytes) -> Any:
    database = hyperscan.loadb(data, mode=hyperscan.HS_MODE_BLOCK)
    database.scratch = hyperscan.Scratch(database)
    return database


def _expressions(literals: Sequence[str]) -> list[bytes]:
    return [
        *map(_as_expression, (*literals, *LITERALS)),
        *(expression.encode() for expression in EXPRESSIONS),
    ]


def _compiled(hyperscan: Any, expressions: list[bytes]) -> Any:
    database = hyperscan.Database()
    flags = [hyperscan.HS_FLAG_MULTILINE] * len(expressions)
    numbers = list(range(len(expressions)))
    database.compile(expressions=expressions, ids=numbers, elements=len(expressions), flags=flags)
    return database


class PythonPrefilter:
    """Literals found in pure Python: same hits, lower speed."""

    def __init__(self, literals: Sequence[str]) -> None:
        self.is_fast = False
        self.literals = len(literals)
        self.texts = literals
        encoded = [text.encode() for text in (*literals, *LITERALS)]
        self._width = min(len(text) for text in encoded)
        self._by_start: dict[bytes, list[tuple[bytes, int]]] = {}
        for number, text in enumerate(encoded):
            self._by_start.setdefault(text[: self._width], []).append((text, number))
        self._expressions: list[tuple[Callable[[bytes], Any], int]] = [
            (re.compile(expression.encode(), re.MULTILINE).finditer, len(encoded) + number)
            for number, expression in enumerate(EXPRESSIONS)
        ]

    def scan(self, data: bytes) -> Hits:
        """Return (end offset, number) for every hit, sorted."""
        hits: Hits = []
        width, by_start = self._width, self._by_start
        for offset in range(len(data) - width + 1):
            candidates = by_start.get(data[offset : offset + width])
            if candidates:
                hits += [(offset + len(g), n) for g, n in candidates if data.startswith(g, offset)]
        for finditer, number in self._expressions:
            hits += [(match.end(), number) for match in finditer(data)]
        hits.sort()
        return hits

    def request_marks(self, data: bytes) -> list[int]:
        """Return the end offsets of `scan.request_lines.MARK`, in order."""
        return marks_in(data)
