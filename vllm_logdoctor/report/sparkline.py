"""A curve in one line of text."""

from __future__ import annotations

import math
from collections.abc import Sequence

from vllm_logdoctor.report.series import usual_step

_STEPS = "▁▂▃▄▅▆▇█"
_SAME = 1.5
"""Usual steps up to which two lines follow each other: between others some are missing."""

Place = tuple[float | None, float | None]
"""A time and a value; None where not known."""


def sparkline(columns: Sequence[float | None], full: float | None = None) -> str:
    """Return one character a column, from zero to `full` or else to the highest value; a gap is a space.

    Example:
        >>> sparkline([0, 1, 2, None, 4]), sparkline([0.2, 0.1], 100)
        ('▁▂▄ █', '▁▁')
    """
    top = full or max((value for value in columns if value is not None), default=0.0)
    return "".join(" " if value is None else _step(value, top) for value in columns)


def timed_columns(places: Sequence[Place], width: int) -> list[float | None]:
    """Return the mean of each of at most `width` equal spans of time; None in spans where lines are missing.

    Args:
        places: values with their times, which a clock that was set back may have out of order; without times each is one step.
        width: most columns.

    Example:
        >>> timed_columns([(0.0, 4.0), (10.0, 6.0), (20.0, 5.0), (400.0, 8.0)], 4)
        [5.0, None, None, 8.0]
    """
    known = [(time, value) for time, value in places if value is not None and math.isfinite(value)]
    if not known:
        return []
    times = sorted(time for time, _ in known if time is not None)
    if len(times) < len(known) or times[-1] <= times[0]:
        return _in_equal_parts([value for _, value in known], min(width, len(known)))
    usual = usual_step(times) or times[-1] - times[0]
    width = min(width, round((times[-1] - times[0]) / usual) + 1)
    step = (times[-1] - times[0]) / width
    columns: list[list[float]] = [[] for _ in range(width)]
    before, last = -1, times[0]
    for time, value in sorted((time, value) for time, value in known if time is not None):
        place = min(width - 1, int((time - times[0]) / step))
        # A line is of the interval before it.
        follows = before >= 0 and time - last <= _SAME * usual
        for at in range(min(before + 1, place) if follows else place, place + 1):
            columns[at].append(value)
        before, last = place, time
    return [sum(values) / len(values) if values else None for values in columns]


def _in_equal_parts(values: Sequence[float], width: int) -> list[float | None]:
    parts = [values[at * len(values) // width : (at + 1) * len(values) // width] for at in range(width)]
    return [sum(part) / len(part) for part in parts]


def _step(value: float, top: float) -> str:
    if top <= 0 or value <= 0 or not math.isfinite(value):
        return _STEPS[0]
    return _STEPS[min(len(_STEPS) - 1, int(value / top * (len(_STEPS) - 1)))]
