"""Bounded memory of a long log: the first records, the last ones, the errors of each kind, the rest counted."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable
from functools import lru_cache

from msgspec.structs import replace

from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.parse import Record
from vllm_logdoctor.texts import asked_once

FIRST = 4000
LAST = 2500
ERRORS = 12000
ERRORS_OF_A_KIND = 240
_LEAST = 80
"""First, last and serious records that each run may keep, however many runs a log has."""
_LONG = 1000
_MOST_OF_LONG = 8_000_000
"""Characters that messages longer than `_LONG` may have together; those behind them are cut to it."""

_VARIABLE = lazy_pattern(r"0x[0-9a-f]+|[0-9a-f]{8,}|\d+|'[^']{0,200}'|\"[^\"]{0,200}\"", re.IGNORECASE)


def template_of(message: str) -> str:
    """Return a message without what differs each time: numbers, hashes, quoted texts.

    Example:
        >>> template_of("request 17 of 'abc' took 3.2 s")
        'request # of # took #.# s'
    """
    return _template_of(message[:300])


@asked_once
def _template_of(text: str) -> str:
    return _VARIABLE.sub("#", text)


_Kind = tuple[str, str]
"""Level and template."""


class RecordBudget:
    """Records that all runs of a log may keep together beyond the few that each of them may.

    Attributes:
        left: how many more.
    """

    def __init__(self, records: int = 120_000) -> None:
        self.left = records

    def take(self) -> bool:
        """Take one record from the budget; False where none is left."""
        self.left -= 1
        return self.left >= 0


class RecordSampler:
    """Keeps records worth a second look within a bound, whatever the length of the log."""

    def __init__(self, budget: RecordBudget | None = None) -> None:
        self._budget = budget or RecordBudget()
        self._first: list[Record] = []
        self._middle: list[Record] = []
        self._last: deque[tuple[Record, _Kind | None]] = deque()
        self._serious: set[_Kind] = set()
        self._kept: dict[str, int] = {}
        self.left_out = 0
        self._long = 0

    def add(self, record: Record, serious: bool) -> None:
        """Keep a record; `serious` ones are kept from the middle of the log as well, so many of a kind."""
        if len(record.message) > _LONG:
            if self._long > _MOST_OF_LONG:
                record = replace(record, message=record.message[:_LONG], text=record.text[:_LONG])
            self._long += len(record.message)
        if len(self._first) < FIRST and not self._last and (len(self._first) < _LEAST or self._budget.take()):
            self._first.append(record)
            return
        if len(self._last) == LAST or (len(self._last) >= _LEAST and not self._budget.take()):
            self._leave(*self._last.popleft())
        # With the middle full no record is asked for its kind any more.
        kind = _kind_of(record) if serious and len(self._middle) < ERRORS else None
        self._last.append((record, kind))
        if kind is not None:
            self._serious.add(kind)

    def change(self, change: Callable[[Record], Record]) -> None:
        """Change each record that is kept."""
        self._first[:] = map(change, self._first)
        self._middle[:] = map(change, self._middle)
        self._last = deque((change(record), kind) for record, kind in self._last)

    def records(self) -> list[Record]:
        """Return what was kept, in order."""
        return [*self._first, *self._middle, *(record for record, _ in self._last)]

    def _leave(self, record: Record, kind: _Kind | None) -> None:
        if self._serious and len(self._middle) < ERRORS:
            kind = kind or _kind_of(record)
            kept = self._kept.get(kind[1], 0) if kind in self._serious else ERRORS_OF_A_KIND
            if kept < ERRORS_OF_A_KIND and (len(self._middle) < _LEAST or self._budget.take()):
                self._kept[kind[1]] = kept + 1
                self._middle.append(record)
                return
        self.left_out += 1


def _kind_of(record: Record) -> _Kind:
    return _kind(record.level, record.message[:300])


@lru_cache(maxsize=1024)
def _kind(level: str, text: str) -> _Kind:
    return level, _template_of(text)
