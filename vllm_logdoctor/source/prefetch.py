"""Reads ahead in a thread: a packed log is unpacked while what came before is analysed.

The decompressors release the interpreter's lock at their work, so that it costs no time beside a second core.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from typing import BinaryIO, cast

from vllm_logdoctor.source.iterator_io import IteratorIO

_BLOCK_BYTES = 1 << 19
"""As much as is read at once: such a block is handed on without a copy."""
_BLOCKS_AHEAD = 8
"""At most so many blocks wait: enough for the thread never to be waited for, and memory stays bounded."""


def prefetched(stream: BinaryIO) -> BinaryIO:
    """Return a stream of the same bytes and the same error at the same place; closing it ends the thread.

    Args:
        stream: what to read; a read of it must come back by itself, as from a file on disk, or closing would wait for it.
    """
    ahead = _Ahead(stream)
    return cast(BinaryIO, IteratorIO(ahead.blocks(), ahead.end))


class _Ahead:
    """A thread that reads, and the blocks that nobody took yet."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._blocks: queue.Queue[bytes | Exception] = queue.Queue(_BLOCKS_AHEAD)
        self._unwanted = False
        self._thread = threading.Thread(target=self._fill, name="logdoctor-unpack", daemon=True)
        self._thread.start()

    def blocks(self) -> Iterator[bytes]:
        """Yield the blocks; raises what the thread met behind them."""
        while block := self._blocks.get():
            if isinstance(block, Exception):
                raise block
            yield block

    def _fill(self) -> None:
        """Run in the thread until the stream ends or nobody wants it any more."""
        last: bytes | Exception = b""
        # One small read after the other: what a cut archive gave before it ends is not lost.
        read = getattr(self._stream, "read1", self._stream.read)
        try:
            while not self._unwanted and (block := read(_BLOCK_BYTES)):
                self._blocks.put(block)
        except Exception as error:
            last = error
        self._blocks.put(last)

    def end(self) -> None:
        """End the thread, and close what it read."""
        self._unwanted = True
        while self._thread.is_alive():
            # The thread may wait for room; it puts one block and one end at most before it looks again.
            self._drain()
            self._thread.join(0.01)
        self._stream.close()

    def _drain(self) -> None:
        while True:
            try:
                self._blocks.get_nowait()
            except queue.Empty:
                return
