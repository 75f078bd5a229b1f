"""An analysis in two lines for the output of a job."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

from vllm_logdoctor.report.escape import shorten, visible
from vllm_logdoctor.report.model import Analysis, Diagnosis
from vllm_logdoctor.report.naming import BOTTLENECKS, BROKEN, how_it_ended, model_name
from vllm_logdoctor.rules.job import KILLED_AT_LIMIT
from vllm_logdoctor.rules.model import Change

_WIDTH = 240


def summary(analysis: Analysis) -> list[str]:
    """Return two lines: what ran and how it ended, and what to change first.

    Of several runs it is one that failed, else the last one.
    """
    chosen = _decisive(analysis.runs)
    several = len(analysis.runs) > 1
    place = f"{chosen.run.number} of {len(analysis.runs)}{_file_of(chosen, analysis.runs)}"
    number = f"run {place}: " if several else ""
    return [_line(number + _what_ran(chosen)), _line(_what_to_do(chosen))]


def _decisive(runs: Sequence[Diagnosis]) -> Diagnosis:
    """Return the run to report: of runs one after the other the last that failed, of runs side by side the first."""
    failed = [one for one in runs if one.root]
    if not failed:
        return runs[-1]
    if len({one.run.first_file for one in failed}) < len(failed):
        return failed[-1]
    return min(failed, key=lambda one: one.broke_at)


def _file_of(chosen: Diagnosis, runs: Sequence[Diagnosis]) -> str:
    """Return the file of a run where the runs are in several: of several nodes it names the host."""
    return (
        f" ({PurePath(chosen.run.first_file).name})" if len({one.run.first_file for one in runs}) > 1 else ""
    )


def _what_ran(diagnosis: Diagnosis) -> str:
    run = diagnosis.run
    version = f"vLLM {run.version.value}" if run.version and run.version.value else "vLLM of unknown version"
    model = f", {model_name(str(run.model.value))}" if run.model and run.model.value else ""
    root = diagnosis.shown_root
    if root:
        # "killed at the walltime" says all that the title of that rule does.
        title = "" if root.id == KILLED_AT_LIMIT else f": {root.title}"
        return f"{version}{model}: {how_it_ended(run)}{title}"
    if run.outcome in BROKEN:
        known = run.job is not None and run.job.limit
        return f"{version}{model}: {how_it_ended(run)}{'' if known else ': cause not in the log'}"
    limit = diagnosis.bottleneck
    return f"{version}{model}: {how_it_ended(run)}; {limit.reason or BOTTLENECKS[limit.name]}"


def _what_to_do(diagnosis: Diagnosis) -> str:
    root = diagnosis.shown_root
    worth = [one for one in diagnosis.findings if one.changes and one.role != "cascade"]
    chosen = root if root and root.changes else next(iter(worth), None)
    if chosen is None:
        return "no remedy follows from the log" if diagnosis.run.outcome in BROKEN else "nothing to change"
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


def _line(text: str) -> str:
    return shorten(" ".join(visible(text).split()), _WIDTH)
