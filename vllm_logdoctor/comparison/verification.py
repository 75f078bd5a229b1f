"""Did a plan do what it promised: its changes and its predictions held against the next log."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from vllm_logdoctor.comparison.comparison import Comparison, compare, same_value
from vllm_logdoctor.comparison.influence import makes_room
from vllm_logdoctor.comparison.snapshot import KnownFinding, PlannedKnob, Predicted, Setting, Snapshot
from vllm_logdoctor.knowledge.flags import field_of
from vllm_logdoctor.rules.context import plural

_MARGIN = {"start-up": 0.10, "capacity": 0.01, "speed": 0.03}
# Metric of a prediction -> measured figure, where their names differ.
_FIGURES = {"load_seconds": "model_load_seconds"}
_MODE_RULE = "eager-mode"
_SPEED = ("throughput", "generation_throughput", "prompt_throughput", "total_throughput")


class CheckedChange(Struct, frozen=True):
    """A planned change in the next log.

    Attributes:
        planned: what was planned.
        found: the value that the next log tells, or None.
        state: "took-effect", "not-applied", "other-value" or "unknown" (the log can't show it).
        note: why, in words.
    """

    planned: PlannedKnob
    found: Setting | None
    state: str
    note: str = ""


class CheckedPrediction(Struct, frozen=True):
    """A prediction beside what came of it.

    Attributes:
        rule, title: the finding that predicted.
        knobs: what it wanted changed.
        predicted: range of the ratio after/before.
        ratio: what was measured, or None.
        state: "as-predicted", "more", "less", "not-tried" (its changes did not take effect) or "unknown".
        note: how it was measured, or why it was not.
    """

    rule: str = field(name="id")
    title: str
    knobs: tuple[str, ...]
    predicted: Predicted
    ratio: float | None
    state: str
    note: str


class Verification(Struct, frozen=True):
    """A plan held against the next log."""

    comparison: Comparison
    changes: tuple[CheckedChange, ...]
    predictions: tuple[CheckedPrediction, ...]


def verify(before: Snapshot, after: Snapshot) -> Verification:
    """Check a plan against the next run."""
    comparison = compare(before, after)
    changes = _by_mode(before, [_checked_change(planned, after) for planned in before.planned])
    predictions = tuple(_predictions(before, comparison, changes))
    return Verification(comparison, changes, predictions)


def _checked_change(planned: PlannedKnob, after: Snapshot) -> CheckedChange:
    if planned.kind == "action":
        return CheckedChange(planned, None, "unknown", "an action leaves no setting in the log")
    if planned.kind == "env" and planned.knob not in after.environment:
        return CheckedChange(planned, None, "unknown", "the log does not show this variable")
    found = after.environment.get(planned.knob) or after.config.get(field_of(planned.knob))
    if found is None:
        if planned.after is None:
            return CheckedChange(planned, None, "took-effect", "no longer among the settings")
        return CheckedChange(planned, None, "unknown", "the log does not show this setting")
    wanted, was = _meant(planned.knob, planned.after), _meant(planned.knob, planned.before)
    if _fits(wanted, was, found):
        return CheckedChange(planned, found, "took-effect")
    note = "vLLM adjusted it" if found.provenance == "adjusted" else ""
    return CheckedChange(
        planned, found, "not-applied" if same_value(found.value, was) else "other-value", note
    )


def _meant(knob: str, value: Any) -> Any:
    """Return the value of the field that a flag's value means: --no-x given means that x is off."""
    if knob.startswith("--no-"):
        return not value if isinstance(value, bool) else value is None
    return value


def _by_mode(before: Snapshot, changes: Sequence[CheckedChange]) -> tuple[CheckedChange, ...]:
    """Return the changes with those that another flag keeps without effect: graphs are off while one of their flags is left."""
    flags = {knob for finding in before.findings if finding.rule == _MODE_RULE for knob in finding.knobs}
    left = [one.planned.knob for one in changes if one.planned.knob in flags and one.state == "not-applied"]
    if not left:
        return tuple(changes)
    note = f"graphs stay off: {' and '.join(left)} is as before"
    return tuple(
        replace(one, state="not-applied", note=note)
        if one.planned.knob in flags and one.state == "took-effect"
        else one
        for one in changes
    )


def _fits(wanted: Any, was: Any, found: Setting) -> bool:
    if wanted is None:
        # A dropped flag: the switch is off, or the value is no longer the user's.
        given_as_before = found.provenance == "explicit" and same_value(found.value, was)
        return not given_as_before and (found.value in (None, False) or found.provenance != "explicit")
    return same_value(found.value, wanted)


def _predictions(
    before: Snapshot, comparison: Comparison, changes: Sequence[CheckedChange]
) -> Iterator[CheckedPrediction]:
    states = {change.planned.knob: change.state for change in changes}
    for finding in before.findings:
        if finding.effect is None or not finding.knobs:
            continue
        tried = [states.get(knob, "not-applied") for knob in finding.knobs]
        if all(state == "not-applied" for state in tried):
            yield _checked(finding, None, "not-tried", "its changes are not in the next log")
        elif "other-value" in tried:
            yield _checked(finding, None, "not-tried", "another value than the planned one was set")
        else:
            yield _judged(finding, finding.effect, comparison)


def _judged(finding: KnownFinding, effect: Predicted, comparison: Comparison) -> CheckedPrediction:
    ratio, how = _measured(finding, effect.metric, comparison)
    if ratio is None:
        return _checked(finding, None, "unknown", how)
    margin = _MARGIN["speed" if effect.metric in _SPEED else _margin_of(effect.metric)]
    if ratio < effect.low * (1 - margin):
        return _checked(finding, ratio, "less", how)
    return _checked(finding, ratio, "more" if ratio > effect.high * (1 + margin) else "as-predicted", how)


def _margin_of(metric: str) -> str:
    return "start-up" if metric.endswith("_seconds") else "capacity"


def _measured(finding: KnownFinding, metric: str, comparison: Comparison) -> tuple[float | None, str]:
    if metric in _SPEED:
        return _measured_speed(finding, metric, comparison)
    name = _FIGURES.get(metric, metric)
    for figure in comparison.figures:
        if figure.name == name and figure.ratio is not None:
            return figure.ratio, f"{figure.before:,.6g} before, {figure.after:,.6g} after"
    return None, "one of the logs does not show it"


def _measured_speed(finding: KnownFinding, metric: str, comparison: Comparison) -> tuple[float | None, str]:
    """Measure at equal load, except for changes that let more requests run: those change the load itself."""
    if any(makes_room(field_of(knob)) for knob in finding.knobs):
        room = comparison.room
        if room is not None:
            running = f"{room.running_before} requests at most before, {room.running_after} after"
            return room.ratio, f"busy mean of the generation throughput; {running}"
        if comparison.load.ratio is None:
            return None, f"no more requests came than before; {'; '.join(comparison.load.warnings)}"
    load = comparison.load
    if load.ratio is None:
        return None, "; ".join(load.warnings)
    doubts = f"; but {'; '.join(load.warnings)}" if load.warnings else ""
    return load.ratio, f"at equal load, in {plural(len(load.pairs), 'level')} of running requests{doubts}"


def _checked(finding: KnownFinding, ratio: float | None, state: str, note: str) -> CheckedPrediction:
    assert finding.effect is not None
    return CheckedPrediction(finding.rule, finding.title, finding.knobs, finding.effect, ratio, state, note)
