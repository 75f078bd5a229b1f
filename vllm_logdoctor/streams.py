"""One continuous stream of files: chunks to records with their events; several streams merged by time."""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence

from msgspec import Struct

from vllm_logdoctor.events import DebugReader, Event, FastLine, Matcher, RequestReader, StatisticsReader
from vllm_logdoctor.parse import Record, RecordParser
from vllm_logdoctor.run.occurrences import only_counts
from vllm_logdoctor.scan import (
    AccessKey,
    DebugLines,
    Line,
    LineFilter,
    Prefilter,
    Repeated,
    Scanned,
    Scanner,
    Selector,
)
from vllm_logdoctor.source import Chunk

Told = tuple[Record, "Event | None", int]
Item = Told | FastLine | Counter[AccessKey]
"""A record with its event and how many like it it stands for, a line read in one step, or access lines that were counted in a block."""

REQUESTS = frozenset({"request-received", "request-added", "request-finished"})
_MOST_WAITING = 160
"""Kinds of lines, one for each writer, that wait at once: those of DEBUG lines, and 64 of requests."""
MANY_MISSES = 100

# Requests belong to the statistics line behind them, and to the run before the next one's first lines.
_COUNT_BEFORE = (
    "Avg prompt throughput: ", "server version ", "█  version ", "non-default args: {", "args: Namespace(",
    "LLM engine (v", "LLM engine with config: ",
    "detected platform ", "Platform plugin ",
)  # fmt: skip

_REQUEST_GATES = ("Received request ", "Added request ", "Finished request ")

_PEEK = 4000
"""Records looked at for the first time of a stream that starts without one."""


class _Waiting(Struct):
    """Request lines of one kind and writer, or DEBUG lines, that nothing else stands between."""

    first: Told | FastLine
    last: Told | FastLine
    count: int


