"""What Windows and macOS do otherwise than Linux, with their answers put in the place of this system's."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

import pytest

from vllm_logdoctor.cli import start
from vllm_logdoctor.fleet import limits
from vllm_logdoctor.hooks.joblog import file_behind
from vllm_logdoctor.source import growing


def _refused(*_: object) -> None:
    raise OSError(10038, "an operation was attempted on something that is not a socket")


@pytest.fixture
def windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setattr(growing, "_SELECTS_FILES", False)
    monkeypatch.setattr(growing.select, "select", _refused)
    monkeypatch.setattr(growing.time, "sleep", lambda seconds: None)


@pytest.mark.usefixtures("windows")
def test_a_growing_file_is_read_where_only_sockets_are_waited_for(tmp_path: Path) -> None:
    log = tmp_path / "vllm.log"
    log.write_bytes(b"one\n")
    source = growing.GrowingFile(log)
    assert [piece.data for piece in source.read()] == [b"one\n"]
    source.wait(60.0, 0)
    with log.open("ab") as file:
        file.write(b"two\n")
    assert [piece.data for piece in source.read()] == [b"two\n"]


@pytest.mark.usefixtures("windows")
def test_a_pipe_is_read_to_its_end_where_only_sockets_are_waited_for() -> None:
    reading, writing = os.pipe()
    os.write(writing, b"one\ntwo\n")
    with os.fdopen(reading, "rb", buffering=0) as stream:
        source = growing.GrowingStream(stream)
        assert [piece.data for piece in source.read()] == [b"one\ntwo\n"]
        os.close(writing)
        source.wait(60.0, 0)
        assert list(source.read()) == []
        assert source.ended


def test_a_worker_on_windows_sends_its_driver_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """There `os.kill(process, 0)` is no question: it ends the process."""
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setattr(limits.threading, "Thread", None)
    limits.end_with(os.getppid())


@pytest.mark.parametrize("encoding", ["cp1252", "ascii", "utf-8"])
def test_text_is_utf_8_whatever_the_code_page_holds(monkeypatch: pytest.MonkeyPatch, encoding: str) -> None:
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding=encoding))
    start._write_as_utf8()
    sys.stdout.write("`1` → `2` ≥ ▁█")
    sys.stdout.flush()
    assert written.getvalue().decode() == "`1` → `2` ≥ ▁█"


def test_without_proc_no_descriptor_has_a_file(tmp_path: Path) -> None:
    assert file_behind(tmp_path / "proc" / "self" / "fd" / "1") is None
