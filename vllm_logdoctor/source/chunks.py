"""Bytes of an input as chunks that end at line ends, in bounded memory whatever the line lengths."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import BinaryIO

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


@dataclass(slots=True)
class Chunk:
    """Consecutive bytes of one file.

    Attributes:
        file: number of the file in the set of inputs.
        first_line: 1-based number of the line on which `data` starts.
        data: the bytes; they end with "\\n" unless the file ends, or a line was too long.
        lines: line ends in `data`; who takes the chunk may fill it in, so that they are counted once.
        path, offset: where the same bytes stand in a plain file, for other processes to read; "" where they don't.
    """

    file: int
    first_line: int
    data: bytes
    lines: int = -1
    path: str = ""
    offset: int = 0


@dataclass(slots=True)
class Reading:
    """What was read of one input: filled while `read_chunks` runs.

    Attributes:
        bytes: bytes after decompression.
        lines: lines by "\\n"; a last line without an end counts.
        note: why reading stopped early, or None.
    """

    bytes: int = 0
    lines: int = 0
    note: str | None = None
    _open_line: bool = field(default=False, repr=False)

    def place(self, chunk: Chunk, lines: int) -> None:
        """Give the next chunk its place, now that it is known how many line ends it has."""
        chunk.first_line, chunk.lines = self.lines + 1, lines
        self.lines += lines

    def close(self) -> None:
        """Count a last line without an end."""
        self.lines += self._open_line


def keep_freed_memory() -> None:
    """Teach the allocator to keep the memory of chunks for the next ones.

    glibc gives back what is larger than the largest piece that was freed so far: each chunk would be faulted in anew, which
    costs more than to read it. The piece freed here is never touched.
    """
    bytes(_LARGEST_FREED)


def read_chunks(
    source: Input, number: int, reading: Reading, chunk_bytes: int = CHUNK_BYTES, *, counts: bool = True
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
        rest = b""
        place = _Place(source.plain_path)
        for block in unwrapped(_blocks(stream, source, reading, min(chunk_bytes, LONGEST_LINE))):
            place.note(reading.bytes, len(rest) + len(block))
            cut = block.rfind(b"\n") + 1
            if cut and 0 <= block.find(b"\n") <= LONGEST_LINE - len(rest):
                yield from _chunk(number, b"".join((rest, memoryview(block)[:cut])), reading, place, counts)
                rest = block[cut:]
                continue
            rest += block
            # A block is no longer than the longest line, so that only the first line can be too long.
            while len(rest) > LONGEST_LINE and rest.find(b"\n", 0, LONGEST_LINE + 1) < 0:
                piece, rest = _cut_overlong(rest)
                yield from _chunk(number, piece, reading, place, counts)
            cut = rest.rfind(b"\n") + 1
            if cut:
                yield from _chunk(number, rest[:cut], reading, place, counts)
                rest = rest[cut:]
        if rest:
            yield from _chunk(number, rest, reading, place, counts)
    if counts:
        reading.close()


@dataclass(slots=True)
class _Place:
    """Where the next chunk stands in its file, as long as its bytes are those of the file."""

    path: str
    offset: int = 0

    def note(self, read: int, waiting: int) -> None:
        """Forget the place once bytes were changed on the way."""
        if self.offset + waiting != read:
            self.path = ""


def _chunk(number: int, data: bytes, reading: Reading, place: _Place, counts: bool) -> Iterator[Chunk]:
    path, offset = place.path, place.offset
    place.offset += len(data)
    if not data.isascii() and _NO_BREAK in data:
        data, path = data.replace(_NO_BREAK, b" "), ""
    chunk = Chunk(number, reading.lines + 1, data, path=path, offset=offset)
    yield chunk
    if counts:
        reading.lines += chunk.lines if chunk.lines >= 0 else data.count(b"\n")
    reading._open_line = not data.endswith(b"\n")


def _cut_overlong(rest: bytes) -> tuple[bytes, bytes]:
    """Split a line that is too long: at the last redraw of a progress bar, else after as many bytes as a line may have."""
    cut = rest.rfind(b"\r", 0, LONGEST_LINE) + 1 or LONGEST_LINE
    return rest[:cut], rest[cut:]


def _blocks(stream: BinaryIO, source: Input, reading: Reading, size: int) -> Iterator[bytes]:
    decoder: codecs.IncrementalDecoder | None = None
    first = True
    # One read of the stream below at a time: what a cut archive or an interrupted pipe gave before is not lost.
    read = getattr(stream, "read1", stream.read)
    while True:
        try:
            block = read(size)
        except broken_stream() as error:
            if reading.bytes == 0:
                raise LogdoctorError(f"can't read {source.name}: {error}; is the file damaged?") from error
            reading.note = (
                f"{source.name} is cut or damaged after {reading.bytes:,} bytes; what came before is analysed"
            )
            return
        if not block:
            return
        reading.bytes += len(block)
        if first:
            decoder, first = _utf16_decoder(block), False
        if decoder is not None:
            block = decoder.decode(block).encode("utf-8", "replace")
        if b"\0" in block:
            block = block.replace(b"\0", b"")
        if block:
            yield block


def _utf16_decoder(head: bytes) -> codecs.IncrementalDecoder | None:
    """PowerShell redirects as UTF-16 with a byte order mark; some tools leave the mark out."""
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return codecs.getincrementaldecoder("utf-16")("replace")
    sample = head[:512]
    if len(sample) >= 16 and sample[1::2].count(0) > len(sample) * 0.4 and sample[0::2].count(0) == 0:
        return codecs.getincrementaldecoder("utf-16-le")("replace")
    return None
