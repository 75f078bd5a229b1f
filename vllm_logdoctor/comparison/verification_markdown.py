"""A verification as Markdown."""

from __future__ import annotations

from vllm_logdoctor.comparison.markdown import figure_table, headline
from vllm_logdoctor.comparison.snapshot import PlannedKnob
from vllm_logdoctor.comparison.verification import CheckedChange, CheckedPrediction, Verification
from vllm_logdoctor.comparison.wording import both_names, side, times
from vllm_logdoctor.report.escape import code, inline, prose
from vllm_logdoctor.report.figures import number, setting, table
from vllm_logdoctor.report.naming import METRICS
from vllm_logdoctor.rules.context import plural

CHANGE_STATES = {
    "took-effect": "took effect",
    "not-applied": "**not applied**",
    "other-value": "**another value**",
    "unknown": "not known",
}
PREDICTION_STATES = {
    "as-predicted": "as predicted",
    "more": "more than predicted",
    "less": "**less than predicted**",
    "not-tried": "not tried",
    "unknown": "not known",
}


def render(verification: Verification) -> str:
    """Return a verification as Markdown: the verdict, the changes, the predictions."""
    comparison = verification.comparison
    names = both_names(comparison.before.name, comparison.after.name)
    title, verdict = f"# The plan, checked: {names}", f"**{_verdict(verification)}**"
    lines = [title, "", verdict, "", headline(comparison), ""]
    if verification.changes:
        rows = [_change(one) for one in verification.changes]
        lines += ["## Changes", "", *table(["change", "planned", "found", "state", "note"], rows), ""]
    if verification.predictions:
        header = ["finding", "predicted", "came", "state", "how it was measured"]
        rows = [_prediction(one) for one in verification.predictions]
        lines += ["## Predictions", "", *table(header, rows), ""]
    measured = [one for one in comparison.figures if one.name.endswith("_mean_ms")]
    if measured:
        lines += ["## Latency in /metrics", "", *figure_table(measured), ""]
    return "\n".join(lines).rstrip() + "\n"


def _verdict(verification: Verification) -> str:
    changes, predictions = verification.changes, verification.predictions
    if not changes:
        return "The earlier report holds no plan: there is nothing to check."
    done = sum(one.state == "took-effect" for one in changes)
    hidden = sum(one.state == "unknown" for one in changes)
    said = [f"{done} of {plural(len(changes), 'planned change')} took effect"]
    if hidden:
        said.append(f"{hidden} can't be seen in the log")
    judged = [one for one in predictions if one.state in ("as-predicted", "more", "less")]
    if judged:
        right = sum(one.state == "as-predicted" for one in judged)
        said.append(f"{right} of {plural(len(judged), 'prediction')} that could be measured came true")
    return "; ".join(said) + "."


def planned_words(planned: PlannedKnob) -> tuple[str, str]:
    """Return the knob and what it was to become, escaped."""
    if planned.kind == "action":
        return prose(planned.knob), ""
    wanted = "dropped" if planned.after is None else setting(planned.after, 80)
    return code(planned.knob, 120), wanted


def expected(one: CheckedPrediction) -> str:
    """Return what was predicted in words, escaped."""
    metric = METRICS.get(one.predicted.metric, inline(one.predicted.metric.replace("_", " "), 80))
    low, high = number(one.predicted.low), number(one.predicted.high)
    return f"{metric} × {low}" if low == high else f"{metric} × {low} to {high}"


def _change(one: CheckedChange) -> list[str]:
    knob, wanted = planned_words(one.planned)
    found = "" if one.state == "unknown" else "not set" if one.found is None else side(one.found)
    return [knob, wanted, found, CHANGE_STATES[one.state], inline(one.note)]


def _prediction(one: CheckedPrediction) -> list[str]:
    return [prose(one.title), expected(one), times(one.ratio), PREDICTION_STATES[one.state], inline(one.note)]
