"""How a run ended, by the traces of its end and from what broke before them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import islice

from msgspec import Struct

from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.parse import Record
from vllm_logdoctor.run.blockkinds import (
    BlockKind,
    has_vllm,
    is_bare_line,
    is_of_script,
    is_of_stdin,
    is_transfer,
    is_utility_call,
    kind_of_block,
)
from vllm_logdoctor.run.blockphase import is_of_start, phase_of_block, phase_of_message
from vllm_logdoctor.run.blocks import Block
from vllm_logdoctor.run.builds import compiler_error, failed_step, last_step_done
from vllm_logdoctor.run.job import NATIVE_CRASHES
from vllm_logdoctor.run.lifecycle import (
    BIND,
    CLIENT_GONE,
    OF_CHILD,
    OWN_SHUTDOWN,
    SERVED,
    START_FAILED,
    Order,
    Place,
    actor_writes_on,
    batch_is_open,
    ends_engine,
    ends_progress,
    has_no_server,
    is_up,
    logs_on,
    program_left_engine,
    program_writes_on,
    says_death,
    serves,
    trail_of,
    within_engine,
)
from vllm_logdoctor.run.model import Outcome, Run
from vllm_logdoctor.run.omissions import last_omission
from vllm_logdoctor.run.other_programs import counted_in, is_of_benchmark_client
from vllm_logdoctor.run.owners import PROGRAM, acting_frames, is_file_of_vllm, owner_of
from vllm_logdoctor.run.termination import REQUESTED, Stop, by_cause, stops_in

_REQUESTS = ("request-received", "request-added", "request-finished")
"""Messages that only a running engine prints."""
_STARTED = ("engine-initialised", "graphs-captured")
_NOWHERE: Place = (1 << 30, 0)
_CONSEQUENCE_SECONDS = 300.0
_CONSEQUENCE_LINES = 2000
_NO_CONNECTION_LEFT = "Waiting for application shutdown"
"""Who waited for connections waits for them no longer: the log may end before the last line of an orderly shutdown."""
_LONG_AFTER = 40
"""Lines of others behind the last one of vLLM, or behind an actor's error, after which the log was not cut off there."""
# (APIServer pid=9)      (EngineCore_DP0 pid=9)      (Worker_TP0 pid=9)      (VllmWorkerProcess pid=9)      (RayWorkerWrapper pid=9)
_OF_VLLM = lazy_pattern(r"API|Engine|CoreEngine|V?llm|Worker(?:_|$)|RayWorker|DP")

_MOST_FATAL = 1000


class Ending(Struct, frozen=True):
    """How a run ended.

    Attributes:
        outcome: the word of the JSON contract.
        stop: the first trace that someone or something ended the run, or None.
        kinds: what each block is, in the order of the blocks.
        fatal: positions in the blocks of what may have broken the run, in order.
        deaths: records that say that a process died, outside of blocks too.
        ready: where the engine began to serve, or None.
        stops: all traces of an end.
        order: which of two records comes first.
        failed: whether the run broke by itself, in a phase that the log may not show.
        started: whether the log shows the start of an engine or a server.
        program_failed: whether the program that called the engine failed after all its prompts were answered; vLLM did not.
    """

    outcome: Outcome
    stop: Stop | None
    kinds: tuple[BlockKind, ...]
    fatal: tuple[int, ...]
    deaths: tuple[Record, ...]
    ready: Place | None
    stops: tuple[Stop, ...]
    order: Order
    failed: bool
    started: bool
    program_failed: bool


def outcome_of(run: Run, blocks: Sequence[Block]) -> Ending:
    """Return how a run ended."""
    return _Judge(run, blocks).ending()


