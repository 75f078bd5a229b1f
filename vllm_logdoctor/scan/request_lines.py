"""Request lines taken out of the bytes before anything is searched.

With request logging on, nine bytes in ten are prompts. A line whose header and first words make it a request line
is counted; of each uninterrupted sequence only the first and the last one are read.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

from msgspec import Struct, field

# (APIServer pid=41) INFO 01-01 00:01:01 [logger.py:41] Received request chatcmpl-1: prompt: '...
# INFO 05-01 12:00:00 [async_llm.py:271] Added request chatcmpl-1.
_HEAD = re.compile(
    rb"(?:\((?P<process>[A-Za-z0-9_ ]{1,60} pid=[0-9]{1,9})\) )?INFO (?P<time>(?:[0-9]{4}-)?[0-9]{2}-[0-9]{2} [0-9:]{8}(?:[.,][0-9]{1,6})?) "
    rb"\[[A-Za-z0-9_./]{1,120}:[0-9]{1,6}\] (?P<word>Received|Added|Finished) request "
)
_SHORT = re.compile(rb"[^\s]{1,200}\r?$", re.MULTILINE)
_WORDS = re.compile(rb"\] (?:Received|Added|Finished) request ")
MARK = b"d request "
"""Ends the words that every request line has."""
_LONGEST_HEAD = 310
MOST_BEFORE_COLON = 201

Kind = tuple[bytes, bytes]
"""(process as printed, first word): lines of one kind have the same meaning and the same writer."""


class RequestLine(NamedTuple):
    """A request line: where it starts and ends, where its first words end, and what it is."""

    start: int
    end: int
    mark: int
    kind: Kind


class Residue(Struct):
    """The text of a piece without its request lines; of each its line end is left, so that line numbers stay.

    Attributes:
        data: the text as it is in the log.
        rest: the text without request lines.
        found: the request lines.
        offsets: the position of each in `rest`.
    """

    data: bytes
    rest: bytes
    found: Sequence[RequestLine] = ()
    offsets: list[int] = field(default_factory=list)
    _counted: tuple[int, int] = (0, 0)

    def before(self, start: int) -> int:
        """Return how many request lines come before an offset in the rest."""
        return bisect_left(self.offsets, start)

    def by_kind(self, low: int, high: int) -> Iterator[tuple[int, int, int]]:
        """Yield (count, first, last) for each kind among the request lines number low .. high - 1, by their first lines."""
        kinds = [line.kind for line in self.found[low:high]]
        backwards = kinds[::-1]
        for kind, count in Counter(kinds).items():
            yield count, low + kinds.index(kind), high - 1 - backwards.index(kind)

    def line(self, request: int, longest: int) -> tuple[int, bytes]:
        """Return the line number of a request line, and the line cut after so many bytes; fastest in order."""
        start, offset = self.found[request].start, self.offsets[request]
        counted, number = self._counted if self._counted[0] <= offset else (0, 0)
        number += self.rest.count(b"\n", counted, offset)
        self._counted = offset, number
        return number, self.data[start : min(self.found[request].end, start + longest)]


class RequestLines:
    """Finds request lines in bytes.

    Args:
        marks: returns the end offset of each `MARK` in bytes, in order.
    """

    def __init__(self, marks: Callable[[bytes], list[int]]) -> None:
        self._marks = marks

    def split(self, data: bytes) -> Residue:
        """Split a text into its request lines and the rest.

        Example:
            >>> line = b"INFO 01-01 00:00:01 [logger.py:41] Received request cmpl-1: prompt: 'hello'\\n"
            >>> found = RequestLines(marks_in).split(b"one\\n" + line + b"two\\n")
            >>> found.rest, found.offsets
            (b'one\\n\\ntwo\\n', [4])
        """
        found = self.found(data)
        if not found:
            return Residue(data, data)
        starts, ends = [line.start for line in found], [line.end for line in found]
        kept = [data[end:start] for end, start in zip([0, *ends], [*starts, len(data)], strict=True)]
        return Residue(data, b"".join(kept), found, list(accumulate(map(len, kept[:-1]))))

    def found(self, data: bytes) -> list[RequestLine]:
        """Return the request lines in bytes, in order."""
        find, rfind, known = data.find, data.rfind, _Heads()
        # One pass per step, because there are a million of these lines in a gigabyte.
        marks = self._marks(data)
        starts = [rfind(b"\n", max(mark - _LONGEST_HEAD, 0), mark) + 1 for mark in marks]
        kinds = [
            known[data[max(start, mark - _LONGEST_HEAD) : mark]]
            for start, mark in zip(starts, marks, strict=True)
        ]
        ends = [find(b"\n", mark) for mark in marks]
        if ends and ends[-1] < 0:
            ends = [end if end >= 0 else len(data) for end in ends]
        lines = [
            RequestLine(start, end, mark, kind)
            for start, mark, end, kind in zip(starts, marks, ends, kinds, strict=True)
            if kind is not None
            and (
                mark < find(b":", mark, mark + MOST_BEFORE_COLON) < end
                if kind[1] == b"Received"
                else _SHORT.match(data, mark)
            )
        ]
        if b"\r" not in data and len(set(starts)) == len(starts):
            return lines
        return [line for line in lines if not _holds_several(data, line)]


def _holds_several(data: bytes, line: RequestLine) -> bool:
    """Return whether a line holds several records: redraws, or request lines of writers that interrupted each other."""
    if data.find(b"\r", line.start, line.end - 1) >= 0:
        return True
    first = _WORDS.search(data, line.start, line.end)
    return first is not None and _WORDS.search(data, first.end(), line.end) is not None


def marks_in(data: bytes) -> list[int]:
    """Return the end offset of each mark, in order."""
    return [found.end() for found in _MARKS.finditer(data)]


_MARKS = re.compile(re.escape(MARK))


class _Heads(dict[bytes, "Kind | None"]):
    """Kinds by the text up to the first words; each is read once."""

    def __missing__(self, head: bytes) -> Kind | None:
        kind = self[head] = _kind(head)
        return kind


def _kind(head: bytes) -> Kind | None:
    found = _HEAD.fullmatch(head)
    return (found["process"] or b"", found["word"]) if found else None
