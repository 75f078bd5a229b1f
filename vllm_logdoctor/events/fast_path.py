"""Statistics and request lines with a known prefix, read in one step: a busy server writes millions of them.

The regular way (parse, mask, match) takes such a line first and shows who writes there and which pattern matches. Later
lines are read here only if their prefix and their literals are known and all of the message has the usual form, so that
both ways give the same. Whatever is unusual goes the regular way; a property test holds the two equal.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

from msgspec import Struct

from vllm_logdoctor.events.event import Event
from vllm_logdoctor.events.matcher import Matcher
from vllm_logdoctor.parse import LONGEST_TEXT, Process, Record, is_plain
from vllm_logdoctor.parse.clock import seconds_of
from vllm_logdoctor.scan import WantedLine

# (APIServer pid=70) INFO 03-01 08:01:10 [loggers.py:127] Engine 000: ...        INFO 05-01 12:00:00 [async_llm.py:271] Added request ...
_PREFIX = (
    rb"(?P<before>(?:\([A-Za-z_]\w*(?: [A-Z]{2,4}\d+)? pid=\d{1,9}\) )?INFO )(?P<stamp>(?:\d{4}-)?\d\d-\d\d \d\d:\d\d:\d\d)"
    rb"(?P<rest> \[[A-Za-z][A-Za-z0-9_./]{0,150}:\d{1,6}\] %s)"
)
_STATISTICS_BEGIN = rb"(?=Engine \d|Avg )"
# Received request chatcmpl-1: prompt: '...      Added request chatcmpl-1.
_REQUESTS_BEGIN = rb"(?:Received|Added|Finished) request "
_MOST_STATISTICS_PREFIXES = 16
_MOST_REQUEST_PREFIXES = 64
_MOST_MINUTES = 256

# Engine 000: Avg prompt throughput: 4.0 tokens/s, Avg generation throughput: 2.5 tokens/s, Running: 3 reqs, Waiting: 0 reqs, GPU KV cache
# usage: 1.5%, Prefix cache hit rate: 20.0%, MM cache hit rate: 5.0%
# Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 9.1 tokens/s, Running: 1 reqs, Swapped: 0 reqs, Pending: 0 reqs, GPU KV
# cache usage: 0.2%, CPU KV cache usage: 0.0%.
_STATISTICS = re.compile(
    rb"(?:Engine (\d{1,6}): )?Avg prompt throughput: (\d{1,12}\.\d{1,3}) tokens/s, Avg generation throughput: (\d{1,12}\.\d{1,3}) tokens/s, "
    rb"Running: (\d{1,12}) reqs, (?:Swapped: (\d{1,12}) reqs, )?(?:Waiting|Pending): (\d{1,12}) reqs, GPU KV cache usage: (\d{1,12}\.\d{1,3})%"
    rb"(?:, CPU KV cache usage: \d{1,12}\.\d{1,3}%\.)?(?:, Prefix cache hit rate: (\d{1,12}\.\d{1,3})%)?"
    rb"(?:, External prefix cache hit rate: (\d{1,12}\.\d{1,3})%)?(?:, MM cache hit rate: (\d{1,12}\.\d{1,3})%)?"
)
_THROUGHPUT = "throughput"
_THROUGHPUT_LITERAL = "Avg prompt throughput: "
# 03-01 08:01:    2026-03-01 08:01:
_MINUTE = re.compile(rb"(?:\d{4}-)?\d\d-\d\d \d\d:\d\d:")
_SECONDS = {b"%02d" % second: float(second) for second in range(60)}

RecordEvent = tuple[Record, "Event | None"]


class Figures(NamedTuple):
    """What a statistics line prints; NaN where it does not print it."""

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


class LinePrefix(Struct, frozen=True, gc=False):
    """What comes before the message in the lines of one writer, and what the regular way made of it.

    Attributes:
        before: bytes before the time.
        rest: bytes between the time and what differs from line to line.
        offset: where `rest` begins; the time has a fixed length.
        literals: numbers of the literals in such a line.
        pattern: name of the pattern that matches the line.
        process: who writes them.
        year_known: whether their time holds the year.
    """

    before: bytes
    rest: bytes
    offset: int
    literals: tuple[int, ...]
    pattern: str
    process: Process
    year_known: bool

    @property
    def end(self) -> int:
        """Where what differs begins."""
        return self.offset + len(self.rest)


class FastLine(Struct, frozen=True):
    """A line that was read in one step.

    Attributes:
        line: the line.
        prefix: its prefix.
        time: seconds on the log's own clock.
        lines: how many lines like it it represents.
        figures: what it prints if it is a statistics line.
        parse: reads it the regular way, where a record is needed.
    """

    line: WantedLine
    prefix: LinePrefix
    time: float
    lines: int
    figures: Figures | None
    parse: Callable[[WantedLine], RecordEvent]

    def parsed(self) -> RecordEvent:
        """Return the record and the event that the regular way makes of the line."""
        return self.parse(self.line)


class StatisticsReader:
    """Reads statistics lines with a known prefix."""

    def __init__(self, matcher: Matcher, parse: Callable[[WantedLine], RecordEvent]) -> None:
        self._literal = matcher.literal_number(_THROUGHPUT_LITERAL)
        self._matcher = matcher
        self._parse = parse
        self._prefixes = _LinePrefixes(_STATISTICS_BEGIN, _MOST_STATISTICS_PREFIXES)

    def read(self, line: WantedLine) -> FastLine | None:
        """Return what a line says, or None where it has to go the regular way."""
        if self._literal not in line.literals:
            return None
        prefix = self._prefixes.find(line.data)
        if prefix is None or line.literals != prefix.literals:
            return None
        time = self._prefixes.time_of(line.data, prefix)
        found = _STATISTICS.fullmatch(line.data, prefix.end)
        if time is None or found is None:
            return None
        return FastLine(line, prefix, time, 1, _figures(found), self._parse)

    def learn(self, line: WantedLine, record: Record, event: Event) -> None:
        """Note the prefix of a line that went the regular way."""
        if event.pattern.id == _THROUGHPUT and self._matcher.is_first(event.pattern, line.literals):
            self._prefixes.learn(line, record, event)


class RequestReader:
    """Reads request lines with a known prefix: of an uninterrupted sequence the first and the last one show the time."""

    def __init__(self, parse: Callable[[WantedLine], RecordEvent]) -> None:
        self._parse = parse
        self._prefixes = _LinePrefixes(_REQUESTS_BEGIN, _MOST_REQUEST_PREFIXES)

    def read(self, line: WantedLine, count: int) -> FastLine | None:
        """Return what a line says that represents `count` lines, or None where it has to go the regular way."""
        prefix = self._prefixes.find(line.data)
        if prefix is None:
            return None
        text = line.data.decode("utf-8", "replace")
        if len(text) > LONGEST_TEXT or not is_plain(text[prefix.end :]):
            return None
        time = self._prefixes.time_of(line.data, prefix)
        return None if time is None else FastLine(line, prefix, time, count, None, self._parse)

    def learn(self, line: WantedLine, record: Record, event: Event | None) -> None:
        """Note the prefix of a line that went the regular way."""
        if event is not None:
            self._prefixes.learn(line, record, event)


class _LinePrefixes:
    """Prefixes of lines that went the regular way."""

    def __init__(self, begins: bytes, most: int) -> None:
        self._begins = begins
        self._most = most
        self._prefixes: list[LinePrefix] = []
        self._minutes: dict[bytes, float] = {}

    def find(self, data: bytes) -> LinePrefix | None:
        """Return the prefix of a line, or None where it is not known."""
        for prefix in self._prefixes:
            if data.startswith(prefix.before) and data.startswith(prefix.rest, prefix.offset):
                return prefix
        return None

    def time_of(self, data: bytes, prefix: LinePrefix) -> float | None:
        """Return the seconds of the time in a line, or None where there is none; each minute is parsed once."""
        stamp = data[len(prefix.before) : prefix.offset]
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

    def learn(self, line: WantedLine, record: Record, event: Event) -> None:
        """Note the prefix of a line that went the regular way."""
        found = _expression(self._begins).match(line.data)
        if found is None or not event.pattern.trusted or len(self._prefixes) == self._most:
            return
        before, rest, offset = found["before"], found["rest"], found.start("rest")
        name, process = event.pattern.id, record.process
        prefix = LinePrefix(before, rest, offset, line.literals, name, process, record.year_known)
        if record.level == "INFO" and record.outer_time is None and prefix not in self._prefixes:
            self._prefixes.append(prefix)


@lru_cache(maxsize=8)
def _expression(begins: bytes) -> re.Pattern[bytes]:
    return re.compile(_PREFIX % begins)


def _figures(found: re.Match[bytes]) -> Figures:
    """Read what a line prints; an engine without a number is the only one."""
    engine, *others = map(float, found.groups(b"nan"))
    return Figures(engine if engine == engine else 0.0, *others)
