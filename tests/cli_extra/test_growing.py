"""A growing log is read once, line by line, over rotation and truncation."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vllm_logdoctor.errors import LogdoctorError
from vllm_logdoctor.source.growing import GrowingFile, GrowingStream, NewBytes, growing


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "vllm.log"
    path.write_bytes(b"")
    return path


def write(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def read(source: GrowingFile) -> list[tuple[int, int, bytes]]:
    return [(piece.part, piece.first_line, piece.data) for piece in source.read()]


def test_only_what_is_new_is_read(log: Path) -> None:
    write(log, b"one\n")
    source = GrowingFile(log)
    assert read(source) == [(0, 1, b"one\n")]
    assert read(source) == []
    write(log, b"two\nthree\n")
    assert read(source) == [(0, 2, b"two\nthree\n")]


def test_half_a_line_waits_for_its_end(log: Path) -> None:
    write(log, b"one\ntw")
    source = GrowingFile(log)
    assert read(source) == [(0, 1, b"one\n")]
    write(log, b"o\n")
    assert read(source) == [(0, 2, b"two\n")]


def test_the_last_line_without_an_end_is_handed_on_when_it_is_over(log: Path) -> None:
    write(log, b"one\ntwo")
    source = GrowingFile(log)
    read(source)
    assert list(source.close()) == [NewBytes(0, 2, b"two")]


def test_a_rotated_log_is_read_to_its_end_and_the_new_one_from_its_start(log: Path) -> None:
    write(log, b"one\n")
    source = GrowingFile(log)
    read(source)
    write(log, b"two\nlast")
    log.rename(log.with_name("vllm.log.1"))
    write(log, b"new\n")
    assert read(source) == [(0, 2, b"two\n"), (0, 3, b"last"), (1, 1, b"new\n")]


def test_no_file_between_two_rotations_is_no_end(log: Path) -> None:
    source = GrowingFile(log)
    log.rename(log.with_name("vllm.log.1"))
    assert read(source) == []
    write(log, b"new\n")
    assert read(source) == [(1, 1, b"new\n")]


def test_a_log_that_was_cut_is_read_from_its_start(log: Path) -> None:
    write(log, b"one\ntwo\n")
    source = GrowingFile(log)
    read(source)
    os.truncate(log, 0)
    write(log, b"a\n")
    assert read(source) == [(1, 1, b"a\n")]


def test_a_line_without_an_end_takes_bounded_memory(log: Path) -> None:
    write(log, b"x" * (3 << 20))
    source = GrowingFile(log)
    pieces = list(source.read())
    assert {piece.first_line for piece in pieces} == {1}
    assert sum(len(piece.data) for piece in [*pieces, *source.close()]) == 3 << 20


def test_a_log_that_is_not_there_yet_is_read_from_its_start_when_it_comes(tmp_path: Path) -> None:
    log = tmp_path / "later.log"
    source = GrowingFile(log)
    assert not source.there
    assert read(source) == []
    write(log, b"one\n")
    assert read(source) == [(0, 1, b"one\n")]
    assert source.there


def test_a_log_that_was_deleted_and_made_again_is_read_from_its_start(log: Path) -> None:
    write(log, b"one\n")
    source = GrowingFile(log)
    read(source)
    log.unlink()
    assert read(source) == []
    write(log, b"new\n")
    assert read(source) == [(1, 1, b"new\n")]


def test_a_log_in_a_directory_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(LogdoctorError, match="can't read"):
        GrowingFile(tmp_path / "absent" / "vllm.log")


def test_a_directory_is_no_log(tmp_path: Path) -> None:
    with pytest.raises(LogdoctorError, match="Is a directory"):
        GrowingFile(tmp_path)


def test_waiting_ends_at_once_when_it_is_woken(log: Path) -> None:
    reading, writing = os.pipe()
    os.write(writing, b"\0")
    GrowingFile(log).wait(3600, reading)
    os.close(reading)
    os.close(writing)


def test_a_pipe_ends_with_its_writer() -> None:
    read_end, write_end = os.pipe()
    source = GrowingStream(io.FileIO(read_end, "rb"))  # type: ignore[arg-type]
    assert list(source.read()) == []
    os.write(write_end, b"one\ntw")
    assert list(source.read()) == [NewBytes(0, 1, b"one\n")]
    assert not source.ended
    os.close(write_end)
    assert list(source.read()) == []
    assert source.ended
    assert list(source.close()) == [NewBytes(0, 2, b"tw")]


@given(st.lists(st.binary(max_size=40), max_size=12))
def test_the_pieces_are_the_log_whatever_the_writes(
    tmp_path_factory: pytest.TempPathFactory, writes: list[bytes]
) -> None:
    path = tmp_path_factory.mktemp("growing") / "vllm.log"
    path.write_bytes(b"")
    source = GrowingFile(path)
    pieces: list[NewBytes] = []

    def look() -> Iterator[NewBytes]:
        yield from source.read()

    for data in writes:
        write(path, data)
        pieces += look()
    pieces += source.close()
    whole = b"".join(writes)
    assert b"".join(piece.data for piece in pieces) == whole.replace(b"\0", b"")
    assert [piece.first_line for piece in pieces] == sorted(piece.first_line for piece in pieces)


@pytest.mark.parametrize("name", ["/dev/null", "/dev/zero"])
def test_a_device_is_refused_in_one_line(name: str) -> None:
    with pytest.raises(LogdoctorError, match=f"can't follow {name}: it is a device") as said:
        growing(name)
    assert said.value.exit_code == 3


def test_standard_input_that_is_closed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(LogdoctorError, match="standard input is closed"):
        growing("-")


def test_a_named_pipe_ends_with_its_writer(tmp_path: Path) -> None:
    pipe = tmp_path / "vllm.log"
    os.mkfifo(pipe)
    # Open for reading and writing, a pipe waits for no other end.
    writer = os.open(pipe, os.O_RDWR)
    source = growing(str(pipe))
    os.write(writer, b"one\n")
    os.close(writer)
    assert [piece.data for piece in source.read()] == [b"one\n"]
    assert source.ended
