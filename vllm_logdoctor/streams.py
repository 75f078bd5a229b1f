"""One continuous stream of files: chunks to records with their events; several streams merged by time."""

from __future__ import annotations

import heapq
import math
from collections import Counter, deque
from collections.abc import Hashable, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from vllm_logdoctor.events import Event, FastLine, Matcher, RecordEvent, RequestReader, StatisticsReader
from vllm_logdoctor.parse import Record, RecordParser
from vllm_logdoctor.scan import (
    AccessKey,
    KindLimit,
    LineFilter,
    Prefilter,
    Repeated,
    Scanned,
    Scanner,
    Selector,
    WantedLine,
)
from vllm_logdoctor.scan.structure import MOST_BLANK, may_begin_secret, may_name_secret
from vllm_logdoctor.source import Chunk

Counted = tuple[Record, "Event | None", int]
"""A record with its event and how many lines like it it represents."""
Item = Counted | FastLine | Counter[AccessKey]
"""A record, a line read in one step, or access lines that were counted together."""

REQUESTS = frozenset({"request-received", "request-added", "request-finished"})
_MOST_WAITING = 64
"""Kinds of request lines, one for each writer, that wait at once."""
_STARTS = (
    "server version ", "█  version ", "non-default args: {", "args: Namespace(", "LLM engine (v", "LLM engine with config: ",
)  # fmt: skip
# Requests belong to the statistics line after them, and to the run before the next one's first lines.
_COUNT_BEFORE = (
    "Avg prompt throughput: ", *_STARTS, "detected platform ", "Platform plugin ",
    "ServerArgs(", "Load weight begin.", "Decode batch. #", "Decode batch, #", "Prefill batch. #", "Prefill batch, #",
    "llama_model_loader: ", "print_info: ", "llm_load_print_meta: ", "load_model: ", "llama_server: ", "print_timing: ",
    "build: ", "[GIN] ", "text_generation_launcher", "[TRT-LLM]",
)  # fmt: skip

_MOST_STARTS = 300_000
"""Lines of starts that are read: a server takes three of them and some seconds, so that no log of true ones gets there."""

_REQUEST_LITERALS = ("Received request ", "Added request ", "Finished request ")

_LINES_OF_LISTING = 5
"""Lines before another one by which the parser tells numbers of lines from ranks."""
_PEEK = 4000
"""Records looked at for the first time of a stream that starts without one."""


class _RepeatedRequests(Struct):
    """Request lines of one kind and writer with nothing else between them."""

    first: Counted | FastLine
    last: Counted | FastLine
    count: int


