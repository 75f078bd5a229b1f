"""The load: throughput, queue and KV cache use over time, requests by endpoint."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.report.clock import moment_of
from vllm_logdoctor.report.escape import code, inline
from vllm_logdoctor.report.figures import capital, number, percent, statuses, table
from vllm_logdoctor.report.page import Page
from vllm_logdoctor.report.sections.totals import benchmarks, offline, speculation_line, transfers
from vllm_logdoctor.report.series import Point, points_of
from vllm_logdoctor.report.serving import FEW_LINES, Serving, part_of_engines, requests_of, serving_of
from vllm_logdoctor.report.sparkline import sparkline, timed_columns
from vllm_logdoctor.report.sweep import Step, steps_of_sweep
from vllm_logdoctor.rules.context import plural
from vllm_logdoctor.rules.load import (
    Span,
    busy_of,
    evidence_of_sample,
    full_of,
    has_requests,
    load_of,
    quantile,
    speed_of_longest,
)
from vllm_logdoctor.rules.one_batch import cut_off_at_end
from vllm_logdoctor.rules.steps import step_seconds, tokens_per_answer
from vllm_logdoctor.run.clock import duration
from vllm_logdoctor.run.lifecycle import trail_of
from vllm_logdoctor.run.minutes import is_probe
from vllm_logdoctor.run.model import Run

ENDPOINTS = 6
MOST_HOLES = 3
# Error in chat completion stream generator.
_STREAM_FAILED = lazy_pattern(r"^Error in [\w ]{1,40} stream generator\.?$")
_AT_BEGINNING = " A status is logged when the answer begins: "
FEW_AT_ONCE = 4
COLUMNS = 60
Pick = Callable[[Point], float | None]
CURVES: tuple[tuple[str, Pick, float | None], ...] = (
    ("generation, tokens/s", lambda point: point.generation, None),
    ("prompts, tokens/s", lambda point: point.prompt, None),
    ("running", lambda point: point.running, None),
    ("waiting", lambda point: point.waiting, None),
    ("KV cache, %", lambda point: point.kv_usage, 100.0),
)
"""Name, value and full scale (None: the highest value) of each curve."""


def serving(page: Page) -> list[str]:
    """Return the section; nothing where the run printed no statistics and no requests."""
    figures = serving_of(page.run)
    lines: list[str] = []
    if figures.busy:
        lines += [*_statistics(page, figures), "", *([] if page.linked else curves(page))]
    parts = (
        *speculation_line(page),
        "",
        *transfers(page),
        *offline(page),
        *_requests(page),
        *benchmarks(page),
    )
    lines += parts
    return lines if any(lines) else []


def _statistics(page: Page, figures: Serving) -> list[str]:
    points = points_of(page.run)
    busy = busy_of(points)
    idle = f", {figures.samples - figures.busy:,} without load" if figures.samples > figures.busy else ""
    several = len(figures.engines) > 1
    in_sum = f"; {part_of_engines(page.run) or 'all engines'} in sum" if several else ""
    lines = [
        f"{plural(figures.samples, 'statistics line')}{idle}{in_sum}.",
        "",
    ]
    lines += [*_missing(page.run), *_long_prompts(page)]
    if len(busy) < FEW_LINES:
        return _with_extra(page, figures, [*lines, *_values(page, points)])
    whole = not any(point.lines > 1 for point in points)
    tops, full = highest_of(page.run), full_of(points)
    rows = [row for name, pick, _ in CURVES if (row := _row(name, busy, full, pick, tops.get(name), whole))]
    header = ["", "mean", "median", *(["min"] if whole else []), "max"]
    steps = steps_of_sweep(page.run, points)
    if steps:
        # A mean over the loads of a sweep is the speed of none.
        rows, header = [[row[0], row[-1]] for row in rows], ["", "max"]
    lines += table(header, rows) if rows else []
    if rows and not steps and len(full) < len(busy):
        left = plural(sum(point.lines for point in busy) - sum(point.lines for point in full), "line")
        lines += ["", f"Mean and median leave out {left} whose interval was partly idle."]
    return _with_extra(page, figures, [*lines, *_sweep(steps)])


def _sweep(steps: Sequence[Step]) -> list[str]:
    """Return the speeds of a benchmark's loads, by the requests that ran at once."""
    if not steps:
        return []
    rows = [
        [
            f"{step.low:,}" if step.low == step.high else f"{step.low:,} to {step.high:,}",
            f"{step.lines:,}",
            number(step.generation),
            number(step.generation / step.running) if step.low >= FEW_AT_ONCE else "",
            number(step.prompt),
        ]
        for step in steps
    ]
    header = ["running", "lines", "generation, tokens/s", "per request", "prompts, tokens/s"]
    title = (
        "Rates by number of running requests, from statistics lines whose neighbors show a similar number:"
    )
    few = any(step.low < FEW_AT_ONCE for step in steps)
    note = f"Below {FEW_AT_ONCE} running requests the log does not tell how many ran between two lines: no rate per request."
    return ["", title, "", *table(header, rows), *(["", note] if few else [])]


