"""Printed times to seconds."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vllm_logdoctor.parse.clock import seconds_of

moments = st.datetimes(min_value=datetime(2020, 1, 1), max_value=datetime(2035, 12, 31)).map(
    lambda m: m.replace(microsecond=0)
)


@given(moments, st.integers(0, 10**6))
def test_differences_of_printed_times_are_differences_of_moments(moment: datetime, later: int) -> None:
    first, second = (
        seconds_of(m.strftime("%Y-%m-%d %H:%M:%S")) for m in (moment, moment + timedelta(seconds=later))
    )
    assert first is not None
    assert second is not None
    assert second[0] - first[0] == later


@pytest.mark.parametrize(
    ("text", "year_known"),
    [
        ("03-04 10:11:12", False),
        ("2026-03-04 10:11:12,345", True),
        ("2026-03-04T10:11:12.345678901Z", True),
        ("Mar 4 10:11:12", False),
        ("авг 18 10:11:12", False),
    ],
)
def test_a_year_is_known_where_it_is_printed(text: str, year_known: bool) -> None:
    found = seconds_of(text)
    assert found is not None
    assert found[0] % 86400 // 1 == 10 * 3600 + 11 * 60 + 12
    assert found[1] == year_known


@pytest.mark.parametrize(
    ("name", "month"), [("Jan", 1), ("Feb", 2), ("Mär", 3), ("авг", 8), ("oct", 10), ("Dez", 12)]
)
def test_a_month_by_name_is_the_month_by_number(name: str, month: int) -> None:
    assert seconds_of(f"{name} 4 10:11:12") == seconds_of(f"{month:02d}-04 10:11:12")


def test_february_29_has_a_place_without_a_year() -> None:
    assert seconds_of("02-29 00:00:00") is not None


@pytest.mark.parametrize("text", ["", "13-01 00:00:00", "02-31 00:00:00", "10:11:12", "Foo 4 10:11:12"])
def test_what_is_no_time_gives_none(text: str) -> None:
    assert seconds_of(text) is None