class StreamReader:
    """Turns the chunks of one stream into items in order.

    Args:
        gates: the gate automaton.
        matcher: finds the pattern of a record.
        label: rank of the stream in a set of several, or "".
    """

    def __init__(self, gates: Prefilter, matcher: Matcher, label: str = "") -> None:
        self.framer = RecordParser()
        self._gates = gates
        self._matcher = matcher
        self._misses: Counter[int] = Counter()
        marks = frozenset(number for number in map(matcher.gate_number, _COUNT_BEFORE) if number >= 0)
        interest = LineFilter(marks, matcher.signatures, matcher.bare_gates)
        debug_lines = DebugLines()
        self.scanner = Scanner(gates, interest, debug_lines)
        self._selector = Selector(self.scanner)
        self._request_gates = tuple(
            number for number in map(matcher.gate_number, _REQUEST_GATES) if number >= 0
        )
        self._waiting: dict[Hashable, _Waiting] = {}
        self._label = label
        self._statistics = StatisticsReader(matcher, self._told)
        self._requests = RequestReader(self._told_request)
        self._debugging = DebugReader(matcher, self._told, only_counts, debug_lines)

    def items(self, chunk: Chunk, scanned: Scanned | None = None) -> Iterator[Item]:
        """Yield the items of a chunk; request lines wait until something else follows them."""
        for item in self._selector.select(chunk, scanned):
            if isinstance(item, Line):
                statistics = self._statistics.read(item)
                if statistics is not None:
                    if self._waiting:
                        yield from self.waiting()
                    yield statistics
                    continue
                counted = self._debugging.read(item, 1)
                if counted is not None:
                    yield from self._note_waiting(*counted, 1)
                    continue
                for record in self.framer.frame(item):
                    if self._label:
                        record = self._labelled(record)
                    event = self._matcher.match(record) if item.gates else None
                    if event is not None and event.name in REQUESTS and record.level == "INFO":
                        yield from self._note_waiting(
                            (record.process, event.pattern.id), (record, event, 1), 1
                        )
                        continue
                    if item.by_gate and event is None:
                        self._note_miss(item.gates)
                        continue
                    # Lines that only their place makes wanted don't end a stretch of requests: pieces don't know of places.
                    if self._waiting and (item.shaped or event is not None):
                        yield from self.waiting()
                    if event is not None:
                        self._statistics.learn(item, record, event)
                        self._debugging.learn(item, record, event)
                    yield record, event, 1
            elif isinstance(item, Repeated):
                yield from self._note_repeated(item)
            else:
                yield item

    def _told(self, line: Line) -> tuple[Record, Event | None]:
        """Return the only record of a line with its event."""
        (framed,) = self.framer.frame(line)
        record = self._labelled(framed)
        return record, self._matcher.match(record)

    def _note_miss(self, gates: tuple[int, ...]) -> None:
        """Narrow a gate that stands on many lines which no pattern takes."""
        for gate in gates:
            self._misses[gate] += 1
            if self._misses[gate] == MANY_MISSES and gate not in self._matcher.signatures:
                self._gates.narrow(gate, self._matcher.regexes_of_gate(gate))

    def waiting(self) -> Iterator[Item]:
        """Yield what waits: the first and the last line of each kind, by line."""
        told = [_standing_for(one.first, 1) for one in self._waiting.values()]
        told += [_standing_for(one.last, one.count - 1) for one in self._waiting.values() if one.count > 1]
        self._waiting.clear()
        yield from sorted(told, key=_place_of)

    def _note_repeated(self, item: Repeated) -> Iterator[Item]:
        note = self._note_debug_line if item.debug else self._note_request_line
        yield from note(item.first, 1)
        if item.count > 1:
            yield from note(item.last, item.count - 1)

    def _note_debug_line(self, line: Line, count: int) -> Iterator[Item]:
        counted = self._debugging.read(line, count)
        if counted is not None:
            yield from self._note_waiting(*counted, count)
            return
        record, event = self._told(self._debugging.with_gates(line))
        yield from self.waiting()
        yield record, event, count

    def _note_request_line(self, line: Line, count: int) -> Iterator[Item]:
        request = self._requests.read(line, count)
        if request is not None:
            yield from self._note_waiting((request.head.process, request.head.pattern), request, count)
            return
        for record, event in self._told_requests(line):
            self._requests.learn(line, record, event)
            key = (record.process, event.pattern.id if event else "")
            yield from self._note_waiting(key, (record, event, count), count)

    def _told_requests(self, line: Line) -> Iterator[tuple[Record, Event | None]]:
        """Yield the records of a request line with their events."""
        for framed in self.framer.frame(line):
            record = self._labelled(framed)
            yield record, self._matcher.match(record._replace(gates=self._request_gates))

    def _told_request(self, line: Line) -> tuple[Record, Event | None]:
        (told,) = self._told_requests(line)
        return told

    def _note_waiting(self, key: Hashable, line: Told | FastLine, count: int) -> Iterator[Item]:
        """Add a line to those of its kind and writer that wait."""
        known = self._waiting.get(key)
        if known is not None:
            known.last = line
            known.count += count
            return
        if len(self._waiting) == _MOST_WAITING:
            yield from self.waiting()
        self._waiting[key] = _Waiting(line, line, count)

    def tail(self) -> list[Record]:
        """Return the records of the last lines, wanted or not."""
        framer = RecordParser()
        return [self._labelled(record) for line in self._selector.tail() for record in framer.frame(line)]

    def _labelled(self, record: Record) -> Record:
        if not self._label or record.process.rank:
            return record
        return record._replace(process=record.process._replace(rank=self._label))


def _standing_for(request: Told | FastLine, count: int) -> Told | FastLine:
    if isinstance(request, FastLine):
        return request._replace(lines=count)
    return request[0], request[1], count


def _place_of(request: Told | FastLine) -> tuple[int, int]:
    place = request.line if isinstance(request, FastLine) else request[0]
    return (place.file, place.number) if isinstance(place, Line) else (place.file, place.line)


def merged(streams: Sequence[Iterator[Item]]) -> Iterator[Item]:
    """Merge streams by time; an item without a time stays behind the one before it in its stream."""
    keyed = [_keyed(number, stream) for number, stream in enumerate(streams)]
    for _, _, _, item in heapq.merge(*keyed, key=lambda entry: entry[:3]):
        yield item


def _keyed(number: int, stream: Iterator[Item]) -> Iterator[tuple[float, int, int, Item]]:
    """Give each item the latest time before it; a stream without any time comes last."""
    waiting: list[Item] = []
    latest: float | None = None
    position = 0
    for item in stream:
        time = _time_of(item)
        if latest is None and time is None and len(waiting) < _PEEK:
            waiting.append(item)
            continue
        latest = max(latest if latest is not None else -math.inf, time if time is not None else -math.inf)
        for earlier in waiting:
            position += 1
            yield latest, number, position, earlier
        waiting = []
        position += 1
        yield latest, number, position, item
    for earlier in waiting:
        position += 1
        yield math.inf, number, position, earlier


def _time_of(item: Item) -> float | None:
    if isinstance(item, Counter):
        return None
    if isinstance(item, FastLine):
        return item.time
    record = item[0]
    return record.time if record.time is not None else record.outer_time
