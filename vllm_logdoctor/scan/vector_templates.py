"""Shapes of access lines, request lines and DEBUG headers that were met, found again in columns of lines.

A shape is learned from a line that was read by its regex. What differs between lines of one shape is digits, an
address, a request id: nothing that a gate or a pattern could hang on.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import islice
from operator import itemgetter

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from vllm_logdoctor.scan.accesses import AccessKey, access_keys
from vllm_logdoctor.scan.debug_lines import LONGEST, DebugKind, DebugLines, without_digits
from vllm_logdoctor.scan.request_lines import MOST_BEFORE_COLON, Kind, RequestLine, time_in
from vllm_logdoctor.scan.structure import DEBUG_HEADER
from vllm_logdoctor.scan.vector_lines import (
    ONES,
    WORD,
    FixedText,
    LineColumns,
    Offsets,
    Truths,
    Words,
    digits_in,
)

Codes = NDArray[np.uint8]
NO_CODE = 0
"""Of a line that has no known shape."""

_MOST_ACCESSES, _MOST_REQUESTS, _MOST_HEADS = 64, 16, 16
_LOOKED_AT = 1 << 14
_OFTEN = 4
FEW = 64
"""Lines that are left to the search by themselves: a comparison of columns takes as long."""
_MARK = b" HTTP/1."

# (APIServer pid=41) INFO:     10.0.2.10:6378 - "POST /v1/chat/completions HTTP/1.1" 200 OK
_ACCESS_LINE = re.compile(
    rb"^(?P<head>[^\n]{7,150}? )(?P<address>[0-9.:]{8,24})(?P<tail> - [^\n]{10,300})$", re.MULTILINE
)
_SHORTEST_ADDRESS, _LONGEST_ADDRESS = WORD, 3 * WORD
_TOP_BITS = np.uint64(0x80 * ONES)
_FROM_POINT, _TO_COLON = np.uint64((0x80 - ord(".")) * ONES), np.uint64((0x7F - ord(":")) * ONES)
_IN_ADDRESS = re.compile(rb"[./0-9:]+")
_DIGIT = re.compile(rb"[0-9]")

_FIRST_VISIBLE = np.uint64((ord(" ") + 1) * ONES)

# (EngineCore_DP0 pid=55) DEBUG 01-01 00:15:46 [scheduler.py:702] Scheduled 41305 tokens for request ...
_DEBUG_HEAD = re.compile(
    rb"(?:\([A-Za-z0-9_ ]{1,60} pid=[0-9]{1,9}\) )?(?P<rest>" + DEBUG_HEADER.encode() + rb")"
)


class AccessShapes:
    """Finds access lines by what stands before and behind the client's address.

    Args:
        gates: all literal gates.
        has_hits: says whether anything in a line is wanted.
    """

    def __init__(self, gates: Iterable[str], has_hits: Callable[[bytes], bool]) -> None:
        touching = [gate.encode() for gate in gates if _IN_ADDRESS.search(gate.encode())]
        self._with_digits = [_without_digits(gate) for gate in touching]
        self._around_addresses = [
            (_without_digits(gate[: run.start()]), gate[run.end() :])
            for gate in touching
            for run in _IN_ADDRESS.finditer(gate)
        ]
        self._has_hits = has_hits
        self._heads: dict[bytes, FixedText] = {}
        self._tails: dict[bytes, dict[bytes, tuple[FixedText, int]]] = {}
        self._known = 0

    def mark(self, lines: LineColumns, codes: Codes) -> None:
        """Write the codes of the lines of known shapes; a few may be left."""
        for head, text in self._heads.items():
            numbers = np.flatnonzero(codes == NO_CODE)
            numbers = numbers[text.stands_at(lines, lines.starts[numbers])]
            for tail, code in self._tails[head].values():
                if len(numbers) < FEW:
                    break
                found = _has_tail(lines, numbers, text.length, tail)
                codes[numbers[found]] = code
                numbers = numbers[~found]

    def learn(self, rest: bytes, code_of: Callable[[AccessKey], int]) -> None:
        """Learn the shapes of access lines that were not found.

        Args:
            rest: bytes without the lines that were found.
            code_of: gives each kind of request a code.
        """
        if self._known >= _MOST_ACCESSES or rest.count(_MARK) < FEW:
            return
        start = rest.rfind(b"\n", 0, rest.find(_MARK)) + 1
        met = Counter(
            (_without_digits(found["head"]), found["tail"])
            for found in islice(_ACCESS_LINE.finditer(rest, start, start + _LOOKED_AT), 128)
        )
        for (head, tail), number in met.most_common(_MOST_ACCESSES - self._known):
            keys = access_keys(tail)
            if (
                number >= _OFTEN
                and len(keys) == 1 == (head + tail).count(b" HTTP/")
                and self._is_dull(head, tail)
            ):
                self._heads.setdefault(head, FixedText(head, digits_in(head)))
                self._tails.setdefault(head, {})[tail] = (FixedText(tail), code_of(keys[0]))
                self._known += 1

    def _is_dull(self, head: bytes, tail: bytes) -> bool:
        """Say whether no gate can be found in a line of this shape, whatever the digits and the address."""
        if self._has_hits(head + b"10.0.0.1:10000" + tail):
            return False
        return not any(
            head.endswith(before) and tail.startswith(behind) for before, behind in self._around_addresses
        ) and not any(gate in head for gate in self._with_digits)


def _has_tail(lines: LineColumns, numbers: Offsets, head: int, tail: FixedText) -> Truths:
    """Say which lines have an address between a head of that length and a tail."""
    first, behind = lines.starts[numbers] + head, lines.ends[numbers] - tail.length
    length = behind - first
    found: Truths = (length >= _SHORTEST_ADDRESS) & (length <= _LONGEST_ADDRESS)
    found &= tail.stands_at(lines, behind)
    # Three times eight bytes, one above the other where the address is shorter.
    last = np.maximum(behind - WORD, 0)
    words = lines.words[np.concatenate((np.minimum(first, last), np.minimum(first + WORD, last), last))]
    found &= _is_address(words).reshape(3, -1).all(axis=0)
    return found


def _is_address(words: Words) -> Truths:
    """Say which words are made of "./0123456789:" only."""
    # Each sum has its top bit where the byte reaches the first, or passes the last of these; nothing is carried from ASCII.
    sums = (words + _FROM_POINT) & ~(words + _TO_COLON) & ~words
    plain: Truths = (sums & _TOP_BITS) == _TOP_BITS
    return plain


def _without_digits(text: bytes) -> bytes:
    return _DIGIT.sub(b"0", text)


def _blanked(text: bytes, digits: Collection[int]) -> bytes:
    return bytes(ord("0") if place in digits else byte for place, byte in enumerate(text))


class _RequestShape(Struct, frozen=True):
    """A head, then a request id of one length: up to a colon, or up to the line's end."""

    head: FixedText
    id_length: int
    ends_line: bool
    code: int


