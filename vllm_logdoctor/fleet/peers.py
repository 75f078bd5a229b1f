"""Peers: runs that should be alike; and those that are not, with the number to expect by chance."""

from __future__ import annotations

import math
import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from statistics import median
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from vllm_logdoctor.comparison.influence import without_effect
from vllm_logdoctor.fleet.facts import JobSummary, Row, RunId, levels_of, size_words
from vllm_logdoctor.fleet.store import Store

FEWEST_PEERS = 8
FEWEST_FOR_QUARTER = 4
DEVIATIONS = 3.5
LEAST_RATIO = 1.3
_LEAST_SPREAD = 0.05
_RARE = 0.1
_MOST_DIFFERENCES = 5
_DRAWN = 6000
_TO_DEVIATION = 1.4826

METRICS = {
    "startup_s": "start-up, s",
    "load_s": "loading of the weights, s",
    "compile_s": "torch.compile, s",
    "graph_s": "graph capture, s",
    "init_s": "engine initialization, s",
    "kv_tokens": "KV cache, tokens",
    "weights_gib": "weights, GiB",
    "generation": "generation at equal load, tokens/s",
}
_KEY = ("model", "card", "platform", "tp", "pp", "dp", "release", "quantization", "kind")


class Outlier(Struct, frozen=True):
    """A run far from its peers.

    Attributes:
        job, log, run: which run.
        metric: figure, a key of `METRICS`; `level` is the number of running requests of an equal load, or "".
        value, median, ratio: its figure, that of the peers, and their ratio.
        n, spread: number of peers and their robust spread (1.4826 MAD of the logarithms).
        deviations: distance in spreads.
        group: the peers in words.
        differs_in: settings that few of the peers have: no proof of a cause.
    """

    job: str
    log: str
    run: int
    metric: str
    level: str
    value: float
    median: float
    ratio: float
    n: int
    spread: float
    deviations: float
    group: str
    differs_in: tuple[str, ...] = ()


class Outliers(Struct, frozen=True):
    """Outliers, the farthest first; how many figures were compared and how many would be far by chance."""

    found: list[Outlier]
    compared: int
    expected: float
    groups: int


class SlowStart(Struct, frozen=True):
    """Start-up of a group of peers: hours above its best quarter, and who took them."""

    group: str
    n: int
    quarter: float
    median: float
    hours: float
    jobs: tuple[str, ...]


def peer_key(run: Row) -> tuple[Any, ...] | None:
    """Return what peers share; None for a run whose model, release or parallel size is not known."""
    if run["server"] != "vllm" or not run["model"] or not run["release"] or run["tp"] is None:
        return None
    release = ".".join(str(run["release"]).split(".")[:2])
    sizes = {"pp": run["pp"] or 1, "dp": run["dp"] or 1, "release": release}
    return tuple(sizes.get(name, run[name]) for name in _KEY)


def group_words(key: Sequence[Any]) -> str:
    """Return peers in words."""
    values = dict(zip(_KEY, key, strict=True))
    card = values["card"] or (
        f"{values['platform'] or 'platform'} card not known" if values["platform"] != "cpu" else "CPU"
    )
    release, quantization, kind = f"vLLM {values['release']}", values["quantization"], values["kind"]
    words = (values["model"], card, *size_words(values), release, quantization, kind)
    return ", ".join(filter(None, words))


def outliers_of(store: Store, jobs: Iterable[JobSummary]) -> Outliers:
    """Return the runs that are far from their peers."""
    runs = {(run["log"], run["run"]): run for job in jobs for run in job.runs}
    groups = _groups(runs.values())
    levels = levels_of(store, runs)
    found: list[Outlier] = []
    compared, expected, used = 0, 0.0, 0
    for key, members in groups.items():
        used += len(members) >= FEWEST_PEERS
        for metric, level, figures in _figures(members, levels):
            if len(figures) < FEWEST_PEERS:
                continue
            middle, spread = _robust([math.log(value) for _, value in figures])
            compared += len(figures)
            expected += len(figures) * chance(len(figures), spread)
            found += [
                Outlier(
                    run["job"], run["log"], run["run"], metric, level, value, math.exp(middle), value / math.exp(middle), len(figures),
                    spread, (math.log(value) - middle) / spread, group_words(key),
                )
                for run, value in figures
                if _is_far(math.log(value), middle, spread)
            ]  # fmt: skip
    found.sort(key=lambda one: (-abs(one.deviations), one.job))
    return Outliers(_with_differences(store, found, groups), compared, expected, used)


