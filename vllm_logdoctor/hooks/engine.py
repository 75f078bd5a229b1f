"""Runs the analysis for a hook: in a child with limits, with one line for whatever goes wrong."""

from __future__ import annotations

import json
import os
import resource
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from vllm_logdoctor.errors import LogdoctorError
from vllm_logdoctor.hooks.ending import facts_of, final_paths, job_end
from vllm_logdoctor.hooks.joblog import file_behind, find_job_log, has_text, job_output
from vllm_logdoctor.hooks.query import ask
from vllm_logdoctor.hooks.request import HookRequest, report_place
from vllm_logdoctor.report.escape import visible
from vllm_logdoctor.run.job import JobEnd

SAID = "logdoctor: "
_REPORT_BYTES = 64 << 20
_HEARD_BYTES = 1 << 16
_LOOKED_AT = 1 << 18
# The directory of the job may hold modules of any name: nothing is imported from it.
_START = (
    "import sys; sys.path[:] = [place for place in sys.path if place]; "
    "from vllm_logdoctor.hooks.report_job import main; sys.exit(main(sys.argv[1]))"
)


class _Ended(Struct, frozen=True):
    """How the child ended: its status (None: out of time) and the last of what it said."""

    status: int | None
    heard: str


def run_hook(request: HookRequest, environ: Mapping[str, str]) -> list[str]:
    """Report on the log of a job.

    Args:
        request: what to do.
        environ: environment of the job.

    Returns:
        Lines for the job's output: three with a report, one where there is none, no line for a log without
        vLLM where only vLLM was asked for. Every failure is such a line; nothing is raised.
    """
    try:
        lines = _reported(request, environ)
    except LogdoctorError as error:
        lines = [no_report(str(error))]
    except Exception as error:
        lines = [no_report(f"{type(error).__name__}: {error}")]
    if request.append and lines:
        _append(lines, request, environ)
    return lines


def no_report(reason: str) -> str:
    """Return the one line of a hook that could not report."""
    return f"{SAID}no report: {' '.join(visible(reason).split())[:400]}"


def _reported(request: HookRequest, environ: Mapping[str, str]) -> list[str]:
    environ = _with_absolute_log(environ, request.folder)
    logs = _present(request) or find_job_log(environ, job_id=request.job, own_output=_own_output(request))
    if request.only_vllm or len(logs) > 1:
        of_vllm = [log for log in logs if holds_vllm(log)]
        if request.only_vllm and not of_vllm:
            return []
        # A file without a line of vLLM is no run of its own; what a batch system says in it is read by `job_end`.
        logs = of_vllm or logs
    facts = facts_of(request.facts)
    finals = final_paths(logs, environ, facts)
    named = [Path(facts[name]) for name in ("stdout_file", "stderr_file") if name in facts]
    outputs = named or _outputs(request, environ)
    end = job_end(environ, request.job, request.status, facts, outputs, ask, ended=request.append)
    place = report_place(finals, request.report, environ, request.folder)
    ended = _analysed(logs, finals, place, end, request)
    lines = [line for line in ended.heard.splitlines() if line.startswith(SAID)]
    if ended.status == 0 and lines:
        return lines[-3:]
    return [no_report(_reason(ended, request, logs))]


def _with_absolute_log(environ: Mapping[str, str], folder: Path | None) -> Mapping[str, str]:
    """Make LOGDOCTOR_LOG absolute for a hook, which does not run in the directory of the job."""
    named = environ.get("LOGDOCTOR_LOG")
    return {**environ, "LOGDOCTOR_LOG": str(folder / named)} if named and folder else environ


def _present(request: HookRequest) -> list[Path]:
    """Return the named logs that hold something; PBS names a file for the errors of a job whose output is joined, too."""
    if len(request.logs) < 2:
        return list(request.logs)
    return [log for log in request.logs if has_text(log) or log.is_dir()] or list(request.logs[:1])


def _outputs(request: HookRequest, environ: Mapping[str, str]) -> list[Path]:
    without = {name: value for name, value in environ.items() if name != "LOGDOCTOR_LOG"}
    try:
        return find_job_log(without, job_id=request.job, own_output=_own_output(request))
    except LogdoctorError:
        return []