class RequestShapes:
    """Finds request lines by their heads and the length of their ids."""

    def __init__(self) -> None:
        self._shapes: dict[tuple[bytes, int], _RequestShape] = {}

    def mark(self, lines: LineColumns, codes: Codes) -> None:
        """Write the codes of the lines of known shapes."""
        for shape in self._shapes.values():
            numbers = np.flatnonzero(codes == NO_CODE)
            if not len(numbers):
                return
            length = (lines.ends - lines.starts)[numbers] - shape.head.length - shape.id_length
            numbers = numbers[length == 0 if shape.ends_line else length > 0]
            numbers = numbers[shape.head.stands_at(lines, lines.starts[numbers])]
            ids = lines.starts[numbers] + shape.head.length
            is_id = (
                _is_visible(lines, ids, shape.id_length)
                if shape.ends_line
                else _is_colon(lines, ids + shape.id_length)
            )
            codes[numbers[is_id]] = shape.code

    def learn(self, data: bytes, found: Sequence[RequestLine], code_of: Callable[[Kind], int]) -> None:
        """Learn the shapes of request lines that were found by their regex.

        Args:
            data: the bytes in which they stand.
            found: the lines.
            code_of: gives each kind of request line a code.
        """
        for line in found:
            if len(self._shapes) >= _MOST_REQUESTS:
                return
            head = data[line.start : line.mark]
            colon = data.find(b":", line.mark, line.mark + MOST_BEFORE_COLON)
            ends_line = line.kind[1] != b"Received"
            length = line.end - line.mark if ends_line else colon - line.mark
            if length >= WORD:
                time = time_in(head)
                digits = digits_in(head, time.start, time.stop)
                shape = _RequestShape(FixedText(head, digits), length, ends_line, code_of(line.kind))
                self._shapes.setdefault((_blanked(head, digits), length), shape)