class StreamReader:
    """Turns the chunks of one stream into items in order.

    Args:
        prefilter: finds the literals.
        matcher: finds the pattern of a record.
        label: rank of the stream in a set of several, or "".
    """

    def __init__(self, prefilter: Prefilter, matcher: Matcher, label: str = "") -> None:
        self.parser = RecordParser()
        self._matcher = matcher
        count_before = frozenset(_numbers(matcher, _COUNT_BEFORE))
        self.scanner = Scanner(prefilter, LineFilter(count_before, matcher.signatures, matcher.pages_only))
        self._selector = Selector(self.scanner)
        self._count_before = count_before
        self._starts_and_statistics = KindLimit()
        self._starts = frozenset(_numbers(matcher, _STARTS))
        self._starts_read = self._starts_left_out = 0
        self._request_literals = tuple(_numbers(matcher, _REQUEST_LITERALS))
        self._waiting: dict[Hashable, _RepeatedRequests] = {}
        self._names: deque[WantedLine] = deque(maxlen=MOST_BLANK + 1)
        self._label = label
        self._statistics = StatisticsReader(matcher, self._parsed)
        self._requests = RequestReader(self._parsed_request)

    @property
    def left_out(self) -> int:
        """Lines that were not read, because too many kinds of lines came before."""
        return self._selector.unknown.left_out + self._starts_and_statistics.left_out + self._starts_left_out

    def items(self, chunk: Chunk, scanned: Scanned | None = None) -> Iterator[Item]:
        """Yield the items of a chunk; request lines wait until something else follows them."""
        for item in self._selector.select(chunk, scanned):
            if isinstance(item, WantedLine):
                # It only names what the next line may hold: the parser needs it where a line that is read follows.
                if item.literals_only and not item.literals:
                    self._names.append(item)
                    continue
                statistics = self._statistics.read(item)
                if statistics is None:
                    if self._is_read(item):
                        yield from self._records(item)
                    elif may_name_secret(item.data):
                        self._names.append(item)
                    continue
                if self._waiting:
                    yield from self.waiting()
                yield statistics
            elif isinstance(item, Repeated):
                yield from self._note_request_line(item.first, 1)
                if item.count > 1:
                    yield from self._note_request_line(item.last, item.count - 1)
            else:
                yield item

    def waiting(self) -> Iterator[Item]:
        """Yield the request lines that wait: the first and the last line of each kind, by line."""
        lines = [_counting(one.first, 1) for one in self._waiting.values()]
        lines += [_counting(one.last, one.count - 1) for one in self._waiting.values() if one.count > 1]
        self._waiting.clear()
        yield from sorted(lines, key=_position_of)

    def tail(self) -> list[Record]:
        """Return the records of the last lines, wanted or not."""
        lines, before = self._selector.tail()
        parser = RecordParser(self.parser.learned)
        found: list[Record] = []
        for position, line in enumerate(lines):
            # Of those before them, the parser needs what a secret begins in or goes on in, and the next ones for how lines are numbered.
            needless = position < before - _LINES_OF_LISTING and parser.unfinished is None
            if needless and not may_begin_secret(line.data):
                continue
            records = tuple(parser.parse(line))
            found += records if position >= before else ()
        return [self._labelled(record) for record in found]

    def _is_read(self, line: WantedLine) -> bool:
        """Return whether a line is read: of starts and statistics the first kinds, because no log has that many servers."""
        if self._count_before.isdisjoint(line.literals):
            return True
        if not self._starts.isdisjoint(line.literals):
            self._starts_read += 1
            if self._starts_read > _MOST_STARTS:
                self._starts_left_out += 1
                return False
        return self._starts_and_statistics.is_read(line.data)

    def _records(self, line: WantedLine) -> Iterator[Item]:
        """Yield the records of a line that was not read in one step."""
        while self._names:
            tuple(self.parser.parse(self._names.popleft()))
        for parsed in self.parser.parse(line):
            record = self._labelled(parsed)
            event = self._matcher.match(record) if line.literals else None
            if event is not None and event.name in REQUESTS and record.level == "INFO":
                yield from self._note_waiting((record.process, event.pattern.id), (record, event, 1), 1)
                continue
            if line.literals_only and event is None:
                continue
            # Lines that only their place makes wanted don't end a sequence of requests: pieces don't know of places.
            if self._waiting and (line.shaped or event is not None):
                yield from self.waiting()
            if event is not None:
                self._statistics.learn(line, record, event)
            else:
                event = self._matcher.match_vllm_message(record)
            yield record, event, 1

    def _parsed(self, line: WantedLine) -> RecordEvent:
        """Return the only record of a line with its event."""
        (parsed,) = self.parser.parse(line)
        record = self._labelled(parsed)
        return record, self._matcher.match(record)

    def _note_request_line(self, line: WantedLine, count: int) -> Iterator[Item]:
        request = self._requests.read(line, count)
        if request is not None:
            yield from self._note_waiting((request.prefix.process, request.prefix.pattern), request, count)
            return
        for record, event in self._parsed_requests(line):
            self._requests.learn(line, record, event)
            key = (record.process, event.pattern.id if event else "")
            yield from self._note_waiting(key, (record, event, count), count)

    def _parsed_requests(self, line: WantedLine) -> Iterator[RecordEvent]:
        """Yield the records of a request line with their events."""
        for parsed in self.parser.parse(line):
            record = self._labelled(parsed)
            yield record, self._matcher.match(replace(record, literals=self._request_literals))

    def _parsed_request(self, line: WantedLine) -> RecordEvent:
        (parsed,) = self._parsed_requests(line)
        return parsed

    def _note_waiting(self, key: Hashable, line: Counted | FastLine, count: int) -> Iterator[Item]:
        """Add a line to those of its kind and writer that wait."""
        known = self._waiting.get(key)
        if known is not None:
            known.last = line
            known.count += count
            return
        if len(self._waiting) == _MOST_WAITING:
            yield from self.waiting()
        self._waiting[key] = _RepeatedRequests(line, line, count)

    def _labelled(self, record: Record) -> Record:
        if not self._label or record.process.rank:
            return record
        return replace(record, process=replace(record.process, rank=self._label))


def _numbers(matcher: Matcher, literals: Sequence[str]) -> Iterator[int]:
    return (number for number in map(matcher.literal_number, literals) if number >= 0)


def _counting(line: Counted | FastLine, count: int) -> Counted | FastLine:
    if isinstance(line, FastLine):
        return replace(line, lines=count)
    return line[0], line[1], count


def _position_of(line: Counted | FastLine) -> tuple[int, int]:
    if isinstance(line, FastLine):
        return line.line.file, line.line.number
    return line[0].file, line[0].line


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
