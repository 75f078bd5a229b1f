"""Clocks: text of a time to seconds; no year and no zone are common and stay unknown."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from functools import lru_cache

from vllm_logdoctor.lazy import lazy_pattern

UNKNOWN_YEAR = 2000
"""Stands for a year that the log does not print; a leap year, so that February 29th has a place."""
_EPOCH = datetime(UNKNOWN_YEAR, 1, 1)

# 02-09 19:43:55    2025-07-16 12:29:43,921    02-16 16:40:17.843
_LOGGER_TIME = lazy_pattern(r"(?:(\d{4})-)?(\d\d)-(\d\d) (\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?$")
# 2024-05-01T08:45:12.669025667Z    2025-08-07 19:00:10
_ISO_TIME = lazy_pattern(r"(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?")
_MONTHS = {
    name: number
    for number, names in enumerate(
        (
            "jan янв ene gen ян", "feb фев", "mar мар mär mrz", "apr апр abr avr", "may май mai mag мая", "jun июн giu jui",
            "jul июл lug", "aug авг ago aoû", "sep сен set", "oct окт okt ott", "nov ноя", "dec дек dez dic déc",
        ),
        start=1,
    )
    for name in names.split()
}  # fmt: skip
_SHORT_MONTH = lazy_pattern(r"(\w{3})\w*\.? +(\d{1,2}) (\d\d):(\d\d):(\d\d)$")


@lru_cache(maxsize=256)
def seconds_of(text: str) -> tuple[float, bool] | None:
    """Turn a printed time into (seconds since January 1st 2000, whether the year was printed).

    Without a printed year the year is taken as 2000; the package run resolves turns of the year by order.

    Example:
        >>> seconds_of("01-02 00:00:01")
        (86401.0, False)
        >>> seconds_of("not a time") is None
        True
    """
    match = _LOGGER_TIME.match(text) or _ISO_TIME.match(text)
    if match:
        year, *numbers, fraction = match.groups()
        return _seconds(int(year) if year else None, numbers, fraction)
    match = _SHORT_MONTH.match(text)
    if match:
        name, *numbers = match.groups()
        month = _MONTHS.get(name.lower()[:3])
        return _seconds(None, [month, *numbers]) if month else None
    return None


def _seconds(
    year: int | None, numbers: Iterable[str | int], fraction: str | None = None
) -> tuple[float, bool] | None:
    month, day, hour, minute, second = map(int, numbers)
    midnight = _midnight(year or UNKNOWN_YEAR, month, day)
    if midnight is None or hour > 23 or minute > 59 or second > 59:
        return None
    part = float("0." + fraction) if fraction else 0.0
    return midnight + hour * 3600 + minute * 60 + second + part, year is not None


@lru_cache(maxsize=64)
def _midnight(year: int, month: int, day: int) -> float | None:
    try:
        return (datetime(year, month, day) - _EPOCH).total_seconds()
    except ValueError:
        return None


@lru_cache(maxsize=64)  # Many lines are of one second.
def with_year_of(time: float, outer: float) -> float:
    """Give a time without year the year that brings it nearest to a wrapper's clock.

    Args:
        time: seconds as `seconds_of` gives them for a time without year.
        outer: seconds of the wrapper's clock, its year known.

    Example:
        >>> own, wrapper = seconds_of("12-31 23:59:59"), seconds_of("2027-01-01T04:59:59Z")
        >>> wrapper[0] - with_year_of(own[0], wrapper[0])
        18000.0
    """
    try:
        moment, wrapper = _EPOCH + timedelta(seconds=time), _EPOCH + timedelta(seconds=outer)
    except OverflowError:
        return time  # 9999-12-31T23:59:59.999999999Z
    near = []
    for year in (wrapper.year - 1, wrapper.year, wrapper.year + 1):
        try:
            near.append((moment.replace(year=year) - _EPOCH).total_seconds())
        except ValueError:
            continue  # February 29th
    return min(near, key=lambda seconds: abs(seconds - outer)) if near else time
