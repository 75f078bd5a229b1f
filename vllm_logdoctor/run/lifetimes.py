"""Containers, jobs and lines of a kernel that are of the time of a run, whatever the zones of their clocks."""

from __future__ import annotations

from datetime import datetime

from vllm_logdoctor.evidence.model import BEGINS, EvidenceFile
from vllm_logdoctor.parse.clock import UNKNOWN_YEAR, seconds_of, with_year_of
from vllm_logdoctor.run.model import Run

ZONES = 26 * 3600.0
"""No two zones are farther apart; neither a log nor a kernel prints its own."""
_ZONE_STEP = 900.0
_WIDEST_ZONE = 14 * 3600.0
_BEGINS_WITHIN = 600.0
_ENDS_WITHIN = 120.0


def lived_together(file: EvidenceFile, run: Run) -> bool | None:
    """Return whether something began and ended with a run, on a clock of any zone; False where it did at another time.

    None where it prints no times, or the run has none, or only one end of both agrees: that is chance.
    """
    if run.started is None or run.ended is None:
        return None
    began: float | None = None
    agrees = None
    for one in file.identity.times:
        time = _moment(str(one.value), run)
        if time is None:
            continue
        if one.name in BEGINS:
            began = time
            agrees = False if time > run.ended + ZONES else agrees
        elif time < run.started - ZONES:
            agrees = False
        elif began is not None and _is_life(began, time, run.started, run.ended):
            return True
    return agrees


def in_time_of(run: Run, text: str) -> bool | None:
    """Return whether a printed time lies in the time of a run; None where one of them is not known."""
    time = _moment(text, run)
    if time is None or run.started is None or run.ended is None:
        return None
    return run.started - ZONES <= time <= run.ended + ZONES


def _is_life(began: float, ended: float, started: float, last: float) -> bool:
    """Return whether there is a zone in which both begin and both end together."""
    zone = round((last - ended) / _ZONE_STEP) * _ZONE_STEP
    return (
        abs(zone) <= _WIDEST_ZONE
        and abs(ended + zone - last) <= _ENDS_WITHIN
        and -_ENDS_WITHIN <= started - (began + zone) <= _BEGINS_WITHIN
    )


def _moment(text: str, run: Run) -> float | None:
    """Return a printed time on the clock of a run.

    "2026-11-21T00:02:41Z", "Tue, 06 May 2025 17:37:06 +0000", "Mon Jun 13 10:02:41 2016", "Aug 01 18:01:30"
    """
    found = seconds_of(text)
    if found is None:
        # With what it imports it takes as long as a tenth of a short log's analysis.
        from email.utils import parsedate

        parts = parsedate(text)
        if parts is None or parts[0] < UNKNOWN_YEAR:
            return None
        found = (datetime(*parts[:6]) - datetime(UNKNOWN_YEAR, 1, 1)).total_seconds(), True
    time, year_known = found
    if run.started is None or year_known == run.year_known:
        return time
    if run.year_known:
        return with_year_of(time, run.started)
    # The log has no year: that of the other clock is taken off.
    return time + run.started - with_year_of(run.started, time)
