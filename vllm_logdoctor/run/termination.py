"""Traces of how a process was ended from outside: signals, users, schedulers, containers, the kernel."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Literal

from msgspec import Struct

from vllm_logdoctor.parse import Record

StopKind = Literal["signal", "user", "scheduler", "walltime", "memory", "kill", "shutdown", "ended"]
"""signal: SIGTERM or alike was received; user: Ctrl-C; scheduler: a batch system or container manager ended the job;
walltime: its time was up; memory: a memory limit or the kernel's OOM killer; kill: SIGKILL by someone; shutdown: the server
began to shut down, for whatever reason; ended: it shut down to the end."""

_TRACES: tuple[tuple[StopKind, tuple[str, ...], re.Pattern[str]], ...] = (
    # slurmstepd: error: *** JOB 54 ON n1 CANCELLED AT 2025-12-15T23:32:26 DUE TO TIME LIMIT ***
    (
        "walltime",
        ("DUE TO TIME LIMIT",),
        re.compile(r"CANCELLED AT \S+ DUE TO TIME LIMIT|DUE TO TIME LIMIT"),
    ),
    # =>> PBS: job killed: walltime 3633 exceeded limit 3600      TERM_RUNLIMIT: job killed after reaching LSF run time limit.
    (
        "walltime",
        ("PBS: job killed: walltime", "TERM_RUNLIMIT", "time limit"),
        re.compile(r"PBS: job killed: walltime|TERM_RUNLIMIT|reached (?:its )?(?:wall|run) ?time limit"),
    ),
    # slurmstepd: error: Detected 1 oom_kill event in StepId=54.0. Some of the step tasks have been OOM Killed.
    (
        "memory",
        (
            "oom_kill",
            "oom-kill",
            "Oom-kill",
            "OOM",
            "Out of memory: Kill",
            "oom_reaper",
            "TERM_MEMLIMIT",
            "Out Of Memory",
        ),
        re.compile(
            r"oom[_-]kill event|OOM[ _-]?[Kk]illed|Out of memory: Kill(?:ed)? process|[Oo]om-kill|oom_reaper"
            r"|by the OOM killer|TERM_MEMLIMIT|: tasks? [\d,-]+: Out Of Memory"
        ),
    ),
    # =>> PBS: job killed: mem 104857600kb exceeded limit 102400000kb       Memory cgroup out of memory: Killed process 9
    (
        "memory",
        ("PBS: job killed: ", "Memory cgroup", "memory limit", "memory pressure"),
        re.compile(
            r"PBS: job killed: (?:v?mem|pmem)|Memory cgroup out of memory|exceeded (?:job |hard )?memory limit"
            r"|memory pressure \(OOM\)"
        ),
    ),
    # slurmstepd: error: *** JOB 23 ON n1 CANCELLED AT 2026-01-29T04:03:03 DUE to SIGNAL Terminated ***
    (
        "scheduler",
        ("CANCELLED AT", "Job step aborted", "PBS: job killed", "TERM_OWNER", "TERM_ADMIN", "TERM_PREEMPT"),
        re.compile(
            r"\*\*\* (?:JOB|STEP) \S+ ON \S+ CANCELLED AT|Job step aborted|PBS: job killed|TERM_OWNER"
            r"|TERM_ADMIN|TERM_PREEMPT"
        ),
    ),
    # Stopping container vllm      The node was low on resource: memory       vllm.service: State 'stop-sigterm' timed out. Killing.
    (
        "scheduler",
        ("probe failed", "Stopping container", "Evicted", "low on resource", ": Preempt"),
        re.compile(
            r"Liveness probe failed|[Ss]tartup probe failed|Stopping container|Evicted"
            r"|The node was low on resource|: Preempt(?:ed|ing)"
        ),
    ),
    # systemd[1]: Stopping vllm.service - vLLM...      (systemd asks with SIGTERM and waits)
    ("signal", ("Stopping ",), re.compile(r"Stopping .{0,60}\.service")),
    # ./serve.sh: line 193: 124064 Killed      vllm serve ...
    (
        "kill",
        ("Killed", "status=9", "SIGKILL", "code 137", "code -9", "code: -9"),
        re.compile(
            r": line \d+: +\d+ Killed|^Killed\s*$|code=killed, status=9|signal 9 \(SIGKILL\)"
            r"|exited with code 137|exit(?:ed with)? code:? -9\b"
        ),
    ),
    (
        "kill",
        ("signal 9", "SIGKILL", "signal: killed", "signal=KILL", "code 137"),
        re.compile(
            r"died from signal 9|was terminated by signal SIGKILL|signal: killed|code=killed, signal=KILL"
            r"|Process finished with exit code 137|received signal 9"
        ),
    ),
    # command terminated with exit code 137      Exited (137) 3 minutes ago      Exit Code:    137      srun: error: n1: task 0: Killed
    (
        "kill",
        (" 137", "(137)", ": Killed"),
        re.compile(
            r"terminated with exit code 137|[Ee]xited \(137\)|[Ee]xit(?: [Cc]ode|Code| status)[\"']?:? +137\b|: tasks? [\d,-]+: Killed"
        ),
    ),
    # command terminated with exit code 143      srun: error: n1: task 0: Terminated
    (
        "signal",
        (" 143", "(143)", ": Terminated"),
        re.compile(
            r"terminated with exit code 143|[Ee]xited \(143\)|[Ee]xit(?: [Cc]ode|Code| status)[\"']?:? +143\b|: tasks? [\d,-]+: Terminated"
        ),
    ),
    (
        "signal",
        ("Terminated", "status=15", "code 143", "code -15", "code: -15"),
        re.compile(
            r": line \d+: +\d+ Terminated|^Terminated\s*$|code=killed, status=15|exited with code 143"
            r"|exit(?:ed with)? code:? -15\b"
        ),
    ),
    # INFO ... [shutdown] EngineCore: trigger received signal=SIGTERM
    (
        "user",
        ("SIGINT", "signal 2", "^C", "Ctrl", "KeyboardInterrupt"),
        re.compile(
            r"trigger received signal=SIGINT|[Rr]eceived (?:signal )?SIGINT|Received signal 2\b|^\^C"
            r"|Ctrl[+-]C (?:received|pressed)|(?:^|: )KeyboardInterrupt\s*$"
        ),
    ),
    (
        "signal",
        ("signal=SIG", "SIGTERM", "signal 15", "aught signal"),
        re.compile(
            r"trigger received signal=SIG(?!INT)\w+|[Rr]eceived (?:signal )?SIGTERM|[Rr]eceived signal 15"
            r"|[Cc]aught (?:signal (?:1|2|15)\b|SIGTERM)|got SIGTERM"
        ),
    ),
    (
        "signal",
        ("KeyboardInterrupt: ", "SystemExit: 15", "Gracefully stopping server", "SignalException"),
        re.compile(r"KeyboardInterrupt: \w|SystemExit: 15\b|Gracefully stopping server|SignalException"),
    ),
    # INFO 05-01 12:00:00 [launcher.py:80] Shutting down FastAPI HTTP server.
    (
        "shutdown",
        ("Shutting down", "Waiting for connections", "shutdown triggered"),
        re.compile(
            r"Shutting down FastAPI HTTP server|^INFO: +Shutting down|Waiting for connections to close"
            r"|API server: shutdown triggered"
        ),
    ),
    (
        "ended",
        ("shutdown complete", "Finished server process"),
        re.compile(r"Application shutdown complete|Finished server process"),
    ),
)
"""Kind, words of which each line of it holds one, and the expression: nearly every line holds none of the words."""
REQUESTED: frozenset[StopKind] = frozenset({"signal", "user", "scheduler", "walltime"})
"""Ends that someone wanted."""


class Stop(Struct, frozen=True):
    """A trace of an end: what kind, and the line that shows it."""

    kind: StopKind
    record: Record


def stops_in(records: Sequence[Record]) -> Iterator[Stop]:
    """Yield the traces of an end in order."""
    for record in records:
        kind = stop_kind(record)
        if kind is not None:
            yield Stop(kind, record)


def stop_kind(record: Record) -> StopKind | None:
    """Return the kind of end that a line shows, or None."""
    return None if record.level in ("DEBUG", "WARNING") else _kind_of(record.message[:600])


@lru_cache(maxsize=1024)  # Every rank prints the same traceback.
def _kind_of(text: str) -> StopKind | None:
    for kind, words, expression in _TRACES:
        for word in words:
            if word in text:
                if expression.search(text):
                    return kind
                break
    return None
