"""A plain file cut at line ends with a look at the cuts alone: who scans a piece reads it, in whatever process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from vllm_logdoctor.source.chunks import (
    LONGEST_LINE,
    Chunk,
    FileSlice,
    InputSize,
    is_utf16,
    read_chunks,
    read_on,
)
from vllm_logdoctor.source.inputs import Input
from vllm_logdoctor.source.unwrap import SAMPLE_BYTES, width_of

_LOOKED_AT = 1 << 12
"""Bytes before a cut that nearly always hold a line end."""


@contextmanager
def opened(source: Input) -> Iterator[int | None]:
    """Open an input for `read_pieces`; gives its descriptor, or None where its bytes are not those of a plain file."""
    with ExitStack() as stack:
        yield _descriptor(source.plain_path, stack)


def _descriptor(path: str, stack: ExitStack) -> int | None:
    try:
        return stack.enter_context(Path(path).open("rb", buffering=0)).fileno() if path else None
    except OSError:
        return None


def read_pieces(
    source: Input, descriptor: int | None, number: int, reading: InputSize, chunk_bytes: int
) -> Iterator[Chunk]:
    """Read an input as `read_chunks` does, without counting lines; of most chunks only the place is known.

    Args:
        source: what to read.
        descriptor: what `opened` gave.
        number: its number in the set of inputs.
        reading: filled with what was read.
        chunk_bytes: bytes wanted per chunk.

    Raises:
        LogdoctorError: the input can't be opened, or fails before the first byte.
    """
    if descriptor is None or not _is_read_as_it_is(descriptor):
        yield from read_chunks(source, number, reading, chunk_bytes, counts=False)
        return
    for place in _places(descriptor, min(chunk_bytes, LONGEST_LINE)):
        reading.bytes = place.offset + place.size
        yield Chunk(number, reading.lines + 1, place)
    # The end of a file may hold half a line, NUL bytes in its place, or grow meanwhile.
    yield from read_on(source.name, descriptor, reading.bytes, number, reading, chunk_bytes)


def _is_read_as_it_is(descriptor: int) -> bool:
    """Return whether a file is text whose lines are those of the log, as far as its beginning tells."""
    try:
        head = os.pread(descriptor, SAMPLE_BYTES, 0)
    except OSError:
        return False
    return b"\0" not in head and not is_utf16(head) and not width_of(head)


def _places(descriptor: int, size: int) -> Iterator[FileSlice]:
    """Yield places that end at line ends, until less than a piece is left or a line is too long."""
    offset = 0
    try:
        while offset + size < os.fstat(descriptor).st_size and (end := _cut(descriptor, offset, size)):
            yield FileSlice(descriptor, offset, end - offset)
            offset = end
    except OSError:
        return


def _cut(descriptor: int, offset: int, size: int) -> int:
    """Return the offset behind the last line end of a piece, or of its only line; 0 where that is too long."""
    for looked_at in (min(_LOOKED_AT, size), size):
        start = offset + size - looked_at
        found = os.pread(descriptor, looked_at, start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
    found = os.pread(descriptor, LONGEST_LINE + 1 - size, offset + size).find(b"\n")
    return offset + size + found + 1 if found >= 0 else 0
