"""A stream made of pieces of bytes: a read that a piece fits copies nothing."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from typing import Any


class IteratorIO(io.BufferedIOBase):
    """Reads what an iterator gives, one piece after the other.

    Args:
        pieces: gives bytes that are not empty; what it raises, the read that meets it raises.
        end: called when the stream is closed.

    Example:
        >>> stream = IteratorIO(iter([b"one", b"two"]))
        >>> stream.read1(2), stream.read1(9), stream.read()
        (b'on', b'e', b'two')
    """

    def __init__(self, pieces: Iterator[bytes], end: Callable[[], None] = lambda: None) -> None:
        self._pieces = pieces
        self._end = end
        self._piece = b""
        self._taken = 0

    def readable(self) -> bool:
        return True

    def peek(self, size: int = 0) -> bytes:
        """Return the next bytes without taking them; b"" at the end."""
        self._left()
        return self._piece[self._taken :]

    def _left(self) -> int:
        """Return how many bytes of a piece are left; a piece of which none is left gives way to the next one."""
        if self._taken == len(self._piece):
            self._piece, self._taken = next(self._pieces, b""), 0
        return len(self._piece) - self._taken

    def read1(self, size: int | None = -1) -> bytes:
        """Return the rest of a piece, or as much of it as is wanted; b"" at the end."""
        left = self._left()
        first, behind = self._taken, left if size is None or size < 0 else min(size, left)
        self._taken += behind
        return self._piece[first : self._taken]

    def read(self, size: int | None = -1) -> bytes:
        """Return so many bytes, fewer at the end only."""
        wanted = -1 if size is None else size
        parts: list[bytes] = []
        while wanted and (part := self.read1(wanted)):
            parts.append(part)
            wanted -= len(part) if wanted > 0 else 0
        return b"".join(parts)

    def readinto(self, buffer: Any) -> int:
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self._piece = b""
            self._end()
        super().close()
