"""Times as text: ISO 8601 where the year is known, else the printed month and day."""

from __future__ import annotations

import math
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vllm_logdoctor.run.model import Run

_EPOCH = datetime(2000, 1, 1)


def moment(seconds: float | None) -> datetime | None:
    """Return seconds on a run's clock as a naive datetime, or None where there is no such day.

    Example:
        >>> moment(86401.0)
        datetime.datetime(2000, 1, 2, 0, 0, 1)
    """
    if seconds is None or not math.isfinite(seconds):
        return None
    try:
        return _EPOCH + timedelta(seconds=seconds)
    except OverflowError:
        return None


def iso(seconds: float | None, year_known: bool) -> str | None:
    """Return a time as ISO 8601 without zone, or None where the year is not known.

    Example:
        >>> iso(86401.0, True), iso(86401.0, False)
        ('2000-01-02T00:00:01', None)
    """
    when = moment(seconds)
    if when is None or not year_known:
        return None
    return when.isoformat(timespec="milliseconds" if when.microsecond else "seconds")


def clock(seconds: float | None) -> str | None:
    """Return the month, day and time as logs print it, whatever the year.

    Example:
        >>> clock(86401.0)
        '01-02 00:00:01'
    """
    when = moment(seconds)
    return when.strftime("%m-%d %H:%M:%S") if when else None


def time_of_day(seconds: float | None) -> str:
    """Return hours, minutes and seconds, or an empty text.

    Example:
        >>> time_of_day(86401.0)
        '00:00:01'
    """
    when = moment(seconds)
    return when.strftime("%H:%M:%S") if when else ""


def moment_of(run: Run, seconds: float | None) -> str:
    """Return the time of day, with the day where a run lasts into another one."""
    first, last = moment(run.started), moment(run.ended)
    days = first is not None and last is not None and first.date() != last.date()
    return (clock(seconds) or "") if days else time_of_day(seconds)