def _reason(ended: _Ended, request: HookRequest, logs: list[Path]) -> str:
    if ended.status is None or ended.status in (-signal.SIGXCPU, -signal.SIGALRM):
        return f"not done after {request.seconds} s; by hand: logdoctor analyze {logs[0]}"
    last = next((line for line in reversed(ended.heard.splitlines()) if line.strip()), "")
    if "MemoryError" in last or ended.status == -signal.SIGKILL:
        return f"more than {request.memory_mib} MiB of memory needed; by hand: logdoctor analyze {logs[0]}"
    how = f"signal {-ended.status}" if ended.status < 0 else f"status {ended.status}"
    return f"the tool ended with {how}{': ' + last if last else ''}"


def holds_vllm(log: Path) -> bool:
    """Return whether the beginning or the end of a file names vLLM: cheap enough for every job of a cluster."""
    if log.is_dir():
        return True
    try:
        with log.open("rb") as file:
            head = file.read(_LOOKED_AT)
            file.seek(max(0, log.stat().st_size - _LOOKED_AT))
            return b"vllm" in (head + file.read(_LOOKED_AT)).lower()
    except OSError as error:
        raise LogdoctorError(f"can't read {log}: {error.strerror or error}") from error


def _own_output(request: HookRequest) -> Path | None:
    return file_behind(Path(f"/proc/{request.shell or 'self'}/fd/1"))


def _analysed(
    logs: list[Path], finals: list[Path], place: Path | None, end: JobEnd | None, request: HookRequest
) -> _Ended:
    task = {
        "logs": [[str(log), str(final)] for log, final in zip(logs, finals, strict=True)],
        "end": msgspec.to_builtins(end),
        "report": str(place) if place else None,
        "seconds": request.seconds,
    }
    child = subprocess.Popen(
        [sys.executable, "-c", _START, json.dumps(task)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        preexec_fn=_limits(request),
    )
    try:
        return _heard(child, time.monotonic() + request.seconds)
    finally:
        child.kill()
        child.wait()


def _limits(request: HookRequest) -> Callable[[], None]:
    def limit() -> None:
        os.nice(10)
        # The child outlives a parent that is killed: it ends by itself.
        signal.alarm(request.seconds + 2)
        _lower(resource.RLIMIT_AS, request.memory_mib << 20)
        _lower(resource.RLIMIT_CPU, request.seconds + 1)
        _lower(resource.RLIMIT_FSIZE, _REPORT_BYTES)
        _lower(resource.RLIMIT_CORE, 0)

    return limit


def _lower(kind: int, value: int) -> None:
    _, hard = resource.getrlimit(kind)
    allowed = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(kind, (allowed, allowed))


def _heard(child: subprocess.Popen[bytes], deadline: float) -> _Ended:
    """Read what the child says until it ends or its time is over; the last 64 KiB are kept."""
    assert child.stdout is not None
    heard = b""
    while True:
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([child.stdout], [], [], left)[0]:
            return _Ended(None, "")
        piece = os.read(child.stdout.fileno(), _HEARD_BYTES)
        if not piece:
            break
        heard = (heard + piece)[-_HEARD_BYTES:]
    try:
        status = child.wait(timeout=max(deadline - time.monotonic(), 0.1))
    except subprocess.TimeoutExpired:
        return _Ended(None, "")
    return _Ended(status, heard.decode("utf-8", "replace"))


def _append(lines: list[str], request: HookRequest, environ: Mapping[str, str]) -> None:
    output = request.output or job_output(environ, job_id=request.job, own_output=_own_output(request))
    if output is None:
        return
    try:
        descriptor = os.open(output, os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return
    with os.fdopen(descriptor, "r+b", buffering=0) as file:
        try:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(size - 1, 0))
            gap = b"" if file.read(1) in (b"\n", b"") else b"\n"
            file.write(gap + "".join(line + "\n" for line in lines).encode("utf-8", "replace"))
        except OSError:
            return