def slow_starts(jobs: Iterable[JobSummary]) -> list[SlowStart]:
    """Return the hours that start-ups took above the best quarter of their peers, the most hours first."""
    groups = _groups(run for job in jobs for run in job.runs if run["startup_s"] and run["clock"] == "ok")
    slow = []
    for key, members in groups.items():
        if len(members) < FEWEST_FOR_QUARTER:
            continue
        times = sorted(run["startup_s"] for run in members)
        quarter = times[len(times) // 4]
        above = {
            run["job"]: (run["startup_s"] - quarter) * max(run["cards"] or 0, 1) / 3600
            for run in members
            if run["startup_s"] > quarter
        }
        longest_first = tuple(sorted(above, key=lambda job: -above[job]))
        hours = sum(above.values())
        slow.append(SlowStart(group_words(key), len(times), quarter, median(times), hours, longest_first))
    return sorted(slow, key=lambda one: -one.hours)


def chance(n: int, spread: float) -> float:
    """Return the share of equal runs that would be called far, by simulation of log-normal figures with that spread."""
    size = min((8, 12, 20, 40, 80), key=lambda one: abs(one - n))
    return _chance(size, round(max(spread, _LEAST_SPREAD) * 20) / 20)


@lru_cache(maxsize=256)
def _chance(n: int, spread: float) -> float:
    draw = random.Random(n * 1000 + round(spread * 100))
    far = 0
    groups = _DRAWN // n
    for _ in range(groups):
        values = [draw.gauss(0.0, spread) for _ in range(n)]
        middle, width = _robust(values)
        far += sum(_is_far(value, middle, width) for value in values)
    return far / (groups * n)


def _groups(runs: Iterable[Row]) -> dict[tuple[Any, ...], list[Row]]:
    groups: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for run in runs:
        if (key := peer_key(run)) is not None:
            groups[key].append(run)
    return groups


def _figures(
    members: Sequence[Row], levels: Mapping[RunId, Mapping[tuple[int, int], float]]
) -> Iterator[tuple[str, str, list[tuple[Row, float]]]]:
    for metric in METRICS:
        if metric != "generation":
            known = (run for run in members if metric != "startup_s" or run["clock"] == "ok")
            yield metric, "", [(run, run[metric]) for run in known if run[metric]]
    by_level: dict[tuple[int, int], list[tuple[Row, float]]] = defaultdict(list)
    for run in members:
        for level, value in levels.get((run["log"], run["run"]), {}).items():
            by_level[level].append((run, value))
    for (low, high), figures in by_level.items():
        yield "generation", f"{low}-{high} running", figures


def _robust(logs: Sequence[float]) -> tuple[float, float]:
    middle = median(logs)
    return middle, max(_TO_DEVIATION * median(abs(value - middle) for value in logs), _LEAST_SPREAD)


def _is_far(value: float, middle: float, spread: float) -> bool:
    distance = abs(value - middle)
    return distance > DEVIATIONS * spread and distance >= math.log(LEAST_RATIO)


def _with_differences(
    store: Store, found: Sequence[Outlier], groups: Mapping[tuple[Any, ...], Sequence[Row]]
) -> list[Outlier]:
    """Add the settings in which each outlier differs from nearly all of its peers."""
    members = {group_words(key): {(run["log"], run["run"]) for run in group} for key, group in groups.items()}
    wanted = {one.group for one in found}
    needed = {run for group in wanted for run in members[group]}
    settings: dict[RunId, dict[str, str]] = defaultdict(dict)
    for row in store.table("settings", ["run", "name", "value"]).to_pylist() if needed else ():
        if (row["log"], row["run"]) in needed and not without_effect(row["name"]):
            settings[row["log"], row["run"]][row["name"]] = str(row["value"])
    counts = {
        group: Counter(pair for run in members[group] for pair in settings[run].items()) for group in wanted
    }
    with_differences = []
    for one in found:
        most = max(1, _RARE * len(members[one.group]))
        own = settings[one.log, one.run].items()
        rare = [
            name if value.startswith("text:") else f"{name}={value}"
            for name, value in own
            if counts[one.group][name, value] <= most
        ]
        with_differences.append(replace(one, differs_in=tuple(sorted(rare)[:_MOST_DIFFERENCES])))
    return with_differences
