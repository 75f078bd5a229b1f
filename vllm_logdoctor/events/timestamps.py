"""Times of lines that are read in one step: every minute is read once."""

from __future__ import annotations

import re

from vllm_logdoctor.parse.clock import seconds_of

_MOST_MINUTES = 256

# 03-01 08:01:    2026-03-01 08:01:
_MINUTE = re.compile(rb"(?:\d{4}-)?\d\d-\d\d \d\d:\d\d:")
_SECONDS = {b"%02d" % second: float(second) for second in range(60)}


class Stamps:
    """Reads times without a fraction.

    Example:
        >>> Stamps().seconds(b"01-01 00:01:05") - Stamps().seconds(b"01-01 00:00:00")
        65.0
    """

    def __init__(self) -> None:
        self._minutes: dict[bytes, float] = {}

    def seconds(self, stamp: bytes) -> float | None:
        """Return the seconds of a time as printed, or None where it is none."""
        second = _SECONDS.get(stamp[-2:])
        if second is None:
            return None
        minute = self._minutes.get(stamp[:-2])
        if minute is None:
            if _MINUTE.fullmatch(stamp[:-2]) is None:
                return None
            found = seconds_of(stamp[:-2].decode() + "00")
            if found is None:
                return None
            if len(self._minutes) == _MOST_MINUTES:
                self._minutes.clear()
            minute = self._minutes[stamp[:-2]] = found[0]
        return minute + second
