"""Reads ahead in a thread: a packed log is unpacked while what came before is analysed.

The decompressors release the interpreter's lock at their work, so that it costs no time beside a second core.
"""

from __future__ import annotations

import io
import queue
import threading
from typing import Any, BinaryIO, cast

_BLOCK_BYTES = 1 << 20
_BLOCKS_AHEAD = 4
"""At most so many blocks wait: enough for the thread never to be waited for, and memory stays bounded."""


def read_ahead(stream: BinaryIO) -> BinaryIO:
    """Return a stream of the same bytes and the same error at the same place; closing it ends the thread.

    Args:
        stream: what to read; a read of it must come back by itself, as from a file on disk, or closing would wait for it.
    """
    return cast(BinaryIO, io.BufferedReader(_Ahead(stream), _BLOCK_BYTES))


class _Ahead(io.RawIOBase):
    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._blocks: queue.Queue[bytes | Exception] = queue.Queue(_BLOCKS_AHEAD)
        self._current = memoryview(b"")
        self._ended = self._unwanted = False
        self._thread = threading.Thread(target=self._fill, name="logdoctor-unpack", daemon=True)
        self._thread.start()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._current and not self._ended:
            self._current = memoryview(self._next())
        size = min(len(buffer), len(self._current))
        buffer[:size] = self._current[:size]
        self._current = self._current[size:]
        return size

    def _next(self) -> bytes:
        """Return the next block, or b"" at the end; raises what the thread met there."""
        block = self._blocks.get()
        self._ended = not isinstance(block, bytes) or not block
        if isinstance(block, Exception):
            raise block
        return block

    def _fill(self) -> None:
        """Run in the thread until the stream ends or nobody wants it any more."""
        last: bytes | Exception = b""
        try:
            while not self._unwanted and (block := self._block()):
                self._blocks.put(block)
        except Exception as error:
            last = error
        self._blocks.put(last)

    def _block(self) -> bytes:
        """Read one block; what was read before an error is handed on before the error is met again."""
        block = bytearray()
        # One small read after the other: what a cut archive gave before it ends is not lost.
        read = getattr(self._stream, "read1", self._stream.read)
        while len(block) < _BLOCK_BYTES:
            try:
                more = read(_BLOCK_BYTES - len(block))
            except Exception as error:
                if block:
                    self._blocks.put(bytes(block))
                raise error
            if not more:
                break
            block += more
        return bytes(block)

    def close(self) -> None:
        if not self.closed:
            self._unwanted = True
            while self._thread.is_alive():
                # The thread may wait for room; it puts one block and one end at most before it looks again.
                self._drain()
                self._thread.join(0.01)
            self._stream.close()
        super().close()

    def _drain(self) -> None:
        while True:
            try:
                self._blocks.get_nowait()
            except queue.Empty:
                return
