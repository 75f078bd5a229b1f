"""Bytes of an input as chunks that end at line ends, in bounded memory whatever the line lengths."""

from __future__ import annotations

import codecs
import io
import os
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import chain
from typing import BinaryIO, cast

from msgspec import Struct

from vllm_logdoctor.errors import LogdoctorError
from vllm_logdoctor.source.compression import broken_stream
from vllm_logdoctor.source.inputs import Input
from vllm_logdoctor.source.unwrap import unwrapped

CHUNK_BYTES = 1 << 19
LONGEST_LINE = 1 << 20
"""A line longer than this is handed on in pieces that carry the same line number."""

_LARGEST_FREED = 8 << 20

_NO_BREAK = "\u00a0".encode()
"""The space of web pages: what was copied from one has it in place of the plain one."""


class FileSlice(Struct, frozen=True):
    """Where bytes are in an open file: a process that inherited it reads them by itself.

    Attributes:
        descriptor: of the open file.
        offset, size: where in it, in bytes.
    """

    descriptor: int
    offset: int
    size: int

    def read(self) -> bytes:
        """Return the text there, as `read_chunks` hands it on.

        Raises:
            OSError: it can't be read.
        """
        return _with_plain_spaces(_without_nul(self._bytes()))

    def tail(self, size: int) -> bytes:
        """Return the last bytes of the text there."""
        left_out = max(0, self.size - size)
        text = FileSlice(self.descriptor, self.offset + left_out, self.size - left_out).read()
        # Where bytes are taken out or replaced, the last ones of the text are not made of the last ones of the file.
        is_as_stored = len(text) == self.size - left_out and text.isascii()
        return text if is_as_stored else self.read()[-size:]

    def _bytes(self) -> bytes:
        data = os.pread(self.descriptor, self.size, self.offset)
        while 0 < len(data) < self.size:
            more = os.pread(self.descriptor, self.size - len(data), self.offset + len(data))
            if not more:
                break
            data += more
        return data


class Chunk(Struct):
    """Consecutive bytes of one file.

    Attributes:
        file: number of the file in the set of inputs.
        first_line: 1-based number of the line on which they start.
        content: the bytes, or where they are; they end with "\\n" unless the file ends, or a line was too long.
        lines: line ends in them; who takes the chunk may fill it in, so that they are counted once.
    """

    file: int
    first_line: int
    content: bytes | FileSlice
    lines: int = -1

    @property
    def size(self) -> int:
        """Bytes that were read for it, or are to be."""
        return len(self.content) if isinstance(self.content, bytes) else self.content.size

    @property
    def data(self) -> bytes:
        """The bytes; each time read anew where only their place is known."""
        return self.content if isinstance(self.content, bytes) else self.content.read()

    def tail(self, size: int) -> bytes:
        """Return the last bytes."""
        return self.content[-size:] if isinstance(self.content, bytes) else self.content.tail(size)


class InputSize(Struct):
    """What was read of one input: filled while `read_chunks` runs.

    Attributes:
        bytes: bytes after decompression.
        lines: lines by "\\n"; a last line without an end counts.
        note: why reading stopped early, or None.
    """

    bytes: int = 0
    lines: int = 0
    note: str | None = None
    _open_line: bool = False

    def place(self, chunk: Chunk, lines: int) -> None:
        """Give the next chunk its place, now that it is known how many line ends it has."""
        chunk.first_line, chunk.lines = self.lines + 1, lines
        self.lines += lines

    def close(self) -> None:
        """Count a last line without an end."""
        self.lines += self._open_line


@cache
def keep_freed_memory() -> None:
    """Teach the allocator to keep the memory of chunks for the next ones.

    glibc gives back what is larger than the largest piece that was freed so far: each chunk would be faulted in anew, which
    costs more than to read it. The piece freed here is never touched.
    """
    bytes(_LARGEST_FREED)


def read_chunks(
    source: Input, number: int, reading: InputSize, chunk_bytes: int = CHUNK_BYTES, *, counts: bool = True
) -> Iterator[Chunk]:
    """Read an input as chunks cut at line ends.

    Args:
        source: what to read.
        number: its number in the set of inputs.
        reading: filled with what was read.
        chunk_bytes: bytes wanted per chunk; the result of an analysis does not depend on it.
        counts: count lines. Without it that is left to whoever learns later how many line ends each chunk has: `Reading.place`
            for each of them, then `Reading.close`.

    Raises:
        LogdoctorError: the input can't be opened, or fails before the first byte.
    """
    keep_freed_memory()
    with source.open() as stream:
        blocks = unwrapped(_decoded(_blocks(stream, source.name, reading, min(chunk_bytes, LONGEST_LINE))))
        yield from _chunks(blocks, number, reading, counts)
    if counts:
        reading.close()


