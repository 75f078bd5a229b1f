"""Figures of the statistics lines: what the serving sections of every format show."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TypeVar

from msgspec import Struct

from vllm_logdoctor.report.series import Point
from vllm_logdoctor.rules.load import busy_of, full_of, quantile
from vllm_logdoctor.run.minutes import is_probe
from vllm_logdoctor.run.model import Run, Sample

Number = TypeVar("Number", int, float)
FEW_LINES = 8
"""Statistics lines below which their values are listed, without means or curves."""


class Spread(Struct, frozen=True):
    """Spread of a rate in tokens/s: mean, median, 95th percentile of the lines with requests all the time; peak of all."""

    mean_busy: float | None = None
    p50: float | None = None
    p95: float | None = None
    max: float | None = None


class Serving(Struct, frozen=True):
    """Figures of one run's statistics lines, all engines.

    Attributes:
        samples: statistics lines.
        busy: lines with requests.
        full: those of them whose interval was not partly idle: means are of these.
        prompt, generation: tokens/s, per line.
        running, waiting: most requests in one line, or None where no line says.
        kv_usage: highest use of the KV cache in percent.
        prefix_hit, external_hit: last printed hit rate in percent, of the engine's own cache and of one behind a connector.
        preemptions: in sum, or None where no line says.
        engines: numbers of the engines that printed lines.
    """

    samples: int
    busy: int
    full: int
    prompt: Spread
    generation: Spread
    running: int | None
    waiting: int | None
    kv_usage: float | None
    prefix_hit: float | None = None
    external_hit: float | None = None
    preemptions: int | None = None
    engines: tuple[int, ...] = ()


def serving_of(run: Run, engine: int | None = None) -> Serving:
    """Return the figures of a run, or of one of its engines."""
    if engine is None:
        return _whole(run)
    chosen = [sample for sample in run.samples if sample.engine == engine]
    counted = [sample.preemptions for sample in chosen if sample.preemptions is not None]
    full = full_of(chosen)
    return Serving(
        samples=sum(sample.count for sample in chosen),
        busy=_lines(busy_of(chosen)),
        full=_lines(full),
        prompt=_spread(((s.prompt, s.count) for s in full), _largest(s.prompt for s in chosen)),
        generation=_spread(((s.generation, s.count) for s in full), _largest(s.generation for s in chosen)),
        running=_largest(sample.running for sample in chosen),
        waiting=_largest(sample.waiting for sample in chosen),
        kv_usage=_largest(sample.kv_usage for sample in chosen),
        prefix_hit=_last(sample.prefix_hit for sample in chosen),
        external_hit=_last(sample.external_hit for sample in chosen),
        preemptions=sum(counted) if counted else None,
        engines=(engine,),
    )


def _whole(run: Run) -> Serving:
    top, shown = run.extremes, bool(run.samples)
    full = full_of(run.samples)
    printed = top.preemptions or any(sample.preemptions is not None for sample in run.samples)
    counted = run.counters.get("preemptions")
    return Serving(
        samples=run.sample_count,
        busy=_lines(busy_of(run.samples)),
        full=_lines(full),
        prompt=_spread(((s.prompt, s.count) for s in full), top.prompt if shown else None),
        generation=_spread(((s.generation, s.count) for s in full), top.generation if shown else None),
        running=top.running,
        waiting=top.waiting,
        kv_usage=top.kv_usage,
        prefix_hit=top.prefix_hit_last,
        external_hit=_last(sample.external_hit for sample in run.samples),
        # V0 prints one preemption in fifty, /metrics counts each.
        preemptions=max(top.preemptions, counted or 0) if printed or counted is not None else None,
        engines=tuple(sorted({sample.engine for sample in run.samples})),
    )


def part_of_engines(run: Run) -> str:
    """Return how many of the engines printed statistics, "2 of 8 engines", where not all did."""
    size, seen = run.setting("data_parallel_size"), {sample.engine for sample in run.samples}
    part = isinstance(size, int) and 1 < len(seen) < size and min(seen) >= 0
    return f"{len(seen)} of {size} engines" if part else ""


def summed_of(points: Sequence[Point]) -> Serving:
    """Return the figures of all engines in sum."""
    full = full_of(points)
    return Serving(
        samples=len(points),
        busy=len(busy_of(points)),
        full=len(full),
        prompt=_spread(((point.prompt, 1) for point in full), _largest(point.prompt for point in points)),
        generation=_spread(
            ((point.generation, 1) for point in full), _largest(point.generation for point in points)
        ),
        running=_largest(point.running for point in points),
        waiting=_largest(point.waiting for point in points),
        kv_usage=_largest(point.kv_usage for point in points),
    )


def _lines(samples: Iterable[Sample]) -> int:
    return sum(sample.count for sample in samples)


def requests_of(run: Run, with_probes: bool = True, *, method: str = "") -> Counter[int]:
    """Return answered requests by HTTP status, with or without those of monitoring; of one method where it is named."""
    by_status: Counter[int] = Counter()
    for (asked, path, status), count in run.accesses.items():
        if method in ("", asked) and (with_probes or not is_probe(asked, path)):
            by_status[status] += count
    return by_status


def _spread(weighted: Iterable[tuple[float, int]], highest: float | None) -> Spread:
    """Return the spread of rates with their weights."""
    busy = sorted((rate, weight) for rate, weight in weighted if math.isfinite(rate))
    total = sum(weight for _, weight in busy)
    mean = math.fsum(rate * weight for rate, weight in busy) / total if total else None
    return Spread(mean, quantile(busy, 0.5), quantile(busy, 0.95), highest)


def _last(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return known[-1] if known else None


def _largest(values: Iterable[Number | None]) -> Number | None:
    known = [value for value in values if value is not None and math.isfinite(value)]
    return max(known) if known else None
