"""What a run prints of its work beside the statistics lines: drafts, transfers, offline batches, benchmarks."""

from __future__ import annotations

from collections.abc import Sequence

from vllm_logdoctor.report.escape import code, inline
from vllm_logdoctor.report.figures import number, percent, table
from vllm_logdoctor.report.page import Page
from vllm_logdoctor.report.throughput_detail import drafts_of, transfers_of
from vllm_logdoctor.rules.context import plural
from vllm_logdoctor.run.clock import duration
from vllm_logdoctor.run.metrics import offline_batches
from vllm_logdoctor.run.model import Benchmark, Progress

_BATCHES = 5
_RESULTS = 6
_AT_ONCE = "max_concurrency"
_OF_A_STEP = (
    "Request throughput (req/s)",
    "Median TTFT (ms)",
    "Successful requests",
    "Total input tokens",
)
_LEAST_STEPS = 3
_NEARLY = 0.95
"""Share of the highest throughput of a sweep from which more requests at once bring hardly more."""
_LONGER = 1.5
_KINDS = {
    "serve": "a serving benchmark",
    "throughput": "a throughput benchmark",
    "latency": "a latency benchmark",
}


def speculation_line(page: Page) -> list[str]:
    """Return one line on speculative decoding over the run; nothing without one in the log."""
    drafts = drafts_of(page.run)
    if drafts is None:
        return []
    shown = []
    if drafts.acceptance is not None:
        counted = drafts.accepted is not None and drafts.drafted is not None
        of_all = f" ({drafts.accepted:,} of {drafts.drafted:,})" if counted else ""
        shown.append(f"{percent(drafts.acceptance)} of the drafted tokens accepted{of_all}")
    if drafts.mean_length is not None:
        shown.append(f"mean acceptance length {number(drafts.mean_length)}")
    if len(drafts.per_position) > 1:
        # vLLM counts each position over all drafts, also those that end before it.
        mean = sum(drafts.per_position) / len(drafts.per_position)
        shorter = drafts.acceptance is not None and drafts.acceptance > mean + 1
        note = " (some drafts were shorter)" if shorter else ""
        rates = ", ".join(percent(rate) for rate in drafts.per_position)
        shown.append(f"by position of the draft {rates}{note}")
    return [f"- speculative decoding: {', '.join(shown)}{page.cited(drafts.evidence)}"] if shown else []


def transfers(page: Page) -> list[str]:
    """Return the figures of the KV connector as a table; nothing without one."""
    figures = transfers_of(page.run)
    if not figures:
        return []
    lines = page.run.transfers
    rows = [
        [inline(one.name, 80), number(one.mean), number(one.highest), number(one.last)] for one in figures
    ]
    place = page.cited([lines[0].evidence, lines[-1].evidence])
    return [
        f"KV transfers between engines, {plural(len(lines), 'line')}{place}:",
        "",
        *table(["", "mean", "highest", "last"], rows),
        "",
    ]


def offline(page: Page) -> list[str]:
    """Return the totals of the offline engine's progress bars; nothing without one."""
    batches = offline_batches(page.run)
    if not batches:
        return []
    if len(batches) == 1:
        (batch,) = batches
        # What else it says is the verdict of a run without statistics.
        said = page.root is None and not page.run.samples and batch.done == batch.total
        words = (
            _batch_words(batch)
            if not said
            else f"{number(batch.input)} input tokens/s"
            if batch.input
            else ""
        )
        return [f"{words}{page.cited([batch.evidence])}.", ""] if words else []
    done = sum(batch.done for batch in batches)
    seconds = sum(batch.seconds or 0.0 for batch in batches)
    shown = batches[-_BATCHES:]
    rows = [
        [
            f"{batch.done:,} of {batch.total:,}",
            duration(batch.seconds),
            number(batch.input),
            number(batch.output),
            page.cite([batch.evidence]),
        ]
        for batch in shown
    ]
    last = f"; the last {len(shown)}" if len(batches) > len(shown) else ""
    return [
        f"{plural(len(batches), 'batch', 'batches')} with {plural(done, 'prompt')} in {duration(seconds)}{last}:",
        "",
        *table(["prompts", "time", "input tokens/s", "output tokens/s", "evidence"], rows),
        "",
    ]


def benchmarks(page: Page) -> list[str]:
    """Return the results that `vllm bench` printed into the log, the last ones side by side."""
    found = page.run.benchmarks
    lines: list[str] = []
    for kind in ("serve", "throughput", "latency"):
        results = [one for one in found if one.kind == kind]
        if results:
            lines += _results(page, kind, results)
    return lines


def _results(page: Page, kind: str, results: Sequence[Benchmark]) -> list[str]:
    shown = results[-_RESULTS:]
    names = dict.fromkeys(name for one in shown for name in one.figures)
    # P50 is the median once more.
    names = {name: None for name in names if name.replace("P50 ", "Median ", 1) not in names.keys() - {name}}
    header = ["", *(page.cite(one.evidence) or "result" for one in shown)]
    asked = {name: [one.asked.get(name) for one in shown] for one in shown for name in one.asked}
    alike = [f"{name}={values[0]}" for name, values in asked.items() if len(set(values)) == 1]
    varied = {name: values for name, values in asked.items() if len(set(values)) > 1}
    rows = [
        [code(name), *("" if one is None else inline(str(one), 80) for one in values)]
        for name, values in varied.items()
    ]
    rows += [
        [inline(name, 80), *(number(one.figures[name]) if name in one.figures else "" for one in shown)]
        for name in names
    ]
    last = f", the last {len(shown)}" if len(results) > len(shown) else ""
    title = f"{plural(len(results), 'result')} of {_KINDS[kind]} in this log{last}:"
    sent = [f"The client was started with {', '.join(code(one, 120) for one in alike)}.", ""] if alike else []
    full = _no_faster(page, shown) if list(varied) == [_AT_ONCE] else []
    return [*sent, title, "", *table(header, rows), "", *full]


def _no_faster(page: Page, results: Sequence[Benchmark]) -> list[str]:
    """Return from how many requests at once on the same requests were answered no faster, where three results or more show it."""
    try:
        steps = sorted(
            (float(one.asked[_AT_ONCE]), *(one.figures[name] for name in _OF_A_STEP), one.evidence[-1].line)
            for one in results
        )
    except (KeyError, ValueError):
        return []
    if len(steps) < _LEAST_STEPS or len({(prompts, tokens) for _, _, _, prompts, tokens, _ in steps}) > 1:
        return []
    most = max(rate for _, rate, *_ in steps)
    first, last = next(one for one in steps if one[1] >= _NEARLY * most), steps[-1]
    if last[2] < _LONGER * first[2]:
        return []
    shown = [line for one in results if one.asked[_AT_ONCE] in (first[0], last[0]) for line in one.evidence]
    return [
        f"With more than {first[0]:g} requests at once the server answered hardly faster: {number(first[1])} req/s with {first[0]:g},"
        f" {number(last[1])} with {last[0]:g}, while the median time to the first token grew from {duration(first[2] / 1000)} to"
        f" {duration(last[2] / 1000)}{page.cited(shown)}.",
        "",
    ]


def _batch_words(batch: Progress) -> str:
    took = f" in {duration(batch.seconds)}" if batch.seconds else ""
    shown = f"{batch.done:,} of {plural(batch.total, 'prompt')} completed{took}"
    speeds = [
        f"{name} {number(rate)} tokens/s"
        for name, rate in (("input", batch.input), ("output", batch.output))
        if rate
    ]
    return f"{shown}: {', '.join(speeds)}" if speeds else shown