def read_on(
    name: str, descriptor: int, offset: int, number: int, reading: InputSize, chunk_bytes: int
) -> Iterator[Chunk]:
    """Read an open plain file from where a line begins, without counting lines: see `read_chunks`."""
    with io.FileIO(descriptor, closefd=False) as file:
        file.seek(offset)
        stream = cast(BinaryIO, file)
        blocks = map(_without_nul, _blocks(stream, name, reading, min(chunk_bytes, LONGEST_LINE)))
        yield from _chunks(filter(None, blocks), number, reading, counts=False)


def _chunks(blocks: Iterable[bytes], number: int, reading: InputSize, counts: bool) -> Iterator[Chunk]:
    """Cut blocks at line ends; none is longer than the longest line."""
    rest = b""
    for block in blocks:
        cut = block.rfind(b"\n") + 1
        if cut and 0 <= block.find(b"\n") <= LONGEST_LINE - len(rest):
            yield from _chunk(number, b"".join((rest, memoryview(block)[:cut])), reading, counts)
            rest = block[cut:]
            continue
        rest += block
        # Only the first line can be too long.
        while len(rest) > LONGEST_LINE and rest.find(b"\n", 0, LONGEST_LINE + 1) < 0:
            piece, rest = _cut_overlong(rest)
            yield from _chunk(number, piece, reading, counts)
        cut = rest.rfind(b"\n") + 1
        if cut:
            yield from _chunk(number, rest[:cut], reading, counts)
            rest = rest[cut:]
    if rest:
        yield from _chunk(number, rest, reading, counts)


def _chunk(number: int, data: bytes, reading: InputSize, counts: bool) -> Iterator[Chunk]:
    data = _with_plain_spaces(data)
    chunk = Chunk(number, reading.lines + 1, data)
    yield chunk
    if counts:
        reading.lines += chunk.lines if chunk.lines >= 0 else data.count(b"\n")
    reading._open_line = not data.endswith(b"\n")


def _with_plain_spaces(data: bytes) -> bytes:
    return data.replace(_NO_BREAK, b" ") if not data.isascii() and _NO_BREAK in data else data


def _without_nul(data: bytes) -> bytes:
    return data.replace(b"\0", b"") if b"\0" in data else data


def _cut_overlong(rest: bytes) -> tuple[bytes, bytes]:
    """Split a line that is too long: at the last redraw of a progress bar, else after as many bytes as a line may have."""
    cut = rest.rfind(b"\r", 0, LONGEST_LINE) + 1 or LONGEST_LINE
    return rest[:cut], rest[cut:]


def _blocks(stream: BinaryIO, name: str, reading: InputSize, size: int) -> Iterator[bytes]:
    """Yield blocks of so many bytes: a pipe gives little at once. What was read before an error or an interrupt comes before it."""
    # One read of the stream below at a time: what a cut archive or an interrupted pipe gave before is not lost.
    read = getattr(stream, "read1", stream.read)
    parts: list[bytes] = []
    try:
        while part := read(size - sum(map(len, parts))):
            reading.bytes += len(part)
            parts.append(part)
            if sum(map(len, parts)) == size:
                yield b"".join(parts)
                parts.clear()
    except broken_stream() as error:
        if reading.bytes == 0:
            raise LogdoctorError(f"can't read {name}: {error}; is the file damaged?") from error
        reading.note = f"{name} is cut or damaged after {reading.bytes:,} bytes; what came before is analysed"
    except KeyboardInterrupt:
        yield b"".join(parts)
        raise
    if parts:
        yield b"".join(parts)


def _decoded(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """Turn UTF-16 into UTF-8, and take NUL bytes out."""
    source = iter(blocks)
    first = next(source, b"")
    decoder = _utf16_decoder(first)
    for block in chain((first,), source):
        if decoder is not None:
            block = decoder.decode(block).encode("utf-8", "replace")
        block = _without_nul(block)
        if block:
            yield block


def is_utf16(head: bytes) -> bool:
    """Return whether a log begins as UTF-16 does."""
    return _utf16_decoder(head) is not None


def _utf16_decoder(head: bytes) -> codecs.IncrementalDecoder | None:
    """PowerShell redirects as UTF-16 with a byte order mark; some tools leave the mark out."""
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return codecs.getincrementaldecoder("utf-16")("replace")
    sample = head[:512]
    if len(sample) >= 16 and sample[1::2].count(0) > len(sample) * 0.4 and sample[0::2].count(0) == 0:
        return codecs.getincrementaldecoder("utf-16-le")("replace")
    return None
