"""Phases of a run from the engine's own durations and from timestamps; what no phase explains stays visible."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from vllm_logdoctor.events import Event
from vllm_logdoctor.parse import Process
from vllm_logdoctor.run.builder import RunBuilder
from vllm_logdoctor.run.draft_phases import is_of_draft_model
from vllm_logdoctor.run.library_kernels import autotunings, kernel_builds
from vllm_logdoctor.run.model import Evidence, Phase, Run
from vllm_logdoctor.run.phase_parts import (
    SHORTEST_GAP,
    begun_with_parts,
    fitted,
    inside,
    longest_of_ranges,
    span_of,
    with_parts_of_compile,
    with_profiling,
    within_siblings,
    without_lost_wholes,
)

_PROFILED = "memory-profiled"
# phase -> (pattern, field with the engine's own seconds, parent)
_TIMED: tuple[tuple[str, str, str, str], ...] = (
    ("download", "weights-downloaded", "seconds", "load-weights"),
    ("read-weights", "weights-read", "seconds", "load-weights"),
    ("load-weights", "model-loaded", "seconds", "startup"),
    ("load-weights", "model-weights-loaded", "seconds", "startup"),
    ("dynamo", "dynamo-done", "seconds", "engine-init"),
    ("inductor", "graph-compiled", "seconds", "engine-init"),
    ("compile-cache", "compile-cache-hit", "seconds", "engine-init"),
    ("compile", "compile-total", "seconds", "engine-init"),
    ("profiling", _PROFILED, "seconds", "engine-init"),
    ("warm-up", "warmup-run", "seconds", "engine-init"),
    ("graph-capture", "graphs-captured", "seconds", "engine-init"),
    ("engine-init", "engine-initialised", "seconds", "startup"),
)
_LOADED = ("model-loaded", "model-weights-loaded")
_LOAD_STARTED = ("model-load-started", "model-load-from-scratch")
"""The V2 model runner prints only the second, a second or two into the length that it measures."""
_BEGINS = {
    "load-weights": _LOAD_STARTED[:1],
    "dynamo": ("compile-started",),
    "graph-capture": ("graph-capture-started",),
}
"""Lines that a phase begins with, where a release prints one."""
_FOLLOWS = {
    "dynamo": _LOADED,
    "inductor": ("dynamo-done",),
    "compile-cache": ("dynamo-done",),
    "graph-capture": ("kv-cache-size", "kv-cache-concurrency", "kv-cache-blocks"),
}
"""Lines behind which a phase begins."""
_SERVED = ("available-routes", "throughput", "request-received", "request-added", "offline-progress")
"""What only a server or engine that is ready prints: the latest that its start can have ended."""
_CACHE_READY = ("graphs-captured", "kv-cache-concurrency", "kv-cache-size", "kv-cache-blocks")
_LAUNCHED = (
    "api-server-version", "banner-version", "arguments-namespace", "arguments-non-default", "engine-config",
)  # fmt: skip
"""Without one of these a log begins in the middle of the start: how long it took is not in the log."""
_BEGUN = (*_LAUNCHED, *_LOAD_STARTED)
"""Without one of these a log begins behind the start."""
_ENCODER = "encoder-cache-initialized-budget-tokens-profiled-items"
_LONG_PROFILING = 30.0
_ROUNDED = 2.0
"""Seconds by which a phase may begin before the run because printed times are whole."""
_WRONG_CLOCK = 60.0
"""Seconds before the first line of a start from which no loading of it can have begun."""
_LONGER_THAN_ROUNDED = 5.0
"""Seconds from which the time between two lines with whole seconds says how long something took."""
_STOPPING = (
    "shutdown-step", "shutdown-initiated", "interrupt-received", "uvicorn-stopping", "shutdown-waiting", "shutdown-complete",
    "server-process-finished", "workers-terminated",
)  # fmt: skip


_LOADS = ("load-weights", "read-weights", "download")


class _Moment(Struct, frozen=True):
    """A time and the lines that prove it."""

    time: float
    evidence: tuple[Evidence, ...]


def phases_of(run: Run, builder: RunBuilder) -> list[Phase]:
    """Return the phases in order of their start: parts of the start-up, serving, the stop.

    Phases with parent "startup" follow each other and together fill the start-up; the rest of it is called
    "unexplained". Phases inside them carry the name of the phase that they are a part of.
    """
    printed = [*filter(partial(_fits_the_log, _moment(builder, *_BEGUN)), _timed_phases(builder))]
    loaded = (*_loaded_by_clock(builder), *_loaded_by_parts(builder, printed))
    timed = _ordered(_clipped([*longest_of_ranges(printed), *loaded], run))
    ready = _ready(run, builder, timed)
    found = [
        *with_profiling(timed, _profiling(builder, timed)),
        *_startup(run, builder, timed, ready),
        *_encoder(builder, timed),
        *(_slowest(phases) for phases in autotunings(builder)),
    ]
    found += _serving(run, builder, ready)
    whole = without_lost_wholes(with_parts_of_compile(found))
    begun = fitted(begun_with_parts([*whole, *kernel_builds(builder, whole)]))
    phases = _ordered(inside(inside(within_siblings(begun))))  # Parts of parts too.
    if all(phase.end is None or phase.end.is_integer() for phase in printed):
        phases = [_in_whole_seconds(phase, run) for phase in phases]
    return _with_loading(phases, builder)


def _in_whole_seconds(phase: Phase, run: Run) -> Phase:
    """Return a phase with the likeliest seconds of its ends: a clock of whole seconds cuts the time that a length is taken from.

    Of an end that is printed as 38 a length of 1.02 s is left from 36.98 to 37.98.
    """
    if phase.start is None or phase.end is None or phase.start == run.started:
        return phase
    start, end = (float(math.floor(time + 0.5)) for time in (phase.start, phase.end))
    return replace(phase, start=start, end=end)


def _with_loading(phases: list[Phase], builder: RunBuilder) -> list[Phase]:
    """Return the phases with the engine's work under another name where it may hold the loading, of which no line says when it ended."""
    if "engine-initialised" in builder.messages or any(phase.name in _LOADS for phase in phases):
        return phases
    wider = {"engine-init": "engine-load"}
    return [
        replace(one, name=wider.get(one.name, one.name), parent=wider.get(one.parent, one.parent))
        for one in phases
    ]


