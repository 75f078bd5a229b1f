"""Throughput at equal load: samples of two runs are compared where as many requests were running."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence

from msgspec import Struct

from vllm_logdoctor.rules.load import is_steady
from vllm_logdoctor.run.model import Sample

EXACT_UP_TO = 8
"""Up to here each number of running requests is its own level; above, levels are 25 % wide."""

_STEP = math.log(1.25)
# Within a level, throughput grows a little slower than the number of requests.
_GROWTH = 0.7
_FEWEST_IN_LEVEL = 2
_FEWEST_PAIRED = 6
_LEAST_SHARE = 0.25
_MIX_FACTOR = 1.5
_SAME = 0.03
_LEAST_DEVIATION = 0.03


class LoadLevel(Struct, frozen=True):
    """Steady samples with about as many running requests.

    Attributes:
        low, high: running requests of an engine, both included.
        running: their mean.
        samples: how many samples.
        generation: quartiles of the generation throughput in tokens/s: 25 %, median, 75 %.
        prompt: mean prompt throughput in tokens/s.
    """

    low: int
    high: int
    running: float
    samples: int
    generation: tuple[float, float, float]
    prompt: float


class LevelPair(Struct, frozen=True):
    """One level that both runs have, with the ratio after/before of the median generation throughput.

    The ratio is for the same number of running requests: a small difference within the level is taken out.
    """

    before: LoadLevel
    after: LoadLevel
    ratio: float


class EqualLoad(Struct, frozen=True):
    """Two runs at equal load.

    Attributes:
        pairs: levels that both have, with samples enough.
        ratio: generation throughput after/before over these levels, or None where it is not known.
        low, high: range of the ratio by the spread of the samples (two standard errors).
        share_before, share_after: share of the busy samples that lies in these levels.
        verdict: "faster", "slower", "same" (no clear difference) or "unknown".
        warnings: why the comparison says little, one sentence each.
    """

    pairs: tuple[LevelPair, ...] = ()
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    share_before: float = 0.0
    share_after: float = 0.0
    verdict: str = "unknown"
    warnings: tuple[str, ...] = ()


def load_levels(samples: Iterable[Sample]) -> tuple[LoadLevel, ...]:
    """Sort the steady samples of a run into levels of running requests.

    A sample is steady where about as many requests ran at the sample before: a rate is a mean over the time
    between two samples, the number of requests that of its end.

    Example:
        >>> rates = (50.0, 60.0, 50.0)
        >>> load_levels(Sample(None, n, 0, 4.0, rate, running=2) for n, rate in enumerate(rates))
        (LoadLevel(low=2, high=2, running=2.0, samples=2, generation=(50.0, 50.0, 60.0), prompt=4.0),)
    """
    grouped: dict[int, list[Sample]] = defaultdict(list)
    previous: dict[int, int] = {}
    for sample in samples:
        before = previous.get(sample.engine, 0)
        previous[sample.engine] = sample.running or 0
        if sample.running and is_steady(before, sample.running) and _is_finite(sample):
            grouped[band(sample.running)].append(sample)
    return tuple(_level(grouped[number]) for number in sorted(grouped))


def _is_finite(sample: Sample) -> bool:
    return math.isfinite(sample.generation) and math.isfinite(sample.prompt)


def band(running: int) -> int:
    """Return the number of the level that so many running requests belong to.

    Example:
        >>> [band(running) for running in (1, 8, 9, 11, 12, 100, 200)]
        [1, 8, 9, 9, 10, 19, 22]
    """
    if running <= EXACT_UP_TO:
        return running
    return EXACT_UP_TO + 1 + int(math.log(running / (EXACT_UP_TO + 1)) / _STEP)


def equal_load(before: Sequence[LoadLevel], after: Sequence[LoadLevel]) -> EqualLoad:
    """Compare two runs where they carried the same load."""
    pairs = tuple(_pairs(before, after))
    shares = (_share(pairs, before, "before"), _share(pairs, after, "after"))
    reason = _why_unknown(pairs, shares, before, after)
    if reason:
        return EqualLoad(pairs, None, None, None, *shares, "unknown", (reason,))
    ratio, low, high = _combined(pairs)
    return EqualLoad(pairs, ratio, low, high, *shares, _verdict(ratio, low, high), tuple(_doubts(pairs)))


def _level(samples: list[Sample]) -> LoadLevel:
    running = [sample.running or 0 for sample in samples]
    weight = sum(sample.count for sample in samples)
    return LoadLevel(
        min(running),
        max(running),
        sum((sample.running or 0) * sample.count for sample in samples) / weight,
        weight,
        _quartiles([(sample.generation, sample.count) for sample in samples]),
        sum(sample.prompt * sample.count for sample in samples) / weight,
    )


def _quartiles(weighted: list[tuple[float, int]]) -> tuple[float, float, float]:
    ordered = sorted(weighted)
    total = sum(weight for _, weight in ordered)

    def at(share: float) -> float:
        passed = 0
        for value, weight in ordered:
            passed += weight
            if passed >= share * total:
                return value
        return ordered[-1][0]

    return at(0.25), at(0.5), at(0.75)


def _pairs(before: Sequence[LoadLevel], after: Sequence[LoadLevel]) -> Iterable[LevelPair]:
    others = {band(level.low): level for level in after}
    for level in before:
        other = others.get(band(level.low))
        if other is None or min(level.samples, other.samples) < _FEWEST_IN_LEVEL:
            continue
        if level.generation[1] > 0 and other.generation[1] > 0:
            grown = (other.running / level.running) ** _GROWTH
            yield LevelPair(level, other, other.generation[1] / level.generation[1] / grown)


def _share(pairs: Sequence[LevelPair], levels: Sequence[LoadLevel], side: str) -> float:
    total = sum(level.samples for level in levels)
    return sum(getattr(pair, side).samples for pair in pairs) / total if total else 0.0


def _combined(pairs: Sequence[LevelPair]) -> tuple[float, float, float]:
    weights = [min(pair.before.samples, pair.after.samples) for pair in pairs]
    total = sum(weights)
    mean = sum(weight * math.log(pair.ratio) for weight, pair in zip(weights, pairs, strict=True)) / total
    variance = sum(
        (weight / total) ** 2 * (_variance(pair.before) + _variance(pair.after))
        for weight, pair in zip(weights, pairs, strict=True)
    )
    spread = 2 * math.sqrt(variance)
    return math.exp(mean), math.exp(mean - spread), math.exp(mean + spread)


def _variance(level: LoadLevel) -> float:
    """Variance of a median's logarithm, from the quartiles; neighbouring samples are half the same."""
    low, median, high = level.generation
    deviation = max((high - low) / 1.349 / median, _LEAST_DEVIATION)
    return (1.2533 * deviation) ** 2 / (level.samples / 2)


