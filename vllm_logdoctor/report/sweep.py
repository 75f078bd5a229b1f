"""The steps of a benchmark that sends several loads one after the other: a mean over all of them is the speed of none."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from statistics import median

from msgspec import Struct

from vllm_logdoctor.report.series import Point
from vllm_logdoctor.rules.load import LIKE, is_steady
from vllm_logdoctor.run.model import Run

_LEAST_STEPS = 3
_LEAST_LINES = 2
"""Steady statistics lines from which so many requests at once are a step of the sweep."""


class Step(Struct, frozen=True):
    """Steady statistics lines with about as many running requests: up to twice as many; means of the rates in tokens/s."""

    low: int
    high: int
    lines: int
    running: float
    generation: float
    prompt: float


def steps_of_sweep(run: Run, points: Sequence[Point]) -> tuple[Step, ...]:
    """Return the steps of a sweep; none where the log shows no benchmark, or no three steps."""
    if not (run.load_commands or run.benchmarks) or any(point.lines > 1 for point in points):
        return ()
    bands: defaultdict[int, list[Point]] = defaultdict(list)
    for before, point, after in zip(points, points[1:], points[2:], strict=False):
        if point.running and _is_steady(before, point, after):
            bands[point.running.bit_length()].append(point)
    steps = tuple(_step(bands[number]) for number in sorted(bands) if len(bands[number]) >= _LEAST_LINES)
    return steps if len(steps) >= _LEAST_STEPS else ()


def _is_steady(before: Point, point: Point, after: Point) -> bool:
    """Return whether three lines show about as many requests, and the one between them the speed of another one.

    Where one load ends and the next one begins within an interval, only its tokens are fewer.
    """
    likely = median((before.generation, point.generation, after.generation))
    as_many = is_steady(before.running, point.running) and is_steady(point.running, after.running)
    return as_many and likely / LIKE <= point.generation <= likely * LIKE


def _step(points: Sequence[Point]) -> Step:
    running = [point.running or 0 for point in points]
    lines = len(points)
    generation, prompt = (
        sum(rates) / lines for rates in zip(*((p.generation, p.prompt) for p in points), strict=True)
    )
    return Step(min(running), max(running), lines, sum(running) / lines, generation, prompt)