def _ordered(phases: Iterable[Phase]) -> list[Phase]:
    return sorted(phases, key=lambda p: (p.start is None, p.start or 0.0, -(p.seconds or 0.0)))


def _timed_phases(builder: RunBuilder) -> Iterator[Phase]:
    for name, pattern, field_name, parent in _TIMED:
        seen = builder.messages.get(pattern)
        of_rank: dict[Process, int] = defaultdict(int)
        together: dict[int, list[Phase]] = defaultdict(list)
        counted = set()
        for number, event in enumerate(seen.first if seen else ()):
            seconds = event.number(field_name)
            # A stream that was captured twice says the same thing twice.
            same = (event.record.process, event.record.time, event.record.message)
            if seconds is not None and not (event.record.time is not None and same in counted):
                counted.add(same)
                phase = _timed(builder, name, event, builder.times.get((pattern, number)), seconds, parent)
                if is_of_draft_model(builder, pattern, event, of_rank[event.record.process]):
                    phase = replace(phase, process=f"{phase.process} (draft model)".strip())
                together[of_rank[event.record.process]].append(phase)
                of_rank[event.record.process] += 1
        yield from (_slowest(phases) for phases in together.values())


def _loaded_by_clock(builder: RunBuilder) -> Iterator[Phase]:
    """Time the loading of releases that print how much was loaded and not how long it took: from one line to the other."""
    done = [builder.messages[name] for name in _LOADED if name in builder.messages]
    if any(event.number("seconds") is not None for seen in done for event in seen.first):
        return
    begun = {
        **_moments_by_process(builder, "weights-load-bitsandbytes"),
        **_moments_by_process(builder, _LOAD_STARTED[1]),
        **_moments_by_process(builder, _LOAD_STARTED[0]),
    }
    ended = {**_moments_by_process(builder, _LOADED[1]), **_moments_by_process(builder, _LOADED[0])}
    phases = [
        Phase(
            "load-weights", process.name or process.rank, start, end, end - start, (*first, *last), "startup"
        )
        for process, (end, last) in ended.items()
        for start, first in ([begun[process]] if process in begun else [])
        if end >= start
    ]
    if phases:
        yield _slowest(phases)


def _loaded_by_parts(builder: RunBuilder, printed: Sequence[Phase]) -> Iterator[Phase]:
    """Let the loading of an engine that prints no end of it (on TPU) end with its last reading of weights, where its cache was made."""
    if any(name in builder.messages for name in _LOADED) or not _moment(builder, *_CACHE_READY):
        return
    parts = [phase for phase in printed if phase.parent == "load-weights" and phase.end is not None]
    read = [phase for phase in parts if phase.name == "read-weights"]
    begun = min((phase.start for phase in parts if phase.start is not None), default=None)
    if read and begun is not None:
        last = max(read, key=lambda phase: phase.end or 0.0)
        loading = _moment(builder, *_LOAD_STARTED)
        own = loading is not None and loading.time <= begun + _ROUNDED
        start, first = (loading.time, loading.evidence) if loading and own else (begun, ())
        end = last.end or begun
        if end - start >= SHORTEST_GAP:
            yield span_of("load-weights", start, end, (*first, *last.evidence), "startup")


