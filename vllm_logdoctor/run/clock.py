"""The clock of a run: printed times on one growing scale."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from vllm_logdoctor.parse.clock import with_year_of

_HALF_YEAR = 183 * 86400.0
_LEAP_YEAR = 366 * 86400.0
_LEAST_FALLS = 5
_FALLS_PER_RISE = 10


class Clock(Struct):
    """Turns printed times into one growing scale; counts turns of the year, keeps jumps back.

    The first time decides whether the scale has years: other writers may print what the rest of the log does not.
    """

    offset: float = 0.0
    first: float | None = None
    last: float | None = None
    newest: float | None = None
    year_known: bool = False
    steps_back: int = 0
    falls: int = 0
    rises: int = 0

    @property
    def backwards(self) -> bool:
        """Whether time falls from line to line: an export with the newest line first."""
        return runs_backwards((self,))

    def at_time(self, printed: float, year_known: bool) -> float:
        """Return a printed time on the run's scale."""
        if self.last is None:
            self.year_known = year_known
        elif year_known != self.year_known:
            printed = with_year_of(printed, self.last) - (0.0 if self.year_known else self.offset)
        time = printed + (0.0 if self.year_known else self.offset)
        if time == self.last:
            return time
        if self.last is not None and not self.year_known and self.last - time > _HALF_YEAR:
            self.offset += _LEAP_YEAR
            time += _LEAP_YEAR
        if self.last is not None and time < self.last - 300:
            self.steps_back += 1
        if self.last is not None and time < self.last:
            self.falls += 1
        elif self.last is not None and time > self.last:
            self.rises += 1
        self.last = time
        self.first = time if self.first is None else self.first
        if self.newest is None or time > self.newest:
            self.newest = time
        return time


def runs_backwards(clocks: Iterable[Clock]) -> bool:
    """Say whether time falls from line to line over all of the clocks; single steps back are common, and other writers'."""
    falls = rises = 0
    for clock in clocks:
        falls, rises = falls + clock.falls, rises + clock.rises
    return falls >= _LEAST_FALLS and falls >= _FALLS_PER_RISE * rises
