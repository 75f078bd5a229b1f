"""Decompression chosen by the first bytes of the content, never by the name."""

from __future__ import annotations

import io
import sys
import zlib
from typing import Any, BinaryIO, cast

_MAGIC: tuple[tuple[bytes, str], ...] = (
    (b"\x1f\x8b", "gz"),
    (b"BZh", "bz2"),
    (b"\xfd7zXZ\x00", "xz"),
    (b"\x28\xb5\x2f\xfd", "zst"),
)


def broken_stream() -> tuple[type[Exception], ...]:
    """Return what the decompressors raise on a stream that is cut or damaged; each is imported where a stream needs it."""
    common = (EOFError, zlib.error, OSError, ValueError)
    if "lzma" not in sys.modules:
        return common
    import lzma

    return (*common, lzma.LZMAError)


def compression_of(head: bytes) -> str | None:
    """Name the compression of a stream from its first bytes, or None for plain bytes.

    Example:
        >>> compression_of(b"\\x1f\\x8b\\x08")
        'gz'
        >>> compression_of(b"INFO 01-01") is None
        True
    """
    return next((name for magic, name in _MAGIC if head.startswith(magic)), None)


def decompressed(stream: BinaryIO, head: bytes) -> BinaryIO:
    """Wrap a binary stream, whose first bytes `head` were peeked, in the decompressor that they ask for."""
    kind = compression_of(head)
    if kind == "gz":
        import gzip

        return cast(BinaryIO, gzip.GzipFile(fileobj=stream))
    if kind == "bz2":
        import bz2

        return cast(BinaryIO, bz2.BZ2File(stream))
    if kind == "xz":
        import lzma

        return cast(BinaryIO, lzma.LZMAFile(stream))
    if kind == "zst":
        return _zstd_reader(stream)
    return stream


_COMPRESSED_BYTES = 2048
"""Compressed bytes taken at once: a block of four bytes can hold 128 KiB, so that these give 64 MiB at most."""


def _zstd_reader(stream: BinaryIO) -> BinaryIO:
    import zstandard

    class Frames(io.RawIOBase):
        """Frames one after the other; damage and a cut are told as an OSError, as the other decompressors tell them."""

        def __init__(self) -> None:
            self._frame: Any = None
            self._compressed = self._plain = b""

        def readable(self) -> bool:
            return True

        def readinto(self, buffer: Any) -> int:
            while not self._plain:
                self._compressed = self._compressed or stream.read(_COMPRESSED_BYTES)
                if not self._compressed:
                    if self._frame is not None:
                        raise OSError("the last frame is cut")
                    return 0
                self._decompress()
            given = min(len(buffer), len(self._plain))
            buffer[:given], self._plain = self._plain[:given], self._plain[given:]
            return given

        def _decompress(self) -> None:
            self._frame = self._frame or zstandard.ZstdDecompressor().decompressobj()
            try:
                self._plain = self._frame.decompress(self._compressed)
            except zstandard.ZstdError as error:
                raise OSError(str(error)) from error
            self._compressed = self._frame.unused_data
            if self._frame.eof:
                self._frame = None

    return io.BufferedReader(Frames(), 1 << 17)
