"""Phases in which libraries make their kernels: AITER builds them, FlashInfer measures which of them is fastest."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from vllm_logdoctor.events import Event
from vllm_logdoctor.parse import Process
from vllm_logdoctor.run.builder import RunBuilder
from vllm_logdoctor.run.model import Evidence, Phase

_BUILT = "aiter-module-built"
_TUNED = "flashinfer-autotune"
_STARTS, _ENDS = "Autotuning process starts", "Autotuning process ends"
_SHORTEST = 1.0
"""Seconds: with cached results it is over at once."""
_ROUNDED = 2.0
_DAY = 86400.0
_SAME_CLOCK = 3600.0  # Seconds behind the last time, from which a time is one of another time zone.


def autotunings(builder: RunBuilder) -> Iterator[list[Phase]]:
    """Yield what the processes tuned together: the first tuning of each, the second of each."""
    together: defaultdict[int, list[Phase]] = defaultdict(list)
    done: defaultdict[Process, int] = defaultdict(int)
    begun: dict[Process, tuple[float, Event]] = {}
    seen = builder.messages.get(_TUNED)
    for number, event in enumerate(seen.first if seen else ()):
        time, process = _printed_time(event, builder.times.get((_TUNED, number))), event.record.process
        if time is None:
            continue
        if event.text("text").startswith(_STARTS):
            begun[process] = time, event
        elif event.text("text").startswith(_ENDS) and process in begun:
            start, first = begun.pop(process)
            proof = (builder.evidence(first.record), builder.evidence(event.record))
            name = process.name or process.rank
            together[done[process]].append(
                Phase("autotune", name, start, time, time - start, proof, "engine-init")
            )
            done[process] += 1
    yield from (
        phases for phases in together.values() if any((one.seconds or 0.0) >= _SHORTEST for one in phases)
    )


def kernel_builds(builder: RunBuilder, phases: Sequence[Phase]) -> Iterator[Phase]:
    """Yield the builds of kernels, those that follow each other as one phase: one process builds while the others wait."""
    seen = builder.messages.get(_BUILT)
    ends: list[tuple[float, float, tuple[Evidence, ...]]] = [
        (end - (event.number("seconds") or 0.0), end, (builder.evidence(event.record),))
        for number, event in enumerate(seen.first if seen else ())
        if (end := _printed_time(event, builder.times.get((_BUILT, number)))) is not None
    ]
    spans: list[tuple[float, float, tuple[Evidence, ...]]] = []
    for start, end, proof in sorted(ends, key=lambda one: one[:2]):
        if spans and start - spans[-1][1] <= _ROUNDED:
            first, last, lines = spans.pop()
            start, end, proof = first, max(last, end), lines + proof
        spans.append((start, end, proof))
    parts = [phase for phase in phases if phase.parent == "startup" and phase.name != "unexplained"]
    for start, end, proof in spans:
        around = [
            one.name for one in parts if (one.start or end) - _ROUNDED <= start < (one.end or 0.0) - _ROUNDED
        ]
        yield Phase("kernel-build", "", start, end, end - start, proof, around[-1] if around else "startup")


def _printed_time(event: Event, now: float | None) -> float | None:
    """Return the time that a line prints, on the clock of the run, or None; another library's clock may print the year.

    AITER prints each line twice, once without a time:
    (Worker_TP2 pid=9) [2026-03-04 10:17:05] INFO core.py:863: finish build [module_norm], cost 45.5s
    """
    printed = event.record.outer_time
    if event.record.time is not None or printed is None or now is None:
        return now if event.record.time is not None else None
    same_day = printed - _DAY * round((printed - now) / _DAY)
    return same_day if -_ROUNDED <= same_day - now <= _SAME_CLOCK else None
