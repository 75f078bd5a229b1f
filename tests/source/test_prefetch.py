"""Unpacking in a thread gives the same bytes, the same errors at the same places, and leaves no thread behind."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import random
import threading
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import BinaryIO

import pytest
import zstandard

from vllm_logdoctor.errors import LogdoctorError
from vllm_logdoctor.source import Input, read_chunks
from vllm_logdoctor.source.chunks import InputSize
from vllm_logdoctor.source.prefetch import prefetched

PACKERS = [
    gzip.compress,
    bz2.compress,
    lambda text: lzma.compress(text, preset=0),
    zstandard.ZstdCompressor().compress,
]


@cache
def text() -> bytes:
    """Return a text of ten blocks, more than are read ahead, so uneven that it stays large when packed."""
    choice = random.Random(3)
    return b"".join(
        b"INFO 03-04 10:11:12 [core.py:93] %032x\n" % choice.getrandbits(128) for _ in range(80_000)
    )


@cache
def packed(pack: Callable[[bytes], bytes]) -> bytes:
    """Return the text packed; some take a second for it."""
    return pack(text())


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    assert set(threading.enumerate()) == before


def text_of(source: Input) -> tuple[bytes, InputSize]:
    reading = InputSize()
    return b"".join(chunk.data for chunk in read_chunks(source, 0, reading)), reading


@pytest.mark.parametrize("pack", PACKERS)
def test_a_large_packed_file_is_read_whole(pack: Callable[[bytes], bytes], tmp_path: Path) -> None:
    path = tmp_path / "vllm.log.packed"
    path.write_bytes(packed(pack))
    assert text_of(Input("vllm.log.packed", path))[0] == text()


@pytest.mark.parametrize("pack", PACKERS)
@pytest.mark.parametrize("kept", [0.3, 0.9, 0.9999])
def test_a_cut_file_gives_what_it_gives_without_a_thread(
    pack: Callable[[bytes], bytes], kept: float, tmp_path: Path
) -> None:
    whole = packed(pack)
    cut = whole[: int(len(whole) * kept)]
    path = tmp_path / "vllm.log"
    path.write_bytes(cut)
    on_disk, in_memory = text_of(Input("vllm.log", path)), text_of(Input("vllm.log", data=cut))
    assert on_disk == in_memory
    assert on_disk[1].note is None or "cut or damaged" in on_disk[1].note


def test_a_file_that_is_damaged_from_its_start_can_not_be_read(tmp_path: Path) -> None:
    path = tmp_path / "vllm.log.gz"
    path.write_bytes(packed(gzip.compress)[:10] + b"\xff" * 200_000)
    with pytest.raises(LogdoctorError, match="is the file damaged"):
        text_of(Input("vllm.log.gz", path))


def test_reading_may_stop_at_any_place(tmp_path: Path) -> None:
    path = tmp_path / "vllm.log.gz"
    path.write_bytes(packed(gzip.compress))
    chunks = read_chunks(Input("vllm.log.gz", path), 0, InputSize())
    assert next(chunks).data.startswith(b"INFO")
    with Input("vllm.log.gz", path).open() as stream:
        assert stream.read(5) == text()[:5]
    chunks.close()  # type: ignore[attr-defined]


def test_memory_stays_bounded_when_nobody_reads() -> None:
    class Endless(io.RawIOBase):
        given = 0

        def readable(self) -> bool:
            return True

        def readinto(self, buffer: bytearray) -> int:
            self.given += len(buffer)
            return len(buffer)

    endless = Endless()
    with prefetched(endless) as stream:  # type: ignore[arg-type]
        stream.read(1)
        assert endless.given < 16 << 20


def test_an_error_comes_behind_the_bytes_before_it() -> None:
    class Broken(io.RawIOBase):
        def __init__(self) -> None:
            self.blocks = [b"first\n", b"second\n"]

        def readable(self) -> bool:
            return True

        def readinto(self, buffer: bytearray) -> int:
            if not self.blocks:
                raise OSError("gone")
            block = self.blocks.pop(0)
            buffer[: len(block)] = block
            return len(block)

    with prefetched(_raw(Broken())) as stream:
        assert [stream.read1(), stream.read1()] == [b"first\n", b"second\n"]  # type: ignore[attr-defined]
        with pytest.raises(OSError, match="gone"):
            stream.read1()  # type: ignore[attr-defined]


def _raw(stream: io.RawIOBase) -> BinaryIO:
    return stream  # type: ignore[return-value]