def _moments_by_process(
    builder: RunBuilder, pattern: str
) -> dict[Process, tuple[float, tuple[Evidence, ...]]]:
    """Return when each process printed a message first."""
    found: dict[Process, tuple[float, tuple[Evidence, ...]]] = {}
    seen = builder.messages.get(pattern)
    for number, event in enumerate(seen.first if seen else ()):
        time = builder.times.get((pattern, number))
        if time is not None:
            found.setdefault(event.record.process, (time, (builder.evidence(event.record),)))
    return found


def _slowest(phases: Sequence[Phase]) -> Phase:
    """Ranks do the same at the same time: the slowest one is what the start waits for."""
    slowest = max(phases, key=lambda phase: phase.seconds or 0.0)
    if len(phases) == 1:
        return slowest
    process, _, what = slowest.process.partition(" (")
    alike = all(phase.seconds == slowest.seconds for phase in phases)
    which = f"as long in all {len(phases)}" if alike else f"slowest of {len(phases)}"
    note = ", ".join(filter(None, [which, what.rstrip(")")]))
    return replace(slowest, process=f"{process} ({note})".strip())


def _timed(
    builder: RunBuilder, name: str, event: Event, end: float | None, seconds: float, parent: str
) -> Phase:
    start = None if end is None else _begun(builder, name, event, end - seconds, end)
    if (
        name == "load-weights"
        and start is not None
        and end is not None
        and end - start > seconds + _LONGER_THAN_ROUNDED
    ):
        seconds = end - start
    process = event.record.process
    return Phase(
        name, process.name or process.rank, start, end, seconds, (builder.evidence(event.record),), parent
    )


def _begun(builder: RunBuilder, name: str, done: Event, start: float, end: float) -> float:
    """Return when a phase began: by its own first line, else not before the line that it follows.

    Printed times are whole seconds, and so are the lengths of some releases:
    INFO 08-29 19:17:16 model_runner.py:1208] Capturing the model for CUDA graphs.
    INFO 08-29 19:17:25 model_runner.py:1327] Graph capturing finished in 8 secs.
    """
    begins = _times_before(builder, _BEGINS.get(name, ()), done, end)
    # The clock that measures a length can stop while the machine sleeps; the one of the lines does not.
    slept = name == "load-weights" and begins and start - begins[-1] > _LONGER_THAN_ROUNDED
    if begins and (abs(begins[-1] - start) <= _ROUNDED or slept):
        return begins[-1]
    follows = [
        time for time in _times_before(builder, _FOLLOWS.get(name, ()), done, end) if time <= start + _ROUNDED
    ]
    return max([start, *follows[-1:]])


def _times_before(builder: RunBuilder, patterns: Sequence[str], done: Event, end: float) -> list[float]:
    """Return when messages were printed up to a time, in order: by the process of another one where it printed any."""
    found = [
        (event.record.process == done.record.process, time)
        for pattern in patterns
        if pattern in builder.messages
        for number, event in enumerate(builder.messages[pattern].first)
        if (time := builder.times.get((pattern, number))) is not None and time <= end
    ]
    own = any(same for same, _ in found)
    return sorted(time for same, time in found if same or not own)


def _fits_the_log(begun: _Moment | None, phase: Phase) -> bool:
    """Return whether the printed length of a loading is possible: one that is longer than its run is of a wrong clock.

    The loader of a draft model may count from another start:
    INFO 07-01 00:26:44 [default_loader.py:384] Loading weights took 14341.52 seconds
    """
    if begun is None or phase.start is None or phase.name not in ("read-weights", "load-weights"):
        return True
    return phase.start >= begun.time - _WRONG_CLOCK


def _clipped(phases: Iterable[Phase], run: Run) -> Iterator[Phase]:
    """The engine's seconds have fractions, its clock has none: no phase starts before a run that is whole."""
    for phase in phases:
        early = run.started - phase.start if phase.start is not None and run.started is not None else 0.0
        if 0.0 < early <= _ROUNDED:
            phase = replace(phase, start=run.started)
        yield phase


def _moment(builder: RunBuilder, *patterns: str, after: float = -math.inf) -> _Moment | None:
    """Return when the first of the messages was printed, not before a time."""
    found = [
        (time, event)
        for pattern in patterns
        if pattern in builder.messages
        for number, event in enumerate(builder.messages[pattern].first)
        if (time := builder.times.get((pattern, number))) is not None and time >= after
    ]
    if not found:
        return None
    time, event = min(found, key=lambda pair: (pair[1].record.file, pair[1].record.line))
    return _Moment(time, (builder.evidence(event.record),))


