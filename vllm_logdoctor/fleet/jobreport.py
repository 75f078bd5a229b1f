"""The report of a job in the page: what ran, how it ended, what was found and what to change; from the tables alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from msgspec import Struct

from vllm_logdoctor.fleet.facts import Job, Row
from vllm_logdoctor.fleet.store import Store

_MOST_FINDINGS = 12
_MOST_CHANGES = 8
_MOST_RUNS = 20

RunId = tuple[str, int]


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


def reports_of(store: Store, jobs: Sequence[Job]) -> dict[str, JobReport]:
    """Return the report of each job."""
    findings, changes = _findings(store), _changes(store)
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
            runs=[_run(run, findings, changes) for run in job.runs[-_MOST_RUNS:]],
        )
    return reports


def effect_words(row: Row) -> str:
    """Return an expected effect with its origin; "" without one.

    Example:
        >>> effect_words({"metric": "kv_cache_tokens", "low": 1.8, "high": 2.0, "origin": "computed"})
        'kv cache tokens x 1.8 to 2 (computed)'
    """
    if row["metric"] is None or row["low"] is None:
        return ""
    values = f"{row['low']:.3g}" if row["low"] == row["high"] else f"{row['low']:.3g} to {row['high']:.3g}"
    return f"{row['metric'].replace('_', ' ')} x {values} ({row['origin']})"


def _run(run: Row, findings: dict[RunId, list[Row]], changes: dict[RunId, list[Row]]) -> RunReport:
    sizes = " ".join(
        f"{name.upper()}={run[name]}" for name in ("tp", "pp", "dp") if run[name] not in (None, 1)
    )
    version = f"vLLM {run['version']}" if run["version"] else "vLLM, release not in the log"
    name = version if run["server"] == "vllm" else str(run["server"])
    key = (run["log"], run["run"])
    return RunReport(
        title=", ".join(filter(None, (name, run["model"], run["platform"], sizes, run["kind"]))),
        outcome=run["outcome"],
        bottleneck=run["bottleneck"],
        figures=[(words, round(run[column], 2)) for column, words in _FIGURES.items() if run[column]],
        findings=[(row["id"], row["severity"], row["line"]) for row in findings.get(key, ())][
            :_MOST_FINDINGS
        ],
        changes=[
            (row["knob"], row["before"], row["after"], effect_words(row)) for row in changes.get(key, ())
        ][:_MOST_CHANGES],
    )


def _findings(store: Store) -> dict[RunId, list[Row]]:
    return _by_run(store, "findings", ["run", "rank", "id", "severity", "line"])


def _changes(store: Store) -> dict[RunId, list[Row]]:
    return _by_run(
        store, "changes", ["run", "rank", "knob", "before", "after", "metric", "low", "high", "origin"]
    )


def _by_run(store: Store, table: str, columns: list[str]) -> dict[RunId, list[Row]]:
    rows: dict[RunId, list[Row]] = defaultdict(list)
    for row in sorted(store.table(table, columns).to_pylist(), key=lambda one: one["rank"]):
        rows[row["log"], row["run"]].append(row)
    return rows
