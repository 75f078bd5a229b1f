"""A log, and commands that stand in for logdoctor."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hook_samples import SERVER_LOG, command

from tests.commands import analyse_in_forks

TREE = Path(__file__).parents[2]


@pytest.fixture
def server_log(tmp_path: Path) -> Path:
    """A small log of a server."""
    log = tmp_path / "vllm.log"
    log.write_text(SERVER_LOG)
    return log


@pytest.fixture
def logdoctor(tmp_path: Path) -> str:
    """Path of a command that runs this tree's logdoctor with the tests' own Python."""
    return command(
        tmp_path / "logdoctor",
        f'PYTHONPATH="{TREE}" exec "{sys.executable}" -c "from vllm_logdoctor.cli import main; main()" "$@"',
    )


@pytest.fixture
def stand_in(tmp_path: Path) -> Callable[[str], str]:
    """Makes a command that runs the given shell text in logdoctor's place."""
    return lambda body: command(tmp_path / "stand-in", body)


@pytest.fixture
def forked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let hooks of this process analyse in a fork of it."""
    analyse_in_forks(monkeypatch)


@pytest.fixture
def limited() -> None:
    """Ask for the process with limits that a hook really starts."""
