"""Forecast of a load under other limits: what would run and wait, and how fast by the run's own levels.

The demand stays as it was: what ran and what waited. Where the KV cache or max_num_seqs held requests back,
more of them run until the next limit; each keeps its share of the cache. How throughput follows the number of
running requests is read from the run's own levels (`equal_load.load_levels`) and, beyond the largest, follows
their slope at most.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from vllm_logdoctor.rules.equal_load import LoadLevel, load_levels
from vllm_logdoctor.rules.intervals import time_by_limit
from vllm_logdoctor.rules.limits import FULL_BATCH, KV_FULL, SLOTS_TAKEN, BottleneckName, cache_is_full
from vllm_logdoctor.rules.load import Load, Span, weighted_median
from vllm_logdoctor.run.model import Run, Sample

FULL = 95.0
"""Percent of the cache that requests fill before the scheduler admits no more."""
LEAST_SPREAD = 1.5
"""Levels whose numbers of running requests differ by less tell no slope."""
LEAST_SLOPE = 0.05
"""A throughput that hardly follows the number of requests, or falls, was set by something else at these levels."""
LEAST_LEVEL = 2
"""Samples of a level that count."""
LEAST_SECONDS = 60.0
"""Seconds at a limit, fewer of which are no measure of a throughput."""


class Limits(Struct, frozen=True):
    """Limits of an engine: max_num_seqs (None where not known), and how many times the tokens its cache holds."""

    max_num_seqs: int | None
    room: float = 1.0


class Forecast(Struct, frozen=True):
    """What a change of limits does to the time in which it acts.

    Attributes:
        share: share of the busy time in which more requests would run.
        running: requests at once in that time, now and after (medians).
        low, high: throughput after/before in that time.
        measured: whether the run's own levels gave the range; else it is bounded by the number of requests.
        next_limit: what limits then: "max_num_seqs", "KV cache" or "client".
    """

    share: float
    running: tuple[float, float]
    low: float
    high: float
    measured: bool
    next_limit: str


def under(sample: Sample, before: Limits, after: Limits) -> Sample:
    """Return a statistics line under the same demand and other limits.

    Each request keeps its pace: a forecast must not look like a card that has become slow.

    Example:
        >>> full = Sample(0.0, 1, 0, 0.0, 900.0, running=100, waiting=80, kv_usage=98.0)
        >>> changed = under(full, Limits(256), Limits(256, room=1.5))
        >>> changed.running, changed.waiting, changed.kv_usage
        (145, 35, 94.7)
    """
    running, waiting, usage = sample.running or 0, sample.waiting or 0, sample.kv_usage or 0.0
    if not running:
        return sample
    each = usage / running / after.room
    now = min(running, after.max_num_seqs or running)
    if now and each * now > 100:
        now = max(1, int(100 / each))
    held = cache_is_full(running, usage) or bool(
        before.max_num_seqs and running >= SLOTS_TAKEN * before.max_num_seqs
    )
    if held and waiting:
        demand = running + waiting
        fits = int(FULL / each) if each > 0 else demand
        now = max(min(demand, after.max_num_seqs or demand, fits), now)
    return replace(
        sample,
        running=now,
        waiting=running + waiting - now,
        kv_usage=round(min(100.0, each * now), 1),
        generation=sample.generation * now / running,
    )


def forecast(
    run: Run, load: Load, limits: Sequence[BottleneckName], before: Limits, after: Limits
) -> Forecast | None:
    """Return what other limits do to the time in which the cache or max_num_seqs held requests back.

    None where they held nothing back, or where no more requests would run.
    """
    pairs = [
        (span, Span(under(span.sample, before, after), span.seconds))
        for span, limit in zip(load.spans, limits, strict=True)
        if limit in FULL_BATCH
    ]
    seconds = sum(span.seconds for span, _ in pairs)
    pairs = [(now, then) for now, then in pairs if (then.sample.running or 0) > (now.sample.running or 0)]
    if not pairs or not load.busy_seconds:
        return None
    now, then = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    running = (_running(now), _running(then))
    part = sum(span.seconds for span in now)
    gain = throughput_gain(load_levels(run.samples), *running) if part >= LEAST_SECONDS else None
    by_limit = time_by_limit(load.spans, limits)
    held = sum(by_limit.get(limit, 0.0) for limit in FULL_BATCH)
    low, high = gain or (1.0, max(1.0, running[1] / running[0]))
    return Forecast(
        held / load.busy_seconds * part / seconds,
        running,
        low,
        high,
        gain is not None,
        next_limit(then, after),
    )


def next_limit(spans: Sequence[Span], limits: Limits) -> str:
    """Return what limits most of the time of some statistics lines: "max_num_seqs", "KV cache" or "client"."""
    seconds = {"max_num_seqs": 0.0, "KV cache": 0.0, "client": 0.0}
    for span in spans:
        sample = span.sample
        if not sample.waiting:
            name = "client"
        elif limits.max_num_seqs and (sample.running or 0) >= limits.max_num_seqs:
            name = "max_num_seqs"
        else:
            name = "KV cache" if (sample.kv_usage or 0.0) >= KV_FULL - 5 else "client"
        seconds[name] += span.seconds
    return max(seconds, key=lambda name: seconds[name])


def throughput_gain(levels: Sequence[LoadLevel], now: float, then: float) -> tuple[float, float] | None:
    """Return the range of throughput after/before when `then` requests run instead of `now`.

    The slope is that of the two highest levels of the run up to `now` that lie far enough apart; throughput
    grows by less than that slope (the curve bends), so that half of it is the lower bound. None where the run
    has no two such levels, or where throughput does not follow the number of requests.
    """
    known = [level for level in levels if level.samples >= LEAST_LEVEL and level.generation[1] > 0]
    if not known or now <= 0 or then <= now:
        return None
    top = max(known, key=lambda level: level.running)
    lower = [level for level in known if level.running * LEAST_SPREAD <= top.running]
    if not lower or top.running * LEAST_SPREAD < now:
        return None
    base = max(lower, key=lambda level: level.running)
    slope = math.log(_rate(top) / _rate(base)) / math.log(top.running / base.running)
    if slope < LEAST_SLOPE:
        return None
    growth, slope = then / now, min(slope, 1.0)
    return growth ** (slope / 2), growth**slope


def _rate(level: LoadLevel) -> float:
    return level.generation[1] + level.prompt


def _running(spans: Sequence[Span]) -> float:
    return weighted_median(spans, lambda sample: float(sample.running or 0))
