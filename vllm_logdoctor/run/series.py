"""Statistics lines as samples; a long series is thinned out, its extremes stay exact."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from vllm_logdoctor.events import Event
from vllm_logdoctor.run.model import Extremes, Sample

MOST_SAMPLES = 5_000
Number = TypeVar("Number", int, float)

# , Running: 3 reqs, Waiting: 0 reqs, GPU KV cache usage: 1.5%, Prefix cache hit rate: 20.0%, MM cache hit rate: 5.0%
# , Running: 1 reqs, Swapped: 0 reqs, Pending: 0 reqs, GPU KV cache usage: 0.2%, CPU KV cache usage: 0.0%.
_PART = re.compile(
    r"(?P<name>Running|Waiting|Pending|Swapped|Deferred|Preemptions|(?:\w+ )?KV cache usage|(?:External p|P)refix cache hit rate|MM cache hit rate)"
    r": (?P<value>-?[\d.]+|nan)"
)
# , Running: 3 reqs, Waiting: 0 reqs, GPU KV cache usage: 1.5%, Prefix cache hit rate: 20.0%
_USUAL = re.compile(
    r", Running: (\d+) reqs, Waiting: (\d+) reqs, GPU KV cache usage: (\d+\.\d+)%, Prefix cache hit rate: (\d+\.\d+)%"
)
_USUAL_NAMES = ("Running", "Waiting", "GPU KV cache usage", "Prefix cache hit rate")
_FIELDS = {
    "Running": "running", "Waiting": "waiting", "Pending": "waiting", "Swapped": "swapped", "Preemptions": "preemptions",
    "Prefix cache hit rate": "prefix_hit", "External prefix cache hit rate": "external_hit", "MM cache hit rate": "mm_hit",
}  # fmt: skip
_WHOLE = frozenset({"running", "waiting", "swapped", "preemptions"})


def sample_of(event: Event, time: float | None) -> Sample | None:
    """Read a throughput event as a sample; None for a line that was cut."""
    prompt, generation = event.number("prompt"), event.number("generation")
    if prompt is None or generation is None or not (math.isfinite(prompt) and math.isfinite(generation)):
        return None
    values: dict[str, Any] = {}
    for name, value in _parts(event.text("rest")):
        field_name = "kv_usage" if name.endswith("KV cache usage") else _FIELDS.get(name)
        if field_name and value != "nan":
            number = float(value.rstrip("."))
            values.setdefault(field_name, int(number) if field_name in _WHOLE else number)
    engine = event.number("engine")
    number = -1 if event.number("engines") else int(engine or 0)
    record = event.record
    return Sample(
        time, record.line, number, prompt, generation, file=record.file, text=record.text[:600], **values
    )


def _parts(rest: str) -> Iterable[tuple[str, str]]:
    """Return names and values in order: of the usual line by position, of any other by search."""
    usual = _USUAL.fullmatch(rest)
    return zip(_USUAL_NAMES, usual.groups(), strict=True) if usual is not None else _PART.findall(rest)


@dataclass(slots=True)
class Series:
    """A growing series of samples in bounded memory."""

    samples: list[Sample] = field(default_factory=list)
    count: int = 0
    extremes: Extremes = field(default_factory=Extremes)

    def add(self, sample: Sample) -> None:
        """Add a sample in order."""
        self.count += 1
        self.samples.append(sample)
        seen = self.extremes
        seen.prompt = max(seen.prompt, sample.prompt)
        seen.generation = max(seen.generation, sample.generation)
        for name in ("running", "waiting", "kv_usage"):
            value, old = getattr(sample, name), getattr(seen, name)
            if value is not None:
                setattr(seen, name, value if old is None else max(old, value))
        if sample.prefix_hit is not None:
            seen.prefix_hit_last = sample.prefix_hit
        seen.preemptions += sample.preemptions or 0
        if len(self.samples) >= 2 * MOST_SAMPLES:
            self.samples = thinned(self.samples)


def thinned(samples: list[Sample]) -> list[Sample]:
    """Merge neighbours of one engine two by two: means of rates, maxima of gauges, sums of counts."""
    waiting: dict[int, Sample] = {}
    out: list[Sample] = []
    for sample in samples:
        other = waiting.pop(sample.engine, None)
        if other is None:
            waiting[sample.engine] = sample
        else:
            out.append(_merged(other, sample))
    out.extend(waiting.values())
    return sorted(out, key=lambda s: s.line)


def _merged(a: Sample, b: Sample) -> Sample:
    count = a.count + b.count

    def mean(x: float, y: float) -> float:
        return (x * a.count + y * b.count) / count

    return replace(
        a,
        prompt=mean(a.prompt, b.prompt),
        generation=mean(a.generation, b.generation),
        running=_most(a.running, b.running),
        waiting=_most(a.waiting, b.waiting),
        swapped=_most(a.swapped, b.swapped),
        kv_usage=_most(a.kv_usage, b.kv_usage),
        prefix_hit=b.prefix_hit if b.prefix_hit is not None else a.prefix_hit,
        preemptions=(a.preemptions or 0) + (b.preemptions or 0) if a.preemptions or b.preemptions else None,
        count=count,
    )


def _most(a: Number | None, b: Number | None) -> Number | None:
    if a is None or b is None:
        return a if b is None else b
    return max(a, b)
