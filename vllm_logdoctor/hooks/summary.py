"""An analysis in two lines for the output of a job."""

from __future__ import annotations

from vllm_logdoctor.report.escape import shorten, visible
from vllm_logdoctor.report.model import Analysis, Diagnosis
from vllm_logdoctor.report.naming import BOTTLENECKS, OUTCOMES, model_name
from vllm_logdoctor.rules.model import Change, Finding

_WIDTH = 240


def summary(analysis: Analysis) -> list[str]:
    """Return two lines: what ran and how it ended, and what to change first.

    Of several runs the last one that failed is told, else the last one.
    """
    told = next((one for one in reversed(analysis.runs) if _root(one)), analysis.runs[-1])
    number = f"run {told.run.number} of {len(analysis.runs)}: " if len(analysis.runs) > 1 else ""
    return [_line(number + _what_ran(told)), _line(_what_to_do(told))]


def _what_ran(diagnosis: Diagnosis) -> str:
    run = diagnosis.run
    version = f"vLLM {run.version.value}" if run.version and run.version.value else "vLLM of unknown version"
    model = f", {model_name(str(run.model.value))}" if run.model and run.model.value else ""
    root = _root(diagnosis)
    if root:
        return f"{version}{model}: {OUTCOMES[run.outcome]}: {root.title}"
    limit = diagnosis.bottleneck
    return f"{version}{model}: {OUTCOMES[run.outcome]}; {limit.reason or BOTTLENECKS[limit.name]}"


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
