"""The clock of a run: printed times on one growing scale; lengths of time as text."""

from __future__ import annotations

import math
from collections.abc import Iterable

from msgspec import Struct

from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.parse import Record
from vllm_logdoctor.parse.clock import seconds_of, with_year_of

_MINUTE = 60
_HOUR = 3600
_HALF_YEAR = 183 * 86400.0
_LEAP_YEAR = 366 * 86400.0
_JUMP = 3600.0
_LINES_TO_MOVE = 12
LINES_OF_WRAPPER = 2
"""A wrapper stamps lines as it gets them, and a quote of another log is inside a line."""
_LONGEST_PAUSE = 31 * 86400.0
_LEAST_FALLS = 5
_FALLS_PER_RISE = 10


# [ERROR] 2026-08-05-07:47:31 (PID:560410, Device:-1, RankID:-1) ERR99999 UNKNOWN application exception
_OF_CANN = lazy_pattern(r"\s*\[[A-Z]+\] (?P<date>20\d\d-\d\d-\d\d)-(?P<time>\d\d:\d\d:\d\d) \(PID:")
# [rank0]:[W107 13:38:18.602010047 ProcessGroupNCCL.cpp:1250] Warning: ...       Month 1, day 07.
_OF_TORCH = lazy_pattern(
    r"(?:\[rank\d+\]:)?\[[IWEF](?P<month>1?\d)(?P<day>\d\d) (?P<time>\d\d:\d\d:\d\d)\.\d+ [\w./]+:\d+\]"
)


def stamp_of_library(record: Record) -> tuple[float, bool] | None:
    """Return when the logger of torch's C++ code or of CANN, which have the clock of vLLM's, wrote a line; None for lines of others."""
    if record.call_site is not None:
        return None
    if cann := _OF_CANN.match(record.message):
        return seconds_of(f"{cann['date']} {cann['time']}")
    if record.level:
        return None
    stamp = _OF_TORCH.match(record.text)
    return seconds_of(f"{stamp['month']:0>2}-{stamp['day']} {stamp['time']}") if stamp else None


class Clock(Struct):
    """Turns printed times into one growing scale; counts turns of the year, keeps jumps back.

    The first time decides whether the scale has years: other writers may print what the rest of the log does not.
    A time far from the one before it moves the clock only if the log goes on from there: a prompt may quote the
    header of another log.

    Attributes:
        first, last: the first and the latest time read.
        oldest: the smallest time; a clock that jumps back is of another log in the file.
        newest: the largest time.
        away: the last time far from `last`, while it is not known whether the log goes on from there.
        away_lines: times since the clock is away.
        lines_to_move: so many times in a row far from `last` move the clock.
    """

    offset: float = 0.0
    first: float | None = None
    last: float | None = None
    oldest: float | None = None
    newest: float | None = None
    year_known: bool = False
    falls: int = 0
    rises: int = 0
    away: float | None = None
    away_lines: int = 0
    lines_to_move: int = _LINES_TO_MOVE

    @property
    def backwards(self) -> bool:
        """Return whether time falls from line to line: an export with the newest line first."""
        return runs_backwards((self,))

    @property
    def end(self) -> float | None:
        """The largest time; a log may end soon after an idle night."""
        if (
            self.away is not None
            and self.newest is not None
            and 0 < self.away - self.newest <= _LONGEST_PAUSE
        ):
            return self.away
        return self.newest

    def shift(self, seconds: float) -> None:
        """Move the scale, from one without years to one with them."""
        self.year_known = True
        for name in ("first", "last", "oldest", "newest", "away"):
            time = getattr(self, name)
            setattr(self, name, None if time is None else time + seconds)

    def follow(self, printed: float, year_known: bool) -> float | None:
        """Return a time that a library printed on the run's scale, None where it is far from the loggers': of another run in the file."""
        if self.last is not None:
            near = printed if year_known == self.year_known else with_year_of(printed, self.last)
            if abs(near - self.last) > _JUMP:
                return None
        return self.at_time(printed, year_known)

    def at_time(self, printed: float, year_known: bool) -> float:
        """Return a printed time on the run's scale."""
        if self.last is None:
            self.year_known = year_known
        elif year_known != self.year_known:
            printed = with_year_of(printed, self.last) - (0.0 if self.year_known else self.offset)
        time = printed + (0.0 if self.year_known else self.offset)
        if self.last is None:
            self.first = time
            self._move(time)
            return time
        if time == self.last:
            return time
        turned = time + _LEAP_YEAR if not self.year_known and self.last - time > _HALF_YEAR else time
        if abs(turned - self.last) > _JUMP and not self._goes_on_from(turned):
            return turned
        self.offset += turned - time
        self.away, self.away_lines = None, 0
        self._move(turned)
        return turned

    def _goes_on_from(self, time: float) -> bool:
        """Return whether so many lines in a row are near a time that the clock has moved there."""
        self.away_lines = (
            self.away_lines + 1 if self.away is not None and abs(time - self.away) <= _JUMP else 1
        )
        self.away = time
        return self.away_lines >= self.lines_to_move

    def _move(self, time: float) -> None:
        if self.last is not None:
            self.falls += time < self.last
            self.rises += time > self.last
        self.last = time
        if self.newest is None or time > self.newest:
            self.newest = time
        if self.oldest is None or self.oldest - _JUMP <= time < self.oldest:
            self.oldest = time


def runs_backwards(clocks: Iterable[Clock]) -> bool:
    """Return whether time falls from line to line over all of the clocks; single steps back are common, and other writers'."""
    falls = rises = 0
    for clock in clocks:
        falls, rises = falls + clock.falls, rises + clock.rises
    return falls >= _LEAST_FALLS and falls >= _FALLS_PER_RISE * rises


def duration(seconds: float | None) -> str:
    """Return a length of time in the two largest units that say something.

    Example:
        >>> duration(34331), duration(1111), duration(44.12), duration(0.04)
        ('9 h 32 min', '18 min 31 s', '44.1 s', '0.04 s')
    """
    if seconds is None or not math.isfinite(seconds):
        return "unknown"
    if seconds < 0:
        return f"-{duration(-seconds)}"
    if seconds < 1:
        return f"{seconds:.2g} s" if seconds else "0 s"
    if seconds < _MINUTE:
        return f"{seconds:.1f} s".replace(".0 s", " s")
    whole = round(seconds)
    if whole < _HOUR:
        return _two(whole // _MINUTE, "min", whole % _MINUTE, "s")
    minutes = round(seconds / _MINUTE)
    if minutes < 24 * 60:
        return _two(minutes // 60, "h", minutes % 60, "min")
    hours = round(seconds / _HOUR)
    return _two(hours // 24, "days" if hours // 24 != 1 else "day", hours % 24, "h")


def _two(large: int, large_unit: str, small: int, small_unit: str) -> str:
    return f"{large} {large_unit} {small} {small_unit}" if small else f"{large} {large_unit}"
