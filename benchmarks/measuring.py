"""Runs commands and says what they cost."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

# Installers compile modules ahead. In a checkout the first start does, unless it is told not to.
_ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
# `-I` leaves the working directory out of the module path: the installed package is measured, not a checkout, which reads
# its rule pages at each start.
LOGDOCTOR = (sys.executable, "-I", "-c", "from vllm_logdoctor.cli import main; main()")


def analyze(path: Path | str, *more: str) -> tuple[str, ...]:
    """Return the command that is measured: the whole diagnosis as JSON."""
    return (*LOGDOCTOR, "analyze", str(path), "--format", "json", *more)


@dataclass(frozen=True, slots=True)
class Cost:
    """CPU seconds (user and system, children too), wall seconds, largest resident memory in MiB of one process, output."""

    cpu: float
    wall: float
    mebibytes: float
    output: bytes
    status: int


def cost_of(command: Sequence[str], stdin: Iterable[bytes] | None = None) -> Cost:
    """Run a command to its end; `stdin` is written to it piece by piece."""
    start = time.perf_counter()
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE if stdin is not None else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        env=_ENVIRONMENT,
    )
    assert process.stdout is not None
    writer = threading.Thread(target=_write, args=(process, stdin)) if stdin is not None else None
    if writer:
        writer.start()
    output = process.stdout.read()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if writer:
        writer.join()
    process.stdout.close()
    wall = time.perf_counter() - start
    return Cost(used.ru_utime + used.ru_stime, wall, used.ru_maxrss / 1024, output, process.returncode)


def _write(process: subprocess.Popen[bytes], pieces: Iterable[bytes]) -> None:
    assert process.stdin is not None
    try:
        waiting = bytearray()
        for piece in pieces:
            waiting += piece
            if len(waiting) >= 1 << 18:
                process.stdin.write(waiting)
                waiting = bytearray()
        process.stdin.write(waiting)
        process.stdin.close()
    except BrokenPipeError:
        return


def least(command: Sequence[str], times: int) -> Cost:
    """Run a command several times and return the run with the least CPU time: the one that others disturbed least."""
    return min((cost_of(command) for _ in range(times)), key=lambda cost: cost.cpu)


def soonest(command: Sequence[str], times: int) -> float:
    """Run a command several times and return the least wall time."""
    return min(cost_of(command).wall for _ in range(times))


def ratio_of(command: Sequence[str], against: Sequence[str], times: int) -> tuple[float, Cost, Cost]:
    """Return CPU time of a command against another one, run in turns, with the least cost of each."""
    pairs = [(cost_of(command), cost_of(against)) for _ in range(times)]
    mine = min((pair[0] for pair in pairs), key=lambda cost: cost.cpu)
    other = min((pair[1] for pair in pairs), key=lambda cost: cost.cpu)
    return mine.cpu / other.cpu, mine, other
