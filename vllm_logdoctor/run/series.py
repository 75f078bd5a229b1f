"""Statistics lines as samples; a long series is thinned out, its extremes stay exact.

The series is kept as plain numbers, row by row: a server of weeks has as many of them as memory may hold, and a `Sample`
takes five times as much room.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterable, Sequence
from operator import add
from struct import Struct
from typing import Any

from vllm_logdoctor.events import Event, Figures
from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.run.model import Extremes, Sample
from vllm_logdoctor.scan import WantedLine

MOST_SAMPLES = 5_000
_MERGED_AT_ONCE = 500

# , Running: 3 reqs, Waiting: 0 reqs, GPU KV cache usage: 1.5%, Prefix cache hit rate: 20.0%, MM cache hit rate: 5.0%
# , Running: 1 reqs, Swapped: 0 reqs, Pending: 0 reqs, GPU KV cache usage: 0.2%, CPU KV cache usage: 0.0%.
_PART = lazy_pattern(
    r"(?P<name>Running|Waiting|Pending|Swapped|Deferred|Preemptions|(?:\w+ )?KV cache usage|(?:External p|P)refix cache hit rate|MM cache hit rate)"
    r": (?P<value>-?[\d.]+|nan)"
)
# , Running: 3 reqs, Waiting: 0 reqs, GPU KV cache usage: 1.5%, Prefix cache hit rate: 20.0%
_USUAL = lazy_pattern(
    r", Running: (\d+) reqs, Waiting: (\d+) reqs, GPU KV cache usage: (\d+\.\d+)%, Prefix cache hit rate: (\d+\.\d+)%"
)
_USUAL_NAMES = ("Running", "Waiting", "GPU KV cache usage", "Prefix cache hit rate")
_FIELDS = {
    "Running": "running", "Waiting": "waiting", "Pending": "waiting", "Swapped": "swapped", "Preemptions": "preemptions",
    "Prefix cache hit rate": "prefix_hit", "External prefix cache hit rate": "external_hit", "MM cache hit rate": "mm_hit",
}  # fmt: skip
_WHOLE = frozenset({"running", "waiting", "swapped", "preemptions"})
_UNKNOWN = math.nan


def sample_of(event: Event, time: float | None) -> Sample | None:
    """Read a throughput event as a sample; None for a line that was cut."""
    prompt, generation = event.number("prompt"), event.number("generation")
    if prompt is None or generation is None or not (math.isfinite(prompt) and math.isfinite(generation)):
        return None
    values: dict[str, Any] = {}
    for name, value in _parts(event.text("rest")):
        field_name = "kv_usage" if name.endswith("KV cache usage") else _FIELDS.get(name)
        number = _number(value) if field_name else None
        if field_name and number is not None:
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


def _number(text: str) -> float | None:
    """Return a figure; None for "nan" and for what another writer tore: "1.2.3"."""
    try:
        number = float(text.rstrip("."))
    except ValueError:
        return None
    # A figure below zero was torn, or is not known to its engine either.
    return number if math.isfinite(number) and number >= 0 else None


class Series:
    """A growing series of samples in bounded memory.

    Samples are merged in rounds: a round that has twice as many as are reported leaves half of them to the next one. As soon as it has more than
    are reported, its samples are merged on the way, with what they will be merged with in the end.

    Attributes:
        count: how many were added.
        extremes: exact figures over all of them.
    """

    def __init__(self) -> None:
        self.count = 0
        self.extremes = Extremes()
        self._rows = array("d")
        self._texts: list[str | bytes] = []
        self._merged = 0
        self._in_round = 0

    def add(self, sample: Sample) -> None:
        """Add a sample in order."""
        row = [getattr(sample, name) for name in _COLUMNS]
        self._add(tuple(_UNKNOWN if value is None else value for value in row), sample.text)

    def add_figures(self, figures: Figures, line: WantedLine, time: float | None) -> None:
        """Add the figures of a statistics line."""
        engine, prompt, generation, running, swapped, waiting, kv_usage, prefix, external, mm = figures
        row = (
            _UNKNOWN if time is None else time, line.number, engine, prompt, generation, running, waiting, swapped, kv_usage,
            prefix, external, mm, _UNKNOWN, 1.0, line.file,
        )  # fmt: skip
        self._add(row, line.data)

    def _add(self, row: tuple[float, ...], text: str | bytes) -> None:
        self.count += 1
        self._rows.frombytes(_ROW.pack(*row))
        self._texts.append(text)
        _note_extremes(self.extremes, row)
        self._in_round += 1
        if self._in_round >= 2 * MOST_SAMPLES:
            self._merge(len(self._texts) - self._merged)
            self._merged, self._in_round = 0, len(self._texts)
        elif self._in_round > MOST_SAMPLES and not (len(self._texts) - self._merged) % _MERGED_AT_ONCE:
            # The last sample may still be given a hit rate.
            self._merge(_settled(self._rows[self._merged * _WIDTH + _ENGINE :: _WIDTH][:-1]))

    def _merge(self, number: int) -> None:
        """Merge so many samples behind those that are merged."""
        first, last = self._merged, self._merged + number
        rows, texts = _thinned(self._rows[first * _WIDTH : last * _WIDTH], self._texts[first:last])
        self._rows[first * _WIDTH : last * _WIDTH], self._texts[first:last] = rows, texts
        self._merged += len(texts)

    def note_hit_rate(self, rate: float) -> None:
        """Give the last sample a hit rate from a line of its own."""
        self.extremes.prefix_hit_last = rate
        if self._texts:
            self._rows[_PREFIX_HIT - _WIDTH] = rate

    def shift(self, seconds: float) -> None:
        """Move the times of all samples."""
        self._rows[0::_WIDTH] = array("d", [time + seconds for time in self._rows[0::_WIDTH]])

    def samples(self) -> list[Sample]:
        """Return the samples in order, thinned out where they are more than `MOST_SAMPLES`."""
        rows, texts = self._rows, self._texts
        if self._in_round > MOST_SAMPLES:
            first = self._merged
            last_rows, last_texts = _thinned(rows[first * _WIDTH :], texts[first:])
            rows, texts = rows[: first * _WIDTH] + last_rows, texts[:first] + last_texts
        return [
            _sample(rows[at : at + _WIDTH], text)
            for at, text in zip(range(0, len(rows), _WIDTH), texts, strict=True)
        ]


_COLUMNS = (
    "time", "line", "engine", "prompt", "generation", "running", "waiting", "swapped", "kv_usage", "prefix_hit", "external_hit",
    "mm_hit", "preemptions", "count", "file",
)  # fmt: skip
_WIDTH = len(_COLUMNS)
_ROW = Struct(f"{_WIDTH}d")
_ENGINE, _PREFIX_HIT = _COLUMNS.index("engine"), _COLUMNS.index("prefix_hit")


def _note_extremes(seen: Extremes, row: tuple[float, ...]) -> None:
    _, _, _, prompt, generation, running, waiting, _, kv_usage, prefix_hit, _, _, preemptions, _, _ = row
    if prompt > seen.prompt:
        seen.prompt = prompt
    if generation > seen.generation:
        seen.generation = generation
    # What is not known is not a number, and compares to nothing.
    if seen.running is None or running > seen.running:
        seen.running = _whole(running)
    if seen.waiting is None or waiting > seen.waiting:
        seen.waiting = _whole(waiting)
    if seen.kv_usage is None or kv_usage > seen.kv_usage:
        seen.kv_usage = _known(kv_usage)
    if prefix_hit == prefix_hit:
        seen.prefix_hit_last = prefix_hit
    if preemptions == preemptions:
        seen.preemptions += int(preemptions)


def _known(value: float) -> float | None:
    return value if value == value else None


def _whole(value: float) -> int | None:
    return int(value) if value == value else None


_READ: dict[str, Callable[[float], Any]] = {
    **dict.fromkeys(("line", "engine", "count", "file"), int),
    **dict.fromkeys(_WHOLE, _whole),
}


def _sample(row: Iterable[float], text: str | bytes) -> Sample:
    values = {name: _READ.get(name, _known)(value) for name, value in zip(_COLUMNS, row, strict=True)}
    return Sample(**values, text=text if isinstance(text, str) else text.decode())


_Column = Sequence[float]
_Places = Sequence[int]


def _thinned(rows: array[float], texts: list[str | bytes]) -> tuple[array[float], list[str | bytes]]:
    """Merge neighbours of one engine two by two: means of rates, maxima of gauges, sums of counts."""
    counts = rows[_COLUMNS.index("count") :: _WIDTH]
    firsts, seconds = _neighbours(rows[_ENGINE::_WIDTH])
    # The last one of an odd number has no neighbour: it is merged with nothing, which weighs nothing.
    weights, others = _picked(counts, firsts), _picked(array("d", [*counts, 0.0]), seconds)
    out = array("d", bytes(8 * _WIDTH * len(firsts)))
    for at, name in enumerate(_COLUMNS):
        column = rows[at::_WIDTH]
        merge = _MERGERS.get(name)
        if merge is None or _is_unknown(column):
            out[at::_WIDTH] = array("d", _picked(column, firsts))
        else:
            ours = _picked(column, firsts)
            column.append(_UNKNOWN)
            out[at::_WIDTH] = array("d", merge(ours, _picked(column, seconds), weights, others))
    return out, [texts[at] for at in firsts]


def _neighbours(engines: _Column) -> tuple[_Places, _Places]:
    """Return numbers of samples that belong together, in order of the first one; -1 or their count where one is alone."""
    if len(set(engines)) < 2:
        return range(0, len(engines), 2), range(1, len(engines) + 1, 2)
    waiting: dict[float, int] = {}
    partner: dict[int, int] = {}
    for number, engine in enumerate(engines):
        other = waiting.pop(engine, None)
        if other is None:
            waiting[engine] = number
            partner[number] = -1
        else:
            partner[other] = number
    return list(partner), list(partner.values())


def _settled(engines: _Column) -> int:
    """Return how many samples from the first one on have their neighbours among themselves."""
    if len(set(engines)) < 2:
        return len(engines) // 2 * 2
    alone: set[float] = set()
    settled = 0
    for number, engine in enumerate(engines, start=1):
        alone ^= {engine}
        settled = settled if alone else number
    return settled


def _picked(column: array[float], places: _Places) -> _Column:
    """Return the values at these places; those at even distances in one step."""
    if isinstance(places, range):
        return column[places.start : places.stop : places.step]
    return [column[at] for at in places]


def _is_unknown(column: array[float]) -> bool:
    """Return whether a column holds no figure at all: most servers never print swapped requests, or hits of other caches."""
    return column.tobytes() == array("d", [_UNKNOWN]).tobytes() * len(column)


def _means(ours: _Column, theirs: _Column, weights: _Column, others: _Column) -> Iterable[float]:
    return (
        (x * a + y * b) / (a + b) if b else x
        for x, y, a, b in zip(ours, theirs, weights, others, strict=True)
    )


def _largest(ours: _Column, theirs: _Column, weights: _Column, others: _Column) -> Iterable[float]:
    return [y if x != x or y > x else x for x, y in zip(ours, theirs, strict=True)]


def _last(ours: _Column, theirs: _Column, weights: _Column, others: _Column) -> Iterable[float]:
    return [y if y == y else x for x, y in zip(ours, theirs, strict=True)]


def _in_all(ours: _Column, theirs: _Column, weights: _Column, others: _Column) -> Iterable[float]:
    return (_sum(x, y) if b else x for x, y, b in zip(ours, theirs, others, strict=True))


def _weights(ours: _Column, theirs: _Column, weights: _Column, others: _Column) -> Iterable[float]:
    return map(add, weights, others)


_MERGERS: dict[str, Callable[[_Column, _Column, _Column, _Column], Iterable[float]]] = {
    "prompt": _means, "generation": _means, "running": _largest, "waiting": _largest, "swapped": _largest, "kv_usage": _largest,
    "prefix_hit": _last, "preemptions": _in_all, "count": _weights,
}  # fmt: skip
"""How two values of a column become one; of all others the first one stays."""


def _sum(x: float, y: float) -> float:
    """Return the sum of two counts; nothing and zero are nothing."""
    if x != x or y != y:
        x, y = _known(x) or 0.0, _known(y) or 0.0
    return x + y if x or y else _UNKNOWN
