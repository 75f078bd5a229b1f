"""The command line as a child of the test process: real file descriptors, without the start of another interpreter."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from multiprocessing import forkserver
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any

import pytest

from vllm_logdoctor.cli import main
from vllm_logdoctor.hooks import engine, report_job

ROOT = Path(__file__).resolve().parents[1]


def logdoctor(
    *arguments: str,
    cwd: Path,
    stdin: IO[str] | None = None,
    stdout: IO[bytes] | None = None,
    **environ: str,
) -> subprocess.CompletedProcess[str]:
    """Run `logdoctor` with arguments in a folder and return its status, output and errors."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "HOME": str(cwd), **environ}
    command = [sys.executable, "-m", "vllm_logdoctor", *arguments]
    if not hasattr(os, "fork"):
        return subprocess.run(
            command,
            cwd=cwd,
            stdin=stdin or subprocess.DEVNULL,
            stdout=stdout or subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
    with open(os.devnull) as nothing, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
        child = os.fork()
        if child == 0:
            streams = ((stdin or nothing).fileno(), (stdout or out).fileno(), errors.fileno())
            _become(streams, cwd, environment, arguments)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        return subprocess.CompletedProcess(command, status, _read(out), _read(errors))


def _become(
    streams: tuple[int, int, int], cwd: Path, environment: dict[str, str], arguments: tuple[str, ...]
) -> None:
    """Turn the forked process into one call of the command line; never returns."""
    status = 70
    try:
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        os.chdir(cwd)
        os.environ.clear()
        os.environ.update(environment)
        sys.argv = ["logdoctor", *arguments]
        sys.modules["__main__"].__package__ = None  # A program that is run by its name is of no package.
        # The server that starts workers for the tests is no child of this process: the command starts its own.
        forkserver._forkserver._forkserver_pid = None  # type: ignore[attr-defined]
        sys.stdin, sys.stdout = open(0, closefd=False), open(1, "w", closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", errors="backslashreplace", closefd=False)  # noqa: SIM115
        main()
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _read(stream: IO[bytes]) -> str:
    stream.seek(0)
    return stream.read().decode()


def analyse_in_forks(patch: pytest.MonkeyPatch) -> None:
    """Let the hooks of this process analyse in a fork of it; what asks a batch system still starts its commands."""
    names = {name: getattr(subprocess, name) for name in ("DEVNULL", "PIPE", "STDOUT", "TimeoutExpired")}
    patch.setattr(engine, "subprocess", SimpleNamespace(Popen=_ForkedChild, **names))


class _ForkedChild:
    """What a hook starts, as a fork of the tests' process: without limits and without the start of an interpreter."""

    def __init__(self, words: Sequence[str], **_: Any) -> None:
        read, write = os.pipe()
        self.status: int | None = None
        self.pid = os.fork()
        if self.pid == 0:
            status = 70
            try:
                os.dup2(write, 1)
                os.dup2(write, 2)
                status = report_job.main(words[-1])
            finally:
                os._exit(status)
        os.close(write)
        self.stdout = os.fdopen(read, "rb")

    def kill(self) -> None:
        """End the child."""
        if self.status is None:
            os.kill(self.pid, signal.SIGKILL)

    def wait(self, timeout: float = 0) -> int:
        """Return the status once it has ended; its output is closed before that."""
        if self.status is None:
            self.status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.status