def _ready(run: Run, builder: RunBuilder, timed: Sequence[Phase]) -> _Moment | None:
    """Return when the server answers, or the engine is ready; not before its own start-up work ended.

    Another program may print the same lines of uvicorn earlier in the log.
    """
    patterns: tuple[tuple[str, ...], ...]
    if run.kind == "server":
        patterns = (
            ("startup-complete", "uvicorn-running"),
            ("server-starting",) if run.startup_complete else (),
        )
    else:
        patterns = (
            (("engine-initialised",), ("graphs-captured",), ("kv-cache-blocks",))
            if run.startup_complete
            else ()
        )
    if run.startup_complete and _shows_beginning(builder):
        patterns = (*patterns, _SERVED)
    work = [phase.end for phase in timed if phase.name == "engine-init" and phase.end is not None]
    earliest = min(work) - _ROUNDED if work else -math.inf
    ready = next((found for names in patterns if (found := _moment(builder, *names, after=earliest))), None)
    # Lines of uvicorn print no time: the last line of vLLM before them does.
    timed_line = ready and _moment(builder, "server-starting", after=ready.time - SHORTEST_GAP)
    if ready and timed_line and timed_line.time <= ready.time and timed_line.evidence != ready.evidence:
        return _Moment(ready.time, (*timed_line.evidence, *ready.evidence))
    return ready


def _shows_beginning(builder: RunBuilder) -> bool:
    return any(name in builder.messages for name in _BEGUN)


def _startup(run: Run, builder: RunBuilder, timed: Sequence[Phase], ready: _Moment | None) -> list[Phase]:
    """Fill the start-up up to readiness, else to the failure or last line; a log that begins behind it shows none."""
    worked = max((phase.end for phase in timed if phase.end is not None), default=-math.inf)
    failed = ("workerproc-failed-start", "engine-failed-to-start")
    reached = ready or _moment(builder, *failed, *_STOPPING, after=worked - _ROUNDED)
    end = reached.time if reached else run.ended
    if run.started is None or end is None or end < run.started or not _shows_beginning(builder):
        return []
    parts: list[Phase] = []
    position = run.started
    for name, moment in _milestones(builder, timed, ready):
        if moment.time > position:
            parts.append(span_of(name, position, moment.time, moment.evidence, "startup"))
        position = max(position, _end_of(timed, name, moment))
    waited = builder.messages.get("placement-group-waiting")
    if ready is None and waited is not None and waited.last is not None and len(parts) < 2:
        evidence = (builder.evidence(waited.last.record),)
        parts.append(span_of("placement", position, end, evidence, "startup", ends=False))
        position = end
    loading = _moment(builder, *_LOAD_STARTED)
    if (
        ready is None
        and loading
        and loading.time >= position
        and not any(p.name == "load-weights" for p in timed)
    ):
        parts.append(span_of("engine-start", position, loading.time, loading.evidence, "startup"))
        # What follows the reading is not always loading.
        read = [phase for phase in timed if phase.name == "read-weights" and phase.end is not None]
        last = max(read, key=lambda phase: phase.end or 0.0, default=None)
        position = last.end if last is not None and last.end is not None else end
        shown = last.evidence if last is not None else ()
        if last is not None and (draft := _moment(builder, "checkpoint-size", after=position + SHORTEST_GAP)):
            span = span_of("read-weights", draft.time, end, draft.evidence, "load-weights", ends=False)
            parts.append(replace(span, process=f"{last.process.partition(' (')[0]} (draft model)".strip()))
            position, shown = end, reached.evidence if reached else ()
        proof, ends = (*loading.evidence, *shown), last is not None and position == last.end
        parts.append(span_of("load-weights", loading.time, position, proof, "startup", ends=ends))
    if end - position >= SHORTEST_GAP:
        parts.append(span_of("unexplained", position, end, (), "startup"))
    if not any(name in builder.messages for name in _LAUNCHED):
        return [part for part in parts if part.name != "engine-start"]
    return [span_of("startup", run.started, end, ready.evidence if ready else ()), *parts]


