"""Which run a record belongs to: restarts, retries, sweeps and two servers in one file are kept apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from typing import Generic, TypeVar

from vllm_logdoctor.events import Event, FastLine
from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.parse import Process, Record, writer_of
from vllm_logdoctor.run.builder import RunBuilder
from vllm_logdoctor.run.configuration import arguments_of, engine_config_of
from vllm_logdoctor.run.engine_starts import had_a_life, in_other_container, is_new_engine, is_older, siblings
from vllm_logdoctor.run.environment import Environment
from vllm_logdoctor.run.launches import Launches
from vllm_logdoctor.run.other_programs import begins_a_test
from vllm_logdoctor.run.sampling import RecordBudget
from vllm_logdoctor.run.servers import SIGNATURES, VLLM, is_inside, server_after
from vllm_logdoctor.run.termination import stop_kind
from vllm_logdoctor.scan import AccessBlock, AccessKey

VERSION_LINES = frozenset({"api-server-version", "banner-version"})
ARGUMENT_LINES = frozenset({"arguments-namespace", "arguments-non-default"})
ENGINE_LINES = frozenset({"engine-config"})
IMPORT_LINES = frozenset({"platform-detected", "platform-plugin-activated"})
MOST_RUNS = 200
"""Runs of one set that are reported; the rest is counted. A supervisor that restarts a server all night writes thousands."""
_KINDS = {
    **dict.fromkeys(VERSION_LINES, "version"),
    **dict.fromkeys(ARGUMENT_LINES, "arguments"),
    **dict.fromkeys(ENGINE_LINES, "engine"),
}
OPENERS = _KINDS.keys()
BEGINNINGS = OPENERS | IMPORT_LINES
"""Lines with which a run may begin."""
_ONE_OF_A_RUN = ("APIServer", "EngineCore")
"""Names of vLLM's own processes that it gives once in a run: several have a number behind it."""
# kv_transfer_config=KVTransferConfig(kv_connector='NixlConnector', engine_id='b244e466-9edd-462b-8493-8b2e6c1f5eb9', ...
_RANDOM_ID = lazy_pattern(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")
_COUNTED_BEFORE = frozenset({*BEGINNINGS, *SIGNATURES, "throughput"})
"""Access lines belong to the statistics line after them, and to the run before the one that begins."""
_WAITING = frozenset({"request-received", "request-added", "request-finished"})
"""Their records come with the next line of another kind, behind access lines that a chunk may end with."""
_OF_WORK = frozenset({"request-received", "request-added", "throughput"})
"""Lines that only an engine that is up writes."""
_OF_A_LIFE = _WAITING | OPENERS | SIGNATURES.keys() | {"throughput"}
"""Lines that are not of a start before the first telling one."""
_REFUSED_COMMAND = "argparse-unrecognized"
"""A command line is read before anything runs: behind a run that ended, its error is the next command's."""
_MOST_PREFIXES = 1024
_MOST_CLAIMS = 16384
"""Processes and hosts that are remembered with the run that they belong to."""
_MOST_OPENERS = 512
_MOST_HELD = 64
"""Lines that a process prints before the first one that tells a start: plugins, the platform, the top of a banner."""
_PAUSE, _START = 1.0, 60.0
"""Seconds between the last line of a run and the first one of the next start, at least; and from there to the line that begins a run, at most."""
_MOST_ALIVE = 16
"""Servers that may write to one log side by side."""


_Key = TypeVar("_Key", bound=Hashable)


class _RunOwners(Generic[_Key]):
    """Which run a process or a host belongs to; a run's own are found without a look at those of all others."""

    def __init__(self) -> None:
        self._owners: dict[_Key, RunBuilder] = {}
        self._keys: dict[int, set[_Key]] = {}

    def get(self, key: _Key) -> RunBuilder | None:
        """Return the run that claimed a key."""
        return self._owners.get(key)

    def owners(self) -> Iterable[RunBuilder]:
        """Return the runs that have a key, as often as they have one."""
        return self._owners.values()

    def claim(self, key: _Key, run: RunBuilder) -> None:
        """Note that a key is a run's, unless another one has it."""
        if key not in self._owners and len(self._owners) < _MOST_CLAIMS:
            self._owners[key] = run
            self._keys.setdefault(id(run), set()).add(key)

    def has_any(self, run: RunBuilder) -> bool:
        """Return whether a run has a key."""
        return bool(self._keys.get(id(run)))

    def free(self, key: _Key) -> None:
        """Take a key from whoever has it."""
        owner = self._owners.pop(key, None)
        if owner is not None:
            self._keys[id(owner)].discard(key)

    def free_all(self, run: RunBuilder) -> None:
        """Take all keys of a run."""
        for key in self._keys.pop(id(run), ()):
            del self._owners[key]


class Segmenter:
    """Gives each record to a run; starts a new run where a new life of a server or engine begins."""

    def __init__(self, files: Sequence[str]) -> None:
        self._files = files
        self._budget = RecordBudget()
        self.runs: list[RunBuilder] = [RunBuilder(1, files, budget=self._budget)]
        self._second_began: tuple[int, int] | None = None
        self.unattributed_accesses = 0
        self._accesses: dict[bytes, Counter[AccessKey]] = {}
        self.left_out = self.records_left_out = self.recognised_left_out = 0
        self._by_pid = _RunOwners[tuple[str, int]]()
        self._by_host = _RunOwners[str]()
        self._claimed: Process | None = None
        self._captured: RunBuilder | None = None
        self._held: list[tuple[Record, Event | None, int]] = []

    @property
    def current(self) -> RunBuilder:
        """The run that started last."""
        return self.runs[-1]

    def add(self, record: Record, event: Event | None, count: int = 1) -> None:
        """Give a record, which represents `count` lines like it, to its run."""
        if self._may_begin(record, event):
            self._held.append((record, event, count))
            return
        if not self._held:
            self._give(record, event, count)
            return
        held, self._held = self._held, []
        opens = event is not None and event.pattern.id in OPENERS
        first = [opens and _leads_to(one[0], record) for one in held]
        for one, leads in zip(held, first, strict=True):
            if not leads:
                self._give(*one)
        before = self.current
        run = self._run_of(record, event)
        for one, leads in zip(held, first, strict=True):
            if leads:
                (run.add if self.current is not before else self._give)(*one)
        run.add(record, event, count)

    def _give(self, record: Record, event: Event | None, count: int = 1) -> None:
        self._run_of(record, event).add(record, event, count)

    def _may_begin(self, record: Record, event: Event | None) -> bool:
        """Return whether a line may be of a start whose telling line follows: a front process's, after a pause, that the last start had too."""
        run, name = self.current, event.pattern.id if event is not None else ""
        began = "engine" in run.openers or run.troubled
        if not began or run.now is None or record.time is None or record.call_site is None:
            return False
        paused = record.time + run.year_shift - run.now >= _PAUSE
        # The top of a banner has no word.
        known = (
            record.call_site in run.call_sites
            or name in IMPORT_LINES
            or not any(map(str.isalnum, record.message))
        )
        if not ((paused and known) or self._held) or len(self._held) >= _MOST_HELD or name in _OF_A_LIFE:
            return False
        return record.level in ("INFO", "WARNING") and _is_front(record.process) and stop_kind(record) is None

    def _run_of(self, record: Record, event: Event | None) -> RunBuilder:
        """Return the run of a record; one that begins a run begins it."""
        if self._accesses and event is not None and event.pattern.id in _COUNTED_BEFORE:
            self.flush_accesses()
        process = record.process
        run = self._owner(process, event)
        name = event.pattern.id if event is not None else ""
        if event is not None and name in SIGNATURES:
            run = self._of_other_engine(run, event)
        elif event is not None and name in BEGINNINGS:
            # SGLang imported parts of vLLM for a while; only vLLM's own openers make a run vLLM's again.
            if name in OPENERS if run.server != VLLM else self._opens(run, name, event):
                run = self._start(process)
            if name in OPENERS:
                kind = _KINDS[name]
                run.openers.setdefault(kind, process)
                if len(run.openers) < _MOST_OPENERS:
                    run.openers[f"{kind} {process.name}"] = process
        elif name == _REFUSED_COMMAND and run.ended:
            run = self._start(process)
        elif name in _OF_WORK and _works_elsewhere(run, record):
            failed, run = run, self._start(process)
            run.add_accesses(failed.without_accesses())
        elif record.call_site is None and run.begun and run.launches.is_typed(record):
            run = self._start(process)
        elif event is None and record.text.startswith(("___", "---")):
            run = self._of_test(run, record)
        elif process is not self._claimed and self._is_namesake(run, process):
            run = self._start(process, beside=True)
        if self._second_began is None and len(self.runs) > 1 and name not in _WAITING:
            self._second_began = record.file, record.line
        if process is not self._claimed:
            self._claim(process, run)
        return run

    def _release(self) -> None:
        """Give the lines that wait for a start to the run that went on."""
        held, self._held = self._held, []
        for one in held:
            self._give(*one)

    def _of_test(self, run: RunBuilder, record: Record) -> RunBuilder:
        """Return the run of a line of pytest: a failed test whose captured output has an engine ends where the next one begins."""
        begins = begins_a_test(record)
        if begins and run is self._captured and "engine" in run.openers:
            run = self._start(record.process)
        # With -s an engine writes as it runs, before the sections of all failed tests.
        if (begins or " Captured std" in record.text[:80]) and "engine" not in run.openers:
            self._captured = run
        return run

    def _of_other_engine(self, run: RunBuilder, event: Event) -> RunBuilder:
        """Return the run of another engine's line: the open one where nothing of vLLM's began, else a new one."""
        began = bool(run.openers)
        server = server_after(run.server, event.pattern.id, began)
        if server is None:
            return run
        if (began or run.server != VLLM) and not is_inside(run.server, server, run.messages):
            run = self._start(event.record.process)
        run.become(server)
        return run

    def add_fast(self, line: FastLine) -> None:
        """Give a line that was read in one step to its run: it opens none."""
        self._release()
        if self._accesses and line.figures is not None:
            self.flush_accesses()
        process = line.prefix.process
        run = self._owner(process)
        if run.takes(line):
            if len(self.runs) > 1:  # A run alone keeps what it claimed with its first lines.
                self._claim(process, run)
            run.add_fast(line)
        else:
            self.add(*line.parsed(), line.lines)

    def add_accesses(self, counts: Counter[AccessKey]) -> None:
        """Give access lines to the runs that wrote them; where several servers live side by side, by the name on each line."""
        if self._second_began is None or not isinstance(counts, AccessBlock):
            self.runs[0].add_accesses(counts)
            return
        # Where a chunk ends must not decide which servers are alive: what was counted before a second one began is the first
        # one's, the rest waits for a line of `_COUNTED_BEFORE`.
        earlier, prefixes = counts.split(*self._second_began)
        if earlier:
            self.runs[0].add_accesses(earlier)
        for prefix, part in prefixes.items():
            known = prefix if prefix in self._accesses or len(self._accesses) < _MOST_PREFIXES else b""
            self._accesses.setdefault(known, Counter()).update(part)

    def flush(self) -> None:
        """Give all that waits to its run."""
        self._release()
        self.flush_accesses()

    def flush_accesses(self) -> None:
        """Give the access lines that wait to the runs that wrote them."""
        if not self._accesses:
            return
        waiting, self._accesses = self._accesses, {}
        living = self._living()
        if len(living) < 2:
            self._note_other_port()
            self.current.add_accesses(sum(waiting.values(), Counter()))
            return
        for prefix, part in waiting.items():
            run = self._answering(writer_of(prefix), living)
            if run is not None:
                run.add_accesses(part)
            else:
                self.unattributed_accesses += part.total()

    def _living(self) -> list[RunBuilder]:
        """Return the runs that a process or a host still names."""
        named = [*self._by_pid.owners(), *self._by_host.owners()]
        return list({id(run): run for run in named if not run.ended}.values())

    def _answering(self, process: Process, living: Sequence[RunBuilder]) -> RunBuilder | None:
        """Return the run of the server that wrote an access line, or None where nothing tells."""
        named = self._by_pid.get((process.host, process.pid)) if process.pid is not None else None
        named = named or (self._by_host.get(process.host) if process.host else None)
        sound = [run for run in living if not run.troubled]
        return named or (sound[0] if len(sound) == 1 else None)

    def _note_other_port(self) -> None:
        """Note a server before the current one that may still answer: it listens elsewhere, and no end of it is in the log."""
        before, run = self.runs[-2:] if len(self.runs) > 1 else (self.current, self.current)
        if before is run or run.other_server is not None or before.first is None:
            return
        ports = [one.stated.arguments.get("port") for one in (before, run)]
        answers = before.ready and not before.ended and not before.troubled
        if answers and None not in ports and ports[0] != ports[1]:
            run.other_server = before.evidence(before.first)

    def _owner(self, process: Process, event: Event | None = None) -> RunBuilder:
        if len(self.runs) == 1:
            return self.current
        if process.pid is None:
            return self._by_host.get(process.host) or self.current
        known = self._by_pid.get((process.host, process.pid))
        return known or self._adopting(process, event)

    def _adopting(self, process: Process, event: Event | None) -> RunBuilder:
        """Return the run of a process that writes for the first time: a server that waits for such a one."""
        if process.role not in ("engine-core", "worker"):
            return self._by_host.get(process.host) or self.current
        waiting = [run for run in self.runs[-_MOST_ALIVE:] if self._waits_for(run, process)]
        if len(waiting) > 1 and event is not None and event.pattern.id in ENGINE_LINES:
            model = engine_config_of(event).get("model")
            waiting = [run for run in waiting if run.stated.arguments.get("model") == model] or waiting
        return waiting[0] if waiting else self._by_host.get(process.host) or self.current

    def _waits_for(self, run: RunBuilder, process: Process) -> bool:
        """Return whether a living server of the same host has no process of that name yet."""
        if run.ended or run.troubled or not self._by_pid.has_any(run):
            return False
        front = run.openers.get("version") or run.openers.get("arguments")
        if front is None or front.host != process.host:
            return False
        return not any(other.name == process.name and other.pid != process.pid for other in run.processes)

    def _claim(self, process: Process, run: RunBuilder) -> None:
        if process.pid is not None:
            self._by_pid.claim((process.host, process.pid), run)
        if process.host:
            self._by_host.claim(process.host, run)
        self._claimed = process

    def _is_namesake(self, run: RunBuilder, process: Process) -> bool:
        """Return whether a process has the name of another one of its run, which has one of that name: a piece of another pod.

        Where the log shows the begin of the run, a launcher may have started its server once more under another pid.
        """
        if run.openers or process.pid is None or not process.name.startswith(_ONE_OF_A_RUN):
            return False
        if self._by_pid.get((process.host, process.pid)) is not None:
            return False
        return any(
            one.name == process.name and one.host == process.host and one.pid not in (None, process.pid)
            for one in run.processes
        )

    def _start(self, process: Process, beside: bool = False) -> RunBuilder:
        """Begin a run; what the old one claimed is free again, unless both live side by side."""
        self._claimed = None
        old = self._owner(process)
        elsewhere = any(in_other_container(one, process) for one in old.openers.values())
        if beside or elsewhere or _lives_beside(old, process):
            self._by_pid.free((process.host, process.pid or 0))
        else:
            self._by_pid.free_all(old)
        self._by_host.free(process.host)
        if len(self.runs) >= MOST_RUNS:
            self._leave_out(self.runs.pop())
        run = RunBuilder(
            len(self.runs) + self.left_out + 1,
            self._files,
            Environment.after(old.environment.exported),
            Launches(own=old.launches.following, prompt=old.launches.prompt),
            self._budget,
        )
        old.launches.following = None
        self.runs.append(run)
        return run

    def _leave_out(self, run: RunBuilder) -> None:
        """Count a run instead of keeping it: the first ones and the last one are reported, however many there are."""
        self.left_out += 1
        self.records_left_out += run.vllm_records
        self.recognised_left_out += run.recognised
        self._by_pid.free_all(run)
        self._by_host.free_all(run)

    def _opens(self, run: RunBuilder, name: str, event: Event) -> bool:
        record = event.record
        if "[repeated " in record.text and "x across cluster]" in record.text:
            return False  # Ray writes it late, for lines that other workers wrote before.
        if name in IMPORT_LINES:
            # Workers print it too, before anything failed, and clients beside a server that is up: after a start that failed
            # the next one prints it.
            served = {"startup-complete", "throughput"} & run.messages.keys()
            failed = run.troubled and "engine" in run.openers and not served
            ended = run.ended or failed or _program_left(run) or is_older(run, record)
            return ended and _is_front(record.process)
        if run.ended or (run.troubled and run.launches.following is not None):
            return True  # After an error the next start was launched.
        kind = _KINDS[name]
        if not run.openers and had_a_life(run) and (name not in ENGINE_LINES or run.ready):
            return True
        if name in ENGINE_LINES:
            return is_new_engine(run, event)
        if kind in run.openers:
            if _lives_beside(run, record.process) and self._is_other_server(run, name, event):
                return True
            # Spawned processes run the main module again and print its lines a second time before any engine.
            if "engine" not in run.openers and not run.troubled:
                return False
            return not siblings(run.openers[kind], record.process)
        # Arguments follow the version line; behind an engine's configuration they begin the next life.
        return "engine" in run.openers and not _is_child_of_same(run, record.process)

    def _is_other_server(self, run: RunBuilder, name: str, event: Event) -> bool:
        """Return whether a front process serves something else; one that only runs again asks for the same."""
        front = run.openers["version" if name in VERSION_LINES else "arguments"]
        if front.host != event.record.process.host:
            return True
        known = _without_ids(run.stated.arguments)
        return name in ARGUMENT_LINES and _without_ids(arguments_of(event)[0]) != known


def _lives_beside(run: RunBuilder, process: Process) -> bool:
    """Return whether a process has the name of the run's front process, and another pid or host."""
    front = run.openers.get("version") or run.openers.get("arguments")
    if front is None or front.name != process.name or process.role not in ("api-server", ""):
        return False
    other_pid = front.pid is not None and process.pid is not None and front.pid != process.pid
    return front.host != process.host or other_pid


def _works_elsewhere(run: RunBuilder, record: Record) -> bool:
    """Return whether requests are older than the engine of a start that failed: the log of another server was put behind it."""
    served = {"startup-complete", "throughput"} & run.messages.keys()
    return run.troubled and "engine" in run.openers and not served and is_older(run, record)


def _without_ids(arguments: object) -> str:
    """Return arguments as text without the ids that each process draws anew."""
    return _RANDOM_ID.sub("#", repr(arguments))


def _program_left(run: RunBuilder) -> bool:
    """Return whether the process of an offline engine ended: torch says so where the program did not close its process group."""
    of_server = {"version", "arguments"} & run.openers.keys() or "startup-complete" in run.messages
    return "engine" in run.openers and not of_server and "torch-process-group-not-destroyed" in run.messages


def _leads_to(record: Record, opener: Record) -> bool:
    """Return whether a line is of the process whose line begins a run, or of one without a name, less than a minute before."""
    same = record.process.pid in (None, opener.process.pid)
    return same and (opener.time is None or 0 <= opener.time - (record.time or 0.0) <= _START)


def _is_front(process: Process) -> bool:
    return process.role in ("", "api-server", "other")


def _is_child_of_same(run: RunBuilder, process: Process) -> bool:
    return process.role in ("engine-core", "worker") and "version" in run.openers
