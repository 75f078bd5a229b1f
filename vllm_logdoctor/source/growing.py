"""A log that is still being written: what came since the last look, also over rotation and truncation."""

from __future__ import annotations

import os
import select
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from vllm_logdoctor.errors import LogdoctorError
from vllm_logdoctor.frozen import frozen
from vllm_logdoctor.source.chunks import CHUNK_BYTES, LONGEST_LINE


@frozen
class Piece:
    """Consecutive bytes of a growing log.

    Attributes:
        part: 0 for the file as it was found, one more for each file that took its place.
        first_line: 1-based number of the line on which `data` starts, in that part.
        data: the bytes; they end with a line end unless the log ended there or a line was too long.
    """

    part: int
    first_line: int
    data: bytes


@dataclass(slots=True)
class _Lines:
    """Bytes of one part as pieces cut at line ends."""

    part: int
    next_line: int = 1
    rest: bytes = b""

    def add(self, data: bytes) -> Iterator[Piece]:
        self.rest += data
        cut = self.rest.rfind(b"\n") + 1
        if cut:
            yield self._piece(cut)
        while len(self.rest) > LONGEST_LINE:
            yield self._piece(self.rest.rfind(b"\r") + 1 or LONGEST_LINE)

    def end(self) -> Iterator[Piece]:
        if self.rest:
            yield self._piece(len(self.rest))

    def _piece(self, cut: int) -> Piece:
        data, self.rest = self.rest[:cut], self.rest[cut:]
        piece = Piece(self.part, self.next_line, data.replace(b"\0", b""))
        self.next_line += data.count(b"\n")
        return piece


class GrowingFile:
    """A file that grows, is rotated (another file takes its name) or is cut to nothing.

    Args:
        path: its name; it must exist.

    Raises:
        LogdoctorError: it can't be opened.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.ended = False
        self._lines = _Lines(0)
        try:
            self._file: BinaryIO = path.open("rb", buffering=0)
        except OSError as error:
            raise LogdoctorError(
                f"can't read {path}: {error.strerror or error}; check path and rights"
            ) from error

    def read(self) -> Iterator[Piece]:
        """Yield what was written since the last call; an unfinished last line waits for its end."""
        yield from self._new_bytes()
        successor = self._successor()
        while successor is not None:
            yield from self._new_bytes()
            yield from self._lines.end()
            self._file.close()
            self._file, self._lines = successor, _Lines(self._lines.part + 1)
            yield from self._new_bytes()
            successor = self._successor()

    def wait(self, seconds: float) -> None:
        """Wait until a later look is worth it."""
        select.select([], [], [], seconds)

    def close(self) -> Iterator[Piece]:
        """Yield an unfinished last line and close the file."""
        yield from self._lines.end()
        self._file.close()

    def _new_bytes(self) -> Iterator[Piece]:
        while data := self._file.read(CHUNK_BYTES):
            yield from self._lines.add(data)

    def _successor(self) -> BinaryIO | None:
        """Return the file that has taken the name, opened; the same file from its start where it was cut."""
        try:
            named, read = self.path.stat(), os.fstat(self._file.fileno())
            replaced = (named.st_dev, named.st_ino) != (read.st_dev, read.st_ino)
            if replaced or named.st_size < self._file.tell():
                return self.path.open("rb", buffering=0)
        except OSError:
            # Between the old name's end and the new one's start there may be no file.
            return None
        return None


@dataclass(slots=True)
class GrowingStream:
    """A pipe that a server writes to; it ends with the writer.

    Attributes:
        stream: where to read.
        ended: whether the writer is gone.
    """

    stream: BinaryIO
    ended: bool = False
    _lines: _Lines = field(default_factory=lambda: _Lines(0))

    def read(self) -> Iterator[Piece]:
        """Yield what has come since the last call, without waiting for more."""
        while not self.ended and select.select([self.stream], [], [], 0)[0]:
            data = os.read(self.stream.fileno(), CHUNK_BYTES)
            self.ended = not data
            yield from self._lines.add(data)

    def wait(self, seconds: float) -> None:
        """Wait until there is more to read, at most so long."""
        select.select([self.stream], [], [], seconds)

    def close(self) -> Iterator[Piece]:
        """Yield an unfinished last line."""
        yield from self._lines.end()


Growing = GrowingFile | GrowingStream