def _is_colon(lines: LineColumns, places: Offsets) -> Truths:
    bytes_there = np.frombuffer(lines.data, np.uint8)[places]
    colons: Truths = bytes_there == ord(":")
    return colons


def _is_visible(lines: LineColumns, places: Offsets, length: int) -> Truths:
    """Say where so many bytes (eight or more) stand that are no space, no control character."""
    visible: Truths = np.ones(len(places), np.bool_)
    for offset in (*range(0, length - WORD, WORD), length - WORD):
        words = lines.words[places + offset]
        visible &= ((words - _FIRST_VISIBLE) & ~words & _TOP_BITS) == 0
    return visible


class DebugHeads:
    """Finds the records of level DEBUG by their heads."""

    def __init__(self) -> None:
        self._heads: dict[bytes, FixedText] = {}

    def among(self, lines: LineColumns, numbers: Offsets) -> Truths:
        """Say which of some lines begin with the head of a DEBUG record; what is met for the first time is learned."""
        found = self._found(lines, numbers)
        if not found.all() and self._learn(lines, numbers[~found][:_MOST_HEADS]):
            found = self._found(lines, numbers)
        return found

    def _found(self, lines: LineColumns, numbers: Offsets) -> Truths:
        found: Truths = np.zeros(len(numbers), np.bool_)
        for text in self._heads.values():
            open_ = np.flatnonzero(~found & (lines.ends[numbers] - lines.starts[numbers] >= text.length))
            found[open_] = text.stands_at(lines, lines.starts[numbers[open_]])
        return found

    def _learn(self, lines: LineColumns, numbers: Offsets) -> bool:
        before = len(self._heads)
        for number in numbers.tolist():
            head = _DEBUG_HEAD.match(lines.line(number))
            if head is not None and len(self._heads) < _MOST_HEADS:
                digits = digits_in(head[0], head.start("rest"))
                self._heads.setdefault(_blanked(head[0], digits), FixedText(head[0], digits))
        return len(self._heads) > before


_TIMES = {len(time): time for time in (b"00-00 00:00:00", b"0000-00-00 00:00:00")}


class CountedShapes:
    """Finds DEBUG lines that are only counted: by what they are without digits, then by their heads.

    Args:
        known: the kinds; more may be learned.
    """

    def __init__(self, known: DebugLines) -> None:
        self._known = known
        self._texts = _Numbers()
        self._heads: list[FixedText] = []
        self._number_of: list[int] = []

    def mark(
        self, lines: LineColumns, numbers: Offsets, codes: Codes, code_of: Callable[[DebugKind], int]
    ) -> None:
        """Write the codes of those of some lines that are of a known kind.

        Args:
            lines: the lines.
            numbers: which ones may be.
            codes: what is written.
            code_of: gives each kind a code.
        """
        self._learn()
        numbers = numbers[(lines.ends - lines.starts)[numbers] <= LONGEST]
        texts = without_digits(lines.data).split(b"\n")
        told = bytes(itemgetter(*texts, b"")(self._texts))
        of_texts = np.frombuffer(told, np.uint8)[numbers]
        met = set(told)
        for kind, head, number in zip(self._known.learned, self._heads, self._number_of, strict=True):
            if number in met:
                open_ = numbers[of_texts == number]
                codes[open_[head.stands_at(lines, lines.starts[open_])]] = code_of(kind)

    def _learn(self) -> None:
        for kind in self._known.since(len(self._heads)):
            time = _TIMES[kind.place - len(kind.before)]
            head = kind.before + time + kind.site
            self._heads.append(FixedText(head, digits_in(head, len(kind.before), kind.place)))
            self._number_of.append(self._texts.setdefault(kind.text, len(self._texts) + 1))


class _Numbers(dict[bytes, int]):
    """Numbers of texts from 1; 0 of any other text."""

    def __missing__(self, text: bytes) -> int:
        return 0