def _verdict(ratio: float, low: float, high: float) -> str:
    if low <= 1 <= high or abs(ratio - 1) < _SAME:
        return "same"
    return "faster" if ratio > 1 else "slower"


def _why_unknown(
    pairs: Sequence[LevelPair],
    shares: tuple[float, float],
    before: Sequence[LoadLevel],
    after: Sequence[LoadLevel],
) -> str:
    """Return why two logs can't be compared at equal load, or nothing where they can."""
    steady = [sum(level.samples for level in levels) for levels in (before, after)]
    if min(steady) < _FEWEST_PAIRED:
        return (
            f"too few statistics lines in steady work: {steady[0]} in the first log, {steady[1]} in the other"
        )
    if min(shares) < _LEAST_SHARE:
        return (
            f"the load differs too much: {_running(before)} requests running before, {_running(after)} "
            f"after; {100 * shares[0]:.0f} % and {100 * shares[1]:.0f} % of the steady samples have a counterpart"
        )
    paired = sum(min(pair.before.samples, pair.after.samples) for pair in pairs)
    if paired < _FEWEST_PAIRED:
        return (
            f"too few statistics lines at the same load: {paired} in both logs, {_FEWEST_PAIRED} are needed"
        )
    return ""


def _doubts(pairs: Sequence[LevelPair]) -> Iterable[str]:
    mixes = [_mix([pair.before for pair in pairs]), _mix([pair.after for pair in pairs])]
    if min(mixes) >= 0.05 and max(mixes) / min(mixes) > _MIX_FACTOR:
        yield (
            f"the requests differ: {mixes[0]:.2g} prompt tokens for each generated one before, "
            f"{mixes[1]:.2g} after"
        )


def _mix(levels: Sequence[LoadLevel]) -> float:
    prompt = sum(level.prompt * level.samples for level in levels)
    generation = sum(level.generation[1] * level.samples for level in levels)
    return prompt / generation if generation else 0.0


def _running(levels: Sequence[LoadLevel]) -> str:
    """Return the range that holds the middle half of the busy samples."""
    low, _, high = _quartiles([(level.running, level.samples) for level in levels])
    return f"{low:.0f}" if round(low) == round(high) else f"{low:.0f} to {high:.0f}"
