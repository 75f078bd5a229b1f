"""The command line as a child of the test process: real file descriptors, without the start of another interpreter."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import IO

from vllm_logdoctor.cli import main

ROOT = Path(__file__).resolve().parents[1]


def logdoctor(
    *arguments: str, cwd: Path, stdin: IO[str] | None = None, **environ: str
) -> subprocess.CompletedProcess[str]:
    """Run `logdoctor` with arguments in a folder and return its status, output and errors."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "HOME": str(cwd), **environ}
    command = [sys.executable, "-m", "vllm_logdoctor", *arguments]
    if not hasattr(os, "fork"):
        return subprocess.run(
            command,
            cwd=cwd,
            stdin=stdin or subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env=environment,
        )
    with open(os.devnull) as nothing, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
        child = os.fork()
        if child == 0:
            _become((stdin or nothing).fileno(), out.fileno(), errors.fileno(), cwd, environment, arguments)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        return subprocess.CompletedProcess(command, status, _read(out), _read(errors))


def _become(
    stdin: int, stdout: int, stderr: int, cwd: Path, environment: dict[str, str], arguments: tuple[str, ...]
) -> None:
    """Turn the forked process into one call of the command line; never returns."""
    status = 70
    try:
        for number, stream in enumerate((stdin, stdout, stderr)):
            os.dup2(stream, number)
        os.chdir(cwd)
        os.environ.clear()
        os.environ.update(environment)
        sys.argv = ["logdoctor", *arguments]
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
