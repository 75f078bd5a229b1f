"""Bytes of any origin as chunks that end at line ends."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard
from hypothesis import example, given
from hypothesis import strategies as st

from vllm_logdoctor.errors import LogdoctorError
from vllm_logdoctor.source import Chunk, Input, read_chunks
from vllm_logdoctor.source.chunks import LONGEST_LINE, InputSize

TEXT = b"".join(b"INFO 03-04 10:11:12 [core.py:93] line %d\n" % n for n in range(2000))


def chunks_of(source: Input, chunk_bytes: int = 1 << 16) -> tuple[list[Chunk], InputSize]:
    reading = InputSize()
    return list(read_chunks(source, 0, reading, chunk_bytes)), reading


@given(
    st.lists(st.binary(max_size=30).map(lambda b: b.replace(b"\n", b"").replace(b"\0", b"")), max_size=40),
    st.integers(1, 64),
)
@example([b"\xc2\xa0"], 1)
def test_chunks_are_the_bytes_cut_at_line_ends(lines: list[bytes], size: int) -> None:
    data = b"!" + b"\n".join(lines)
    chunks, reading = chunks_of(Input("x", data=data), size)
    # A no-break space, which web pages put into logs, is read as a space.
    assert b"".join(chunk.data for chunk in chunks) == data.replace(b"\xc2\xa0", b" ")
    assert all(chunk.data.endswith(b"\n") for chunk in chunks[:-1])
    assert reading.bytes == len(data)
    assert reading.lines == data.count(b"\n") + (not data.endswith(b"\n"))


@given(st.integers(1, 200))
def test_first_line_numbers_do_not_depend_on_the_cut(size: int) -> None:
    chunks, _ = chunks_of(Input("x", data=TEXT[:2000]), size)
    before = 0
    for chunk in chunks:
        assert chunk.first_line == before + 1
        before += chunk.data.count(b"\n")


@pytest.mark.parametrize(
    "pack", [gzip.compress, bz2.compress, lzma.compress, zstandard.ZstdCompressor().compress]
)
def test_packed_files_are_known_by_content_not_by_name(
    pack: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    path = tmp_path / "vllm.log"
    path.write_bytes(pack(TEXT))
    chunks, reading = chunks_of(Input("vllm.log", path=path))
    assert b"".join(chunk.data for chunk in chunks) == TEXT
    assert reading.note is None


def test_two_members_in_one_gz_are_one_log() -> None:
    chunks, _ = chunks_of(Input("x", data=gzip.compress(TEXT) + gzip.compress(TEXT)))
    assert b"".join(chunk.data for chunk in chunks) == TEXT + TEXT


def test_a_gz_may_be_padded_as_tapes_are() -> None:
    chunks, reading = chunks_of(
        Input("x", data=gzip.compress(TEXT) + b"\0" * 100 + gzip.compress(TEXT) + b"\0" * 9)
    )
    assert b"".join(chunk.data for chunk in chunks) == TEXT + TEXT
    assert reading.note is None


def test_a_damaged_gz_gives_what_precedes_the_damage() -> None:
    text = b"".join(b"%d is no line of vLLM\n" % (n * 7919 % 100_003) for n in range(60_000))
    packed = bytearray(gzip.compress(text))
    packed[len(packed) * 9 // 10 :] = b"\xff" * (len(packed) // 10)
    chunks, reading = chunks_of(Input("x", data=bytes(packed)))
    sound = len(text) * 8 // 10
    assert b"".join(chunk.data for chunk in chunks)[:sound] == text[:sound]
    assert reading.note is not None


def test_a_cut_gz_gives_what_can_be_read_and_says_so() -> None:
    packed = gzip.compress(TEXT, compresslevel=0)
    chunks, reading = chunks_of(Input("vllm.log.gz", data=packed[: len(packed) // 2]))
    read = b"".join(chunk.data for chunk in chunks)
    assert read
    assert TEXT.startswith(read)
    assert reading.note is not None
    assert "cut or damaged" in reading.note


@pytest.mark.parametrize("left_out", [1, 20])
def test_a_cut_zst_says_so(left_out: int) -> None:
    packed = zstandard.ZstdCompressor().compress(TEXT) + zstandard.ZstdCompressor().compress(TEXT)
    chunks, reading = chunks_of(Input("vllm.log.zst", data=packed[:-left_out]))
    assert b"".join(chunk.data for chunk in chunks).startswith(TEXT)
    assert reading.note is not None
    assert "cut or damaged" in reading.note


@pytest.mark.parametrize("magic", [b"\x1f\x8b\x08\x00", b"BZh9", b"\xfd7zXZ\x00", b"\x28\xb5\x2f\xfd"])
def test_a_file_that_only_looks_packed_can_t_be_read(magic: bytes) -> None:
    with pytest.raises(LogdoctorError, match="can't read x"):
        chunks_of(Input("x", data=magic + b"\xff" * 40))


@pytest.mark.parametrize(
    "pack", [gzip.compress, bz2.compress, lzma.compress, zstandard.ZstdCompressor().compress]
)
def test_damage_in_the_middle_ends_in_no_traceback(pack: Callable[[bytes], bytes]) -> None:
    packed = bytearray(pack(TEXT * 50))
    packed[len(packed) // 2 :] = b"\xa5" * (len(packed) // 2)
    try:
        _, reading = chunks_of(Input("x", data=bytes(packed)))
    except LogdoctorError:
        return
    assert reading.note is not None


@pytest.mark.parametrize(
    ("encoding", "mark"), [("utf-16-le", b"\xff\xfe"), ("utf-16-be", b"\xfe\xff"), ("utf-16-le", b"")]
)
def test_utf16_as_powershell_writes_it(encoding: str, mark: bytes) -> None:
    data = mark + TEXT.decode().encode(encoding)
    chunks, reading = chunks_of(Input("x", data=data), 1001)
    assert b"".join(chunk.data for chunk in chunks) == TEXT
    assert reading.lines == 2000


def test_blocks_of_nul_bytes_are_taken_out() -> None:
    chunks, _ = chunks_of(Input("x", data=b"\0" * 100_000 + TEXT), 4096)
    assert b"".join(chunk.data for chunk in chunks) == TEXT


def test_an_endless_line_is_handed_on_in_pieces_of_one_line_number() -> None:
    data = b"x" * (2 * LONGEST_LINE + 5) + b"\n" + TEXT
    chunks, reading = chunks_of(Input("x", data=data))
    assert all(len(chunk.data) <= 2 * LONGEST_LINE for chunk in chunks)
    assert [chunk.first_line for chunk in chunks[:2]] == [1, 1]
    assert b"".join(chunk.data for chunk in chunks) == data
    assert reading.lines == 2001


class Pipe(io.RawIOBase):
    """Gives a little at once, and is interrupted at its end."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray) -> int:
        if not self.data:
            raise KeyboardInterrupt
        size = min(700, len(buffer))
        given, self.data = self.data[:size], self.data[size:]
        buffer[: len(given)] = given
        return len(given)


def test_what_a_pipe_gave_before_an_interrupt_is_handed_on_in_whole_chunks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Input, "open", lambda source: io.BufferedReader(Pipe(TEXT)))
    chunks: list[bytes] = []
    with pytest.raises(KeyboardInterrupt):
        chunks.extend(chunk.data for chunk in read_chunks(Input("<stdin>"), 0, InputSize(), 20_000))
    assert b"".join(chunks) == TEXT
    assert len(chunks) < 5


def test_an_empty_input_gives_no_chunk() -> None:
    assert chunks_of(Input("x", data=b""))[0] == []


def test_a_path_that_is_not_there_is_reported_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(LogdoctorError, match="can't read"):
        chunks_of(Input("gone", path=tmp_path / "gone"))
