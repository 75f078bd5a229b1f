"""DEBUG lines that were met so often that further ones are only counted: known by their writer and their text without digits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

MOST_KINDS = 96
_DIGITS = b"0123456789"
_LEVEL = b"DEBUG "
LONGEST = 2000
"""Bytes of a line that is compared with others."""
_LONGEST_BEFORE_LEVEL = 80


class DebugKind(NamedTuple):
    """DEBUG lines of one process and call site that differ in their digits only; a tuple, because processes hand it on.

    Attributes:
        before: bytes before the time.
        site: bytes between the time and the message.
        place: where `site` begins; the time has a fixed length.
        text: the whole line without digits.
    """

    before: bytes
    site: bytes
    place: int
    text: bytes


class DebugLines:
    """Kinds of DEBUG lines that are only counted.

    Attributes:
        learned: the kinds, in the order in which they were learned.

    Example:
        >>> lines = DebugLines()
        >>> line = b"(EngineCore pid=55) DEBUG 01-01 00:15:46 [core.py:7] Loop 17 active."
        >>> lines.learn(DebugKind(b"(EngineCore pid=55) DEBUG ", b" [core.py:7] ", 40, without_digits(line)))
        True
        >>> lines.kind_of(line.replace(b"17", b"4711")) == lines.learned[0]
        True
        >>> lines.kind_of(line.replace(b"55", b"56"))
    """

    def __init__(self) -> None:
        self.learned: list[DebugKind] = []
        self._by_text: dict[bytes, list[DebugKind]] = {}

    def learn(self, kind: DebugKind) -> bool:
        """Note a kind; False where there are too many."""
        if len(self.learned) >= MOST_KINDS:
            return False
        self.learned.append(kind)
        self._by_text.setdefault(kind.text, []).append(kind)
        return True

    def since(self, number: int) -> Sequence[DebugKind]:
        """Return the kinds that were learned after so many."""
        return self.learned[number:]

    def kind_of(self, line: bytes) -> DebugKind | None:
        """Return the kind of a line, or None where it has to be read."""
        if not self.learned or not may_be_debug(line):
            return None
        for kind in self._by_text.get(without_digits(line), ()):
            if line.startswith(kind.before) and line.startswith(kind.site, kind.place):
                return kind
        return None


def may_be_debug(line: bytes) -> bool:
    """Say, at little cost, whether a line may be a DEBUG record that is not too long to be compared with others."""
    return len(line) <= LONGEST and line.find(_LEVEL, 0, _LONGEST_BEFORE_LEVEL) >= 0


def without_digits(text: bytes) -> bytes:
    """Return a text without its digits."""
    return text.translate(None, _DIGITS)
