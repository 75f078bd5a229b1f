"""Serving performance: throughput, running and waiting, KV cache use, hit rates, requests."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable

from vllm_logdoctor.report.clock import time_of_day
from vllm_logdoctor.report.escape import code, inline
from vllm_logdoctor.report.figures import count, number, percent, share, table
from vllm_logdoctor.report.page import Page
from vllm_logdoctor.report.sections.totals import benchmarks, offline, speculation, transfers
from vllm_logdoctor.report.series import Point, minutes_of, points_of
from vllm_logdoctor.report.serving import Serving, Spread, requests_of, serving_of, summed_of
from vllm_logdoctor.report.sparkline import sparkline

ENDPOINTS = 12
Curve = tuple[str, Callable[[Point], float | None]]
CURVES: tuple[Curve, ...] = (
    ("generation, tokens/s", lambda point: point.generation),
    ("prompt, tokens/s", lambda point: point.prompt),
    ("running", lambda point: point.running),
    ("waiting", lambda point: point.waiting),
    ("KV cache, %", lambda point: point.kv_usage),
)


def serving(page: Page) -> list[str]:
    """Return the section as Markdown lines; nothing where the run printed no statistics and no requests."""
    figures = serving_of(page.run)
    lines: list[str] = []
    if figures.samples:
        lines += [*_figures(page, figures), *speculation(page), "", *_curves(points_of(page.run))]
    else:
        lines += [*speculation(page), ""]
    lines += [*transfers(page), *offline(page), *_requests(page), *benchmarks(page)]
    if any(lines) and not figures.samples and page.run.kind != "offline":
        lines = [
            "The log holds no statistics lines: throughput, queue and KV cache use are not known.",
            "",
            *lines,
        ]
    return lines if any(lines) else []


def _figures(page: Page, figures: Serving) -> list[str]:
    lines = [_sampled(figures), ""]
    several = len(figures.engines) > 1
    whole = summed_of(points_of(page.run)) if several else figures
    rows = [_spread("generation, tokens/s", whole.generation), _spread("prompt, tokens/s", whole.prompt)]
    if several:
        lines = [f"{lines[0]} The engines in sum:", ""]
    lines += [*table(["", "mean", "p50", "p95", "highest"], rows), "", *_states(figures, whole)]
    if several:
        lines += ["", *_engines(page, figures)]
    return lines


def _sampled(figures: Serving) -> str:
    idle = figures.samples - figures.busy
    told = f"{count(figures.samples, 'statistics line')}, {figures.busy:,} of them busy"
    return f"{told}; mean and percentiles are over the busy ones." if idle and figures.busy else f"{told}."


def _spread(name: str, spread: Spread) -> list[str]:
    return [name, *(number(value) for value in (spread.mean_busy, spread.p50, spread.p95, spread.max))]


def _states(figures: Serving, whole: Serving) -> list[str]:
    told = []
    if whole.running is not None:
        told.append(f"- at most {count(whole.running, 'request')} running and {whole.waiting or 0:,} waiting")
    if figures.kv_usage is not None:
        told.append(f"- KV cache usage at most {percent(figures.kv_usage)}")
    if figures.prefix_hit is not None:
        told.append(f"- prefix cache hit rate {percent(figures.prefix_hit)} at the end")
    if whole.external_hit is not None:
        told.append(f"- hit rate of the KV cache outside the engine {percent(whole.external_hit)} at the end")
    if figures.preemptions is not None:
        told.append(f"- {count(figures.preemptions, 'preemption')}")
    return told


def _engines(page: Page, figures: Serving) -> list[str]:
    rows = []
    for engine in figures.engines:
        one = serving_of(page.run, engine)
        name = "all engines (aggregate)" if engine < 0 else f"engine {engine}"
        means = [number(one.generation.mean_busy), number(one.generation.max), number(one.prompt.mean_busy)]
        states = [number(one.running), number(one.waiting), percent(one.kv_usage)]
        rows.append([name, f"{one.samples:,}", *means, *states])
    header = ["", "lines", "generation mean", "highest", "prompt mean", "running", "waiting", "KV cache"]
    return table(header, rows)


def _curves(points: list[Point]) -> list[str]:
    lines = []
    for name, pick in CURVES:
        values = [None if (value := pick(point)) is None else float(value) for point in points]
        known = [value for value in values if value is not None]
        if len(known) > 2 and max(known) > 0:
            lines.append(f"{name:<21}{sparkline(values)}  highest {number(max(known))}")
    return ["```", *lines, "```", ""] if lines else []


def _requests(page: Page) -> list[str]:
    run = page.run
    by_status = requests_of(run)
    total = sum(by_status.values())
    if not total:
        return []
    told = ", ".join(
        f"{amount:,} with HTTP {status} ({share(amount, total)})"
        for status, amount in sorted(by_status.items())
    )
    lines = [
        f"{count(total, 'answered request')} in the access log: {told}.{_busiest(page)}{_doubt(page)}",
        "",
    ]
    endpoints: defaultdict[tuple[str, str], Counter[int]] = defaultdict(Counter)
    for (method, path, status), amount in run.accesses.items():
        endpoints[method, path][status] += amount
    ranked = sorted(endpoints.items(), key=lambda item: (-sum(item[1].values()), item[0]))
    rows = [
        [
            f"{inline(method)} {code(path, 80)}",
            f"{sum(statuses.values()):,}",
            ", ".join(f"{status}: {amount:,}" for status, amount in sorted(statuses.items())),
        ]
        for (method, path), statuses in ranked[:ENDPOINTS]
    ]
    lines += table(["endpoint", "requests", "by status"], rows)
    left = len(ranked) - len(rows)
    return [*lines, "", *([f"{count(left, 'endpoint')} more.", ""] if left > 0 else [])]


def _doubt(page: Page) -> str:
    """Say that another server may have answered some of the requests: their lines do not name one."""
    other = page.run.other_server
    if other is None:
        return ""
    return (
        f" Some may be another server's: the one that begins at {page.cite([other])} listened on another port, no end of"
        " it is in the log, and access lines name no server."
    )


def _busiest(page: Page) -> str:
    """Return the minute with most answers, where the log shows more than one."""
    minutes = minutes_of(page.run)
    if len(minutes) < 2:
        return ""
    most = max(minutes, key=lambda minute: sum(minute.by_family.values()))
    return f" Most in one minute: {sum(most.by_family.values()):,}, at {time_of_day(most.time)[:5]}."
