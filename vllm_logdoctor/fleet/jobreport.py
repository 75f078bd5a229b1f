"""The report of a job in the page: what ran, how it ended, what was found and what to change; from the tables alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import cache, partial

from msgspec import Struct

from vllm_logdoctor.fleet.effects import MeasuredEffect, measured_words
from vllm_logdoctor.fleet.facts import JobSummary, Row, RunId, size_words
from vllm_logdoctor.fleet.sections import range_words
from vllm_logdoctor.fleet.store import Store
from vllm_logdoctor.fleet.values import shown

_MOST_FINDINGS = 12
_MOST_CHANGES = 8
_MOST_RUNS = 20


class RunReport(Struct, frozen=True, array_like=True):
    """A run of a job.

    Attributes:
        title: release, model, parallel sizes.
        outcome, bottleneck: how it ended, what limited it.
        figures: name and value of what was measured.
        findings: rule, severity, line.
        changes: setting, before, after, expected effect in words.
    """

    title: str
    outcome: str
    bottleneck: str
    figures: list[tuple[str, float]]
    findings: list[tuple[str, str, int | None]]
    changes: list[tuple[str, str | None, str | None, str]]


class JobReport(Struct, frozen=True, array_like=True):
    """A job: its logs with their status, hours with their source, and its runs."""

    logs: list[tuple[str, str, str | None]]
    date: str
    hours: float | None
    cards: int | None
    hours_from: str
    user: str | None
    state: str | None
    runs: list[RunReport]


_FIGURES = {
    "span_s": "length, s", "startup_s": "start-up, s", "load_s": "weights, s", "compile_s": "torch.compile, s", "kv_tokens": "KV cache, tokens",
    "kv_max": "highest KV cache use, %", "generation_p50": "generation, tokens/s", "running_max": "running at most", "waiting_max": "waiting at most",
    "preemptions": "preemptions", "requests": "requests answered", "requests_5xx": "of these 5xx", "secrets": "lines with credentials",
}  # fmt: skip


def reports_of(
    store: Store, jobs: Sequence[JobSummary], effects: Sequence[MeasuredEffect]
) -> dict[str, JobReport]:
    """Return the report of each job; a change that others made shows what it did to them."""
    findings = _by_run(store, "findings", ["run", "rank", "id", "severity", "line"])
    columns = ["run", "rank", "knob", "before", "after", "metric", "low", "high", "origin"]
    changes = _by_run(store, "changes", columns)
    measured = cache(partial(measured_words, effects))
    reports = {}
    for job in jobs:
        own = job.accounting or {}
        reports[job.key] = JobReport(
            logs=[(log["path"], log["status"], log["note"]) for log in job.logs],
            date=job.date.isoformat(sep=" ", timespec="minutes"),
            hours=None if job.hours is None else round(job.hours, 3),
            cards=job.cards,
            hours_from=job.hours_from,
            user=own.get("user"),
            state=own.get("state"),
            runs=[_run(run, findings, changes, measured) for run in job.runs[-_MOST_RUNS:]],
        )
    return reports


def _expected(row: Row, measured: Callable[[str, str | None], str]) -> str:
    """Return the expected effect of a change with its origin, and what the change did to other jobs of this fleet."""
    words = measured(row["knob"], row["after"])
    if row["metric"] is None or row["low"] is None:
        return words
    expected = f"{row['metric'].replace('_', ' ')} x {range_words(row['low'], row['high'])} ({row['origin']})"
    return f"{expected}; {words}" if words else expected


def _run(
    run: Row,
    findings: dict[RunId, list[Row]],
    changes: dict[RunId, list[Row]],
    measured: Callable[[str, str | None], str],
) -> RunReport:
    version = f"vLLM {run['version']}" if run["version"] else "vLLM, release not in the log"
    name = version if run["server"] == "vllm" else str(run["server"])
    key = (run["log"], run["run"])
    return RunReport(
        title=", ".join(
            filter(None, (name, run["model"], run["platform"], " ".join(size_words(run)), run["kind"]))
        ),
        outcome=run["outcome"],
        bottleneck=run["bottleneck"],
        figures=[(words, round(run[column], 2)) for column, words in _FIGURES.items() if run[column]],
        findings=[(row["id"], row["severity"], row["line"]) for row in findings.get(key, ())][
            :_MOST_FINDINGS
        ],
        changes=[
            (row["knob"], shown(row["before"]), shown(row["after"]), _expected(row, measured))
            for row in changes.get(key, ())[:_MOST_CHANGES]
        ],
    )


def _by_run(store: Store, table: str, columns: list[str]) -> dict[RunId, list[Row]]:
    rows: dict[RunId, list[Row]] = defaultdict(list)
    for row in sorted(store.table(table, columns).to_pylist(), key=lambda one: one["rank"]):
        rows[row["log"], row["run"]].append(row)
    return rows
