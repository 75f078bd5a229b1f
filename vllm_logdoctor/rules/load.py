"""The load of a run: how long it was busy, how many requests ran and waited, how full the cache was, weighted
by time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from math import isfinite
from typing import Protocol, TypeVar

from msgspec import Struct

from vllm_logdoctor.run.clock import duration
from vllm_logdoctor.run.model import Evidence, Run, Sample

LEAST_LOAD = 6
"""Statistics lines at whose end requests ran, a minute of them, from which the client's own pace comes before what may slow steps
down, and from which anybody is advised to change a client or the number of replicas."""
LEAST_AGREEING = 3
LIKE = 1.2
"""Statistics lines that agree, and the ratio of their highest and lowest rate: then even a few say what the load was."""
# Statistics come every 10 seconds (5 in V0); a longer gap is silence of an idle engine, not a longer sample.
USUAL_INTERVAL = 10.0
LONGEST_INTERVALS = 3.0
LEAST_LONG_PROMPT = 8192
"""Tokens that no usual step takes at once: fewer in a silence are no prompt that took long, but a step that did."""
_FEW_STEPS = 8
_UNEVEN = 1.5
# A step with prompt tokens in it is no decode step; a sample with fewer of them than this share of its tokens is close.
PROMPT_SHARE = 0.01
_REQUESTS = ("request-received", "request-added")


# Share by which the requests at the two ends of an interval may differ for what it says of one request.
STEADY = 0.2
# Prompts come in at so many times the rate of generated tokens where they are most of the work.
_PROMPTS_DOMINATE = 5.0


class Reading(Protocol):
    """What a statistics line says of one engine, or lines of several engines say in sum."""

    @property
    def prompt(self) -> float: ...
    @property
    def generation(self) -> float: ...
    @property
    def running(self) -> int | None: ...
    @property
    def waiting(self) -> int | None: ...


def has_requests(reading: Reading) -> bool:
    """Return whether a statistics line shows a request: at its end, or by the tokens of its interval.

    Example:
        >>> has_requests(Sample(10.0, 5, 0, prompt=0.0, generation=26.2, running=0, waiting=0))
        True
    """
    return holds_requests(reading) or reading.generation > 0 or reading.prompt > 0


def holds_requests(reading: Reading) -> bool:
    """Return whether requests are in the engine when a statistics line is printed."""
    return bool(reading.running or reading.waiting)


AnyReading = TypeVar("AnyReading", bound=Reading)


class Span(Struct, frozen=True):
    """A sample with the seconds that it covers.

    A statistics line counts the tokens of its interval and the requests at its end: `steady` is False where another
    number ran at its beginning, so that tokens per request can't be told. `missing` are the seconds before its
    interval without lines although requests ran: an engine prints nothing while it is idle, else a line each interval.
    `computing` are those before its interval in which the prompts that it counts were computed, and no token counted.
    """

    sample: Sample
    seconds: float
    steady: bool = True
    missing: float = 0.0
    computing: float = 0.0

    @property
    def busy(self) -> bool:
        """Return whether the line is one with requests."""
        return has_requests(self.sample)

    @property
    def waits(self) -> bool:
        """Return whether a request waited."""
        return bool(self.sample.waiting or self.sample.swapped)


class Load(Struct, frozen=True):
    """Figures of the load; seconds, requests, percent and tokens per second; medians are weighted by time.

    Attributes:
        spans: samples of single engines in order, each with its seconds.
        engines: number of engines that printed statistics.
        busy_seconds, idle_seconds: time with and without requests, summed over engines.
        peak_running, peak_waiting, peak_kv: the most that was seen.
        running, kv_usage, prompt, generation: medians over the busy time.
        hit_rate: last prefix cache hit rate, or None.
        preemptions: as printed.
    """

    spans: tuple[Span, ...]
    engines: int
    busy_seconds: float
    idle_seconds: float
    peak_running: int
    peak_waiting: int
    peak_kv: float
    running: float
    kv_usage: float
    prompt: float
    generation: float
    hit_rate: float | None
    preemptions: int

    @property
    def is_mostly_prompts(self) -> bool:
        """Return whether prompts come in at so many times the rate of generated tokens that they are most of the work."""
        return self.prompt > _PROMPTS_DOMINATE * max(self.generation, 1.0)

    @property
    def carries_media(self) -> bool:
        """Return whether most of the work are prompts, some of them with images or sound, which the API server prepares before."""
        return self.is_mostly_prompts and any(span.sample.mm_hit is not None for span in self.busy)

    @property
    def busy(self) -> tuple[Span, ...]:
        """Spans with requests."""
        return tuple(span for span in self.spans if span.busy)

    @property
    def missing_seconds(self) -> float:
        """Seconds without statistics lines in which requests ran, summed over engines."""
        return sum(span.missing for span in self.spans)

    def share_of(self, spans: Iterable[Span]) -> float:
        """Return the share of the busy time that some spans take."""
        return sum(span.seconds for span in spans) / self.busy_seconds

    @property
    def computing_seconds(self) -> float:
        """Seconds without statistics lines in which prompts were computed, summed over engines."""
        return sum(span.computing for span in self.spans)

    @property
    def long_prompts(self) -> tuple[Span, ...]:
        """Return the spans whose prompts were computed over more than two intervals."""
        return tuple(
            span
            for span in self.spans
            if span.computing > span.seconds and span.sample.prompt * span.seconds >= LEAST_LONG_PROMPT
        )

    @property
    def lines(self) -> int:
        """Number of statistics lines with requests."""
        return self.lines_of(self.spans)

    def lines_of(self, spans: Iterable[Span]) -> int:
        """Return how many statistics lines with requests some spans represent."""
        return sum(span.sample.count for span in spans if span.busy)

    @property
    def is_short(self) -> bool:
        """Return whether too few statistics lines show requests that went on to judge a client or the number of replicas by them."""
        spans = [span for span in self.spans if holds_requests(span.sample)] or self.busy
        return sum(span.sample.count for span in spans) < LEAST_LOAD

    def extent_of(self, spans: Iterable[Span]) -> str:
        """Return how many of the statistics lines with requests show what some spans do: no line tells what was between two."""
        part = self.lines_of(spans)
        some = "all" if part == self.lines else f"{part:,} of"
        numbers = {(1, 1): "the only", (2, 2): "both"}
        number = numbers.get((part, self.lines), f"{some} {self.lines:,}")
        return f"in {number} statistics line{'' if self.lines == 1 else 's'} with load"


def load_of(run: Run) -> Load:
    """Return the load of a run; without statistics all figures are zero."""
    spans = spans_of(run.samples, _first_request(run))
    busy = [span for span in spans if span.busy]
    seconds = sum(span.seconds for span in busy)
    extremes = run.extremes
    return Load(
        spans=tuple(spans),
        engines=len({span.sample.engine for span in spans}),
        busy_seconds=seconds,
        idle_seconds=sum(span.seconds for span in spans) - seconds,
        peak_running=max([extremes.running or 0, *(span.sample.running or 0 for span in spans)]),
        peak_waiting=max([extremes.waiting or 0, *(span.sample.waiting or 0 for span in spans)]),
        peak_kv=max([extremes.kv_usage or 0.0, *(span.sample.kv_usage or 0.0 for span in spans)]),
        running=weighted_median(busy, lambda sample: float(sample.running or 0)),
        kv_usage=weighted_median(busy, lambda sample: sample.kv_usage or 0.0),
        prompt=weighted_median(busy, lambda sample: sample.prompt),
        generation=weighted_median(busy, lambda sample: sample.generation),
        hit_rate=(
            extremes.prefix_hit_last if extremes.prefix_hit_last is not None else _last_hit_rate(run.samples)
        ),
        preemptions=extremes.preemptions or sum(sample.preemptions or 0 for sample in run.samples),
    )


def spans_of(samples: Sequence[Sample], begun: float | None = None) -> list[Span]:
    """Return the samples of single engines (aggregates only where there is nothing else) with their seconds.

    Args:
        samples: in order.
        begun: when the load began at the earliest, where the log shows it: the first sample of an engine covers no time before.
    """
    single = [sample for sample in samples if sample.engine >= 0] or list(samples)
    by_engine: dict[int, list[Sample]] = defaultdict(list)
    for sample in single:
        by_engine[sample.engine].append(sample)
    spans = [span for series in by_engine.values() for span in _timed(series, begun)]
    return sorted(spans, key=lambda span: (span.sample.file, span.sample.line))


def busy_of(series: Sequence[AnyReading]) -> list[AnyReading]:
    """Return the samples or points with requests."""
    return [one for one in series if has_requests(one)]


def full_of(series: Sequence[AnyReading]) -> list[AnyReading]:
    """Return the samples or points with requests whose interval was not partly idle; all with requests where each was.

    The first and the last interval of a load have idle time in them, unless they have most of the tokens of the interval
    beside them.
    """
    by_engine: defaultdict[int, list[AnyReading]] = defaultdict(list)
    for one in series:
        by_engine[one.engine if isinstance(one, Sample) else 0].append(one)
    partly_idle = {id(one) for own in by_engine.values() for one in _partly_idle(own)}
    busy = busy_of(series)
    return [one for one in busy if id(one) not in partly_idle] or busy


def _partly_idle(series: Sequence[AnyReading]) -> Iterator[AnyReading]:
    for before, one, after in zip((None, *series), series, (*series[1:], None), strict=False):
        begins, ends = before is None or not holds_requests(before), not holds_requests(one)
        beside = after if begins and not ends else before
        if (begins or ends) and (
            beside is None
            or (begins and ends)
            or (2 * one.generation <= beside.generation and 2 * _tokens(one) <= _tokens(beside))
        ):
            yield one


def _tokens(one: Reading) -> float:
    return one.prompt + one.generation


def decode_spans(spans: Iterable[Span]) -> list[Span]:
    """Return the samples in which as many requests ran from beginning to end and next to no prompt tokens were computed."""
    return [
        span
        for span in spans
        if span.steady
        and span.sample.generation > 0
        and span.sample.running
        and span.sample.prompt <= PROMPT_SHARE * span.sample.generation
    ]


def speed_of_longest(long: Sequence[Span]) -> tuple[float, str]:
    """Return the tokens per second of the prompts that took the longest, and their tokens and time in words."""
    span = max(long, key=lambda one: one.computing)
    tokens, seconds = span.sample.prompt * span.seconds, span.seconds + span.computing
    return tokens / seconds, f"{tokens:,.0f} tokens in about {duration(seconds)}"


def agreed_on(load: Load) -> str:
    """Return what a few statistics lines of one engine agree on; nothing where a request waited or a line shows none running.

    Example:
        >>> lines = [Sample(10.0 * n, n, 0, prompt=0.0, generation=77.0, running=1, waiting=0) for n in range(4)]
        >>> agreed_on(load_of(Run(samples=lines)))
        'One request at a time in all 4 statistics lines, 77 tokens/s'
    """
    busy = load.busy
    running = [span.sample.running or 0 for span in busy]
    if (
        load.engines > 1
        or load.lines < LEAST_AGREEING
        or not all(running)
        or any(span.waits for span in busy)
    ):
        return ""
    low, high = min(running), max(running)
    requests = (
        f"{low:,} requests at once"
        if low == high
        else f"{low:,} {'or' if high == low + 1 else 'to'} {high:,} requests at once"
    )
    words = f"{'One request at a time' if high == 1 else requests} {load.extent_of(busy)}"
    rates = [sample.generation for sample in full_of([span.sample for span in busy])]
    if 0 < max(rates) <= LIKE * min(rates):
        some = "" if len(rates) == len(busy) else f" in {len(rates):,} of them"
        ends = dict.fromkeys(
            f"{rate:,.0f}" if rate >= 100 else f"{rate:.3g}" for rate in (min(rates), max(rates))
        )
        words += f", {' to '.join(ends)} tokens/s{some}"
    return words.removesuffix(" with load").replace(" with load,", ",")


def at_most_at_once(load: Load, spans: Sequence[Span]) -> str:
    """Return what lines too few to judge a client by show of its requests, with a place for their extent.

    Example:
        >>> load = load_of(Run(samples=[Sample(10.0 * n, n, 0, prompt=0.0, generation=77.0, running=n, waiting=0) for n in (1, 2)]))
        >>> at_most_at_once(load, load.busy)
        'At most 2 requests at once {span}, and none waited'
    """
    most = max((span.sample.running or 0 for span in spans), default=0)
    if not most:
        return "Only short requests {span}: none was running at the end of an interval"
    per_engine = " in an engine" if load.engines > 1 else ""
    return f"At most {most:,} request{'' if most == 1 else 's'} at once{per_engine} {{span}}, and none waited"


def weighted_median(spans: Iterable[Span], value: Callable[[Sample], float]) -> float:
    """Return the median of a figure, each sample weighted by its seconds, the middle between two; 0 without samples."""
    # In whole milliseconds, so that two halves are equal.
    return quantile([(value(span.sample), round(1000 * span.seconds)) for span in spans], 0.5) or 0.0


def quantile(weighted: Sequence[tuple[float, int]], share: float) -> float | None:
    """Return the value below which `share` of the weight lies; between two values, the middle of them.

    Example:
        >>> quantile([(1.0, 1), (2.0, 1), (9.0, 2)], 0.5), quantile([(1.0, 1), (2.0, 1), (9.0, 1)], 0.5)
        (5.5, 2.0)
    """
    ordered = sorted((value, weight) for value, weight in weighted if isfinite(value))
    wanted = share * sum(weight for _, weight in ordered)
    passed = 0
    for number, (value, weight) in enumerate(ordered):
        passed += weight
        if passed == wanted and number + 1 < len(ordered):
            return (value + ordered[number + 1][0]) / 2
        if passed >= wanted:
            return value
    return None


def generated_tokens(spans: Iterable[Span]) -> float:
    """Return the tokens that were generated during some samples."""
    return sum(span.sample.generation * span.seconds for span in spans)


def rate_each(sample: Sample) -> float:
    """Return the generated tokens per second of one running request."""
    return sample.generation / (sample.running or 1)


def queue_first(sample: Sample) -> tuple[float, ...]:
    """Order samples by the length of the queue, then by the cache in use and the running requests."""
    return (sample.waiting or 0, sample.kv_usage or 0.0, sample.running or 0)


def evidence_of_sample(run: Run, sample: Sample) -> Evidence:
    """Return the statistics line of a sample."""
    names = run.files
    return Evidence(
        names[sample.file] if sample.file < len(names) else run.first_file, sample.line, sample.text
    )


def _first_request(run: Run) -> float | None:
    """Return when the requests of the first sample began at the earliest, or None where some came before the log.

    All of them came in the log where it shows the end of the start-up, or a line for as many as the sample counts.
    """
    if not run.samples:
        return None
    first = run.samples[0]
    times = [run.startup.end] if run.startup is not None and run.startup.end is not None else []
    for seen in filter(None, map(run.seen, _REQUESTS)):
        record = seen.first[0].record
        earlier = (record.file, record.line) < (first.file, first.line)
        if record.time is not None and earlier and (first.running or 0) + (first.waiting or 0) <= seen.count:
            times.append(record.time)
            break
    return max(times, default=None)


def _timed(series: list[Sample], begun: float | None) -> list[Span]:
    steps = [
        later.time - sooner.time
        for sooner, later in pairwise(series)
        if sooner.time is not None
        and later.time is not None
        and later.time > sooner.time
        # Between those two, lines may be left out.
        and not _computes_until(sooner, later)
    ]
    usual = _median(steps) if steps else USUAL_INTERVAL
    # Of a few pasted lines some may have been left out between two.
    least = sorted(steps)[len(steps) // 4] if steps else usual
    if len(steps) < _FEW_STEPS and usual > _UNEVEN * least:
        usual = least
    spans: list[Span] = []
    for number, sample in enumerate(series):
        before = series[number - 1].time if number else None
        gap = sample.time - before if sample.time is not None and before is not None else usual
        # Clocks can go back, two lines can bear one second: a sample then counts for the usual interval, and so does the
        # first one after an idle one or one without a token, however long nothing was printed between them.
        last = series[number - 1] if number else None
        quiet = last is not None and (not spans[-1].busy or _computes_until(last, sample))
        longest = 1.5 * usual if quiet else LONGEST_INTERVALS * usual
        seconds = gap if 0 < gap <= longest * sample.count else usual * sample.count
        if not number and begun is not None and sample.time is not None and sample.time > begun:
            seconds = min(seconds, sample.time - begun)
        steady = is_steady(last.running if last else None, sample.running)
        missing = gap - seconds if gap > LONGEST_INTERVALS * usual * sample.count else 0.0
        computing = 0.0
        if last is None or not (last.running or last.waiting or _ran_before(sample)):
            missing = 0.0
        elif _computes_until(last, sample):
            missing, computing = 0.0, max(0.0, gap - seconds)
        spans.append(Span(sample, seconds, steady, missing, computing))
    return spans


def _computes_until(before: Sample, sample: Sample) -> bool:
    """Return whether the prompts of a line were under way in the one before: V1 counts them at their end, and of several lines in
    a row without a token it prints the first.
    """
    without_token = before.prompt == before.generation == 0
    return sample.prompt > 0 and sample.swapped is None and without_token and holds_requests(before)


def _ran_before(sample: Sample) -> bool:
    """Return whether the requests of a line ran before its interval already: no prompt was computed in it."""
    return bool(sample.running) and sample.prompt == 0 and sample.generation > 0


def is_steady(before: int | None, running: int | None) -> bool:
    """Return whether about as many requests ran at the beginning of an interval as at its end.

    Example:
        >>> is_steady(37, 1), is_steady(100, 90), is_steady(None, 4)
        (False, True, False)
    """
    return bool(before and running) and abs((running or 0) - (before or 0)) <= STEADY * (running or 0)


def _last_hit_rate(samples: Sequence[Sample]) -> float | None:
    return next((sample.prefix_hit for sample in reversed(samples) if sample.prefix_hit is not None), None)


def _median(values: Sequence[float]) -> float:
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


# Tokens per second: no published model decodes one sequence faster on a card, drafts included.
FASTEST_SEQUENCE = 1000.0


def have_many_sequences(spans: Sequence[Span]) -> bool:
    """Return whether requests made more tokens per second than one sequence can: n, best_of or beam search."""
    return all(span.sample.generation > FASTEST_SEQUENCE * (span.sample.running or 1) for span in spans)
