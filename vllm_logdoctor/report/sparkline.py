"""A curve in one line of text."""

from __future__ import annotations

import math
from collections.abc import Sequence

from vllm_logdoctor.report.series import gap_length, usual_step

_STEPS = "▁▂▃▄▅▆▇█"

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
    length = times[-1] - times[0]
    width = min(width, round(length / (usual_step(times) or length)) + 1)
    step = length / width
    columns: list[list[float]] = [[] for _ in range(width)]
    for time, value in known:
        if time is not None:
            columns[min(width - 1, int((time - times[0]) / step))].append(value)
    return _carried(columns, gap_length(times) / step)


def _carried(columns: Sequence[Sequence[float]], longest: float) -> list[float | None]:
    """Return the mean of each column; an empty one repeats the one before it unless lines are missing."""
    out: list[float | None] = []
    empty = 0
    for number, values in enumerate(columns):
        if values:
            out.append(sum(values) / len(values))
            empty = 0
            continue
        if not empty:
            empty = next((n for n, later in enumerate(columns[number:]) if later), 0)
        out.append(out[-1] if empty <= longest and out else None)
    return out


def _in_equal_parts(values: Sequence[float], width: int) -> list[float | None]:
    parts = [values[at * len(values) // width : (at + 1) * len(values) // width] for at in range(width)]
    return [sum(part) / len(part) for part in parts]


def _step(value: float, top: float) -> str:
    if top <= 0 or value <= 0 or not math.isfinite(value):
        return _STEPS[0]
    return _STEPS[min(len(_STEPS) - 1, int(value / top * (len(_STEPS) - 1)))]
