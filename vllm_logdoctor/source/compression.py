"""Decompression chosen by the first bytes of the content, never by the name."""

from __future__ import annotations

import sys
import zlib
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, BinaryIO, cast

from vllm_logdoctor.source.iterator_io import IteratorIO

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
        return cast(BinaryIO, IteratorIO(_pieces_of_gz(stream), stream.close))
    if kind == "bz2":
        import bz2

        return cast(BinaryIO, bz2.BZ2File(stream))
    if kind == "xz":
        import lzma

        return cast(BinaryIO, lzma.LZMAFile(stream))
    if kind == "zst":
        return cast(BinaryIO, IteratorIO(_pieces_of_zst(stream), stream.close))
    return stream


_PIECE_BYTES = 1 << 19
_SMALL_PIECE_BYTES = 1 << 12
_PACKED_BYTES = 1 << 16


def _pieces_of_gz(stream: BinaryIO) -> Iterator[bytes]:
    """Unpack members one after the other; half a megabyte at once keeps the interpreter free for another thread."""
    member: Any = None
    packed = b""
    while packed := packed or stream.read(_PACKED_BYTES):
        if member is None:
            # Members may be padded with NUL bytes.
            packed = packed.lstrip(b"\0")
            member = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS) if packed else None
            continue
        before = member.copy()
        try:
            piece = member.decompress(packed, _PIECE_BYTES)
        except zlib.error:
            yield from _up_to_the_damage(before, packed)
            raise
        if piece:
            yield piece
        packed = member.unused_data if member.eof else member.unconsumed_tail
        member = None if member.eof else member
    if member is not None:
        raise EOFError("the last member is cut")


def _up_to_the_damage(member: Any, packed: bytes) -> Iterator[bytes]:
    """Unpack in small steps what precedes damaged bytes."""
    with suppress(zlib.error):
        while piece := member.decompress(packed, _SMALL_PIECE_BYTES):
            yield piece
            packed = member.unconsumed_tail


_ZST_BYTES = 2048
"""Packed bytes taken at once: a block of four bytes can hold 128 KiB, so that these give 64 MiB at most."""


def _pieces_of_zst(stream: BinaryIO) -> Iterator[bytes]:
    """Unpack frames one after the other; raise OSError for damage and a cut, as the other decompressors do."""
    import zstandard

    frame: Any = None
    packed = b""
    while packed := packed or stream.read(_ZST_BYTES):
        frame = frame or zstandard.ZstdDecompressor().decompressobj()
        try:
            piece = frame.decompress(packed)
        except zstandard.ZstdError as error:
            raise OSError(str(error)) from error
        if piece:
            yield piece
        packed = frame.unused_data
        frame = None if frame.eof else frame
    if frame is not None:
        raise OSError("the last frame is cut")
