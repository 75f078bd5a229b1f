"""Traces of how a process was ended from outside: signals, users, schedulers, containers, the kernel."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Literal

from msgspec import Struct

from vllm_logdoctor.parse import Record
from vllm_logdoctor.texts import asked_once, with_equal_digits

StopKind = Literal["signal", "user", "scheduler", "walltime", "memory", "kill", "shutdown", "ended"]
"""signal: SIGTERM or alike was received; user: Ctrl-C; scheduler: a batch system or container manager ended the job;
walltime: its time was up; memory: a memory limit or the kernel's OOM killer; kill: SIGKILL by someone; shutdown: the server
began to shut down, for whatever reason; ended: it shut down to the end."""

_TRACES: tuple[tuple[StopKind, tuple[str, ...], re.Pattern[str]], ...] = (
    # slurmstepd: error: *** JOB 54 ON n1 CANCELLED AT 2025-12-15T23:32:26 DUE TO TIME LIMIT ***
    # =>> PBS: job killed: walltime 3633 exceeded limit 3600      TERM_RUNLIMIT: job killed after reaching LSF run time limit.
    ("walltime", ("DUE TO TIME LIMIT", "PBS: job killed: walltime", "TERM_RUNLIMIT", "time limit"), re.compile(
        r"DUE TO TIME LIMIT|PBS: job killed: walltime|TERM_RUNLIMIT|reached (?:its )?(?:wall|run) ?time limit"
    )),
    # slurmstepd: error: Detected 1 oom_kill event in StepId=54.0. Some of the step tasks have been OOM Killed.
    # =>> PBS: job killed: mem 104857600kb exceeded limit 102400000kb       Memory cgroup out of memory: Killed process 9
    ("memory", (
        "oom_kill", "oom-kill", "Oom-kill", "OOM", "Out of memory: Kill", "oom_reaper", "TERM_MEMLIMIT", "Out Of Memory", "PBS: job killed: ",
        "Memory cgroup", "memory limit",
    ), re.compile(
        r"oom[_-]kill event|OOM[ _-]?[Kk]illed(?!\W{1,4}(?:[Ff]alse|0|[Nn]o)\b)|Out of memory: Kill(?:ed)? process|[Oo]om-kill|oom_reaper"
        r"|by the OOM killer|TERM_MEMLIMIT|: tasks? [\d,-]+: Out Of Memory|PBS: job killed: (?:v?mem|pmem)|Memory cgroup out of memory"
        r"|exceeded (?:job |hard )?memory limit|memory pressure \(OOM\)"
    )),
    # slurmstepd: error: *** JOB 23 ON n1 CANCELLED AT 2026-01-29T04:03:03 DUE to SIGNAL Terminated ***
    # Stopping container vllm      The node was low on resource: memory      Warning  Evicted  2m  kubelet      vllm-0  0/1  Evicted  0  3d
    ("scheduler", (
        "CANCELLED AT", "Job step aborted", "PBS: job killed", "TERM_OWNER", "TERM_ADMIN", "TERM_PREEMPT", "probe failed", "Stopping container",
        "Evicted", "low on resource", ": Preempt",
    ), re.compile(
        r"\*\*\* (?:JOB|STEP) \S+ ON \S+ CANCELLED AT|Job step aborted|PBS: job killed|TERM_OWNER|TERM_ADMIN|TERM_PREEMPT"
        r"|Liveness probe failed|[Ss]tartup probe failed|Stopping container|(?:[Rr]eason\W{1,8}|Warning +|\d/\d+ +)Evicted\b"
        r"|The node was low on resource|: Preempt(?:ed|ing)"
    )),
    # ./serve.sh: line 193: 124064 Killed      vllm serve ...      vllm.service: State 'stop-sigterm' timed out. Killing.
    # command terminated with exit code 137      Exited (137) 3 minutes ago      Exit Code:    137      srun: error: n1: task 0: Killed
    ("kill", (
        "Killed", "SIGKILL", "status=9", "ignal 9", "signal: killed", "signal=KILL", " 137", "(137)", "code -9", "code: -9",
    ), re.compile(
        r": line \d+: +\d+ Killed|^Killed\s*$|code=killed, (?:status=9|signal=KILL)|[Ss]ignal 9 \(SIGKILL\)|(?:died from|received) signal 9"
        r"|was terminated by signal SIGKILL|signal: killed|(?:exited with|finished with exit|terminated with exit) code 137|[Ee]xited \(137\)"
        r"|[Ee]xit(?: [Cc]ode|Code| status)[\"']?:? +137\b|exit(?:ed with)? ?code:? -9\b|: tasks? [\d,-]+: Killed"
    )),
    # INFO ... [shutdown] EngineCore: trigger received signal=SIGINT      ^C
    ("user", ("SIGINT", "signal 2", "^C", "Ctrl", "KeyboardInterrupt"), re.compile(
        r"trigger received signal=SIGINT|[Rr]eceived (?:signal )?SIGINT|Received signal 2\b|^\^C|Ctrl[+-]C (?:received|pressed)"
        r"|(?:^|: )KeyboardInterrupt:?\s*$"
    )),
    # systemd[1]: Stopping vllm.service - vLLM...      command terminated with exit code 143      srun: error: n1: task 0: Terminated
    # INFO ... [shutdown] EngineCore: trigger received signal=SIGTERM      KeyboardInterrupt: MQLLMEngine terminated
    ("signal", (
        "Stopping ", " 143", "(143)", "Terminated", "status=15", "code -15", "code: -15", "signal=SIG", "SIGTERM", "signal 15",
        "aught signal", "KeyboardInterrupt: ", "SystemExit: 15", "Gracefully stopping server", "SignalException",
    ), re.compile(
        r"Stopping .{0,60}\.service|(?:exited with|terminated with exit) code 143|[Ee]xited \(143\)|[Ee]xit(?: [Cc]ode|Code| status)[\"']?:? +143\b"
        r"|: tasks? [\d,-]+: Terminated|: line \d+: +\d+ Terminated|^Terminated\s*$|code=killed, status=15|exit(?:ed with)? code:? -15\b"
        r"|trigger received signal=SIG(?!INT)\w+|[Rr]eceived (?:signal )?SIGTERM|[Rr]eceived signal 15|[Cc]aught (?:signal (?:1|2|15)\b|SIGTERM)"
        r"|got SIGTERM|KeyboardInterrupt: \w|SystemExit: 15\b|Gracefully stopping server|SignalException"
    )),
    # INFO 05-01 12:00:00 [launcher.py:80] Shutting down FastAPI HTTP server.
    ("shutdown", ("Shutting down", "Waiting for connections", "shutdown triggered"), re.compile(
        r"Shutting down FastAPI HTTP server|^INFO: +Shutting down|Waiting for connections to close|API server: shutdown triggered"
    )),
    ("ended", ("shutdown complete", "Finished server process"), re.compile(r"Application shutdown complete|Finished server process")),
)  # fmt: skip
"""Kind, words of which each line of it holds one, and the expression: nearly every line holds none of the words."""
_WORDS = tuple(dict.fromkeys(with_equal_digits(word).decode() for _, words, _ in _TRACES for word in words))
"""In the digits of a text that is asked once."""
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


def by_cause(stops: Sequence[Stop]) -> Sequence[Stop]:
    """Return stops in their order, a time limit before what the batch system printed of the same end.

    srun: Job step aborted: Waiting up to 12 seconds for job step to finish.
    slurmstepd: error: *** STEP 9.0 ON n1 CANCELLED AT 2026-11-22T15:57:34 DUE TO TIME LIMIT ***
    """
    first = next((stop for stop in stops if stop.kind in REQUESTED), None)
    limit = next((stop for stop in stops if stop.kind == "walltime"), None)
    if first is None or limit is None or first.kind != "scheduler":
        return stops
    return [limit, *(stop for stop in stops if stop is not limit)]


# There are some potential root causes. (1) The process is killed by SIGKILL by OOM killer      Some common causes include: (1) ...
_GUESSES = re.compile(r"(?:[Pp]ossible|[Pp]otential|[Cc]ommon|[Ll]ikely) (?:root )?(?:causes?|reasons?)\b")


def without_guesses(text: str) -> str:
    """Return a text without the causes that it counts up for every end of its kind: they are what it may be, not what was seen."""
    guesses = _GUESSES.search(text) if "(1)" in text else None
    return text[: guesses.start()] if guesses else text


def stop_kind(record: Record) -> StopKind | None:
    """Return the kind of end that a line shows, or None."""
    return None if record.level in ("DEBUG", "WARNING") else _kind_of(record.message[:600])


def _kind_of(text: str) -> StopKind | None:
    if _may_end(text):
        text = without_guesses(text)
        for kind, words, expression in _TRACES:
            if any(map(text.__contains__, words)) and expression.search(text):
                return kind
    return None


@asked_once
def _may_end(text: str) -> bool:
    return any(map(text.__contains__, _WORDS))
