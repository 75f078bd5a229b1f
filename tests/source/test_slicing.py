"""A plain file cut by a look at its cuts gives the text that reading it gives, whatever it holds."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vllm_logdoctor.source import Chunk, FileSlice, Input, opened, read_chunks, read_pieces
from vllm_logdoctor.source.chunks import LONGEST_LINE, InputSize

LINES = b"".join(b"INFO 03-04 10:11:12 [core.py:93] line %d\n" % n for n in range(4000))
LONG = b"x" * (LONGEST_LINE - 300_000)
ODD = {
    "NUL bytes in the middle": LINES + b"\0" * 9000 + LINES,
    "NUL bytes at the end": LINES + b"half a li\0\0\0",
    "NUL bytes at the beginning": b"\0" * 100 + LINES,
    "spaces of web pages": LINES.replace(b"] line 3", b"]\xc2\xa0line 3"),
    "a last line without an end": LINES + b"INFO",
    "a line longer than a piece": LINES + LONG + b"\n" + LINES,
    "the longest line": LINES + b"x" * LONGEST_LINE + b"\n" + LINES,
    "a line that is too long": LINES + b"x" * (LONGEST_LINE + 1) + b"\n" + LINES,
    "no line end": b"x" * (3 * LONGEST_LINE),
    "UTF-16": LINES.decode().encode("utf-16"),
    "rows of a terminal": b"".join(line[:30] + b"\n" + line[30:] for line in LINES.splitlines(keepends=True)),
    "packed": gzip.compress(LINES),
    "nothing": b"",
}


def as_read(source: Input, chunk_bytes: int) -> tuple[list[Chunk], bytes, InputSize]:
    """Read pieces as processes do, and count their lines afterwards."""
    reading, chunks, text = InputSize(), [], b""
    with opened(source) as file:
        for chunk in read_pieces(source, file, 0, reading, chunk_bytes):
            reading.place(chunk, chunk.data.count(b"\n"))
            chunks.append(chunk)
            text += chunk.data
    reading.close()
    return chunks, text, reading


@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("chunk_bytes", [5_000, 1 << 19])
def test_any_file_gives_the_lines_that_reading_gives(name: str, chunk_bytes: int, tmp_path: Path) -> None:
    path = tmp_path / "vllm.log"
    path.write_bytes(ODD[name])
    source, reading = Input("vllm.log", path), InputSize()
    text = b"".join(chunk.data for chunk in read_chunks(source, 0, reading, chunk_bytes))
    assert as_read(source, chunk_bytes)[1:] == (text, reading)


def test_of_most_pieces_only_the_place_is_known(tmp_path: Path) -> None:
    path = tmp_path / "vllm.log"
    path.write_bytes(LINES)
    chunks, _, _ = as_read(Input("vllm.log", path), 5_000)
    assert all(isinstance(chunk.content, FileSlice) for chunk in chunks[:-2])
    assert len(chunks) >= len(LINES) // 5_000


@given(st.lists(st.sampled_from([b"a", b"\0", b"\xc2\xa0", b"\n", b"bc"]), max_size=60), st.integers(1, 20))
@settings(deadline=None)
def test_the_tail_of_a_place_is_the_tail_of_its_text(parts: list[bytes], size: int) -> None:
    import tempfile

    with tempfile.TemporaryFile(buffering=0) as file:
        file.write(b"".join(parts))
        place = FileSlice(file.fileno(), 0, len(b"".join(parts)))
        assert place.tail(size) == place.read()[-size:]
        assert place.read() == b"".join(parts).replace(b"\0", b"").replace(b"\xc2\xa0", b" ")


def test_a_file_that_is_replaced_meanwhile_is_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "vllm.log"
    path.write_bytes(LINES)
    source, reading, text = Input("vllm.log", path), InputSize(), b""
    with opened(source) as file:
        for chunk in read_pieces(source, file, 0, reading, 5_000):
            if not text:
                path.rename(tmp_path / "vllm.log.1")
                path.write_bytes(b"of another server\n")
            text += chunk.data
    assert text == LINES
