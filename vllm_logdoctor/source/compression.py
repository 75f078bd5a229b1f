"""Decompression chosen by the first bytes of the content, never by the name."""

from __future__ import annotations

import io
import sys
import zlib
from typing import IO, Any, BinaryIO, cast

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


def _zstd_reader(stream: BinaryIO) -> BinaryIO:
    import zstandard

    reader = zstandard.ZstdDecompressor().stream_reader(cast(IO[bytes], stream), read_across_frames=True)

    class Frames(io.RawIOBase):
        """Damage is told as an OSError, as the other decompressors tell it."""

        def readable(self) -> bool:
            return True

        def readinto(self, buffer: Any) -> int:
            try:
                return int(reader.readinto(buffer))
            except zstandard.ZstdError as error:
                raise OSError(str(error)) from error

    return io.BufferedReader(Frames(), 1 << 17)
