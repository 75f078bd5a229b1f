"""The year of a run whose logger prints none, taken from the dates that other writers print beside it."""

from __future__ import annotations

from typing import TypeVar

from msgspec.structs import replace

from vllm_logdoctor.events import Event
from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.parse import Record
from vllm_logdoctor.parse.clock import seconds_of, with_year_of
from vllm_logdoctor.run.model import Progress, Speculation, Transfer

_Gauge = TypeVar("_Gauge", Speculation, Transfer, Progress)

_NEAR = 2 * 86400.0
"""Zones differ by a day at most; a date further away is quoted, or of another run."""
_MOST_LINES = 4000
_BEGIN = 40
# time="2025-08-07T18:58:28+02:00" level=warning msg=...      > [2024-09-05T00:38:34Z] INFO: Started server process [60858]
# [rank0]: 2024-09-23 17:49:54.998211: I tensorflow/core/...      "receiveTimestamp": "2026-06-06T03:39:14.102417234Z",
_DATE = lazy_pattern(r"\W{0,6}(?:[A-Za-z_]\w{0,20}\W{1,5})?(?P<date>20\d\d-\d\d-\d\d)[T ]\d\d:")


class YearFinder:
    """Finds how far the times of a run have to be moved to be in their year."""

    def __init__(self) -> None:
        self._printed: float | None = None
        self._lines = 0

    def shift(self, record: Record, now: float | None) -> float | None:
        """Return the seconds from the run's scale to that with the year, at the first line that shows them.

        Args:
            record: the next record.
            now: the time on the run's scale, or None where it has none yet.
        """
        if self._lines >= _MOST_LINES or (self._printed is None and record.level and not record.year_known):
            return None
        found = _printed_time(record)
        self._lines += found is None and record.level == ""
        if found is not None:
            self._printed = found
        if self._printed is None or now is None:
            return None
        dated = with_year_of(now, self._printed)
        if abs(dated - self._printed) <= _NEAR:
            return dated - now
        self._printed = None
        return None


def _printed_time(record: Record) -> float | None:
    """Return the time with a year that a line prints, or None."""
    if record.year_known:
        return record.outer_time if record.outer_time is not None else record.time
    if record.level or not ("-" in record.text or "-" in record.message):
        return None
    found = _DATE.match(record.text[:_BEGIN]) or _DATE.match(record.message[:_BEGIN])
    time = seconds_of(f"{found['date']} 12:00:00") if found else None
    return time[0] if time else None


def dated(record: Record, shift: float) -> Record:
    """Return a record with its time moved into its year."""
    if record.time is None or record.year_known:
        return record
    return replace(record, time=record.time + shift, year_known=True)


def dated_event(event: Event, shift: float) -> Event:
    """Return an event with the time of its record moved into its year."""
    return replace(event, record=dated(event.record, shift))


def moved(gauge: _Gauge, seconds: float) -> _Gauge:
    """Return figures with their time moved."""
    return gauge if gauge.time is None else replace(gauge, time=gauge.time + seconds)
