"""The few figures of a run that matter first: throughput, queue, KV cache, requests, start-up."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise

from vllm_logdoctor.report.escape import inline
from vllm_logdoctor.report.figures import at_once, number, percent, statuses
from vllm_logdoctor.report.naming import PHASES, per_engine
from vllm_logdoctor.report.page import Page
from vllm_logdoctor.report.series import Point, points_of
from vllm_logdoctor.report.serving import FEW_LINES, part_of_engines, requests_of, summed_of
from vllm_logdoctor.report.sweep import Step, steps_of_sweep
from vllm_logdoctor.rules.capacity.memory import memory_of
from vllm_logdoctor.rules.context import plural
from vllm_logdoctor.rules.load import is_steady, quantile
from vllm_logdoctor.rules.one_batch import cut_off_at_end
from vllm_logdoctor.run.clock import duration
from vllm_logdoctor.run.metrics import offline_batches
from vllm_logdoctor.run.model import Phase, Run

Figure = tuple[str, str]

_MOST = 5
_SWEEP = 1.25
"""Ratio of the quartiles of running requests from which a load has several levels."""
_UNEVEN = 2.0
"""Ratio of mean and median from which the mean alone describes no part of the load: a sweep, a burst."""
_STEADY_LINES = 8
"""Lines at a steady load from which their median says something of all the requests."""
_BEGINNINGS = ("imports", "engine-start", "engine-init", "engine-load", "api-server")
_COMPARED = (
    "Successful requests",
    "Request throughput (req/s)",
    "Output token throughput (tok/s)",
    "Median TTFT (ms)",
    "Median TPOT (ms)",
    "requests/s",
    "output tokens/s",
    "average latency (s)",
    "p99 latency (s)",
)
_FAILED = "Failed requests"
_RATE, _AT_ONCE = "Request rate configured (RPS)", "Maximum request concurrency"
_OF_EXCESS = (
    "Successful requests", "Benchmark duration (s)", "Request throughput (req/s)", "Median TTFT (ms)", "Mean TPOT (ms)",
    "Total generated tokens",
)  # fmt: skip
_FULL = 0.9


def key_figures(run: Run) -> tuple[Figure, ...]:
    """Return at most five figures with their names, as inline Markdown; none that the verdict and the load say anyway."""
    found = [*_of_load(run), *_of_batches(run), *_of_cache(run), *_of_requests(run), *_of_start(run)]
    alone = len(found) == 1 and found[0][0] in ("answered", "prompts") and not run.samples
    return () if alone else tuple(found[:_MOST])


def startup_seconds(phases: Sequence[Phase]) -> float | None:
    """Return the length of the whole start-up, or None where the log does not show it from its beginning."""
    if not any(phase.name in _BEGINNINGS for phase in phases):
        return None
    return next((phase.seconds for phase in phases if phase.name == "startup"), None)


def start_of(run: Run) -> float | None:
    """Return the length of the start-up, or None where the log shows neither all of it nor where it failed."""
    open_end = run.outcome in ("running", "unknown", "truncated") and not run.startup_complete
    return None if open_end else startup_seconds(run.phases)


def per_request(points: Sequence[Point]) -> float | None:
    """Return the median of generated tokens/s per running request at a steady load, or None where too few lines show it.

    A line counts the tokens of its whole interval and the requests at its end: it is used only where about as many
    requests ran at the interval's beginning.
    """
    rates = [
        (point.generation / point.running, point.lines)
        for before, point in pairwise(points)
        if point.running and point.generation > 0 and is_steady(before.running, point.running)
    ]
    return quantile(rates, 0.5) if len(rates) >= _STEADY_LINES else None


def excess_load(run: Run) -> str:
    """Return how the last result of a client shows that it offered more than the server took, as a sentence; "" where it does not.

    Of a run as long as its last requests take, the rate says nothing: how long requests waited has to say it too.
    """
    last = run.benchmarks[-1]
    figures = {_RATE: math.inf, _AT_ONCE: 0.0, _FAILED: 0.0} | {
        name: float(value)
        for name, asked in ((_RATE, "request_rate"), (_AT_ONCE, "max_concurrency"))
        if isinstance(value := last.asked.get(asked), int | float)
    }
    figures |= last.figures
    try:
        done, seconds, took, wait, step, tokens = (figures[name] for name in _OF_EXCESS)
    except KeyError:
        return ""
    offered, most, waited = figures[_RATE], figures[_AT_ONCE], duration(wait / 1000)
    if not (done and seconds and took) or figures[_FAILED] or took > offered / 2:
        return ""
    words = f"The client was to send {number(offered)} req/s and the server took {number(took)} req/s"
    if most:
        latency = figures.get("Mean E2EL (ms)", figures["Mean TTFT (ms)"] + step * (tokens / done - 1))
        always = done * latency / 1000 >= _FULL * most * seconds and math.isfinite(offered)
        return f"{words}: the limit of {most:,.0f} at once was nearly always reached." if always else ""
    if math.isinf(offered):
        at_once = f"All {done:,.0f} requests were sent at once"
        queued = wait / 1000 >= seconds / 4
        return (
            f"{at_once}: the median wait for a first token was {waited} of {duration(seconds)}."
            if queued
            else ""
        )
    return (
        f"{words}: the median wait for a first token was {waited}."
        if wait / 1000 >= done / offered / 2
        else ""
    )


def benchmark_result(page: Page) -> str:
    """Return the figures of the last benchmark result, as a sentence."""
    last = page.run.benchmarks[-1]
    compared = (*_COMPARED, *((_FAILED,) if last.figures.get(_FAILED) else ()))
    shown = [f"{name} {number(last.figures[name])}" for name in compared if name in last.figures]
    many = len(page.run.benchmarks)
    which = f"Last of {many} results" if many > 1 else "Result"
    excess = excess_load(page.run)
    step = f"{excess} Its server's log shows what limits it. " if excess else ""
    return f"{step}{which}: {inline(', '.join(shown) or 'no rate printed')}{page.cited(last.evidence)}."


def _of_load(run: Run) -> Iterator[Figure]:
    points = points_of(run)
    figures = summed_of(points)
    if not figures.busy:
        return
    if figures.generation.max:
        peak = max(figures.generation.max, 0.0 if _has_engines(run) else run.extremes.generation)
        mean, median = figures.generation.mean_busy or 0.0, figures.generation.p50 or 0.0
        middle = "" if median / _UNEVEN <= mean <= median * _UNEVEN else f"{number(median)} median, "
        each = per_request(points) if (figures.running or 0) > 1 and _is_one_load(points) else None
        share = f"; {number(each)} tokens/s per request at steady load (median)" if each else ""
        words = f"{number(mean)} tokens/s mean, {middle}{number(peak)} peak{share}"
        if steps := steps_of_sweep(run, points):
            least = steps[0]
            words = (
                f"{number(least.generation)} tokens/s in lines with {_requests(least)}, {number(peak)} peak"
            )
        part = f" ({part})" if (part := part_of_engines(run)) else ""
        words = _of_few(figures.busy, peak) if figures.busy < FEW_LINES else words
        # Where no line ends with a running request, each interval was partly idle: its rate is no speed.
        if figures.running != 0:
            yield "generation", words + part
    elif figures.prompt.max:
        mean, peak = figures.prompt.mean_busy or 0.0, figures.prompt.max
        words = f"{number(mean)} tokens/s mean, {number(peak)} peak"
        if figures.running != 0:
            yield "prompts", _of_few(figures.busy, peak) if figures.busy < FEW_LINES else words
    if figures.running or figures.waiting:
        waiting = f"{figures.waiting:,} waiting" if figures.waiting else "queue empty"
        most = "up to " if figures.busy > 1 else ""
        yield "requests at once", f"{most}{figures.running or 0:,} running, {waiting}"


def _of_few(lines: int, peak: float) -> str:
    """Return the rate of a few statistics lines, of which a mean says nothing."""
    return f"{number(peak)} tokens/s {'in one statistics line' if lines == 1 else 'peak'}"


def _requests(step: Step) -> str:
    return plural(step.low, "request") if step.low == step.high else f"{step.low} to {step.high} requests"


def _is_one_load(points: Sequence[Point]) -> bool:
    """Return whether about as many requests ran in half of the lines: a median over a sweep is the speed at none of its rates."""
    running = [(float(point.running), point.lines) for point in points if point.running]
    low, high = quantile(running, 0.25), quantile(running, 0.75)
    return low is not None and high is not None and high <= _SWEEP * low


def _has_engines(run: Run) -> bool:
    return len({sample.engine for sample in run.samples}) > 1


def _of_batches(run: Run) -> Iterator[Figure]:
    batches = offline_batches(run)
    if batches:
        done, total = sum(batch.done for batch in batches), sum(batch.total for batch in batches)
        seconds = sum(batch.seconds or 0.0 for batch in batches)
        yield (
            "prompts",
            f"{done:,} of {total:,} in {duration(seconds)}" if seconds else f"{done:,} of {total:,}",
        )


def _of_cache(run: Run) -> Iterator[Figure]:
    memory, usage = memory_of(run), run.extremes.kv_usage
    size = f"{number(memory.tokens)} tokens" if memory else ""
    if memory and memory.hybrid:
        size = f"{at_once(memory.concurrency or 0.0)} requests of {number(memory.length)} tokens"
    size += per_engine(run) if size else ""
    sampled = any(sample.kv_usage is not None for sample in run.samples)
    # Of requests that all ended between the lines none shows the cache.
    peak = f"{percent(usage)} peak" if usage and sampled else ""
    if size or peak:
        yield "KV cache", ", ".join(filter(None, (size, peak)))


def _of_requests(run: Run) -> Iterator[Figure]:
    # Those that make tokens, without lists of models.
    by_status = requests_of(run, with_probes=False, method="POST")
    if by_status:
        left = cut_off_at_end(run)
        cut = f", {left:,} of them cut off by the stop" if left else ""
        yield "answered", f"{plural(sum(by_status.values()), 'request')}, {statuses(by_status)}{cut}"


def _of_start(run: Run) -> Iterator[Figure]:
    total = start_of(run)
    if total:
        parts = [phase for phase in run.phases if phase.parent == "startup" and phase.name in PHASES]
        longest = max(parts, key=lambda phase: phase.seconds or 0.0, default=None)
        most = longest is not None and longest.name != "unexplained" and (longest.seconds or 0.0) >= total / 3
        named = (
            f" ({duration(longest.seconds)} {PHASES[longest.name]})" if most and longest is not None else ""
        )
        yield "start-up", duration(total) + named