def _with_extra(page: Page, figures: Serving, lines: list[str]) -> list[str]:
    extra = [*_extra(page.run, figures), *_pace(page.run)]
    lines += ["", f"{capital('; '.join(extra))}."] if extra else []
    return [*lines, "", *_engines(page, figures)] if len(figures.engines) > 1 else lines


def _values(page: Page, points: list[Point]) -> list[str]:
    """Return the values of a few lines: of one a sentence, of several a table; without those that are always 0."""
    samples = page.run.samples
    busy = [(at, point) for at, point in enumerate(points) if has_requests(point)]
    shown = [(name, pick) for name, pick, _ in CURVES if any(pick(point) for _, point in busy)]
    if len(busy) == 1:
        values = [(name.partition(", "), number(pick(busy[0][1]))) for name, pick in shown]
        words = [f"{name} {value} {unit}".rstrip() for (name, _, unit), value in values]
        return [f"{capital('; '.join(words))}."] if words else []
    timed = any(point.time is not None for _, point in busy)
    single = len(samples) == len(points)
    header = [*(["time"] if timed else []), *(name for name, _ in shown), *(["evidence"] if single else [])]
    rows = [
        [
            *([moment_of(page.run, point.time)] if timed else []),
            *(number(pick(point)) for _, pick in shown),
            *([page.cite([evidence_of_sample(page.run, samples[at])])] if single else []),
        ]
        for at, point in busy
    ]
    return table(header, rows) if shown else []


def _missing(run: Run) -> list[str]:
    """Return when the log has no statistics lines between lines with requests."""
    load = load_of(run)
    holes = [span for span in load.spans if span.missing]
    if not holes:
        return []
    places = [_hole(run, span) for span in holes if span.sample.time is not None]
    if len(places) > MOST_HOLES:
        places = [f"for {duration(load.missing_seconds)} in {len(holes)} places"]
    when = {_running_around(before, span) for before, span in pairwise(load.spans) if span.missing}
    words = when.pop() if len(when) == 1 else "before or after"
    return [
        f"No statistics lines {', '.join(places)}, with requests running {words}: the log does not show the load of that time.",
        "",
    ]


def _running_around(before: Span, after: Span) -> str:
    """Return on which side of a hole the statistics lines show running requests."""
    sides = [name for name, span in (("before", before), ("after", after)) if span.sample.running]
    return " and ".join(sides) or "before or after"


def _long_prompts(page: Page) -> list[str]:
    """Return why the rate of prompts is higher than any that the engine reached, where some took more than an interval."""
    long = load_of(page.run).long_prompts
    if not long:
        return []
    rate, longest = speed_of_longest(long)
    shown = max(long, key=lambda span: span.computing).sample
    return [
        f"A prompt is counted at its end, in one line: {longest} ({number(rate)} tokens/s) are shown as {number(shown.prompt)} tokens/s"
        f"{page.cited([evidence_of_sample(page.run, shown)])}. vLLM prints no lines meanwhile, so the rates of prompts below are too high.",
        "",
    ]


def _hole(run: Run, span: Span) -> str:
    end = span.sample.time or 0.0
    return f"between {moment_of(run, end - span.seconds - span.missing)} and {moment_of(run, end)}"


def highest_of(run: Run) -> dict[str, float | None]:
    """Return the exact highest value of each curve, where it is one engine's: a long series is thinned out."""
    if len({sample.engine for sample in run.samples}) > 1:
        return {}
    top = run.extremes
    values = (top.generation, top.prompt, top.running, top.waiting, top.kv_usage)
    return {name: value for (name, _, _), value in zip(CURVES, values, strict=True)}


def _row(
    name: str, busy: list[Point], full: list[Point], pick: Pick, top: float | None, whole: bool
) -> list[str] | None:
    """Return a row; the lowest value only of a series that is whole."""
    known = [(float(value), point.lines) for point in full if (value := pick(point)) is not None]
    values = [float(value) for point in busy if (value := pick(point)) is not None]
    if not known or not any(values):
        return None
    mean = sum(value * lines for value, lines in known) / sum(lines for _, lines in known)
    lowest = [number(min(values))] if whole else []
    return [name, number(mean), number(quantile(known, 0.5)), *lowest, number(max(top or 0.0, *values))]


def _extra(run: Run, figures: Serving) -> Iterator[str]:
    # Of a few requests no hit says nothing.
    many = figures.busy >= FEW_LINES and run.setting("enable_prefix_caching") is not False
    if figures.prefix_hit is not None and (figures.prefix_hit or many) and len(figures.engines) < 2:
        yield f"Prefix cache hit rate {percent(figures.prefix_hit)} at the end"
    if figures.external_hit is not None:
        yield f"external KV cache hit rate {percent(figures.external_hit)}"
    if figures.preemptions is not None:
        yield plural(figures.preemptions, "preemption")


