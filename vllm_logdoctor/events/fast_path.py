"""Lines whose head is known are read in one step: the long way (framing, masking, patterns) took such a line before.

What stands before the message of one writer is the same in a million lines but for the time. The long way says once
who writes there, and which pattern takes the line.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

from vllm_logdoctor.events.event import Event
from vllm_logdoctor.events.timestamps import Stamps
from vllm_logdoctor.parse import Process, Record
from vllm_logdoctor.scan import Line

# (APIServer pid=70) INFO 03-01 08:01:10 [loggers.py:127] Engine 000: ...        INFO 05-01 12:00:00 [async_llm.py:271] Added request ...
_HEAD = (
    rb"(?P<before>(?:\([A-Za-z_]\w*(?: [A-Z]{2,4}\d+)? pid=\d{1,9}\) )?INFO )(?P<stamp>(?:\d{4}-)?\d\d-\d\d \d\d:\d\d:\d\d)"
    rb"(?P<rest> \[[A-Za-z][A-Za-z0-9_./]{0,150}:\d{1,6}\] %s)"
)

Told = tuple[Record, "Event | None"]


class Figures(NamedTuple):
    """What a statistics line prints; not a number where it does not print it."""

    engine: float
    prompt: float
    generation: float
    running: float
    swapped: float
    waiting: float
    kv_usage: float
    prefix_hit: float
    external_hit: float
    mm_hit: float


class LinePrefix(NamedTuple):
    """What stands before the message in the lines of one writer, and what the long way made of it.

    Attributes:
        before: bytes before the time.
        rest: bytes between the time and what differs from line to line.
        place: where `rest` begins; the time has a fixed length.
        gates: numbers of the gates in such a line.
        pattern: name of the pattern that takes the line.
        process: who writes them.
        year_known: whether their time holds the year.
    """

    before: bytes
    rest: bytes
    place: int
    gates: tuple[int, ...]
    pattern: str
    process: Process
    year_known: bool

    @property
    def end(self) -> int:
        """Where what differs begins."""
        return self.place + len(self.rest)


class FastLine(NamedTuple):
    """A line that was read in one step.

    Attributes:
        line: the line.
        head: its head.
        time: seconds on the log's own clock.
        lines: how many like it it stands for.
        figures: what it prints where it is a statistics line.
        tell: goes the long way with it, where a record is asked for.
    """

    line: Line
    head: LinePrefix
    time: float
    lines: int
    figures: Figures | None
    tell: Callable[[Line], Told]

    def told(self) -> Told:
        """Return the record and the event that the long way makes of the line."""
        return self.tell(self.line)


@lru_cache(maxsize=8)
def _shape(begins: bytes) -> re.Pattern[bytes]:
    return re.compile(_HEAD % begins)


class LinePrefixes:
    """Heads of lines that went the long way.

    Args:
        begins: an expression for what the message begins with.
        most: heads that are kept.
    """

    def __init__(self, begins: bytes, most: int) -> None:
        self._begins = begins
        self._most = most
        self._heads: list[LinePrefix] = []
        self._stamps = Stamps()

    def head_of(self, data: bytes) -> LinePrefix | None:
        """Return the head of a line, or None where it is not known."""
        for head in self._heads:
            if data.startswith(head.before) and data.startswith(head.rest, head.place):
                return head
        return None

    def time_of(self, data: bytes, head: LinePrefix) -> float | None:
        """Return the seconds of the time in a line's head, or None where there is none."""
        return self._stamps.seconds(data[len(head.before) : head.place])

    def learn(self, line: Line, record: Record, event: Event) -> None:
        """Note the head of a line that went the long way."""
        found = _shape(self._begins).match(line.data)
        if found is None or not event.pattern.trusted or len(self._heads) == self._most:
            return
        head = LinePrefix(
            found["before"], found["rest"], found.start("rest"), line.gates, event.pattern.id, record.process, record.year_known
        )  # fmt: skip
        if record.level == "INFO" and record.outer_time is None and head not in self._heads:
            self._heads.append(head)
