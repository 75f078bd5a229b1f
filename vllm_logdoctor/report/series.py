"""Series for charts: the engines' statistics lines in sum, and requests by minute."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Protocol, TypeVar

from msgspec import Struct

from vllm_logdoctor.run.minutes import is_probe
from vllm_logdoctor.run.model import Run, Sample

_TOGETHER = 5.0
"""Lines of several engines within so many seconds belong to one point."""


_SILENCE = 25.0
_MISSING = 3
"""So many seconds, and so many usual steps, without a line are a gap."""


class Point(Struct, frozen=True):
    """All engines at one time: rates and requests in sum, the fullest KV cache.

    Attributes:
        time: seconds on the run's clock, or None.
        prompt, generation: tokens/s.
        running, waiting: requests, or None where not printed.
        kv_usage: percent, or None where not printed.
        lines: statistics lines of each engine in this point; rates are their mean, the rest their highest.
    """

    time: float | None
    prompt: float
    generation: float
    running: int | None
    waiting: int | None
    kv_usage: float | None
    lines: int = 1


class Minute(Struct, frozen=True):
    """Answered requests of one minute by the first digit of their status; seconds on the run's clock."""

    time: float
    by_family: dict[int, int]


def points_of(run: Run, most: int = 3000) -> list[Point]:
    """Return the series of a run, thinned to at most `most` points (means of rates, maxima of the rest)."""
    points = [_point(group) for group in _groups(run.samples)]
    size = max(1, -(-len(points) // most))
    return points if size == 1 else [_merged(points[at : at + size]) for at in range(0, len(points), size)]


def usual_step(times: Sequence[float]) -> float:
    """Return the median of the seconds between neighbors; 0 for fewer than two times."""
    steps = sorted(after - before for before, after in pairwise(times))
    return steps[len(steps) // 2] if steps else 0.0


def gap_length(times: Sequence[float]) -> float:
    """Return from how many seconds without a line on the series has a gap.

    Example:
        >>> gap_length([0.0, 10.0, 20.0, 30.0]), gap_length([0.0, 5.0, 10.0])
        (30.0, 25.0)
    """
    return max(_SILENCE, _MISSING * usual_step(times))


class Timed(Protocol):
    """What has a time on the run's clock, or None."""

    @property
    def time(self) -> float | None:
        """Seconds on the run's clock."""


Reading = TypeVar("Reading", bound=Timed)


def unbroken_parts(points: Sequence[Reading]) -> list[list[Reading]]:
    """Split a series where lines are missing: an idle server prints none, and no curve leads across that.

    Example:
        >>> points = [Point(10.0 * n, 0, 0, None, None, None) for n in (0, 1, 2, 60, 61)]
        >>> [len(stretch) for stretch in unbroken_parts(points)]
        [3, 2]
    """
    times = [point.time for point in points if point.time is not None]
    if len(times) < 2:
        return [list(points)] if points else []
    longest = gap_length(times)
    found = [[points[0]]]
    for before, after in pairwise(points):
        if before.time is not None and after.time is not None and after.time - before.time > longest:
            found.append([])
        found[-1].append(after)
    return found


def minutes_of(run: Run) -> list[Minute]:
    """Return answered requests by minute, in order, without those of monitoring and those without a time."""
    minutes = []
    for minute, counts in sorted(run.requests_by_minute.items()):
        families: dict[int, int] = {}
        for (method, path, status), count in counts.items():
            if not is_probe(method, path):
                families[status // 100] = families.get(status // 100, 0) + count
        if minute >= 0 and families:
            minutes.append(Minute(minute * 60.0, families))
    return minutes


def requests_by_time(run: Run, most: int = 1500) -> list[tuple[int, int, Counter[int]]]:
    """Return answered requests as (first minute, length in minutes, requests by status), at most about `most`."""
    known = sorted(minute for minute in run.accesses_by_minute if minute >= 0)
    if not known:
        return []
    length = -(-(known[-1] - known[0] + 1) // most)
    buckets: dict[int, Counter[int]] = {}
    for minute in known:
        buckets.setdefault(minute // length * length, Counter()).update(run.accesses_by_minute[minute])
    return [(minute, length, counts) for minute, counts in buckets.items()]


def _groups(samples: Sequence[Sample]) -> Iterator[list[Sample]]:
    aggregated = any(sample.engine < 0 for sample in samples)
    group: list[Sample] = []
    for sample in samples:
        if aggregated and sample.engine >= 0:
            continue
        if group and (any(sample.engine == other.engine for other in group) or not _near(group[0], sample)):
            yield group
            group = []
        group.append(sample)
    if group:
        yield group


def _near(first: Sample, other: Sample) -> bool:
    if first.time is None or other.time is None:
        return first.time is None and other.time is None
    return abs(other.time - first.time) <= _TOGETHER


def _point(group: Sequence[Sample]) -> Point:
    return Point(
        group[0].time,
        sum(sample.prompt for sample in group),
        sum(sample.generation for sample in group),
        _total([sample.running for sample in group]),
        _total([sample.waiting for sample in group]),
        max((sample.kv_usage for sample in group if sample.kv_usage is not None), default=None),
        max(sample.count for sample in group),
    )


def _total(values: Sequence[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _merged(points: Sequence[Point]) -> Point:
    return Point(
        points[0].time,
        sum(point.prompt for point in points) / len(points),
        sum(point.generation for point in points) / len(points),
        max((point.running for point in points if point.running is not None), default=None),
        max((point.waiting for point in points if point.waiting is not None), default=None),
        max((point.kv_usage for point in points if point.kv_usage is not None), default=None),
        sum(point.lines for point in points),
    )
