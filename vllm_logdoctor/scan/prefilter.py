"""The gate automaton: one pass over bytes that finds every literal gate and every wanted line shape.

Hyperscan does the work where it has a wheel; a pure Python set of gates gives the same hits elsewhere.
"""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

from vllm_logdoctor.scan.request_lines import MARK, marks_in
from vllm_logdoctor.scan.required import speaks_of_framing
from vllm_logdoctor.scan.structure import EXPRESSIONS, JSON_RECORD, LITERALS, is_plain

_MANY_PASSED = 200_000
_SHAPES = f"{zlib.crc32(repr((LITERALS, EXPRESSIONS)).encode()):08x}"

Hits = list[tuple[int, int]]
"""(end offset, gate number) in order of the end offset; see `Prefilter`."""


Narrowing = tuple[int, tuple[str, ...]]
"""A gate and the regexes of its patterns: what was asked of `GateSet.narrow`."""


class Prefilter(Protocol):
    """Finds gates in bytes.

    Gate numbers 0 .. n-1 are the literals in the order given; from n on come the structural literals and
    then the structural expressions of `scan.structure`.
    """

    is_fast: bool
    literals: int
    texts: Sequence[str]
    narrowings: list[Narrowing]

    def scan(self, data: bytes) -> Hits:
        """Return (end offset, gate number) for every hit, sorted."""

    def narrow(self, gate: int, regexes: Sequence[str]) -> bool:
        """Report a literal gate only where one of its patterns may match; False where that can't be done.

        For gates that stand on many lines and never lead to a match. It saves time and changes no result, because
        a line that is wanted for its gates alone counts only if a pattern takes it.
        """

    def request_marks(self, data: bytes) -> list[int]:
        """Return the end offsets of `scan.request_lines.MARK`, in order."""


def build_prefilter(
    gates: Sequence[str], cache: Path | None = None, pure: bool = False, digest: str = ""
) -> Prefilter:
    """Build the automaton for literal gates.

    Args:
        gates: the literals.
        cache: folder that may keep the compiled automaton, or None.
        pure: use pure Python even where hyperscan is there.
        digest: key of the literals; without one nothing is kept.
    """
    if not pure:
        with suppress(ImportError):
            return HyperscanPrefilter(gates, cache if digest else None, digest)
    return PythonPrefilter(gates)


class HyperscanPrefilter:
    """Gates found by hyperscan."""

    def __init__(self, gates: Sequence[str], cache: Path | None = None, digest: str = "") -> None:
        import hyperscan

        self.is_fast = True
        self.literals = len(gates)
        self.narrowings: list[Narrowing] = []
        self._hyperscan = hyperscan
        self.texts = gates
        self._database = _database(hyperscan, gates, cache, digest)
        self._narrowed: dict[int, list[bytes]] = {}
        self._marks: Any = None
        self._second: Any = None
        self._reduced: Any = None
        self._passed = 0
        self._second_gates: list[int] = []
        self._json = len(gates) + len(LITERALS) + EXPRESSIONS.index(JSON_RECORD)

    def scan(self, data: bytes) -> Hits:
        """Return (end offset, gate number) for every hit, sorted."""
        hits = self._scan_narrowed(data) if self._second is not None and not _may_be_coloured(data) else None
        if hits is None:
            hits = []
            append = hits.append

            def found(number: int, _start: int, end: int, _flags: int, _context: object) -> None:
                append((end, number))

            self._database.scan(data, match_event_handler=found)
        hits.sort()
        return hits

    def _scan_narrowed(self, data: bytes) -> Hits | None:
        """Scan with the narrowed gates; None where framing changes the text of a line, so that expressions tell nothing."""
        hits: Hits = []
        append = hits.append
        narrowed, json = self._narrowed, self._json
        passed = 0
        framed = False

        def found(number: int, _start: int, end: int, _flags: int, _context: object) -> None:
            nonlocal passed, framed
            if number in narrowed:
                passed += 1
            else:
                framed = framed or number == json
                append((end, number))

        (self._reduced or self._database).scan(data, match_event_handler=found)
        if framed:
            return None
        self._note_passed(passed)
        if passed or self._reduced is not None:
            gates = self._second_gates

            def found_second(number: int, _start: int, end: int, _flags: int, _context: object) -> None:
                append((end, gates[number]))

            self._second.scan(data, match_event_handler=found_second)
        return hits

    def _note_passed(self, passed: int) -> None:
        """Take narrowed gates out of the automaton when they were hit so often that this is less work than to be told."""
        self._passed += passed
        if self._passed > _MANY_PASSED and self._reduced is None:
            kept = [number for number in range(len(self.texts)) if number not in self._narrowed]
            numbers = [*kept, *range(len(self.texts), len(self.texts) + len(LITERALS) + len(EXPRESSIONS))]
            self._reduced = _compiled(
                self._hyperscan, _expressions([self.texts[number] for number in kept]), numbers
            )

    def narrow(self, gate: int, regexes: Sequence[str]) -> bool:
        """Report a literal gate only where one of its patterns may match; False where that can't be done."""
        self.narrowings.append((gate, tuple(regexes)))
        expressions = [_wider(regex) for regex in regexes]
        wider = [expression for expression in expressions if expression is not None]
        return (
            bool(wider)
            and len(wider) == len(expressions)
            and self._compile_second({**self._narrowed, gate: wider})
        )

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

    def _compile_second(self, narrowed: dict[int, list[bytes]]) -> bool:
        try:
            database = _compiled(
                self._hyperscan, [expression for found in narrowed.values() for expression in found]
            )
        except self._hyperscan.error:
            return False
        self._second, self._second_gates = database, [gate for gate, found in narrowed.items() for _ in found]
        self._narrowed = narrowed
        self._reduced, self._passed = None, 0
        return True


