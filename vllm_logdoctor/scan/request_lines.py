"""Request lines taken out of the bytes before anything is searched: their prompts are most of a log and tell nothing.

With request logging on, nine bytes in ten are prompts. A line whose header and first words say that it is
such a line needs no gate: it is counted, and the first and the last of each stretch are read.
Here each is found by a search and a regex; in long logs `scan.columns` finds those of a known shape faster.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple, Protocol

from msgspec import Struct, field

from vllm_logdoctor.scan.accesses import AccessKey
from vllm_logdoctor.scan.debug_lines import DebugKind

# (APIServer pid=41) INFO 01-01 00:01:01 [logger.py:41] Received request chatcmpl-1: prompt: '...
# INFO 05-01 12:00:00 [async_llm.py:271] Added request chatcmpl-1.
_HEAD = re.compile(
    rb"(?:\((?P<process>[A-Za-z0-9_ ]{1,60} pid=[0-9]{1,9})\) )?INFO (?P<time>(?:[0-9]{4}-)?[0-9]{2}-[0-9]{2} [0-9:]{8}(?:[.,][0-9]{1,6})?) "
    rb"\[[A-Za-z0-9_./]{1,120}:[0-9]{1,6}\] (?P<word>Received|Added|Finished) request "
)
_SHORT = re.compile(rb"[^\s]{1,200}\r?$", re.MULTILINE)
MARK = b"d request "
"""Ends the words that every request line has."""
_LONGEST_HEAD = 310
MOST_BEFORE_COLON = 201

Kind = tuple[bytes, bytes]
"""(process as printed, first word): lines of one kind have the same meaning and the same writer."""


class Stretch(Struct, frozen=True):
    """Request or DEBUG lines of one kind between two other wanted lines.

    Attributes:
        kind: what they are.
        count: how many.
        first, last: numbers of the first and the last one among the routine lines.
    """

    kind: Kind | DebugKind
    count: int
    first: int
    last: int


class RequestLine(NamedTuple):
    """A request line: where it starts and ends, where its first words end, and what it is."""

    start: int
    end: int
    mark: int
    kind: Kind


class Residue(Protocol):
    """Bytes without their routine lines. Lines are numbered from 0 as they stood; routine lines are by themselves, too.

    Attributes:
        rest: the bytes that are left.
    """

    @property
    def rest(self) -> bytes: ...

    def line_ends(self) -> int:
        """Return how many line ends there were."""

    def total(self) -> int:
        """Return how many routine lines there are."""

    def number_of(self, place: int) -> int:
        """Return the number of the line that is number `place` in the rest."""

    def before(self, place: int, start: int) -> int:
        """Return how many routine lines stand before the line that is number `place` in the rest and starts there."""

    def stretches(self, low: int, high: int) -> Iterator[Stretch]:
        """Yield the kinds of request and DEBUG lines among the routine lines low .. high - 1, in order of their first lines."""

    def accesses(self, low: int, high: int) -> Counter[AccessKey]:
        """Count the access lines among the routine lines low .. high - 1."""

    def line(self, routine: int, longest: int) -> tuple[int, bytes]:
        """Return the number of a routine line, and the line cut behind so many bytes."""


class RequestResidue(Struct):
    """Bytes without their request lines; of each its line end is left.

    Attributes:
        data: the bytes as they stood.
        rest: the bytes without them.
        found: the request lines.
        places: where each would stand in `rest`.
    """

    data: bytes
    rest: bytes
    found: Sequence[RequestLine] = ()
    places: list[int] = field(default_factory=list)
    _counted: tuple[int, int] = (0, 0)

    def line_ends(self) -> int:
        """Return how many line ends there were."""
        return self.rest.count(b"\n")

    def total(self) -> int:
        """Return how many request lines there are."""
        return len(self.found)

    def number_of(self, place: int) -> int:
        """Return the number of the line that is number `place` in the rest."""
        return place

    def before(self, place: int, start: int) -> int:
        """Return how many request lines stand before a line that starts there in the rest."""
        return bisect_left(self.places, start)

    def stretches(self, low: int, high: int) -> Iterator[Stretch]:
        """Yield the kinds among the request lines number low .. high - 1, in order of their first lines."""
        kinds = [line.kind for line in self.found[low:high]]
        backwards = kinds[::-1]
        for kind, count in Counter(kinds).items():
            yield Stretch(kind, count, low + kinds.index(kind), high - 1 - backwards.index(kind))

    def accesses(self, low: int, high: int) -> Counter[AccessKey]:
        """Count none: access lines stay in `rest`."""
        return Counter()

    def line(self, routine: int, longest: int) -> tuple[int, bytes]:
        """Return the number of a request line, and the line cut behind so many bytes; fastest in order."""
        start, place = self.found[routine].start, self.places[routine]
        counted, number = self._counted if self._counted[0] <= place else (0, 0)
        number += self.rest.count(b"\n", counted, place)
        self._counted = place, number
        return number, self.data[start : min(self.found[routine].end, start + longest)]


class RequestLines:
    """Finds request lines in bytes.

    Args:
        marks: returns the end offset of each `MARK` in bytes, in order.
    """

    def __init__(self, marks: Callable[[bytes], list[int]]) -> None:
        self._marks = marks

    def taken_out(self, data: bytes) -> RequestResidue:
        """Take the request lines out of bytes.

        Example:
            >>> line = b"INFO 01-01 00:00:01 [logger.py:41] Received request cmpl-1: prompt: 'hello'\\n"
            >>> found = RequestLines(marks_in).taken_out(b"one\\n" + line + b"two\\n")
            >>> found.rest, found.places
            (b'one\\n\\ntwo\\n', [4])
        """
        found = self.found(data)
        if not found:
            return RequestResidue(data, data)
        starts, ends = [line.start for line in found], [line.end for line in found]
        kept = [data[end:start] for end, start in zip([0, *ends], [*starts, len(data)], strict=True)]
        return RequestResidue(data, b"".join(kept), found, list(accumulate(map(len, kept[:-1]))))

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
        return [
            RequestLine(start, end, mark, kind)
            for start, mark, end, kind in zip(starts, marks, ends, kinds, strict=True)
            if kind is not None
            and (
                mark < find(b":", mark, mark + MOST_BEFORE_COLON) < end
                if kind[1] == b"Received"
                else _SHORT.match(data, mark)
            )
        ]


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


def time_in(head: bytes) -> range:
    """Return where the time stands in the text of a request line up to its first words."""
    found = _HEAD.fullmatch(head)
    return range(*found.span("time")) if found else range(0)
