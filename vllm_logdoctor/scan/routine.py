"""Request lines taken out of the bytes before anything is searched: their prompts are most of a log and tell nothing.

With request logging on, nine bytes in ten are prompts. A line whose header and first words say that it is
such a line needs no gate: it is counted, and the first and the last of each stretch are read.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

# (APIServer pid=41) INFO 01-01 00:01:01 [logger.py:41] Received request chatcmpl-1: prompt: '...
# INFO 05-01 12:00:00 [async_llm.py:271] Added request chatcmpl-1.
_HEAD = re.compile(
    rb"(?:\((?P<process>[A-Za-z0-9_ ]{1,60} pid=[0-9]{1,9})\) )?INFO (?:[0-9]{4}-)?[0-9]{2}-[0-9]{2} [0-9:]{8}(?:[.,][0-9]{1,6})? "
    rb"\[[A-Za-z0-9_./]{1,120}:[0-9]{1,6}\] (?P<word>Received|Added|Finished) request "
)
_SHORT = re.compile(rb"[^\s]{1,200}\r?$", re.MULTILINE)
_MARK = b"d request "

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
        rest: the bytes; of each request line its line end is left, so that lines keep their numbers.
        at: offsets in `rest` at which request lines stood, growing.
        starts: offsets of those lines in the original bytes.
        kinds: what each was.
    """

    rest: bytes
    at: list[int]
    starts: list[int]
    kinds: list[Kind]

    def stretches(self, low: int, high: int) -> Iterator[Stretch]:
        """Yield the kinds among the request lines number low .. high - 1, in order of their first lines."""
        kinds = self.kinds[low:high]
        backwards = kinds[::-1]
        for kind, count in Counter(kinds).items():
            yield Stretch(kind, count, low + kinds.index(kind), high - 1 - backwards.index(kind))


def peeled(data: bytes) -> Peeled:
    """Take the request lines out of bytes.

    Example:
        >>> line = b"INFO 01-01 00:00:01 [logger.py:41] Received request cmpl-1: prompt: 'hello'\\n"
        >>> found = peeled(b"one\\n" + line + b"two\\n")
        >>> found.rest, found.starts
        (b'one\\n\\ntwo\\n', [4])
    """
    pieces: list[bytes] = []
    at: list[int] = []
    starts: list[int] = []
    kinds: list[Kind] = []
    find, rfind = data.find, data.rfind
    heads: dict[bytes, Kind | None] = {}
    position = removed = 0
    mark = find(_MARK)
    while mark >= 0:
        start = rfind(b"\n", position, mark) + 1 or position
        end = find(b"\n", mark)
        if end < 0:
            end = len(data)
        head = data[start : mark + 10] if mark - start < 300 else b""
        kind = heads.get(head) or heads.setdefault(head, _kind(head))
        if kind is not None and (
            0 < find(b":", mark + 10, mark + 211) < end
            if kind[1] == b"Received"
            else _SHORT.match(data, mark + 10)
        ):
            pieces.append(data[position:start])
            at.append(start - removed)
            starts.append(start)
            kinds.append(kind)
            removed += end - start
            position = end
        mark = find(_MARK, end)
    if not at:
        return Peeled(data, at, starts, kinds)
    pieces.append(data[position:])
    return Peeled(b"".join(pieces), at, starts, kinds)


def _kind(head: bytes) -> Kind | None:
    found = _HEAD.fullmatch(head)
    return (found["process"] or b"", found["word"]) if found else None
