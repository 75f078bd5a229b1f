"""What single changes did in this fleet: the same job before and after, in ranges with the number of pairs."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from statistics import median
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from vllm_logdoctor.comparison.influence import without_effect
from vllm_logdoctor.fleet.facts import JobSummary, Row, RunId, levels_of
from vllm_logdoctor.fleet.store import Store
from vllm_logdoctor.fleet.values import setting_value
from vllm_logdoctor.report.model import Analysis
from vllm_logdoctor.rules.model import Change

FEWEST_PAIRS = 3
METRICS = {
    "startup_s": "startup_seconds",
    "kv_tokens": "kv_cache_tokens",
    "generation": "generation_throughput",
}
"""Figures that are compared, by the names that expected effects have."""
_DIGITS = re.compile(r"\d+")
_SAME = ("model", "platform", "tp", "pp", "dp", "quantization", "kind")
# Values that follow from the machine or from another setting, not from a choice.
_NO_CHOICE = frozenset(
    {"seed", "port", "host", "served_model_name", "model", "tokenizer", "revision", "uvicorn_log_level"}
)

_Setting = tuple[str, str | None, str | None]
"""Name, before, after."""


class MeasuredEffect(Struct, frozen=True):
    """Ratio after / before of a figure over pairs of runs of one job that differ in one setting.

    Attributes:
        setting, before, after: the change.
        metric: what was measured; generation only at equal load.
        low, middle, high: quartiles of the ratio; with fewer than eight pairs the lowest, the median and the highest.
        pairs, jobs: how many pairs, of how many jobs.
        members: names of the jobs after the change.
    """

    setting: str
    before: str | None
    after: str | None
    metric: str
    low: float
    middle: float
    high: float
    pairs: int
    jobs: int
    members: tuple[str, ...]

    @property
    def words(self) -> str:
        """The range with its origin."""
        return (
            f"{self.low:.2f} to {self.high:.2f}, median {self.middle:.2f}, measured on your own jobs: {self.pairs} pairs of "
            f"{self.jobs} job series"
        )


def effects_of(store: Store, jobs: Iterable[JobSummary]) -> list[MeasuredEffect]:
    """Return the effects of single changes, those with the most pairs first."""
    pairs = list(_pairs(jobs))
    wanted = {_id(run) for before, after, _ in pairs for run in (before, after)}
    settings = _settings(store, wanted)
    levels = levels_of(store, wanted)
    ratios: dict[tuple[_Setting, str], list[tuple[float, str, str]]] = defaultdict(list)
    for before, after, series in pairs:
        change = _single_change(settings[_id(before)], settings[_id(after)], before, after)
        if change is not None:
            for metric, ratio in _ratios(before, after, levels):
                ratios[change, metric].append((ratio, series, after["job"]))
    effects = [
        _effect(change, metric, found)
        for (change, metric), found in ratios.items()
        if len(found) >= FEWEST_PAIRS
    ]
    return sorted(effects, key=lambda one: (-one.pairs, one.setting, one.metric))


def measured_words(effects: Iterable[MeasuredEffect], knob: str, after: str | None) -> str:
    """Return what a change did to the jobs of this fleet that made it; "" where it was not seen often enough."""
    name = knob.lstrip("-").replace("-", "_")
    wanted = (after,) if after is not None else (None, "False")
    found = [one for one in effects if one.setting in (name, knob) and one.after in wanted]
    return "; ".join(f"{one.metric.replace('_', ' ')} x {one.words}" for one in found[:2])


def with_effects(analysis: Analysis, effects: Sequence[MeasuredEffect]) -> Analysis:
    """Return an analysis whose changes say what they did to the jobs that made them."""

    def noted(change: Change) -> Change:
        words = measured_words(effects, change.knob, setting_value(change.knob, change.after))
        return replace(change, note="; ".join(filter(None, (change.note, words)))) if words else change

    runs = []
    for one in analysis.runs:
        findings = (replace(found, changes=tuple(map(noted, found.changes))) for found in one.findings)
        planned = (replace(item, change=noted(item.change)) for item in one.plan.changes)
        runs.append(replace(one, findings=tuple(findings), plan=replace(one.plan, changes=tuple(planned))))
    return replace(analysis, runs=tuple(runs))


def _pairs(jobs: Iterable[JobSummary]) -> Iterator[tuple[Row, Row, str]]:
    """Yield neighbouring runs of one series: jobs whose logs differ in the numbers of their names only."""
    series: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for job in jobs:
        name = _DIGITS.sub("#", job.logs[0]["path"])
        for run in job.runs:
            if run["server"] == "vllm" and run["model"] and run["startup_complete"]:
                series[(name, *(run[one] for one in _SAME))].append(run)
    for key, runs in series.items():
        ordered = sorted(runs, key=lambda run: run["date"])
        yield from ((before, after, repr(key)) for before, after in pairwise(ordered))


def _single_change(
    before: Mapping[str, str], after: Mapping[str, str], first: Row, second: Row
) -> _Setting | None:
    """Return the one setting that differs; a new release is a change like any other."""
    both = ((name, before.get(name), after.get(name)) for name in sorted({*before, *after}))
    changed: list[_Setting] = [one for one in both if one[1] != one[2]]
    if first["release"] != second["release"]:
        changed.append(("vLLM release", first["release"], second["release"]))
    return changed[0] if len(changed) == 1 else None


def _settings(store: Store, wanted: set[RunId]) -> dict[RunId, dict[str, str]]:
    """Return what the launch of each run set."""
    settings: dict[RunId, dict[str, str]] = defaultdict(dict)
    for row in store.table("settings", ["run", "name", "value", "provenance"]).to_pylist() if wanted else ():
        key = (row["log"], row["run"])
        chosen = row["provenance"] == "explicit" and row["name"] not in _NO_CHOICE
        if key in wanted and chosen and not without_effect(row["name"]):
            settings[key][row["name"]] = str(row["value"])
    return settings


def _ratios(
    before: Row, after: Row, levels: Mapping[RunId, Mapping[tuple[int, int], float]]
) -> Iterator[tuple[str, float]]:
    for metric in ("startup_s", "kv_tokens"):
        trusted = metric != "startup_s" or (before["clock"] == after["clock"] == "ok")
        if before[metric] and after[metric] and trusted:
            yield metric, after[metric] / before[metric]
    first, second = levels.get(_id(before), {}), levels.get(_id(after), {})
    common = [second[level] / first[level] for level in first.keys() & second.keys()]
    if common:
        yield "generation", median(common)


def _effect(change: _Setting, metric: str, found: Sequence[tuple[float, str, str]]) -> MeasuredEffect:
    ratios = sorted(ratio for ratio, _, _ in found)
    cut = len(ratios) // 4 if len(ratios) >= 8 else 0
    members = tuple(dict.fromkeys(job for _, _, job in found))
    jobs = len({series for _, series, _ in found})
    return MeasuredEffect(
        *change, METRICS[metric], ratios[cut], median(ratios), ratios[-1 - cut], len(ratios), jobs, members
    )


def _id(run: Row) -> RunId:
    return run["log"], run["run"]
