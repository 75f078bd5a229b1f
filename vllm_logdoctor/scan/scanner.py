"""What one piece of bytes says by itself: its wanted lines and counts, whatever stands before it.

This is nearly all of the work, and it needs no memory of earlier pieces: worker processes do it for pieces
of one file, and the selector puts the answers together in order.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct, field

from vllm_logdoctor.scan.accesses import AccessCounter, AccessKey
from vllm_logdoctor.scan.debug_lines import DebugKind, DebugLines
from vllm_logdoctor.scan.prefilter import Prefilter
from vllm_logdoctor.scan.request_lines import RequestLines, Residue
from vllm_logdoctor.scan.structure import DEBUG_HEADER, EXCEPTION, EXPRESSIONS, LITERALS, is_full_of_debug

if TYPE_CHECKING:
    from vllm_logdoctor.scan.vectorized import VectorScanner

LONGEST = 1 << 18
"""Bytes of a line that are looked at."""
_LONG_LOG = 48
"""Pieces of a log for which it pays to find routine lines by columns: to import numpy takes as long as to scan a dozen."""
_WORTH_OF_DEBUG = 8
"""A piece full of DEBUG lines costs as much more than others."""
_SMALLEST = 1 << 12
_LEARNED_FROM = 8
"""Pieces from which columns learn shapes before they are judged by what they leave."""
_SEARCHED_AFTER_A_MISS = 15
"""Where columns leave most of a piece, so many next ones are searched without them: the log holds other things there."""
Number = int
"""Number of a line in its piece, from 0."""


class LineMatch(NamedTuple):
    """A line with a hit: its number, its bytes, and why it is wanted."""

    number: Number
    data: bytes
    gates: tuple[int, ...]
    anyway: bool
    opens: bool
    closes: bool


class Repeat(NamedTuple):
    """Request lines of one kind, or DEBUG lines: the first, the last, how many."""

    first: tuple[Number, bytes]
    last: tuple[Number, bytes]
    lines: int
    debug: bool = False


class Scanned(Struct):
    """What a piece says.

    Attributes:
        lines: line ends in it.
        sights: its lines with a hit, in order.
        counts: (number of the sight before which they stand, access lines).
        repeats: (number of the sight before which they stand, request lines or DEBUG lines).
    """

    lines: int = 0
    sights: list[LineMatch] = field(default_factory=list)
    counts: list[tuple[int, Counter[AccessKey]]] = field(default_factory=list)
    repeats: list[tuple[int, Repeat]] = field(default_factory=list)


class LineFilter(Struct, frozen=True):
    """What the packs say about gates.

    Attributes:
        count_before: gates of throughput lines and of lines that begin a run: access lines are counted up to each.
        signatures: gates whose lines rule pages want to see, except debug output.
        bare: gates that lead to no pattern.
    """

    count_before: frozenset[int] = frozenset()
    signatures: frozenset[int] = frozenset()
    bare: frozenset[int] = frozenset()


class Scanner:
    """Scans pieces; what it remembers makes it faster and changes no answer.

    Args:
        gates: finds the gates.
        interest: what the packs say about gates.
        debug_lines: kinds of DEBUG lines that are only counted; more may be learned while pieces are scanned.
        long_log: so many pieces make a log long: from then on routine lines are found by columns.
    """

    def __init__(
        self,
        gates: Prefilter,
        interest: LineFilter,
        debug_lines: DebugLines | None = None,
        long_log: int = _LONG_LOG,
    ) -> None:
        self._gates = gates
        self._interest = interest
        self._signatures = interest.signatures
        self._bare = interest.bare
        self._count_before = interest.count_before
        self._literals = gates.literals
        self._traceback = gates.literals
        self._exception = gates.literals + len(LITERALS) + EXPRESSIONS.index(EXCEPTION)
        self._accesses = AccessCounter()
        self._requests = RequestLines(gates.request_marks)
        self.debug_lines = debug_lines if debug_lines is not None else DebugLines()
        self._columns: VectorScanner | None = None
        self._pieces_before_columns = long_log
        self._pieces_by_columns = self._pieces_to_search = 0

    def share(self, processes: int, pieces: int) -> None:
        """Take one share of a log, while copies of this scanner in other processes take the others.

        Args:
            processes: how many shares there are.
            pieces: pieces of the log, as far as is known ahead.
        """
        self._pieces_before_columns //= processes
        if pieces >= _LONG_LOG and self._columns is None and self._gates.is_fast:
            self._columns = self._found_by_columns()

    def forget_columns(self) -> bool:
        """Let go of what was learned for columns; says whether there was anything. Scanning may go on: it is learned again."""
        had_columns = self._columns is not None
        self._columns, self._pieces_before_columns = None, _LONG_LOG
        return had_columns

    def scan(self, piece: bytes) -> Scanned:
        """Return what a piece says."""
        found = self._without_routine(piece)
        data = found.rest
        out = Scanned()
        position = place = counted = accesses_told = told = 0
        for start, end, gates, anyway, opens, closes in self._wanted(data):
            place += data.count(b"\n", position, start)
            upto = found.before(place, start)
            if (counted < start or accesses_told < upto) and not self._count_before.isdisjoint(gates):
                self._count(out, data, counted, start, found.accesses(accesses_told, upto))
                counted, accesses_told = start, upto
            if told < upto:
                _tell(out, found, told, upto)
                told = upto
            number = found.number_of(place)
            out.sights.append(
                LineMatch(number, data[start : min(end, start + LONGEST)], gates, anyway, opens, closes)
            )
            position, place = min(end + 1, len(data)), place + (end < len(data))
        out.lines = found.line_ends()
        self._count(out, data, counted, len(data), found.accesses(accesses_told, found.total()))
        _tell(out, found, told, found.total())
        return out

    def _without_routine(self, piece: bytes) -> Residue:
        if self._columns is None and self._pieces_before_columns > 0:
            self._pieces_before_columns -= _WORTH_OF_DEBUG if is_full_of_debug(piece) else 1
            if self._pieces_before_columns <= 0 and self._gates.is_fast:
                self._columns = self._found_by_columns()
        if self._columns is None or self._pieces_to_search > 0 or len(piece) < _SMALLEST:
            self._pieces_to_search -= 1
            return self._requests.taken_out(piece)
        found = self._columns.taken_out(piece)
        self._pieces_by_columns += 1
        if self._pieces_by_columns > _LEARNED_FROM and len(found.rest) > len(piece) / 2:
            self._pieces_to_search = _SEARCHED_AFTER_A_MISS
        return found

    def _found_by_columns(self) -> VectorScanner | None:
        with suppress(ImportError):
            from vllm_logdoctor.scan.vectorized import VectorScanner

            return VectorScanner(
                self._gates, self._interest.bare & self._interest.signatures, self._requests, self.debug_lines
            )
        return None

    def lines_without_requests(self, piece: bytes) -> list[bytes]:
        """Return the lines of a piece, request lines empty."""
        return self._requests.taken_out(piece).rest.split(b"\n")

    def _count(self, out: Scanned, data: bytes, start: int, end: int, counts: Counter[AccessKey]) -> None:
        """Note access lines: those that were taken out, and those in data[start:end]."""
        found = self._accesses.count(data, start, end)
        if found:
            counts.update(found)
        if counts:
            out.counts.append((len(out.sights), counts))

    def _wanted(self, data: bytes) -> Iterator[tuple[int, int, tuple[int, ...], bool, bool, bool]]:
        """Yield (start, end, literal gates, wanted anyway, opens a block, closes a block) of each line with a hit."""
        find, rfind = data.find, data.rfind
        literals, signatures, traceback, exception = (
            self._literals,
            self._signatures,
            self._traceback,
            self._exception,
        )
        start = end = first = -1
        gates: list[int] = []
        anyway = signed = opens = closes = False
        for offset, gate in self._gates.scan(data):
            if offset > end:
                if end >= 0 and (anyway or self._counts(data, start, first, gates, signed)):
                    yield (
                        start,
                        end,
                        _unique(gates),
                        anyway or (signed and not _is_debug(data, start, first)),
                        opens,
                        closes,
                    )
                # An expression that ends at "$" before "\r\n" or holds the first byte of a message ends inside its line.
                start = rfind(b"\n", 0, offset - 1 if data[offset - 1] == _LINE_END else offset) + 1
                end = find(b"\n", max(offset - 1, start))
                if end < 0:
                    end = len(data)
                first, gates = offset, []
                anyway = signed = opens = closes = False
            if gate < literals:
                gates.append(gate)
                signed = signed or gate in signatures
            else:
                anyway = True
                opens = opens or gate == traceback
                closes = closes or gate == exception
        if end >= 0 and (anyway or self._counts(data, start, first, gates, signed)):
            yield (
                start,
                end,
                _unique(gates),
                anyway or (signed and not _is_debug(data, start, first)),
                opens,
                closes,
            )

    def _counts(self, data: bytes, start: int, first: int, gates: list[int], signed: bool) -> bool:
        """Whether a line that only its gates make wanted may count: debug output is nothing to the rule pages."""
        return not signed or not self._bare.issuperset(gates) or not _is_debug(data, start, first)


def _tell(out: Scanned, found: Residue, low: int, high: int) -> None:
    """Note the request and DEBUG lines among the routine lines low .. high - 1 by kind."""
    for kind in found.stretches(low, high):
        first, last = found.line(kind.first, LONGEST), found.line(kind.last, LONGEST)
        out.repeats.append(
            (len(out.sights), Repeat(first, last, kind.count, isinstance(kind.kind, DebugKind)))
        )


_LINE_END = 10
_DEBUG = re.compile(DEBUG_HEADER.encode())


def _is_debug(data: bytes, start: int, gate_end: int) -> bool:
    """Whether the gate that ends there stands behind the header of a DEBUG record."""
    level = data.find(b"DEBUG ", start, gate_end)
    return level >= 0 and _DEBUG.search(data, level, gate_end) is not None


def _unique(gates: list[int]) -> tuple[int, ...]:
    return tuple(gates) if len(gates) < 2 else tuple(sorted(set(gates)))