def _pace(run: Run) -> Iterator[str]:
    load = load_of(run)
    if seconds := step_seconds(run, load):
        yield f"median decode step {number(1000 * seconds)} ms (from statistics lines without prompt tokens)"
    if tokens := tokens_per_answer(run, load):
        yield f"about {tokens:,.0f} generated tokens per answer"


def _engines(page: Page, figures: Serving) -> list[str]:
    rows = []
    for engine in figures.engines:
        one = serving_of(page.run, engine)
        name = "all engines (aggregate)" if engine < 0 else f"engine {engine}"
        means = [number(one.generation.mean_busy), number(one.generation.max), number(one.prompt.mean_busy)]
        rows.append([name, *means, number(one.running), number(one.waiting), percent(one.kv_usage)])
    header = ["", "generation mean", "max", "prompts mean", "running", "waiting", "KV cache"]
    return table(header, rows)


def curves(page: Page) -> list[str]:
    """Return the curves of a run in a fenced block; columns without statistics lines are blank."""
    lines = [f"{name:<21}{curve}  {heights}" for name, curve, heights in drawn_curves(page, COLUMNS)]
    return ["```", *lines, "```", ""] if lines else []


def drawn_curves(page: Page, width: int) -> Iterator[tuple[str, str, str]]:
    """Yield name, curve from zero up, and the highest value of what changes over time: of a column, too, where it is a mean of less."""
    points, tops = points_of(page.run), highest_of(page.run)
    for name, pick, full in CURVES:
        known = [float(value) for point in busy_of(points) if (value := pick(point)) is not None]
        columns = timed_columns([(point.time, pick(point)) for point in points], width)
        curve = sparkline(columns, full)
        if len(known) >= FEW_LINES and len(set(curve) - {" "}) > 1:
            top = number(max(tops.get(name) or 0.0, *known))
            drawn = number(max(value for value in columns if value is not None))
            whole = f" of {number(full)}" if full else ""
            yield (
                name,
                curve,
                f"up to {top}{whole}" if drawn == top else f"means up to {drawn}{whole}, peak {top}",
            )


def _requests(page: Page) -> list[str]:
    by_status = requests_of(page.run, with_probes=False, method="POST")
    if not by_status:
        return []
    total = sum(by_status.values())
    endpoints: defaultdict[tuple[str, str], Counter[int]] = defaultdict(Counter)
    for (method, path, status), amount in page.run.accesses.items():
        if method == "POST" and not is_probe(method, path):
            endpoints[method, path][status] += amount
    only = "".join(
        f" ({inline(method)} {code(path, 80)})" for method, path in endpoints if len(endpoints) == 1
    )
    only = only or " to POST requests"
    lines = [
        f"{plural(total, 'HTTP response')}{only}: {statuses(by_status)}.{_begun(page, by_status[200] > 0)}{_cut_off(page)}{_doubt(page)}",
        "",
    ]
    if len(endpoints) < 2:
        return lines
    ranked = sorted(endpoints.items(), key=lambda item: (-sum(item[1].values()), item[0]))
    rows = [
        [f"{inline(method)} {code(path, 80)}", f"{sum(found.values()):,}", statuses(found)]
        for (method, path), found in ranked[:ENDPOINTS]
    ]
    left = len(ranked) - len(rows)
    more = [f"{plural(left, 'more endpoint')}.", ""] if left > 0 else []
    return [*lines, *table(["endpoint", "requests", "status"], rows), "", *more]


def _begun(page: Page, streamed: bool) -> str:
    """Return what a status does not say of streams that failed, and of a run that crashed."""
    streams = [one for one in trail_of(page.run) if _STREAM_FAILED.search(one.message)]
    if streams:
        failed = f"{plural(len(streams), 'stream')} failed after that"
        return f"{_AT_BEGINNING}{failed}{page.cited(map(page.run.evidence, streams))}."
    broken = page.run.outcome == "crashed_while_serving" and any(one.running for one in page.run.samples[-1:])
    cut = f"{_AT_BEGINNING}the crash may have cut off streamed answers with status 200."
    return cut if broken and streamed else ""


def _cut_off(page: Page) -> str:
    """Return how many requests a stop cut off, which have access lines all the same."""
    left, last = cut_off_at_end(page.run), page.run.samples[-1:]
    if not left:
        return ""
    return (
        f" {left:,} of them still ran in the last statistics line, less than 10 s before the stop, and never as many had ended between two"
        f" lines: the stop cut them off, also where their access lines say 200 {page.cite([evidence_of_sample(page.run, last[0])])}."
    )


def _doubt(page: Page) -> str:
    """Return a caution where another server may have answered some of the requests: access lines name no server."""
    other = page.run.other_server
    if other is None:
        return ""
    return (
        f" Some may belong to the server that starts at {page.cite([other])}: its end is not in the log, and access lines"
        " name no server."
    )