def _milestones(
    builder: RunBuilder, timed: Sequence[Phase], ready: _Moment | None
) -> Iterator[tuple[str, _Moment]]:
    """Yield (name of the span before it, moment) in order: what the time until each mark was spent on."""
    config = _moment(builder, "engine-config")
    if config:
        yield "imports", config
    loaded = any(phase.name == "load-weights" for phase in timed)
    # A load that failed prints its parts.
    loads: tuple[str, ...] = ("load-weights",) if loaded else ("download", "read-weights")
    if (
        not loaded
        and ready is None
        and _moment(builder, *_LOAD_STARTED)
        and not _moment(builder, *_CACHE_READY)
    ):
        loads = ()  # It begins with its own first line.
    for names, span in ((loads, "engine-start"), (("engine-init",), "unexplained")):
        starts = [phase for phase in timed if phase.name in names and phase.start is not None]
        if starts:
            first = min(starts, key=lambda p: p.start or 0.0)
            begun = _moment(builder, *_BEGINS.get(first.name, ()), after=(first.start or 0.0) - _ROUNDED)
            own = begun is not None and begun.time <= (first.start or 0.0) + _ROUNDED
            yield span, _Moment(first.start or 0.0, begun.evidence if begun and own else first.evidence[:1])
    initialised = any(phase.name == "engine-init" for phase in timed)
    if not initialised:
        done = [moment for name in _CACHE_READY if (moment := _moment(builder, name))]
        if done:
            initialised = True
            # A piece that shows neither a configuration nor a load does not say when profiling began.
            known = config is not None or any(phase.name == "load-weights" for phase in timed)
            yield "engine-init" if known else "unexplained", max(done, key=lambda moment: moment.time)
    if ready:
        # Without a line on the engine's cache the engine may have worked until then.
        yield "api-server" if initialised else "unexplained", ready


def _end_of(timed: Sequence[Phase], span: str, moment: _Moment) -> float:
    follows = {"engine-start": "load-weights", "unexplained": "engine-init"}.get(span)
    ends = [phase.end for phase in timed if phase.name == follows and phase.end is not None]
    return max([moment.time, *ends])


def _profiling(builder: RunBuilder, timed: Sequence[Phase]) -> list[Phase]:
    """Memory profiling that prints no seconds of its own: from the end of loading (or of compilation) to the line that names the
    cache's memory.
    """
    done = _moment(builder, "kv-cache-memory-available", "memory-profile-parts", "memory-profile-results")
    if done is None or any(name in builder.messages for name in (_PROFILED, "memory-profile-debug")):
        return []
    before = [
        phase
        for phase in timed
        if phase.name in ("load-weights", "compile", "dynamo", "inductor")
        and (phase.end or math.inf) <= done.time
    ]
    if not before:
        return []
    last = max(before, key=lambda phase: phase.end or 0.0)
    # The engine's own seconds have fractions, the lines around the profiling have none.
    works = [p for p in timed if p.name == "engine-init" and p.start]
    whole = [p.start or 0.0 for p in works if (p.start or 0.0) < done.time <= (p.end or 0.0)]
    began = max([last.end or 0.0, *whole[:1]])
    if done.time - began < _LONGER_THAN_ROUNDED or len(whole) < len(works[:1]):
        return []
    return [span_of("profiling", began, done.time, (*last.evidence[-1:], *done.evidence), "engine-init")]


def _encoder(builder: RunBuilder, timed: Sequence[Phase]) -> list[Phase]:
    """The run with images or sound of the largest size: from the line that announces it to what follows.

    That is tracing, else the line that names the cache's memory. The run with text lies before that one too, so that a
    short time up to it says nothing on the images.
    """
    begun = _moment(builder, _ENCODER)
    if begun is None:
        return []
    memory = _moment(builder, "kv-cache-memory-available", "kv-cache-size")
    after = [
        _Moment(phase.start, phase.evidence[:1])
        for phase in timed
        if phase.name in ("dynamo", "compile-cache", "compile")
        and phase.start is not None
        and phase.evidence[0].line > begun.evidence[0].line
    ]
    end = min(after, key=lambda moment: moment.time, default=memory or begun)
    if end.time <= begun.time or (not after and end.time - begun.time < _LONG_PROFILING):
        return []
    return [
        span_of("encoder-profiling", begun.time, end.time, (*begun.evidence, *end.evidence), "engine-init")
    ]


def _serving(run: Run, builder: RunBuilder, ready: _Moment | None) -> list[Phase]:
    if run.ended is None or ready is None or not run.startup_complete:
        return []
    stop = _moment(builder, *_STOPPING)
    if stop is not None and stop.time < ready.time:
        stop = None
    end = stop.time if stop else run.ended
    phases = []
    if end > ready.time:
        phases.append(span_of("serving", ready.time, end, ready.evidence))
    if stop is not None:
        phases.append(span_of("shutdown", stop.time, run.ended, stop.evidence))
    return phases