def _may_be_coloured(data: bytes) -> bool:
    return b"[0m" in data or not is_plain(data)


_GROUP_NAME = re.compile(r"\(\?P<[A-Za-z_0-9]+>")


def _wider(regex: str) -> bytes | None:
    """Turn a pattern's regex into an expression that is found wherever the pattern matches, or None.

    Example:
        >>> _wider(r"Took (?P<n>\\d+) s\\.?$")
        b'Took (?:\\\\d+) s\\\\.?'
    """
    plain = _GROUP_NAME.sub("(?:", regex).removeprefix("^").removesuffix("$")
    bare = re.sub(r"\\.|\[\^?\]?[^\]]*\]", "", plain)
    if "^" in bare or "$" in bare or "(?P" in bare or not plain.isascii() or speaks_of_framing(plain):
        return None
    return plain.encode()


def _as_expression(literal: str) -> bytes:
    return b"".join(b"\\x%02x" % byte for byte in literal.encode())


def _database(hyperscan: Any, gates: Sequence[str], cache: Path | None, digest: str) -> Any:
    """Compile, or load what an earlier start compiled; a cache that can't be read or written costs time only."""
    if not digest:
        return _compiled(hyperscan, _expressions(gates))
    if cache is None:
        return _loaded(hyperscan, _kept(tuple(gates)))
    stored = cache / f"gates-{digest}-{_SHAPES}-{hyperscan.__version__}.hs"
    with suppress(OSError, hyperscan.error):
        return _loaded(hyperscan, stored.read_bytes())
    database = _compiled(hyperscan, _expressions(gates))
    with suppress(OSError):
        stored.parent.mkdir(parents=True, exist_ok=True)
        partial = stored.with_suffix(f".{os.getpid()}")
        partial.write_bytes(hyperscan.dumpb(database))
        partial.replace(stored)
    return database


@lru_cache(maxsize=2)
def _kept(gates: tuple[str, ...]) -> bytes:
    """Compile once for all logs that a program analyses; each gets a database of its own to scan with."""
    import hyperscan

    return bytes(hyperscan.dumpb(_compiled(hyperscan, _expressions(gates))))


def _loaded(hyperscan: Any, data: bytes) -> Any:
    database = hyperscan.loadb(data, mode=hyperscan.HS_MODE_BLOCK)
    database.scratch = hyperscan.Scratch(database)
    return database


def _expressions(gates: Sequence[str]) -> list[bytes]:
    return [*map(_as_expression, (*gates, *LITERALS)), *(expression.encode() for expression in EXPRESSIONS)]


def _compiled(hyperscan: Any, expressions: list[bytes], numbers: list[int] | None = None) -> Any:
    database = hyperscan.Database()
    flags = [hyperscan.HS_FLAG_MULTILINE] * len(expressions)
    numbers = numbers or list(range(len(expressions)))
    database.compile(expressions=expressions, ids=numbers, elements=len(expressions), flags=flags)
    return database


class PythonPrefilter:
    """Gates found in pure Python: same hits, lower speed."""

    def __init__(self, gates: Sequence[str]) -> None:
        self.is_fast = False
        self.literals = len(gates)
        self.texts = gates
        self.narrowings: list[Narrowing] = []
        encoded = [gate.encode() for gate in (*gates, *LITERALS)]
        self._width = min(len(gate) for gate in encoded)
        self._by_start: dict[bytes, list[tuple[bytes, int]]] = {}
        for number, gate in enumerate(encoded):
            self._by_start.setdefault(gate[: self._width], []).append((gate, number))
        self._expressions: list[tuple[Callable[[bytes], Any], int]] = [
            (re.compile(expression.encode(), re.MULTILINE).finditer, len(encoded) + number)
            for number, expression in enumerate(EXPRESSIONS)
        ]

    def scan(self, data: bytes) -> Hits:
        """Return (end offset, gate number) for every hit, sorted."""
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

    def narrow(self, gate: int, regexes: Sequence[str]) -> bool:
        """Never narrows: a gate costs as much as an expression here."""
        return False

    def request_marks(self, data: bytes) -> list[int]:
        """Return the end offsets of `scan.request_lines.MARK`, in order."""
        return marks_in(data)
