"""Request lines taken out of the bytes before anything is searched: their prompts are most of a log and tell nothing.

With request logging on, nine bytes in ten are prompts. A line whose header and first words say that it is
such a line needs no gate: it is counted, and the first and the last of each stretch are read.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import accumulate

# (APIServer pid=41) INFO 01-01 00:01:01 [logger.py:41] Received request chatcmpl-1: prompt: '...
# INFO 05-01 12:00:00 [async_llm.py:271] Added request chatcmpl-1.
_HEAD = re.compile(
    rb"(?:\((?P<process>[A-Za-z0-9_ ]{1,60} pid=[0-9]{1,9})\) )?INFO (?:[0-9]{4}-)?[0-9]{2}-[0-9]{2} [0-9:]{8}(?:[.,][0-9]{1,6})? "
    rb"\[[A-Za-z0-9_./]{1,120}:[0-9]{1,6}\] (?P<word>Received|Added|Finished) request "
)
_SHORT = re.compile(rb"[^\s]{1,200}\r?$", re.MULTILINE)
MARK = b"d request "
"""Ends the words that every request line has."""
_LONGEST_HEAD = 310
_LONGEST_NAME = 201

Kind = tuple[bytes, bytes]
"""(process as printed, first word): lines of one kind have the same meaning and the same writer."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """Request lines of one kind between two other wanted lines.

    Attributes:
        kind: what they are.
        count: how many.
        first, last: numbers of the first and the last one among the request lines.
    """

    kind: Kind
    count: int
    first: int
    last: int


@dataclass(slots=True)
class Peeled:
    """Bytes without their request lines.

    Attributes:
        data: the bytes as they stood.
        rest: the bytes; of each request line its line end is left, so that lines keep their numbers.
        starts, ends: where each request line stood in `data`.
        places: where it would stand in `rest`.
        kinds: what each was.
    """

    data: bytes
    rest: bytes
    starts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    kinds: list[Kind] = field(default_factory=list)

    def stretches(self, low: int, high: int) -> Iterator[Stretch]:
        """Yield the kinds among the request lines number low .. high - 1, in order of their first lines."""
        kinds = self.kinds[low:high]
        backwards = kinds[::-1]
        for kind, count in Counter(kinds).items():
            yield Stretch(kind, count, low + kinds.index(kind), high - 1 - backwards.index(kind))

    def line(self, number: int, longest: int) -> bytes:
        """Return a request line as it stood, cut behind so many bytes."""
        start = self.starts[number]
        return self.data[start : min(self.ends[number], start + longest)]


class RequestLines:
    """Takes request lines out of bytes.

    Args:
        marks: returns the end offset of each `MARK` in bytes, in order.
    """

    def __init__(self, marks: Callable[[bytes], list[int]]) -> None:
        self._marks = marks

    def peeled(self, data: bytes) -> Peeled:
        """Take the request lines out of bytes.

        Example:
            >>> line = b"INFO 01-01 00:00:01 [logger.py:41] Received request cmpl-1: prompt: 'hello'\\n"
            >>> found = RequestLines(marks_in).peeled(b"one\\n" + line + b"two\\n")
            >>> found.rest, found.places
            (b'one\\n\\ntwo\\n', [4])
        """
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
        found = [
            (start, end, kind)
            for start, mark, end, kind in zip(starts, marks, ends, kinds, strict=True)
            if kind is not None
            and (
                mark < find(b":", mark, mark + _LONGEST_NAME) < end
                if kind[1] == b"Received"
                else _SHORT.match(data, mark)
            )
        ]
        if not found:
            return Peeled(data, data)
        return _without(data, *map(list, zip(*found, strict=True)))


def _without(data: bytes, starts: list[int], ends: list[int], kinds: list[Kind]) -> Peeled:
    kept = [data[end:start] for end, start in zip([0, *ends], [*starts, len(data)], strict=True)]
    return Peeled(data, b"".join(kept), starts, ends, list(accumulate(map(len, kept[:-1]))), kinds)


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