class _Judge:
    """Holds what the questions about one run share."""

    def __init__(self, run: Run, blocks: Sequence[Block]) -> None:
        self.run = run
        self.blocks = blocks
        self.trail = trail_of(run)
        self.order = Order(self.trail)
        self.offline = run.kind != "server" or has_no_server(run, self.trail)
        self.kinds = tuple(self._kind(block) for block in blocks)
        self.inside = {id(record) for block in blocks for record in block.records}
        self.stops = list(stops_in(self.trail))
        harmless = {id(record) for block in self._blocks_of("request", "noise") for record in block.records}
        self.deaths = tuple(
            one
            for one in self.trail
            if says_death(one) and (id(one) not in self.inside or not one.level) and id(one) not in harmless
        )
        self.ready = self._ready()
        self.stop = self._first_stop()

    def _kind(self, block: Block) -> BlockKind:
        if counted_in(block, self.run) is not None:
            return "noise"
        return "request" if is_utility_call(block) and not self.offline else kind_of_block(block)

    def ending(self) -> Ending:
        fatal = self.fatal()
        first = self._first_broken(fatal)
        of_program = first is not None and self._only_program_failed(fatal)
        crashed = first is not None and not of_program
        outcome = self._crashed(first, fatal) if first is not None and crashed else self._outcome(fatal)
        failed = first is not None or outcome == "crashed_at_startup"
        return Ending(
            outcome, self.stop, self.kinds, fatal, self.deaths, self.ready, tuple(self.stops), self.order, failed, self._shows_a_start(), of_program
        )  # fmt: skip

    def fatal(self) -> tuple[int, ...]:
        """Return which blocks may have broken the run: errors and wrappers that no stop and no later start explains.

        Of very many the first ones and the last ones: every rank prints its own, and the judgement of each takes time.
        """
        fatal = tuple(number for number in range(len(self.blocks)) if self._may_be_fatal(number))
        return fatal if len(fatal) <= 2 * _MOST_FATAL else fatal[:_MOST_FATAL] + fatal[-_MOST_FATAL:]

    def _may_be_fatal(self, number: int) -> bool:
        block, kind = self.blocks[number], self.kinds[number]
        if kind not in ("error", "wrapper") or self._after_stop(self.order.place(block.first)):
            return False
        if kind == "wrapper" and self.offline and any(ends_progress(one.message) for one in self.trail[-80:]):
            return False
        if is_of_stdin(block) and any(map(is_of_stdin, self.blocks[number + 1 :])):
            return False
        if (is_transfer(block) or self._is_clients(block)) and not self._death_after(block):
            return False
        if self._actor_lives(block) or self._program_lives(block) or self._start_went_on:
            return False
        if self.ready is None or self.ready > _NOWHERE:
            return True
        served = self.run.startup_complete and (not self.offline or self._offline_done())
        if served and self.order.place(block.first) < self.ready:
            died = any(self.order.place(one) < self.ready for one in self.deaths)
            return died and not self._went_on(block)
        if self._went_on(block):
            return False
        if kind == "error" and not self.offline and not within_engine(block):
            return self._death_after(block)
        return True

    def _is_clients(self, block: Block) -> bool:
        """Return whether a client's program wrote a traceback into the log of a server that answers requests."""
        if block.level or not any(one.frames for one in block.raised) or has_vllm(block):
            return False
        return bool(self.run.accesses) or "request" in self.kinds

    def _actor_lives(self, block: Block) -> bool:
        """Return whether an actor of Ray failed in code that vLLM has no part in, and the driver, which learns of each such end, says nothing.

        (AgentWorker pid=57714)   File "/srv/agent/env.py", line 270, in read_answer
        """
        if block.process.pid is None or _OF_VLLM.match(block.process.name) or has_vllm(block):
            return False
        alike = next(one for one in self.blocks if one.process.name == block.process.name)
        later = (one for one in self.blocks if self.order.place(one.first) > self.order.place(block.first))
        lives = self.run.last_line - alike.first.line > _LONG_AFTER or actor_writes_on(
            block, self.trail, self.inside
        )
        return lives and all(one.process.pid for one in later) and self._healthy_end(block)

    def _program_lives(self, block: Block) -> bool:
        """Return whether the program that calls the engine wrote on behind an exception of its own code."""
        if self.run.kind != "offline" or block.level or has_vllm(block):
            return False
        return program_writes_on(block, self.trail, self.inside) and self._healthy_end(block)

    @cached_property
    def _start_went_on(self) -> bool:
        """Return whether a library printed no more than the name of an exception, and vLLM logged on behind it."""
        errors = list(self._blocks_of("error", "wrapper"))
        return not self.deaths and all(map(is_bare_line, errors)) and logs_on(errors, self.trail)

    def _went_on(self, block: Block) -> bool:
        """Return whether the engine made tokens or finished prompts long after a block: then the block did not end it."""
        line = block.records[-1].line
        return (self._tokens_behind(line) or self._prompts_behind(line)) and self._healthy_end(block)

    def _prompts_behind(self, line: int) -> bool:
        """Return whether a progress bar advanced behind a line: its first state there may be of prompts that were done before."""
        later = [one for one in self.run.progress if one.evidence.line > line]
        return any(one.done > later[0].done for one in later)

    def _tokens_behind(self, line: int) -> bool:
        """Return whether tokens were made behind a line: the first statistics may still count what was made before it."""
        # From the end, where they are: a log of a million statistics lines has as many blocks to ask for.
        later = (one for one in reversed(self.run.samples) if one.line > line and one.generation > 0)
        return next(islice(later, 1, None), None) is not None

    def _healthy_end(self, block: Block) -> bool:
        """Return whether nothing died behind a block, or before anything served behind it."""
        dead = [one for one in map(self.order.place, self.deaths) if one >= self.order.place(block.first)]
        return not dead or (self.ready is not None and max(dead) < self.ready < _NOWHERE)

    def _death_after(self, block: Block) -> bool:
        """Return whether the run's death follows a block of the front process: else it was one request's trouble."""
        place = self.order.place(block.first)
        number = bisect_left(self._ends, place)
        return (
            number < len(self._ends)
            and not self._after_stop(self._ends[number])
            and self._soon(block, number)
        )

    @cached_property
    def _ends(self) -> list[Place]:
        """Places at which something says that a process is dead."""
        wrappers = (block.first for block in self._blocks_of("wrapper"))
        return sorted(self.order.place(one) for one in (*wrappers, *self.deaths))

    def _only_program_failed(self, fatal: Sequence[int]) -> bool:
        """Return whether all that broke is the program's own, behind the last of all answers or behind the engine's end."""
        if self.run.kind != "offline" or not fatal or self.deaths:
            return False
        done, ends = (
            [self.order.place(one) for one in self.trail if ends(one.message)]
            for ends in (ends_progress, ends_engine)
        )
        ended = min(ends if self.run.startup_complete else [], default=_NOWHERE)
        return all(self._is_of_program(one, max(done, default=ended), ended) for one in fatal)

    def _is_of_program(self, number: int, done: Place, ended: Place) -> bool:
        block, before = self.blocks[number], self.blocks[max(0, number - 1)]
        frames = [frame for one in block.raised for frame in one.frames]
        innermost = acting_frames(frames)[-1:]
        # papermill.exceptions.PapermillExecutionError: (the exception of a notebook's cell follows)
        quoted = not frames and before.last_raised.name == "PapermillExecutionError"
        said = is_of_script(block) and self.order.place(block.first) > ended
        return (
            not block.level
            and self.order.place(block.first) > done
            and (said or quoted or [owner_of(frame.file) for frame in innermost] == [PROGRAM])
            and not any(is_file_of_vllm(frame.file) for frame in frames)
        )

    def _blocks_of(self, *kinds: BlockKind) -> Iterator[Block]:
        return (block for block, kind in zip(self.blocks, self.kinds, strict=True) if kind in kinds)

    def _soon(self, block: Block, number: int) -> bool:
        """Return whether an end follows a block closely enough to be its consequence."""
        end = self._ends[number]
        then, now = self._time_at(self.order.place(block.first)), self._time_at(end)
        if then is not None and now is not None:
            return now - then <= _CONSEQUENCE_SECONDS
        return end[1] - self.order.place(block.records[-1])[1] <= _CONSEQUENCE_LINES

    def _time_at(self, place: Place) -> float | None:
        """Return the time at a place: of its record, or of the last one before it that has one."""
        number = bisect_right(self._clock, (place, float("inf")))
        return self._clock[number - 1][1] if number else None

    @cached_property
    def _clock(self) -> list[tuple[Place, float]]:
        return sorted((self.order.place(one), one.time) for one in self.trail if one.time is not None)

    def _after_stop(self, place: Place) -> bool:
        return self.stop is not None and self.order.place(self.stop.record) < place

    def _first_stop(self) -> Stop | None:
        """Return the first trace of a wanted end, or of a shutdown that no error precedes."""
        errors = (self.order.place(block.first) for block in self._blocks_of("error", "wrapper"))
        broken = min(errors, default=_NOWHERE)
        for stop in by_cause(self.stops):
            if stop.kind in REQUESTED and not self._just_reaction(stop) and not self._from_parent(stop):
                return stop
            if stop.kind == "shutdown" and not self._died_before(stop, broken):
                return stop
        return None

    def _from_parent(self, stop: Stop) -> bool:
        """Return whether a child was ended by its own parent: one that failed, or an offline program that was done."""
        of_child = stop.record.process.role in ("engine-core", "worker") or OF_CHILD.search(
            stop.record.message
        )
        if stop.kind != "signal" or not of_child:
            return False
        if self.offline and self._parent_shuts_down(stop):
            return True
        behind = (
            one
            for one in self._blocks_of("error")
            if self.order.place(one.first) > self.order.place(stop.record)
        )
        return any(not one.level and one.process.role not in ("engine-core", "worker") for one in behind)

    def _parent_shuts_down(self, stop: Stop) -> bool:
        """Return whether the program announced the end of its engine just before: [shutdown] MPClient: start"""
        before = [one for one in self.trail if self.order.place(one) < self.order.place(stop.record)][-12:]
        return any(OWN_SHUTDOWN.search(one.message) for one in before)

    def _just_reaction(self, stop: Stop) -> bool:
        """Return whether the run was dead already when it was asked to stop: the front process then ends the others."""
        return bool(self._ends) and self._ends[0] < self.order.place(stop.record)

    def _died_before(self, stop: Stop, broken: Place) -> bool:
        if self._just_reaction(stop):
            return True
        before = broken < self.order.place(stop.record) and (self.ready is None or broken > self.ready)
        return before and self._last_block_ends_run(stop)

    def _last_block_ends_run(self, stop: Stop) -> bool:
        end = self.order.place(stop.record)
        errors = [one for one in self._blocks_of("error") if self.order.place(one.first) < end]
        last = errors[-1] if errors else None
        in_engine = last is not None and last.process.role in ("engine-core", "worker")
        return last is not None and in_engine and stop.record.line - last.records[-1].line < 200

    def _ready(self) -> Place | None:
        first = next((one for one in self.trail if is_up(one.message) or serves(one)), None)
        marks = [] if first is None else [self.order.place(first)]
        if self.run.samples:
            marks.append(self._place_of_sample(self.trail[0].file if self.trail else 0))
        names = (*_REQUESTS, *(_STARTED if self.offline and self.run.startup_complete else ()))
        shown = [self.run.messages[name].first for name in names if name in self.run.messages]
        marks += [self.order.place(events[0].record) for events in shown if events]
        if marks:
            return min(marks)
        return (0, 0) if self.run.startup_complete and self._accesses_served() else None

    def _place_of_sample(self, file: int) -> Place:
        """Return the place of the first statistics line, which is not among the records."""
        sample = self.run.samples[0]
        if not self.order.several or sample.time is None:
            return file, sample.line
        return next((place for place, time in self._clock if time >= sample.time), _NOWHERE)

    def _accesses_served(self) -> bool:
        """Return whether a server was up: uvicorn answers once the engine is there; a client's errors prove less."""
        return any(not 400 <= status < 500 for (_, _, status) in self.run.accesses)

    def _first_broken(self, fatal: Sequence[int]) -> Record | None:
        """Return the first line that says that the run broke, or None; how a build ended is asked elsewhere."""
        if self.run.kind == "build":
            return None
        deaths = [
            one
            for one in self.deaths
            if not self._after_stop(self.order.place(one))
            and (one.level or not self._tokens_behind(one.line))
        ]
        if self.offline and all(CLIENT_GONE.search(one.message) for one in deaths) and self._offline_done():
            deaths = []
        broken = [self.blocks[number].first for number in fatal] + deaths
        return min(broken, key=self.order.place, default=None)

    def _outcome(self, fatal: Sequence[int]) -> Outcome:
        """Return how a run ended that did not break by itself, or a build."""
        if self.run.kind == "build":
            return self._build_outcome(fatal)
        if self.run.kind == "container":
            return "crashed_at_startup"
        job = self.run.job
        if job is not None and job.limit:
            return "killed"
        if self.stop is not None:
            return self._stopped(self.stop)
        if any(stop.kind in ("memory", "kill") for stop in self.stops):
            return "killed"
        if any(stop.kind == "ended" for stop in self.stops):
            return "clean_shutdown"
        if job is not None and job.signal in NATIVE_CRASHES:
            began = self.run.startup_complete or self.ready is not None
            return "crashed_while_serving" if began else "crashed_at_startup"
        return "killed" if job is not None and job.signal is not None else self._open_end()

    def _build_outcome(self, fatal: Sequence[int]) -> Outcome:
        """Return how a build ended: by the last word of its tools, else by what broke."""
        done = last_step_done(self.trail)
        end = self.order.place(done) if done is not None else (0, 0)
        later = [one for one in self.trail if self.order.place(one) > end]
        broke = any(self.order.place(self.blocks[number].first) > end for number in fatal)
        if broke or failed_step(later) is not None or compiler_error(later) is not None:
            return "crashed_at_startup"
        return "clean_shutdown" if done is not None else "unknown"

    def _crashed(self, first: Record, fatal: Sequence[int]) -> Outcome:
        """Return in which phase a run broke, or "unknown" where neither its messages nor its frames show one."""
        blocks = [self.blocks[number] for number in fatal[:40]]
        lines = [one.message for one in (first, *self.deaths)]
        lines += [block.announcement or block.first.message for block in blocks]
        lines += [block.last_raised.statement[:300] for block in blocks]
        if BIND.search(first.message) or any(map(START_FAILED.search, lines)):
            return "crashed_at_startup"
        if self.ready is not None and self.ready <= self.order.place(first):
            return "crashed_while_serving"
        if any(map(SERVED.search, lines)):
            return "crashed_while_serving"
        for block in blocks:
            phase = "start" if is_of_start(block) else phase_of_block(block)
            if phase:
                return "crashed_while_serving" if phase == "serving" else "crashed_at_startup"
        killed = any(stop.kind in ("memory", "kill") for stop in self.stops)
        if self._shows_a_start() and not (killed and self.offline and self._goes_on(first.line)):
            return "crashed_at_startup"
        return "killed" if killed else "unknown"

    def _shows_a_start(self) -> bool:
        """Return whether lines of the log are of the start of an engine or a server: a traceback alone is of any time."""
        run = self.run
        reported = run.version is not None and run.version.provenance == "reported"
        if reported or run.arguments or run.engine_config or run.phases:
            return True
        if is_of_benchmark_client(self.blocks):
            return False  # It detects its platform as an engine does, and starts none.
        return any(phase_of_message(one.message) not in ("", "serving") for one in self.trail)

    def _stopped(self, stop: Stop) -> Outcome:
        if stop.kind in ("scheduler", "walltime"):
            return "killed"
        after = {
            one.kind for one in self.stops if self.order.place(one.record) > self.order.place(stop.record)
        }
        if "ended" not in after:
            waits = any("Waiting for connections to close" in one.record.message for one in self.stops)
            waits = waits and not any(_NO_CONNECTION_LEFT in one.message for one in self.trail)
            if waits or after & {"kill", "memory"}:
                return "killed"
        began = self.run.startup_complete or self.ready is not None or self._offline_done()
        return "clean_shutdown" if stop.kind == "shutdown" or began else "killed"

    def _offline_done(self) -> bool:
        return any(ends_progress(one.message) for one in self.trail)

    def _open_end(self) -> Outcome:
        if self._did_its_work():
            return "clean_shutdown"
        if self.offline and batch_is_open(self.run, self.trail) and last_omission(self.run) is None:
            return "truncated"
        job = self.run.job
        if job is not None and (job.exit_status is not None or job.words):
            return "unknown"
        if self.run.startup_complete or self.ready is not None or self._answers_requests():
            return "running"
        ends_here = self.run.last_of_file and last_omission(self.run) is None
        cut = ends_here and self.run.vllm_records and not self._goes_on(self.run.last_line)
        return "truncated" if cut else "unknown"

    def _goes_on(self, end: int) -> bool:
        """Return whether another program wrote on, until a line, long after the last line of vLLM: then its log holds a piece of one."""
        own = [one.line for one in self.trail if one.level or one.process.role]
        return bool(own) and end - max(own) > _LONG_AFTER

    def _did_its_work(self) -> bool:
        """Return whether a program ended by itself: its progress bar is full, its engine was shut down, a launcher went on."""
        if self.offline and (self._offline_done() or self._only_ended_untidily()):
            return True
        if self.run.startup_complete and program_left_engine(self.trail, self.offline):
            return True
        ended = ends_engine if self.run.startup_complete else OWN_SHUTDOWN.search
        return self.offline and any(ended(one.message) for one in self.trail[-40:])

    def _only_ended_untidily(self) -> bool:
        """Return whether all errors were ignored by an interpreter that ended: Exception ignored in: <function Worker.__del__>"""
        ignored = [block.announcement.startswith("Exception ignored") for block in self.blocks]
        if any(says_death(one) for one in self.trail):
            return False
        torn_down = any("Teardown complete" in one.message for one in self.trail[-4:])
        return torn_down or (bool(ignored) and all(ignored) and not self.run.vllm_records)

    def _answers_requests(self) -> bool:
        """Return whether an excerpt holds nothing but trouble of single requests: who refuses them is up."""
        return "request" in self.kinds and "wrapper" not in self.kinds
