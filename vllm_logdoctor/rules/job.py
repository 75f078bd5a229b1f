"""Rule on the batch job that a run was a part of: it was killed at a limit that it had asked for."""

from __future__ import annotations

from vllm_logdoctor.rules.context import RuleContext, action
from vllm_logdoctor.rules.rule import Advice, Rule
from vllm_logdoctor.run.job import JobEnd
from vllm_logdoctor.run.model import Evidence, Run

KILLED_AT_LIMIT = "job-killed-at-limit"
_LONG_START = 0.25
_GIB = 1 << 30


def job_killed_at_limit(case: RuleContext) -> Advice | None:
    """The batch system killed the job at its walltime or memory limit."""
    job = case.run.job
    if job is None or job.limit not in ("walltime", "memory"):
        return None
    shown = _shown(case.run, job)
    if job.limit == "memory":
        words = f"{_memory_words(job)}{_source(job)}"
        changes = [action("request more memory for the job")]
        return Advice(words, shown, "high", changes=changes, title="Job killed at its memory limit")
    start = case.run.startup_seconds
    if start is not None and job.elapsed is not None and start > job.elapsed:
        start = None  # A log of an earlier job is before this one's.
    changes = [action("request a longer walltime, or end the work before it")]
    if start is not None and job.elapsed and start >= _LONG_START * job.elapsed:
        changes.insert(
            0, action("shorten the start-up: keep weights and the compile cache on storage that stays")
        )
    return Advice(
        f"{_time_words(job, start)}{_source(job)}",
        shown,
        "high",
        changes=changes,
        verify="the job ends before its walltime",
        title="Job killed at its walltime",
    )


def _shown(run: Run, job: JobEnd) -> tuple[Evidence, ...]:
    """Return the batch system's own line, where a file holds it, and the line at which the start was done."""
    said = (Evidence(job.file, job.line, job.words),) if job.line else ()
    started = run.startup.evidence if run.startup is not None else ()
    return (*said, *started) or tuple(run.evidence(record) for record in run.tail[-1:])


def _source(job: JobEnd) -> str:
    """Name what says so where it is no line of a log."""
    return "" if job.line or not job.words else f" {job.job or 'The batch system'}: {job.words}."


def _time_words(job: JobEnd, start: float | None) -> str:
    if job.elapsed is None:
        return "The batch system killed the job at its walltime."
    words = f"Killed at the walltime after {_spoken(job.elapsed)}"
    words += f" of {_spoken(job.walltime)}" if job.walltime is not None else ""
    return f"{words}; start-up took {_spoken(start)} of them." if start is not None else f"{words}."


def _spoken(seconds: float) -> str:
    """Return a time in its two largest units.

    Example:
        >>> _spoken(7200), _spoken(2280), _spoken(13)
        ('2 h', '38 min', '13 s')
    """
    hours, minutes = int(seconds // 3600), round(seconds % 3600 / 60)
    if hours:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    return f"{minutes} min" if seconds >= 120 else f"{seconds:.0f} s"


def _memory_words(job: JobEnd) -> str:
    if not job.memory:
        return "The batch system killed the job at its memory limit."
    used = f"{job.used_memory / _GIB:.1f} GiB of " if job.used_memory else ""
    return f"Killed at the job's memory limit: {used}{job.memory / _GIB:.1f} GiB of host memory."


RULES = (Rule(KILLED_AT_LIMIT, job_killed_at_limit),)
