"""A curve in one line of text."""

from __future__ import annotations

import math
from collections.abc import Sequence

_STEPS = "▁▂▃▄▅▆▇█"


def sparkline(values: Sequence[float | None], width: int = 60) -> str:
    """Return a curve from zero to the highest value; a column shows its highest value, a gap is a space.

    Example:
        >>> sparkline([0, 1, 2, None, 4])
        '▁▂▄ █'
    """
    known = [value for value in values if value is not None and math.isfinite(value)]
    top = max(known, default=0.0)
    columns = [_column(values, column, min(width, len(values))) for column in range(min(width, len(values)))]
    return "".join(" " if value is None else _step(value, top) for value in columns)


def _column(values: Sequence[float | None], column: int, width: int) -> float | None:
    start, end = column * len(values) // width, (column + 1) * len(values) // width
    inside = [value for value in values[start:end] if value is not None and math.isfinite(value)]
    return max(inside, default=None)


def _step(value: float, top: float) -> str:
    if top <= 0 or value <= 0:
        return _STEPS[0]
    return _STEPS[min(len(_STEPS) - 1, int(value / top * (len(_STEPS) - 1)))]
