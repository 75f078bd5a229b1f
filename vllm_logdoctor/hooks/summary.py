"""An analysis in two lines for the output of a job."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import PurePath

from vllm_logdoctor.report.clock import duration
from vllm_logdoctor.report.escape import shorten, visible
from vllm_logdoctor.report.model import Analysis, Diagnosis
from vllm_logdoctor.report.naming import BOTTLENECKS, OUTCOMES, model_name
from vllm_logdoctor.rules.model import Change, Finding
from vllm_logdoctor.run.job import words_of_limit
from vllm_logdoctor.run.model import Run

_WIDTH = 240


def summary(analysis: Analysis) -> list[str]:
    """Return two lines: what ran and how it ended, and what to change first.

    Of several runs it is one that failed, else the last one.
    """
    chosen = _decisive(analysis.runs)
    several = len(analysis.runs) > 1
    number = (
        f"run {chosen.run.number} of {len(analysis.runs)}{_file_of(chosen, analysis.runs)}: "
        if several
        else ""
    )
    return [_line(number + _what_ran(chosen)), _line(_what_to_do(chosen))]


def _decisive(runs: Sequence[Diagnosis]) -> Diagnosis:
    """Return the run to report: of runs one after the other the last that failed, of runs side by side the first."""
    failed = [one for one in runs if _root(one)]
    if not failed:
        return runs[-1]
    if len({one.run.first_file for one in failed}) < len(failed):
        return failed[-1]
    return min(failed, key=lambda one: math.inf if one.run.ended is None else one.run.ended)


def _file_of(chosen: Diagnosis, runs: Sequence[Diagnosis]) -> str:
    """Return the file of a run where the runs are in several: of several nodes it names the host."""
    return (
        f" ({PurePath(chosen.run.first_file).name})" if len({one.run.first_file for one in runs}) > 1 else ""
    )


def _how_it_ended(run: Run) -> str:
    """Return how a run ended, in the words of the batch system's limit where its job reached one."""
    job, outcome = run.job, OUTCOMES[run.outcome]
    if job is None or (run.outcome.startswith("crashed") and not job.exit_status):
        return outcome
    if job.limit == "walltime":
        used = f" after {duration(job.elapsed)}" if job.elapsed is not None else ""
        return f"killed at the walltime{used}{f' of {duration(job.walltime)}' if used and job.walltime is not None else ''}"
    if job.limit:
        return f"killed {words_of_limit(job.limit)}"
    if job.signal is not None:
        # The shell's "Terminated" is all that the log says of it.
        outcome = "stopped" if run.outcome == "clean_shutdown" else outcome
        return f"{outcome} (job ended by signal {job.signal})"
    return f"{outcome} (job's exit status {job.exit_status})" if job.exit_status else outcome


def _what_ran(diagnosis: Diagnosis) -> str:
    run = diagnosis.run
    version = f"vLLM {run.version.value}" if run.version and run.version.value else "vLLM of unknown version"
    model = f", {model_name(str(run.model.value))}" if run.model and run.model.value else ""
    root = _root(diagnosis)
    if root:
        return f"{version}{model}: {_how_it_ended(run)}: {root.title}"
    if run.job is not None and run.job.limit:
        return f"{version}{model}: {_how_it_ended(run)}"
    limit = diagnosis.bottleneck
    return f"{version}{model}: {_how_it_ended(run)}; {limit.reason or BOTTLENECKS[limit.name]}"


def _what_to_do(diagnosis: Diagnosis) -> str:
    root = _root(diagnosis)
    worth = [one for one in diagnosis.findings if one.changes and one.role != "cascade"]
    chosen = root if root and root.changes else next(iter(worth), None)
    if chosen is None:
        return "no remedy follows from the log" if root else "nothing to change"
    changes = ", ".join(_change(change) for change in chosen.changes[:2])
    more = len([one for one in worth if one is not chosen])
    return f"change first: {changes} ({chosen.title}){f'; {more} more in the report' if more else ''}"


def _change(change: Change) -> str:
    if change.kind == "action":
        return change.knob
    if change.after is None:
        return f"drop {change.knob}"
    if change.after is True:
        return f"add {change.knob}"
    before = "" if change.before is None else f"{change.before} -> "
    return f"{change.knob} {before}{change.after}"


def _root(diagnosis: Diagnosis) -> Finding | None:
    return next((one for one in diagnosis.findings if one.role == "root"), None)


def _line(text: str) -> str:
    return shorten(" ".join(visible(text).split()), _WIDTH)
