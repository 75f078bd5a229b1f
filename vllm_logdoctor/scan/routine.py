"""Request lines taken out of the bytes before anything is searched: their prompts are most of a log and tell nothing.

With request logging on, nine bytes in ten are prompts. A line whose header and first words say that it is
such a line needs no gate: it is counted, and the first and the last of each stretch are read.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

# (APIServer pid=41) INFO 01-01 00:01:01 [logger.py:41] Received request chatcmpl-1: prompt: '...
# INFO 05-01 12:00:00 [async_llm.py:271] Added request chatcmpl-1.
_HEAD = re.compile(
    rb"(?:\((?P<process>[A-Za-z0-9_ ]{1,60} pid=[0-9]{1,9})\) )?INFO (?:[0-9]{4}-)?[0-9]{2}-[0-9]{2} [0-9:]{8}(?:[.,][0-9]{1,6})? "
    rb"\[[A-Za-z0-9_./]{1,120}:[0-9]{1,6}\] (?P<word>Received|Added|Finished) request "
)
_SHORT = re.compile(rb"[^\s]{1,200}\r?$", re.MULTILINE)
_MARK = b"d request "
_LONGEST_HEAD = 310

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
        numbers: numbers of the request lines, from 0, growing.
        kinds: what each was.
        lines: all lines as they stood; none where there is no request line.
    """

    rest: bytes
    numbers: list[int] = field(default_factory=list)
    kinds: list[Kind] = field(default_factory=list)
    lines: list[bytes] = field(default_factory=list)

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
        >>> found.rest, found.numbers
        (b'one\\n\\ntwo\\n', [1])
    """
    if _MARK not in data:
        return Peeled(data)
    lines = data.split(b"\n")
    known = _Heads()
    marked = [number for number, line in enumerate(lines) if _MARK in line]
    heads = [line[: line.find(_MARK) + len(_MARK)] for line in [lines[number] for number in marked]]
    numbers: list[int] = []
    kinds: list[Kind] = []
    for number, head, kind in zip(marked, heads, [known[head] for head in heads], strict=True):
        if kind is not None and _goes_on(lines[number], len(head), kind):
            numbers.append(number)
            kinds.append(kind)
    if not numbers:
        return Peeled(data)
    others = lines.copy()
    for number in numbers:
        others[number] = b""
    return Peeled(b"\n".join(others), numbers, kinds, lines)


class _Heads(dict[bytes, "Kind | None"]):
    """Kinds by the text up to the first words; each is read once."""

    def __missing__(self, head: bytes) -> Kind | None:
        kind = self[head] = _kind(head)
        return kind


def _goes_on(line: bytes, behind: int, kind: Kind) -> bool:
    """Say whether the name of a request follows, and in the case of a received one its prompt."""
    if kind[1] == b"Received":
        return line.find(b":", behind, behind + 201) > 0
    return _SHORT.match(line, behind) is not None


def _kind(head: bytes) -> Kind | None:
    found = _HEAD.fullmatch(head) if len(head) < _LONGEST_HEAD else None
    return (found["process"] or b"", found["word"]) if found else None
