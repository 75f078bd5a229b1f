"""The year of the days in a table: of a parameter, of the log, or of the file's last change."""

from __future__ import annotations

from datetime import datetime

import pytest

from vllm_logdoctor.report.frames import Times
from vllm_logdoctor.run.model import Run

DAY = 86400.0
NEW_YEARS_EVE = 365 * DAY
"""December 31st on the scale of logs without years, whose year is 2000."""


def run(first: float, last: float, year_known: bool = False) -> Run:
    return Run(started=first, ended=last, year_known=year_known)


def test_the_year_that_the_log_prints_comes_first_then_the_one_that_is_asked_for() -> None:
    written = datetime(2025, 3, 4)
    assert Times.of_run(run(0.0, 60.0, True), 2024, written) == Times(0.0, 2000, "log")
    assert Times.of_run(run(0.0, 60.0), 2024, written) == Times(0.0, 2024, "parameter")
    assert Times.of_run(run(0.0, 60.0), None, written) == Times(0.0, 2025, "file date")
    assert Times.of_run(run(0.0, 60.0)) == Times(0.0, None, "")
    assert Times.of_run(Run(), 2024, written) == Times(None, None, "")


@pytest.mark.parametrize(
    ("first", "last", "written", "year"),
    [
        (31 * DAY, 32 * DAY, datetime(2025, 2, 2), 2025),
        (31 * DAY, 32 * DAY, datetime(2025, 1, 30), 2024),  # Later in the year than the file's last change.
        (31 * DAY, 32 * DAY, datetime(2025, 2, 1), 2025),  # The zone of the log is ahead by hours.
        (NEW_YEARS_EVE, NEW_YEARS_EVE + 3600, datetime(2025, 1, 1), 2024),
        (NEW_YEARS_EVE, NEW_YEARS_EVE + 2 * DAY, datetime(2025, 1, 3), 2024),  # The year of the begin.
        (366 * DAY, 367 * DAY, datetime(2024, 12, 31), 2024),
    ],
)
def test_the_last_line_is_no_later_than_the_last_change_of_the_file(
    first: float, last: float, written: datetime, year: int
) -> None:
    assert Times.of_run(run(first, last), None, written).year == year


def test_times_are_days_where_the_year_is_known() -> None:
    times = Times.of_run(run(NEW_YEARS_EVE, NEW_YEARS_EVE + 2 * DAY), 2023)
    assert times.at(NEW_YEARS_EVE + 3600) == datetime(2023, 12, 31, 1)
    assert times.at(NEW_YEARS_EVE + DAY) == datetime(2024, 1, 1)
    assert times.at(None) is None
    assert times.at(59 * DAY) is None  # February 29th, which that year does not have.
    assert Times.of_run(run(0.0, 60.0)).at(0.0) is None


def test_seconds_since_the_begin_are_known_without_a_year() -> None:
    assert Times(10.0, None, "").since(70.0) == 60.0
    assert str(Times(10.0, None, "").since(None)) == str(Times(None, None, "").since(70.0)) == "nan"
