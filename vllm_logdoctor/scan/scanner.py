"""What one piece of bytes contains by itself: its wanted lines and counts, whatever comes before it.

This is nearly all of the work, and it needs no memory of earlier pieces: worker processes do it for pieces
of one file, and the selector puts the answers together in order.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from msgspec import Struct, field

from vllm_logdoctor.scan.accesses import AccessCounter, AccessKey
from vllm_logdoctor.scan.line_templates import LineTemplates
from vllm_logdoctor.scan.prefilter import Prefilter
from vllm_logdoctor.scan.request_lines import RequestLines, Residue
from vllm_logdoctor.scan.structure import (
    DEBUG_HEADER,
    EXCEPTION,
    EXPRESSIONS,
    LITERALS,
    is_full_of_debug,
    parses_unchanged,
    secret_name_before,
)

LONGEST = 1 << 18
"""Bytes of a line that are looked at."""
_PIECES_BEFORE_TEMPLATES = 8
"""Pieces full of DEBUG lines from which on it pays to learn templates."""
_LINE_END = 10
Number = int
"""Number of a line in its piece, from 0."""


class LineMatch(NamedTuple):
    """A line with a hit: its number, its bytes, and why it is wanted.

    Attributes:
        number: number of the line in its piece.
        data: its bytes.
        literals: numbers of the literals in it.
        by_shape: whether its shape or a rule page wants it, so that it counts even if no pattern matches. A line without literals
            that is not wanted by its shape may name the secret of the next one.
        opens, closes: whether it begins a traceback, or ends one.
    """

    number: Number
    data: bytes
    literals: tuple[int, ...]
    by_shape: bool
    opens: bool
    closes: bool


class Repeat(NamedTuple):
    """Request lines of one kind: the first, the last, how many."""

    first: tuple[Number, bytes]
    last: tuple[Number, bytes]
    lines: int


class Scanned(Struct):
    """What a piece contains.

    Attributes:
        lines: line ends in it.
        matches: its lines with a hit, in order.
        counts: (number of the match before which they come, access lines).
        repeats: (number of the match before which they come, request lines).
    """

    lines: int = 0
    matches: list[LineMatch] = field(default_factory=list)
    counts: list[tuple[int, Counter[AccessKey]]] = field(default_factory=list)
    repeats: list[tuple[int, Repeat]] = field(default_factory=list)


class LineFilter(Struct, frozen=True):
    """What the index says about literals.

    Attributes:
        count_before: literals of throughput lines and of lines that begin a run: access lines are counted up to each.
        signatures: literals whose lines rule pages want, except DEBUG output.
        pages_only: literals of rule pages that lead to no pattern.
    """

    count_before: frozenset[int] = frozenset()
    signatures: frozenset[int] = frozenset()
    pages_only: frozenset[int] = frozenset()


class Scanner:
    """Scans pieces; what it remembers makes it faster and changes no result."""

    def __init__(self, prefilter: Prefilter, line_filter: LineFilter) -> None:
        self._prefilter = prefilter
        self._filter = line_filter
        self._traceback = prefilter.literals
        self._exception = prefilter.literals + len(LITERALS) + EXPRESSIONS.index(EXCEPTION)
        self._accesses = AccessCounter()
        self._requests = RequestLines(prefilter.request_marks)
        self._debug_pieces = 0
        self._templates: LineTemplates | None = None

    def scan(self, piece: bytes) -> Scanned:
        """Return what a piece contains."""
        found = self._requests.split(self._without_debug(piece))
        data = found.rest
        out = Scanned()
        position = number = counted = noted = 0
        for start, end, literals, by_shape, opens, closes in self._wanted(data):
            number += data.count(b"\n", position, start)
            if counted < start and not self._filter.count_before.isdisjoint(literals):
                self._count(out, data, counted, start)
                counted = start
            before = found.before(start)
            if noted < before:
                _note_requests(out, found, noted, before)
                noted = before
            if position < start:
                name = secret_name_before(data, start)
                if name is not None and position <= name[0]:
                    out.matches.append(
                        LineMatch(number - name[1], name[2][:LONGEST], (), False, False, False)
                    )
            line = data[start : min(end, start + LONGEST)]
            out.matches.append(LineMatch(number, line, literals, by_shape, opens, closes))
            position, number = min(end + 1, len(data)), number + (end < len(data))
        out.lines = data.count(b"\n")
        self._count(out, data, counted, len(data))
        _note_requests(out, found, noted, len(found.found))
        return out

    def lines_without_requests(self, piece: bytes) -> list[bytes]:
        """Return the lines of a piece, request lines empty."""
        return self._requests.split(piece).rest.split(b"\n")

    def _without_debug(self, piece: bytes) -> bytes:
        """Return a piece with DEBUG lines empty that nothing asks for, where most of its lines are such."""
        if not self._prefilter.is_fast or not is_full_of_debug(piece):
            return piece
        self._debug_pieces += 1
        if self._debug_pieces < _PIECES_BEFORE_TEMPLATES or not parses_unchanged(piece):
            return piece
        if self._templates is None:
            pages_only = self._filter.pages_only & self._filter.signatures
            self._templates = LineTemplates(self._prefilter.texts, pages_only)
        return self._templates.without_skipped(piece)

    def _count(self, out: Scanned, data: bytes, start: int, end: int) -> None:
        """Note the access lines in data[start:end]."""
        counts = self._accesses.count(data, start, end)
        if counts:
            out.counts.append((len(out.matches), counts))

    def _wanted(self, data: bytes) -> Iterator[tuple[int, int, tuple[int, ...], bool, bool, bool]]:
        """Yield (start, end, literals, by shape, opens a block, closes a block) of each line with a hit that counts."""
        find, rfind = data.find, data.rfind
        signatures, literal_count = self._filter.signatures, self._prefilter.literals
        traceback, exception = self._traceback, self._exception
        start = end = first = -1
        literals: list[int] = []
        by_shape = of_page = opens = closes = False
        for offset, number in (*self._prefilter.scan(data), (len(data) + 2, -1)):
            if offset > end:
                if end >= 0:
                    is_debug = of_page and not by_shape and _is_debug(data, start, first)
                    # DEBUG output is nothing to the rule pages.
                    if by_shape or not is_debug or not self._filter.pages_only.issuperset(literals):
                        by_shape = by_shape or (of_page and not is_debug)
                        yield start, end, _unique(literals), by_shape, opens, closes
                if number < 0:
                    break
                # An expression that ends at "$" before "\r\n" or holds the first byte of a message ends inside its line.
                start = rfind(b"\n", 0, offset - 1 if data[offset - 1] == _LINE_END else offset) + 1
                end = find(b"\n", max(offset - 1, start))
                if end < 0:
                    end = len(data)
                first, literals = offset, []
                by_shape = of_page = opens = closes = False
            if number < literal_count:
                literals.append(number)
                of_page = of_page or number in signatures
            else:
                by_shape = True
                opens = opens or number == traceback
                closes = closes or number == exception


def _note_requests(out: Scanned, found: Residue, low: int, high: int) -> None:
    """Note the request lines number low .. high - 1 by kind."""
    for count, first, last in found.by_kind(low, high):
        repeat = Repeat(found.line(first, LONGEST), found.line(last, LONGEST), count)
        out.repeats.append((len(out.matches), repeat))


_DEBUG = re.compile(DEBUG_HEADER.encode())


def _is_debug(data: bytes, start: int, hit_end: int) -> bool:
    """Return whether the hit that ends there comes after the header of a DEBUG record."""
    level = data.find(b"DEBUG ", start, hit_end)
    return level >= 0 and _DEBUG.search(data, level, hit_end) is not None


def _unique(literals: list[int]) -> tuple[int, ...]:
    return tuple(literals) if len(literals) < 2 else tuple(sorted(set(literals)))
