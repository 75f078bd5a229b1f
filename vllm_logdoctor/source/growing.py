"""A log that is still being written: what came since the last look, also over rotation and truncation."""

from __future__ import annotations

import os
import select
import stat
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct, field

from vllm_logdoctor.errors import LogdoctorError
from vllm_logdoctor.source.chunks import CHUNK_BYTES, LONGEST_LINE

_SELECTS_FILES = sys.platform != "win32"
"""Windows waits for sockets alone: there a look comes after a pause, and a pipe is read until something came."""
_PAUSE = 1.0


class NewBytes(Struct, frozen=True):
    """Consecutive bytes of a growing log.

    Attributes:
        part: 0 for the file as it was found, one more for each file that took its place.
        first_line: 1-based number of the line on which `data` starts, in that part.
        data: the bytes; they end with a line end unless the log ended there or a line was too long.
    """

    part: int
    first_line: int
    data: bytes


class _UnfinishedPart(Struct):
    """Bytes of one part as pieces cut at line ends."""

    part: int
    next_line: int = 1
    rest: bytes = b""

    def add(self, data: bytes) -> Iterator[NewBytes]:
        self.rest += data
        cut = self.rest.rfind(b"\n") + 1
        if cut:
            yield self._piece(cut)
        while len(self.rest) > LONGEST_LINE:
            yield self._piece(self.rest.rfind(b"\r") + 1 or LONGEST_LINE)

    def end(self) -> Iterator[NewBytes]:
        if self.rest:
            yield self._piece(len(self.rest))

    def _piece(self, cut: int) -> NewBytes:
        data, self.rest = self.rest[:cut], self.rest[cut:]
        piece = NewBytes(self.part, self.next_line, data.replace(b"\0", b""))
        self.next_line += data.count(b"\n")
        return piece


class GrowingFile:
    """A file that grows, is rotated (another file takes its name) or is cut to nothing.

    Args:
        path: its name; a file that is not there yet is waited for where its directory is.

    Raises:
        LogdoctorError: it can't be opened.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.ended = False
        self._lines = _UnfinishedPart(0)
        self._file = self._opened()

    @property
    def there(self) -> bool:
        """Return whether the file has been found."""
        return self._file is not None

    def read(self) -> Iterator[NewBytes]:
        """Yield what was written since the last call; an unfinished last line waits for its end."""
        self._file = self._file or self._opened()
        if self._file is None:
            return
        yield from self._new_bytes(self._file)
        successor = self._successor(self._file)
        while successor is not None:
            yield from self._new_bytes(self._file)
            yield from self._lines.end()
            self._file.close()
            self._file, self._lines = successor, _UnfinishedPart(self._lines.part + 1)
            yield from self._new_bytes(self._file)
            successor = self._successor(self._file)

    def wait(self, seconds: float, wake: int) -> None:
        """Wait until a later look is worth it, or until there is something to read from the descriptor `wake`."""
        if _SELECTS_FILES:
            select.select([wake], [], [], seconds)
        else:
            time.sleep(min(seconds, _PAUSE))

    def close(self) -> Iterator[NewBytes]:
        """Yield an unfinished last line and close the file."""
        yield from self._lines.end()
        if self._file is not None:
            self._file.close()

    def _opened(self) -> BinaryIO | None:
        try:
            return self.path.open("rb", buffering=0)
        except OSError as error:
            if isinstance(error, FileNotFoundError) and self.path.parent.is_dir():
                return None
            raise LogdoctorError(
                f"can't read {self.path}: {error.strerror or error}; check path and rights"
            ) from error

    def _new_bytes(self, file: BinaryIO) -> Iterator[NewBytes]:
        while data := file.read(CHUNK_BYTES):
            yield from self._lines.add(data)

    def _successor(self, file: BinaryIO) -> BinaryIO | None:
        """Return the file that has taken the name, opened; the same file from its start where it was cut."""
        try:
            named, read = self.path.stat(), os.fstat(file.fileno())
            replaced = (named.st_dev, named.st_ino) != (read.st_dev, read.st_ino)
            if replaced or named.st_size < file.tell():
                return self.path.open("rb", buffering=0)
        except OSError:
            # Between the old name's end and the new one's start there may be no file.
            return None
        return None


class GrowingStream(Struct):
    """A pipe that a server writes to; it ends with the writer.

    Attributes:
        stream: where to read.
        ended: whether the writer is gone.
    """

    stream: BinaryIO
    ended: bool = False
    _lines: _UnfinishedPart = field(default_factory=lambda: _UnfinishedPart(0))

    def read(self) -> Iterator[NewBytes]:
        """Yield what has come since the last call, without waiting for more."""
        while not self.ended and (not _SELECTS_FILES or select.select([self.stream], [], [], 0)[0]):
            data = os.read(self.stream.fileno(), CHUNK_BYTES)
            self.ended = not data
            yield from self._lines.add(data)
            if not _SELECTS_FILES:
                return

    @property
    def there(self) -> bool:
        """Return whether the stream has been found: it always is."""
        return True

    def wait(self, seconds: float, wake: int) -> None:
        """Wait until there is more to read, from the stream or from the descriptor `wake`, at most so long."""
        if _SELECTS_FILES:
            select.select([self.stream.fileno(), wake], [], [], seconds)

    def close(self) -> Iterator[NewBytes]:
        """Yield an unfinished last line."""
        yield from self._lines.end()


Growing = GrowingFile | GrowingStream


def growing(name: str) -> Growing:
    """Return a log that is being written, opened; "-" is standard input.

    Raises:
        LogdoctorError: it can't be opened, or is a device.
    """
    if name == "-":
        if sys.stdin is None:
            raise LogdoctorError("standard input is closed: name a log, or pipe one in")
        return GrowingStream(sys.stdin.buffer)
    try:
        mode = os.stat(name).st_mode
    except (OSError, ValueError):
        return GrowingFile(Path(name))
    if stat.S_ISFIFO(mode):
        # Nothing takes the place of a pipe, and it ends with its writer.
        return GrowingStream(open(name, "rb", buffering=0))
    if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
        raise LogdoctorError(f"can't follow {name}: it is a device, not a log; name a file or a pipe")
    return GrowingFile(Path(name))
