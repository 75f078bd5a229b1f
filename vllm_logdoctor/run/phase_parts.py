"""Parts of phases: what lies within what, what ran together, and what no phase explains."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from vllm_logdoctor.run.model import Evidence, Phase

SHORTEST_GAP = 1.0
"""Seconds; logger times have no fractions, so that a shorter gap says nothing."""
SMALLEST_PART = 0.02
"""Share of a start from which a gap is shown, however short: the parts then add up to 98 % and more."""
_PARTS_OF_COMPILE = frozenset({"dynamo", "inductor", "compile-cache"})
_UNEVEN = 1.05
"""How much longer the slowest ranks of several parts are together than the slowest rank of the whole."""
_MOST = 0.8
_PRINTED = 1.0
"""Seconds by which two printed times may differ that belong to one moment."""


def span_of(
    name: str,
    start: float,
    end: float,
    evidence: tuple[Evidence, ...],
    parent: str = "",
    *,
    ends: bool = True,
) -> Phase:
    """Return the phase between two moments, of which no line prints the length."""
    return Phase(name, "", start, end, end - start, evidence, parent, ends)


def longest_of_ranges(phases: Iterable[Phase]) -> list[Phase]:
    """Keep the longest of the compilations that ran together: each range of batch sizes prints the seconds of all of them.

    INFO 04-20 00:18:28 [backends.py:285] Directly load the compiled graph(s) for compile range (1, 204) from the cache, took 8.347 s
    INFO 04-20 00:18:28 [backends.py:285] Directly load the compiled graph(s) for compile range (205, 8192) from the cache, took 8.374 s
    """
    kept: list[Phase] = []
    for phase in sorted(phases, key=lambda one: -(one.seconds or 0.0)):
        together = (one for one in kept if (one.name, _rank(one)) == (phase.name, _rank(phase)))
        if phase.name not in _PARTS_OF_COMPILE or not any(_lies_in(phase, one) for one in together):
            kept.append(phase)
    return kept


def with_profiling(timed: Sequence[Phase], profiling: Sequence[Phase]) -> list[Phase]:
    """Add the profiling of memory, and make the warm-up within it a part of it."""
    within = [
        replace(phase, parent=whole.name, start=max(phase.start or 0.0, whole.start or 0.0))
        if phase.name == "warm-up"
        and (whole := next((one for one in profiling if _lies_in(phase, one)), None))
        else phase
        for phase in timed
    ]
    return [*within, *profiling]


def with_parts_of_compile(phases: Sequence[Phase]) -> list[Phase]:
    """Make what torch.compile did parts of it where its total is printed too: they are not added to it."""
    room: dict[str, float] = defaultdict(float)
    for phase in phases:
        if phase.name == "compile":
            # The slowest rank of one part is not that of the next one.
            several = 1.0 if _rank(phase) == phase.process else _UNEVEN
            room[_rank(phase)] += several * (phase.seconds or 0.0) + _PRINTED
    parts: dict[int, Phase] = {}
    # The total of some releases leaves out the loading of the cache: what does not fit beside the rest is no part of it.
    for phase in sorted(phases, key=lambda one: one.name == "compile-cache"):
        if phase.name in _PARTS_OF_COMPILE and room:
            rank = _rank(phase) if _rank(phase) in room else next(iter(room))
            room[rank] -= phase.seconds or 0.0
            if room[rank] >= 0:
                parts[id(phase)] = replace(phase, parent="compile")
    return [parts.get(id(phase), phase) for phase in phases]


def without_lost_wholes(phases: Sequence[Phase]) -> list[Phase]:
    """Make a part of a phase that the log does not show (a load that failed) a part of the start-up."""
    known = {phase.name for phase in phases}
    if "startup" not in known:
        return list(phases)
    return [
        phase if not phase.parent or phase.parent in known else replace(phase, parent="startup")
        for phase in phases
    ]


def fitted(phases: Sequence[Phase]) -> list[Phase]:
    """Let the parts of the start-up follow each other within it; the rest of it is "unexplained".

    What lies within an earlier part (a draft model, a second engine) is a part of that one; what begins behind the
    start-up is none of it.
    """
    whole = next((phase for phase in phases if phase.name == "startup"), None)
    if whole is None or whole.start is None or whole.end is None:
        return list(phases)
    fitted = [phase for phase in phases if phase.parent != "startup"]
    parts = [phase for phase in phases if phase.parent == "startup" and phase.name != "unexplained"]
    position, before = whole.start, "startup"
    gaps: list[tuple[float, float]] = []
    for phase in _one_after_another(parts):
        if phase.start is None or phase.end is None:
            fitted.append(phase)
            continue
        start, end = max(phase.start, position), min(phase.end, whole.end)
        if phase.start >= whole.end:
            fitted.append(replace(phase, parent=""))
        elif end < start or (end == start and phase.start < position):
            fitted.append(replace(phase, parent="" if before == phase.name else before))
        else:
            gaps.append((position, start))
            # Of a length that the engine printed, whole seconds of the clock take nothing away.
            early = start - phase.start
            printed = 0 <= early < _PRINTED and end == phase.end and not (phase.seconds or 0.0).is_integer()
            seconds = phase.seconds if printed else end - start
            fitted.append(replace(phase, start=start, end=end, seconds=seconds))
            position, before = end, phase.name
    gaps.append((position, whole.end))
    return [*fitted, *_unexplained(gaps, whole.end - whole.start)]


def _one_after_another(parts: Sequence[Phase]) -> list[Phase]:
    """Return the parts by their start, those whose ends print one time in the order of their lines.

    The clock has whole seconds, so that a phase seems to lie in the one that ends within the same second:
    INFO 05-11 07:51:51 [loader.py:458] Loading weights took 0.32 seconds
    INFO 05-11 07:51:51 [llm_engine.py:449] init engine (profile, create kv cache, warmup model) took 0.07 seconds
    """
    found: list[Phase] = []
    for phase in sorted(parts, key=lambda one: (one.start is None, one.start or 0.0)):
        last = found[-1] if found else phase
        if last.name != phase.name and last.end == phase.end and last.start and phase.start:
            begun = phase.start - (last.seconds or 0.0)
            found[-1] = replace(last, start=begun, end=phase.start)
            if len(found) > 1 and found[-2].end == last.start:
                found[-2] = replace(found[-2], end=begun, seconds=begun - (found[-2].start or begun))
        found.append(phase)
    return found


def _unexplained(gaps: Sequence[tuple[float, float]], total: float) -> Iterator[Phase]:
    """Yield what the parts leave of the start-up as one phase; the sum of several gaps has no place of its own."""
    gaps = [(start, end) for start, end in gaps if end > start]
    seconds = sum(end - start for start, end in gaps)
    if seconds >= min(SHORTEST_GAP, SMALLEST_PART * total) and seconds > 0:
        start, end = gaps[0] if len(gaps) == 1 else (None, None)
        yield Phase("unexplained", "", start, end, seconds, (), "startup")


def begun_with_parts(phases: Sequence[Phase]) -> list[Phase]:
    """Let a total that is printed long after its work begin with the first of its parts, and end no earlier than the last one.

    torch.compile prints its seconds once the compiled graph has run, leaves out the loading of its cache, and what lies
    between its parts:
    INFO 06-21 08:43:04 [backends.py:559] Dynamo bytecode transform time: 16.30 s
    INFO 06-21 08:43:19 [monitor.py:34] torch.compile takes 16.30 s in total
    """
    shifted: dict[int, Phase] = {}
    before: dict[str, float] = {}
    parts = [one for one in phases if one.parent == "compile" and one.start is not None]
    for phase in sorted(phases, key=lambda one: one.end or 0.0):
        if phase.name != "compile" or phase.end is None or phase.start is None or phase.seconds is None:
            continue
        since = before.get(_rank(phase), -math.inf)
        # The slowest one stands for all ranks.
        own = (one for one in parts if _rank(one) == _rank(phase) or "slowest of" in one.process)
        begun = [part for part in own if since <= (part.start or 0.0) <= phase.end]
        before[_rank(phase)] = phase.end
        first = min((part.start or 0.0 for part in begun), default=math.inf)
        start = first if first < phase.start - _PRINTED else phase.start
        end = start + phase.seconds if start == first else phase.end
        last = max((part.end or 0.0 for part in begun), default=0.0)
        shifted[id(phase)] = replace(phase, start=start, end=max(end, last))
    return [shifted.get(id(phase), phase) for phase in phases]


def within_siblings(phases: Sequence[Phase]) -> list[Phase]:
    """Make a part of the engine's start that lies within another one a part of that: an engine does one thing at a time.

    Profiling whose seconds vLLM prints runs the model, which compiles it; so does the capture of graphs without profiling.
    """
    parts = sorted(
        (one for one in phases if one.parent == "engine-init"), key=lambda one: -(one.seconds or 0.0)
    )
    moved: dict[int, Phase] = {}
    for number, part in enumerate(parts):
        whole = next((one for one in parts[:number] if _is_within(part, one)), None)
        if whole is not None and whole.name != part.name:
            moved[id(part)] = replace(part, parent=whole.name)
    return [moved.get(id(phase), phase) for phase in phases]


def inside(phases: Sequence[Phase]) -> list[Phase]:
    """Let no part begin before its whole: their ends are printed in whole seconds, their lengths are not."""
    begins: dict[tuple[str, str], list[float]] = defaultdict(list)
    for phase in phases:
        if phase.start is not None:
            begins[phase.name, phase.process].append(phase.start)
    found = []
    for phase in phases:
        # Of several wholes, as the weights of two models, a part belongs to the last one that had begun when it ended.
        wholes = [one for one in begins[phase.parent, phase.process] if one < (phase.end or math.inf)]
        late = phase.start is not None and wholes and phase.start < max(wholes)
        found.append(replace(phase, start=max(wholes)) if late else phase)
    return found


def _rank(phase: Phase) -> str:
    """Return the process of a phase, without the note that compares it with others."""
    return phase.process.partition(" (")[0]


def _is_within(part: Phase, whole: Phase) -> bool:
    """Return whether most of a phase lies within a longer one, by clocks of whole seconds."""
    if part.start is None or part.end is None or whole.start is None or whole.end is None:
        return False
    both = min(part.end, whole.end) - max(part.start, whole.start)
    most = both > 0 and both >= _MOST * (part.end - part.start)
    last = [max((line.line for line in one.evidence), default=0) for one in (part, whole)]
    # What is printed behind the end of the whole follows it.
    return (
        most
        and last[0] <= last[1]
        and _lies_in(part, whole)
        and (part.seconds or 0.0) < (whole.seconds or 0.0)
    )


def _lies_in(part: Phase, whole: Phase) -> bool:
    """Return whether a phase lies within another one, by clocks of whole seconds."""
    if part.start is None or part.end is None or whole.start is None or whole.end is None:
        return False
    return whole.start - _PRINTED <= part.start and part.end <= whole.end + _PRINTED
