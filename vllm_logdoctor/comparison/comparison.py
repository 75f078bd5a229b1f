"""Two runs side by side: settings, figures, speed at equal load, findings, and what belongs together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from vllm_logdoctor.comparison.influence import (
    EVERYTHING,
    Subject,
    influence_of,
    makes_room,
    subject_of,
    without_effect,
)
from vllm_logdoctor.comparison.snapshot import KnownFinding, Setting, Snapshot
from vllm_logdoctor.knowledge.context import Context
from vllm_logdoctor.knowledge.defaults import default_of
from vllm_logdoctor.knowledge.flags import field_of
from vllm_logdoctor.rules.equal_load import EqualLoad, equal_load

FIRST_START = 0.035
"""The first start after an installation plans up to 3 % fewer KV cache tokens; rounded up."""

_LOWER_IS_BETTER = ("_seconds", "_ms", "preemptions", "model_weights_gib", "graph_capture_gib")
_TOLERANCE = {"start-up": 0.10, "capacity": 0.005, "memory": 0.005, "weights": 0.005, "speed": 0.03}
_SHORTEST_SECONDS = 2.0
_ROLES = ("cause", "follows", "idle")
_IDENTITY = ("vLLM version", "model", "platform", "engine", "kind")
# A figure of the traffic, not of the server.
_NEUTRAL = frozenset({"kv_cache_usage_max", "prefix_cache_hit_rate"})


class SettingDifference(Struct, frozen=True):
    """A setting that is not the same: None on a side whose log does not show it.

    Attributes:
        name: EngineArgs field, or "vLLM version", "model", "platform", "engine", "kind".
        before, after: value with provenance, or None.
        role: "cause" (the user changed it, or what ran is another), "follows" (vLLM set it so by itself)
            or "idle" (a place, a name or an address: moves no figure).
    """

    name: str
    before: Setting | None
    after: Setting | None
    role: str = "cause"


class FigureDifference(Struct, frozen=True):
    """A figure on both sides: `verdict` is "better", "worse", "same" or "other" (neither good nor bad)."""

    name: str
    before: float
    after: float
    ratio: float | None
    verdict: str
    note: str = ""


class FindingDifference(Struct, frozen=True):
    """A finding of one side: `state` is "gone", "new", "kept" or "unclear" (the later log can't tell)."""

    finding: KnownFinding
    state: str
    note: str = ""


class RoomUsed(Struct, frozen=True):
    """Requests waited before, and more of them ran at once after.

    Attributes:
        running_before, running_after: most running requests.
        before, after: generation throughput, mean of the busy samples, in tokens/s.
    """

    running_before: int
    running_after: int
    before: float
    after: float

    @property
    def ratio(self) -> float:
        """Generation throughput after/before."""
        return self.after / self.before


class Attribution(Struct, frozen=True):
    """A changed setting with what moved and can come from it.

    Attributes:
        change: the setting.
        subjects: what it can move; empty where that is not known.
        figures: figures that moved and that it can move.
        findings: findings about it that went or came.
        speed: whether the speed at equal load moved and it can move that.
        room: whether more requests ran at once and it can make room for them.
        shared_with: other changed settings that can move the same: which one it was, two logs can't tell.
    """

    change: SettingDifference
    subjects: frozenset[Subject]
    figures: tuple[FigureDifference, ...]
    findings: tuple[FindingDifference, ...]
    speed: bool
    room: bool
    shared_with: tuple[str, ...]


class Comparison(Struct, frozen=True):
    """Two runs side by side."""

    before: Snapshot
    after: Snapshot
    settings: tuple[SettingDifference, ...]
    one_sided: tuple[SettingDifference, ...]
    figures: tuple[FigureDifference, ...]
    load: EqualLoad
    room: RoomUsed | None
    findings: tuple[FindingDifference, ...]
    attributions: tuple[Attribution, ...]


def compare(before: Snapshot, after: Snapshot) -> Comparison:
    """Compare two runs.

    Returns:
        What differs. Settings that only one log shows are separate: a missing line proves nothing.
    """
    changed, one_sided = _setting_differences(before, after)
    load = equal_load(before.levels, after.levels)
    figures = tuple(_figure_differences(before, after, changed))
    findings = tuple(_finding_differences(before, after))
    room = room_used(before, after)
    attributions = tuple(_attributions(changed, figures, findings, load, room))
    return Comparison(before, after, changed, one_sided, figures, load, room, findings, attributions)


def room_used(before: Snapshot, after: Snapshot) -> RoomUsed | None:
    """Return what more running requests brought, or None where the traffic did not ask for more."""
    name = "generation_throughput_busy_mean"
    rate, rate_after = before.figures.get(name), after.figures.get(name)
    if not before.most_running or not after.most_running or not rate or rate_after is None:
        return None
    if not before.most_waiting or after.most_running <= before.most_running:
        return None
    return RoomUsed(before.most_running, after.most_running, rate, rate_after)


def same_value(before: Any, after: Any) -> bool:
    """Return whether two values of a setting are the same, however they were spelt.

    Example:
        >>> same_value("0.90", 0.9), same_value("auto", "Auto"), same_value(True, 1), same_value(None, 0)
        (True, True, False, False)
    """
    if isinstance(before, bool) != isinstance(after, bool):
        return str(before).lower() == str(after).lower()
    if before == after:
        return True
    if before is None or after is None:
        return False
    try:
        return float(before) == float(after)
    except (TypeError, ValueError):
        return str(before).strip().lower() == str(after).strip().lower()


def _setting_differences(
    before: Snapshot, after: Snapshot
) -> tuple[tuple[SettingDifference, ...], tuple[SettingDifference, ...]]:
    pairs = [
        *_sides(_named(before), _named(after)),
        *_sides(before.config, after.config),
        *_sides(before.environment, after.environment),
    ]
    one_sided = tuple(
        one for one in pairs if _is_one_sided(one) and not _is_given_on_one_side(one, before, after)
    )
    changed = [one for one in pairs if _differs(one) or _is_given_on_one_side(one, before, after)]
    changed.sort(key=lambda one: (_ROLES.index(one.role), not _is_explicit(one)))
    if not any(one.role == "cause" for one in changed):
        # Nobody changed a setting: what vLLM chose otherwise is all there is to go by.
        changed = [replace(one, role="cause") if one.role == "follows" else one for one in changed]
    return tuple(changed), one_sided


def _differs(one: SettingDifference) -> bool:
    return (
        one.before is not None and one.after is not None and not same_value(one.before.value, one.after.value)
    )


def _is_one_sided(one: SettingDifference) -> bool:
    return (one.before is None) != (one.after is None) and _is_explicit(one)


def _is_given_on_one_side(one: SettingDifference, before: Snapshot, after: Snapshot) -> bool:
    """Return whether a setting was given in one run and left out in the other, whose log has arguments too.

    A value that is the default of the other run's release changes nothing there.
    """
    given, other = (one.before, after) if one.after is None else (one.after, before)
    known = other.environment if is_variable(one.name) else other.config
    if not _is_one_sided(one) or given is None or _is_default(one.name, given.value, other):
        return False
    return any(setting.provenance == "explicit" for setting in known.values())


def _is_default(name: str, value: Any, other: Snapshot) -> bool:
    ranks = other.config.get("data_parallel_size", Setting(1, "default")).value
    default = default_of(name, other.what.get("vLLM version"), Context(data_parallel_size=ranks))
    return default is not None and same_value(default.value, value)


def is_variable(name: str) -> bool:
    """Return whether a setting is an environment variable.

    Example:
        >>> is_variable("VLLM_USE_V1"), is_variable("max_num_seqs")
        (True, False)
    """
    return name.isupper()


def _named(side: Snapshot) -> Mapping[str, Setting]:
    return {name: Setting(value, "reported") for name, value in side.what.items()}


def _sides(before: Mapping[str, Setting], after: Mapping[str, Setting]) -> Iterator[SettingDifference]:
    for name in [*before, *(name for name in after if name not in before)]:
        found = SettingDifference(name, before.get(name), after.get(name))
        yield replace(found, role=_role(found))


def _role(one: SettingDifference) -> str:
    if without_effect(one.name):
        return "idle"
    return "cause" if one.name in _IDENTITY or _is_explicit(one) else "follows"


def _is_explicit(one: SettingDifference) -> bool:
    return any(side is not None and side.provenance == "explicit" for side in (one.before, one.after))


def _figure_differences(
    before: Snapshot, after: Snapshot, changed: tuple[SettingDifference, ...]
) -> Iterator[FigureDifference]:
    touched = frozenset(subject for one in changed if one.role != "idle" for subject in _subjects(one))
    for name, value in before.figures.items():
        if name in after.figures:
            yield _figure(name, value, after.figures[name], touched)


def _figure(name: str, before: float, after: float, touched: frozenset[Subject]) -> FigureDifference:
    ratio = after / before if before else None
    subject = subject_of(name)
    off = abs(ratio - 1) if ratio is not None else float(after != before)
    if off <= _TOLERANCE.get(subject or "speed", 0.03) or _is_short(name, before, after):
        return FigureDifference(name, before, after, ratio, "same")
    if subject in ("capacity", "memory") and off <= FIRST_START and subject not in touched:
        note = "two starts of one setup differ by up to 3 %: the first one after an installation plans less"
        return FigureDifference(name, before, after, ratio, "same", note)
    if subject == "start-up" and subject not in touched:
        note = "no setting for it differs: a warm cache (compiled code, weights in memory) starts faster"
        return FigureDifference(name, before, after, ratio, "other", note)
    if name in _NEUTRAL or (subject == "speed" and name != "preemptions"):
        # Throughput over a whole run follows the traffic: only equal load judges it.
        return FigureDifference(name, before, after, ratio, "other")
    better = (after < before) == name.endswith(_LOWER_IS_BETTER)
    return FigureDifference(name, before, after, ratio, "better" if better else "worse")


def _is_short(name: str, before: float, after: float) -> bool:
    return name.endswith("_seconds") and abs(after - before) < _SHORTEST_SECONDS


def _finding_differences(before: Snapshot, after: Snapshot) -> Iterator[FindingDifference]:
    had, has = ({one.identity: one for one in side.findings} for side in (before, after))
    for identity, finding in had.items():
        if identity in has:
            yield FindingDifference(has[identity], "kept")
        else:
            note = _why_unclear(finding, after)
            yield FindingDifference(finding, "unclear" if note else "gone", note)
    for identity, finding in has.items():
        if identity not in had:
            note = _why_unclear(finding, before)
            yield FindingDifference(finding, "new", note and f"{note.replace('later', 'earlier')}")


def _why_unclear(finding: KnownFinding, other: Snapshot) -> str:
    """Return why the absence of a finding proves nothing: the other log could not have shown it."""
    if finding.kind == "performance" and not other.busy_samples:
        return "the later log has no statistics line with a running request"
    if finding.kind == "failure" and not other.started and other.outcome not in ("clean_shutdown", "running"):
        return "the later run did not get ready either"
    return ""


def _attributions(
    changed: tuple[SettingDifference, ...],
    figures: tuple[FigureDifference, ...],
    findings: tuple[FindingDifference, ...],
    load: EqualLoad,
    room: RoomUsed | None,
) -> Iterator[Attribution]:
    moved = [one for one in figures if one.verdict in ("better", "worse")]
    faster = load.verdict in ("faster", "slower")
    causes = [one for one in changed if one.role == "cause"]
    able = {one.name: _subjects(one) for one in causes}
    for change in causes:
        mine = tuple(one for one in moved if subject_of(one.name) in able[change.name])
        speed = faster and "speed" in able[change.name]
        roomy = room is not None and makes_room(change.name)
        about = tuple(
            one for one in findings if one.state in ("gone", "new") and _is_about(one.finding, change.name)
        )
        subjects = {subject_of(one.name) for one in mine} | ({"speed"} if speed or roomy else set())
        shared = tuple(name for name, able_to in able.items() if name != change.name and able_to & subjects)
        yield Attribution(change, able[change.name], mine, about, speed, roomy, shared)


def _subjects(change: SettingDifference) -> frozenset[Subject]:
    if change.name in _IDENTITY:
        return EVERYTHING
    return influence_of(change.name)


def _is_about(finding: KnownFinding, setting: str) -> bool:
    field = setting.partition(".")[0]
    return any(field_of(knob) in (setting, field) for knob in finding.knobs)
