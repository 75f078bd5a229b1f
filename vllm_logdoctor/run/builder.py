"""One run in the making: records and events are folded in, one at a time, in bounded memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cached_property

from vllm_logdoctor.engines.model import EngineReader
from vllm_logdoctor.engines.readers import reader_of
from vllm_logdoctor.events import Event, FastLine, LinePrefix
from vllm_logdoctor.parse import NO_PROCESS, Process, Record
from vllm_logdoctor.run.benchmarks import BenchmarkReader
from vllm_logdoctor.run.clock import LINES_OF_WRAPPER, Clock, stamp_of_library
from vllm_logdoctor.run.configuration import ConfigSources
from vllm_logdoctor.run.continuation_lines import Continuations
from vllm_logdoctor.run.environment import Environment, may_tell
from vllm_logdoctor.run.event_readers import READERS
from vllm_logdoctor.run.launches import Launches
from vllm_logdoctor.run.minutes import RequestsByMinute
from vllm_logdoctor.run.model import (
    Evidence,
    Occurrences,
    Progress,
    Speculation,
    Transfer,
    Unknown,
    evidence_of,
)
from vllm_logdoctor.run.platform_detection import hints_in
from vllm_logdoctor.run.sampling import RecordBudget, RecordSampler, template_of
from vllm_logdoctor.run.series import Series
from vllm_logdoctor.run.servers import VLLM
from vllm_logdoctor.run.year import YearFinder, dated, dated_event, moved
from vllm_logdoctor.scan import AccessKey

_MOST_UNKNOWN = 2000
_MOST_CALL_SITES = 4000
_LONGEST_MESSAGE = 600
"""Of a call site: the sources tell no more of its message apart."""
_MOST_PROCESSES = 2000
_MOST_HINTS = 4000
_MOST_HINT_RECORDS = 40_000
_MOST_PREFIXES = 192
_ACCESSES_OF_A_LINE = 120.0
"""Seconds after a statistics line in which access lines without a time count to its minute."""
_ONE_ZONE = 60.0
"""Seconds between lines that follow each other, one stamped by a logger and one by a wrapper, within which their clocks are of one zone."""
_ROUTINE_HINTS = 200
"""After so many lines of one routine message the next ones say nothing new about engine and platform."""
TROUBLES = (
    "Traceback",
    "usage: ",
    "RuntimeError: Engine core initialization failed",
    "RuntimeError: Engine process failed to start",
)
"""What begins what may have ended a run; the last two end a traceback whose begin a piece may lack."""
_ROUTINE = frozenset(
    {
        "throughput",
        "request-received",
        "request-added",
        "request-finished",
        "speculation",
        "speculation-v0",
        "kv-transfer",
        "prefix-hit-rate",
    }
)


class RunBuilder:
    """Collects what one run says; `assemble.finished` makes a `Run` of it.

    A log may hold a million runs of two lines each: what such a run does not need is made when it is first asked for.

    Args:
        number: its number.
        files: names of the files.
        environment: what the shell before it has exported.
        launches: the command that starts it.
        budget: records that all runs of the log may keep together.
    """

    server = VLLM
    engine_reader: EngineReader | None = None
    first: Record | None = None
    last: Record | None = None
    processes_left_out = False
    other_server: Evidence | None = None
    vllm_records = 0
    unframed = 0
    recognised = 0
    tracebacks = 0
    ready = False
    ended = False
    ahead_of_wrapper: float | None = None
    """Seconds from the wrapper's clock to the one of vLLM's loggers, in a line that both stamp; 0 where lines of each follow within a minute."""
    troubled = False
    now: float | None = None
    year_shift = 0.0
    statistics_time: float | None = None
    _hints_wanted = _MOST_HINTS
    _hint_records = 0
    _writer = NO_PROCESS
    _fast_prefix: LinePrefix | None = None

    def __init__(
        self,
        number: int,
        files: Sequence[str],
        environment: Environment | None = None,
        launches: Launches | None = None,
        budget: RecordBudget | None = None,
    ) -> None:
        self.number = number
        self.files = files
        self.clock = Clock()
        self.processes: dict[Process, int] = {}
        self.messages: dict[str, Occurrences] = {}
        self.times: dict[tuple[str, int], float | None] = {}
        self.keeper = RecordSampler(budget)
        self.environment = environment or Environment()
        self.launches = launches or Launches()
        self.speculation: list[Speculation] = []
        self.transfers: list[Transfer] = []
        self.progress: list[Progress] = []
        self.unknown: dict[tuple[str, str], Unknown] = {}
        self.call_sites: dict[tuple[str, int], str] = {}
        self.bracketed: bool | None = None
        self.continuations = Continuations()
        self.openers: dict[str, Process] = {}
        self._year_finder = YearFinder()
        self._fast_prefixes: set[LinePrefix] = set()
        self._undated: Counter[AccessKey] | None = None
        self._unflushed: dict[int, FastLine] = {}

    @cached_property
    def outer_clock(self) -> Clock:
        """The clock of a wrapper."""
        return Clock(lines_to_move=LINES_OF_WRAPPER)

    @cached_property
    def series(self) -> Series:
        """The statistics lines."""
        return Series()

    @cached_property
    def stated(self) -> ConfigSources:
        """What the log states of the configuration."""
        return ConfigSources()

    @cached_property
    def accesses(self) -> Counter[AccessKey]:
        """Access lines by what they ask for."""
        return Counter()

    @cached_property
    def requests_by_minute(self) -> RequestsByMinute:
        """The same by minute."""
        return RequestsByMinute()

    @cached_property
    def benchmarks(self) -> BenchmarkReader:
        """Results of benchmarks."""
        return BenchmarkReader()

    @cached_property
    def platform_hints(self) -> Counter[str]:
        """Words that only one engine generation or platform has, counted."""
        return Counter()

    @cached_property
    def first_hints(self) -> dict[str, Record]:
        """The first line with words of an engine generation or platform."""
        return {}

    def add(self, record: Record, event: Event | None, count: int = 1) -> None:
        """Fold in a record with its event, or None where no pattern knows it; it represents `count` like it."""
        if self._unflushed:
            self.flush()
        if self.engine_reader is not None:
            self.engine_reader.add(record.line, _whole_text(record))
        record, event = self._note_place(record, event)
        self._note_hints(record, event)
        if may_tell(record):
            self.environment.read(record, self.evidence(record), begun=bool(self.openers))
        if record.call_site is None and self.launches.may_tell(record):
            self.launches.read(record, self.evidence(record), self.begun)
        traceback = record.message.startswith("Traceback (most recent call last)")
        self.tracebacks += traceback
        continues, recognised = self.continuations.belongs(record, event is not None or traceback)
        inside = traceback or (continues and record.level == "ERROR")  # Lines of a traceback are no messages.
        if record.level and not inside and (recognised or self.continuations.may_be_vllms(record)):
            self.vllm_records += count
            self.recognised += count if recognised else 0
            self.unframed += count if record.call_site is None and not recognised else 0
        if event is None:
            if not (continues or recognised):
                self._note_unknown(record)
            self.keeper.add(record, serious=record.level not in ("INFO", "DEBUG"))
            return
        self._note_message(event, count)
        reader = READERS.get(event.name)
        if reader is not None:
            reader(self, event)
        if event.pattern.id not in _ROUTINE or record.level in ("ERROR", "CRITICAL"):
            ends = event.pattern.verdict == "cause-of-failure"
            self.keeper.add(record, serious=ends or record.level in ("ERROR", "CRITICAL"))

    @property
    def begun(self) -> bool:
        """Return whether anything of an engine, or of its failure, was written."""
        return bool(self.openers) or self.recognised > 0 or self.troubled

    @property
    def only_launched(self) -> bool:
        """Return whether the command at a prompt is all there is of a run: what it wrote is not in the log."""
        own, last = self.launches.own, self.last
        return (
            own is not None and last is not None and last.line == own.evidence[-1].line and not self.accesses
        )

    def become(self, server: str) -> None:
        """Note which engine wrote the log; what it prints is read by that engine's reader, if there is one."""
        self.server = server
        self.engine_reader = reader_of(server)

    def takes(self, line: FastLine) -> bool:
        """Return whether a line may be added by itself: when enough records of its kind and prefix were.

        The first ones are kept and tell more than their figures: who writes, from where, which engine and platform.
        """
        if line.prefix is self._fast_prefix or line.prefix in self._fast_prefixes:
            self._fast_prefix = line.prefix
            return True
        seen = self.messages.get(line.prefix.pattern)
        if seen is not None and seen.count > _ROUTINE_HINTS and len(self._fast_prefixes) < _MOST_PREFIXES:
            self._fast_prefixes.add(line.prefix)
        return False

    def add_fast(self, line: FastLine) -> None:
        """Fold in a line that was read in one step: the same as `add`, without record and event."""
        prefix = line.prefix
        self.now = self.clock.at_time(line.time, prefix.year_known)
        self.vllm_records += line.lines
        self.recognised += line.lines
        self.messages[prefix.pattern].count += line.lines
        if line.figures is not None and self.counts_as_sample(prefix.process):
            self.series.add_figures(line.figures, line.line, self.now)
            self.note_statistics()
            self.ready = True
        self._unflushed.pop(id(prefix), None)
        self._unflushed[id(prefix)] = line

    def flush(self) -> None:
        """Make the records that others may ask for: the last one of each prefix, in order."""
        for line in self._unflushed.values():
            record, event = line.parsed()
            if self.year_shift:
                record, event = dated(record, self.year_shift), event and dated_event(event, self.year_shift)
            self.continuations.belongs(record, True)
            self.last, self.messages[line.prefix.pattern].last = record, event
        self._unflushed.clear()

    def counts_as_sample(self, process: Process) -> bool:
        """Return whether figures of a process are the server's: a prompt or an answer may quote such a line."""
        return process.pid is not None or not self.front_is_named() or self.goes_on(self.now)

    def add_accesses(self, counts: Counter[AccessKey]) -> None:
        """Fold in access lines; they carry no time, so that the lines around them have to tell their minute."""
        self.accesses.update(counts)
        self._undated = self._undated or Counter()
        self._undated.update(counts)
        self.ready = True

    def without_accesses(self) -> Counter[AccessKey]:
        """Return the access lines so far and forget them: what answered them is another server."""
        taken, self.accesses, self._undated, self.ready = self.accesses, Counter(), None, False
        return taken

    def note_statistics(self) -> None:
        """Note that a statistics line was written now."""
        self.date_accesses()
        self.statistics_time = self.now

    def date_accesses(self) -> None:
        """Count the access lines since the last statistics line to its minute; an idle server's may be of any time since."""
        if not self._undated:
            return
        then, now = self.statistics_time, self.now
        known = then is not None and (now is None or now - then <= _ACCESSES_OF_A_LINE)
        self.requests_by_minute.add(int((then or 0.0) // 60) if known else -1, self._undated)
        self._undated = None

    def evidence(self, record: Record) -> Evidence:
        """Return a record as evidence."""
        return evidence_of(record, self.files)

    def front_is_named(self) -> bool:
        """Return whether the API server names itself: text of its shape without a name is what a prompt or an answer says."""
        return any(process.role == "api-server" and process.pid is not None for process in self.processes)

    def goes_on(self, time: float | None) -> bool:
        """Return whether a time follows the last statistics line: then a name was torn off by another writer."""
        if time is None or self.statistics_time is None:
            return False
        return 0 < time - self.statistics_time <= 120

    def _note_place(self, record: Record, event: Event | None) -> tuple[Record, Event | None]:
        """Note when and where a record was written; return it and its event, with the year where that is known."""
        if record.time is not None:
            self.now = self.clock.at_time(record.time, record.year_known)
        elif (stamp := stamp_of_library(record)) is not None:
            self.now = self.clock.follow(*stamp) or self.now
        if record.outer_time is not None:
            outer = self.outer_clock.at_time(record.outer_time, record.year_known)
            if record.time is not None:
                self.ahead_of_wrapper = record.time - record.outer_time
            elif self.ahead_of_wrapper is None and self.now is not None:
                self.ahead_of_wrapper = 0.0 if abs(outer - self.now) <= _ONE_ZONE else None
        # A name ahead of a line that no logger wrote may be the first cell of a table.
        stamped = record.level or record.outer_time is not None or event is not None
        named = record.process is not NO_PROCESS and (stamped or record.process.pid is not None)
        if named and record.process is not self._writer:
            self._writer = record.process
            if len(self.processes) < _MOST_PROCESSES:
                self.processes.setdefault(record.process, record.line)
            elif record.process not in self.processes:
                self.processes_left_out = True
        if record.call_site is not None and len(self.call_sites) < _MOST_CALL_SITES:
            if record.call_site not in self.call_sites:
                # Ray appends to a message how often it came: [repeated 2x across cluster]
                self.call_sites[record.call_site] = record.message.partition(" [repeated ")[0][
                    :_LONGEST_MESSAGE
                ]
            if self.bracketed is None:
                self.bracketed = _is_bracketed(record)
        if not self.clock.year_known and self.year_shift == 0.0:
            self._find_year(record)
        if self.year_shift:
            record = dated(record, self.year_shift)
            event = None if event is None else dated_event(event, self.year_shift)
        self.first = self.first or record
        self.last = record
        return record, event

    def _find_year(self, record: Record) -> None:
        """Move everything to a scale with years once another writer's date shows the year."""
        shift = self._year_finder.shift(record, self.now)
        if shift is None or shift == 0.0:
            return
        self.year_shift = shift
        self.clock.shift(shift)
        self.now = None if self.now is None else self.now + shift
        self.statistics_time = None if self.statistics_time is None else self.statistics_time + shift
        self.times = {key: None if time is None else time + shift for key, time in self.times.items()}
        self.series.shift(shift)
        self.requests_by_minute.shift(int(shift // 60))
        self.speculation = [moved(one, shift) for one in self.speculation]
        self.transfers = [moved(one, shift) for one in self.transfers]
        self.progress = [moved(one, shift) for one in self.progress]
        self.keeper.change(lambda record: dated(record, shift))
        self.first = None if self.first is None else dated(self.first, shift)
        for seen in self.messages.values():
            seen.first[:] = [dated_event(event, shift) for event in seen.first]
            seen.last = None if seen.last is None else dated_event(seen.last, shift)

    def _note_hints(self, record: Record, event: Event | None) -> None:
        """Count words that only one engine generation or platform has; they tell it where no line states it."""
        if not self.troubled and troubles(record):
            self.troubled = True
        if self._hints_wanted <= 0 or self._hint_records > _MOST_HINT_RECORDS:
            return
        if event is not None and event.pattern.id in _ROUTINE:
            seen = self.messages.get(event.pattern.id)
            if seen is not None and seen.count > _ROUTINE_HINTS:
                return
        self._hint_records += 1
        for hint in hints_in(record):
            self.platform_hints[hint] += 1
            self.first_hints.setdefault(hint, record)
            self._hints_wanted -= 1

    def _note_message(self, event: Event, count: int) -> None:
        seen = self.messages.get(event.pattern.id)
        if seen is None:
            seen = self.messages[event.pattern.id] = Occurrences()
        seen.count += count
        if len(seen.first) < 3 or (
            len(seen.first) < 64
            and event.pattern.id not in _ROUTINE
            and event.pattern.verdict == "information"
        ):
            seen.first.append(event)
            self.times[event.pattern.id, len(seen.first) - 1] = self.now
        process = event.record.process
        if len(seen.processes) < 64 and (seen.last is None or process is not seen.last.record.process):
            seen.processes.add(process)
        seen.last = event

    def _note_unknown(self, record: Record) -> None:
        if not record.level or record.message.startswith("    "):
            return  # Source code of a traceback whose first lines are not in the log.
        key = (record.level, template_of(record.message))
        known = self.unknown.get(key)
        if known is not None:
            known.count += 1
        elif len(self.unknown) < _MOST_UNKNOWN:
            self.unknown[key] = Unknown(record.level, key[1], 1, self.evidence(record))


def _is_bracketed(record: Record) -> bool | None:
    """Return whether a bracket opens before the place of a message, as it does since 0.8.0; None where the text does not show it.

    INFO 05-01 10:00:00 [core.py:58] Initializing      INFO 05-01 10:00:00 llm_engine.py:161] Initializing
    """
    if record.call_site is None:
        return None
    head, found, _ = record.text.partition(f"{record.call_site[0]}:{record.call_site[1]}]")
    return head.endswith("[") if found and head.endswith(("[", " ")) else None


def _whole_text(record: Record) -> str:
    """Return the text of a record with all of its message, of which `text` shows the beginning only."""
    if len(record.message) <= len(record.text):
        return record.text
    return record.text[: max(0, record.text.find(record.message[:40]))] + record.message


def troubles(record: Record) -> bool:
    """Return whether a record begins what may have ended a run."""
    return record.message.startswith(TROUBLES) and not _comes_from_import(record)


def _comes_from_import(record: Record) -> bool:
    """Return whether a package's own start wrote a record: a plug-in that can't be loaded ends nothing."""
    return record.call_site is not None and record.call_site[0].endswith("__init__.py")
