"""Statistics lines of a usual shape, read in one step: a server that runs for weeks writes a million of them.

The long way (framing, masking, patterns, a record and an event) costs ten times as much. Here a line is taken only if
the long way took a line with the same head and the same gates before, and if all of its message is words and figures
that are known, so that both ways say the same. Whatever is unusual goes the long way.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import NamedTuple

from vllm_logdoctor.events.event import Event
from vllm_logdoctor.events.matcher import Matcher
from vllm_logdoctor.events.stamps import Stamps
from vllm_logdoctor.frame import Process, Record
from vllm_logdoctor.scan import Line

THROUGHPUT = "throughput"
_GATE = "Avg prompt throughput: "
_UNKNOWN = math.nan
_MOST_HEADS = 16

# (APIServer pid=70) INFO 03-01 08:01:10 [loggers.py:127] Engine 000: Avg prompt throughput: ...
_HEAD = re.compile(
    rb"(?P<before>(?:\([A-Za-z_]\w*(?: [A-Z]{2,4}\d+)? pid=\d{1,9}\) )?INFO )(?P<stamp>(?:\d{4}-)?\d\d-\d\d \d\d:\d\d:\d\d)"
    rb"(?P<site> \[[A-Za-z][A-Za-z0-9_./]{0,150}:\d{1,6}\] )(?:Engine \d|Avg )"
)
# Engine 000: Avg prompt throughput: 4.0 tokens/s, Avg generation throughput: 2.5 tokens/s, Running: 3 reqs, Waiting: 0 reqs, GPU KV cache
# usage: 1.5%, Prefix cache hit rate: 20.0%, MM cache hit rate: 5.0%
# Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 9.1 tokens/s, Running: 1 reqs, Swapped: 0 reqs, Pending: 0 reqs, GPU KV
# cache usage: 0.2%, CPU KV cache usage: 0.0%.
_MESSAGE = re.compile(
    rb"(?:Engine (\d{1,6}): )?Avg prompt throughput: (\d{1,12}\.\d{1,3}) tokens/s, Avg generation throughput: (\d{1,12}\.\d{1,3}) tokens/s, "
    rb"Running: (\d{1,12}) reqs, (?:Swapped: (\d{1,12}) reqs, )?(?:Waiting|Pending): (\d{1,12}) reqs, GPU KV cache usage: (\d{1,12}\.\d{1,3})%"
    rb"(?:, CPU KV cache usage: \d{1,12}\.\d{1,3}%\.)?(?:, Prefix cache hit rate: (\d{1,12}\.\d{1,3})%)?"
    rb"(?:, External prefix cache hit rate: (\d{1,12}\.\d{1,3})%)?(?:, MM cache hit rate: (\d{1,12}\.\d{1,3})%)?"
)


class Figures(NamedTuple):
    """What a statistics line prints; not a number where it does not print it."""

    engine: int
    prompt: float
    generation: float
    running: float
    swapped: float
    waiting: float
    kv_usage: float
    prefix_hit: float
    external_hit: float
    mm_hit: float


class Head(NamedTuple):
    """What stands before the message of statistics lines of one writer, and what the long way made of it.

    Attributes:
        before: bytes before the time.
        site: bytes between the time and the message.
        place: where `site` begins; the time has a fixed length.
        gates: numbers of the gates in such a line.
        process: who writes them.
        year_known: whether their time holds the year.
    """

    before: bytes
    site: bytes
    place: int
    gates: tuple[int, ...]
    process: Process
    year_known: bool


Told = tuple[Record, "Event | None"]


class StatisticsLine(NamedTuple):
    """A statistics line that was read in one step.

    Attributes:
        line: the line.
        head: its head.
        time: seconds on the log's own clock.
        figures: what it prints.
        tell: goes the long way with it, where a record is asked for.
    """

    line: Line
    head: Head
    time: float
    figures: Figures
    tell: Callable[[Line], Told]

    @property
    def pattern(self) -> str:
        """Name of the pattern that takes the line."""
        return THROUGHPUT

    def told(self) -> Told:
        """Return the record and the event that the long way makes of the line."""
        return self.tell(self.line)


class StatisticsReader:
    """Reads statistics lines whose head is known.

    Args:
        matcher: knows the patterns.
        tell: the long way of one line: frame, label, match.
    """

    def __init__(self, matcher: Matcher, tell: Callable[[Line], Told]) -> None:
        self._gate = matcher.gate_number(_GATE)
        self._matcher = matcher
        self._tell = tell
        self._heads: list[Head] = []
        self._stamps = Stamps()

    def read(self, line: Line) -> StatisticsLine | None:
        """Return what a line says, or None where it has to go the long way."""
        if self._gate not in line.gates:
            return None
        data = line.data
        for head in self._heads:
            if data.startswith(head.before) and data.startswith(head.site, head.place):
                break
        else:
            return None
        time = self._stamps.seconds(data[len(head.before) : head.place])
        found = _MESSAGE.fullmatch(data, head.place + len(head.site))
        if time is None or found is None or line.gates != head.gates:
            return None
        return StatisticsLine(line, head, time, _figures(*found.groups()), self._tell)

    def learn(self, line: Line, record: Record, event: Event) -> None:
        """Note the head of a line that went the long way."""
        if event.pattern.id != THROUGHPUT or len(self._heads) == _MOST_HEADS:
            return
        found = _HEAD.match(line.data)
        if (
            found is None
            or not event.pattern.trusted
            or not self._matcher.is_first(event.pattern, line.gates)
        ):
            return
        head = Head(
            found["before"], found["site"], found.start("site"), line.gates, record.process, record.year_known
        )
        if record.level == "INFO" and record.outer_time is None and head not in self._heads:
            self._heads.append(head)


def _figures(
    engine: bytes | None,
    prompt: bytes,
    generation: bytes,
    running: bytes,
    swapped: bytes | None,
    waiting: bytes,
    kv_usage: bytes,
    prefix_hit: bytes | None,
    external_hit: bytes | None,
    mm_hit: bytes | None,
) -> Figures:
    return Figures(
        0 if engine is None else int(engine),
        float(prompt),
        float(generation),
        float(running),
        _UNKNOWN if swapped is None else float(swapped),
        float(waiting),
        float(kv_usage),
        _UNKNOWN if prefix_hit is None else float(prefix_hit),
        _UNKNOWN if external_hit is None else float(external_hit),
        _UNKNOWN if mm_hit is None else float(mm_hit),
    )
