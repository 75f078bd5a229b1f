"""Runs and jobs with what accounting says of them: hours that can be trusted, dates, cards."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct

from vllm_logdoctor.fleet.store import Store
from vllm_logdoctor.report.naming import BROKEN

Row = dict[str, Any]
RunId = tuple[str, int]
"""Log and number of a run."""

_LOG_COLUMNS = ("path", "modified", "job", "job_number", "status", "note", "bytes")
_RUN_COLUMNS = (
    "run", "kind", "server", "engine", "version", "release", "model", "platform", "tp", "pp", "dp", "cards", "quantization", "eager",
    "started", "ended", "span_s", "clock", "outcome", "startup_complete", "bottleneck", "root", "root_file", "root_line", "startup_s",
    "busy", "generation_p50", "running_max", "waiting_max", "kv_max", "preemptions", "requests", "requests_5xx", "kv_tokens",
    "max_concurrency", "weights_gib", "load_s", "compile_s", "graph_s", "init_s", "secrets", "secret_places",
)  # fmt: skip
_SLACK = 1.02
_SLACK_SECONDS = 120.0


class JobSummary(Struct):
    """A job: its logs, its runs and its hours.

    Attributes:
        key, number: name of the job; id for accounting, or None.
        logs: rows of the table `logs`.
        runs: rows of the table `runs`, each with `date`, `card` and `key` (log, run).
        accounting: its row, or None.
        hours: hours of the job, or None where no clock can be trusted.
        cards: accelerators, or None.
        hours_from: accounting, log, or why there are none.
        date: when it began; the last change of its log where nothing better is known.
    """

    key: str
    number: str | None
    logs: list[Row]
    runs: list[Row]
    accounting: Row | None
    hours: float | None
    cards: int | None
    hours_from: str
    date: datetime

    @property
    def card_hours(self) -> float | None:
        """Hours times accelerators, or None where one of them is not known."""
        return None if self.hours is None or self.cards is None else self.hours * self.cards

    @property
    def broken(self) -> Row | None:
        """The last run that failed, or None."""
        return next((run for run in reversed(self.runs) if run["root"] and run["outcome"] in BROKEN), None)

    @property
    def root(self) -> str | None:
        """Root cause of the last run that failed, or None."""
        return self.broken["root"] if self.broken else None

    @property
    def server(self) -> str:
        """The program of the last run; "" without runs."""
        return str(self.runs[-1]["server"]) if self.runs else ""

    @property
    def last(self) -> Row | None:
        """The last run, or None."""
        return self.runs[-1] if self.runs else None


def jobs_of(store: Store, since: datetime | None = None) -> list[JobSummary]:
    """Return the jobs of a store in order of their dates.

    Args:
        store: the store.
        since: leave out jobs that began before.
    """
    accounting = {row["job_number"]: row for row in store.table("accounting").to_pylist()}
    runs: dict[str, list[Row]] = defaultdict(list)
    for row in store.table("runs", _RUN_COLUMNS).select(["log", *_RUN_COLUMNS]).to_pylist():
        runs[row["log"]].append(row)
    rows = store.table("logs", _LOG_COLUMNS).select(["log", *_LOG_COLUMNS]).to_pylist()
    # A number that tells jobs apart only beside it is, where accounting knows it, that of one job everywhere.
    keys: dict[str, str] = {}
    for row in sorted(rows, key=lambda one: (_is_of_folder(one), one["job"])):
        if row["job_number"] in accounting:
            keys.setdefault(row["job_number"], row["job"])
    logs: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if row["status"] != "forgotten":
            logs[keys.get(row["job_number"], row["job"]) if _is_of_folder(row) else row["job"]].append(row)
    jobs = [_job(key, found, runs, accounting) for key, found in logs.items()]
    return sorted(
        (job for job in jobs if since is None or job.date >= since), key=lambda job: (job.date, job.key)
    )


def _is_of_folder(log: Row) -> bool:
    """Return whether the number of a log's job tells jobs apart only within a directory."""
    return str(log["job"]).startswith("job ") and " in " in log["job"]


def _job(
    key: str, logs: list[Row], runs: Mapping[str, list[Row]], accounting: Mapping[str, Row]
) -> JobSummary:
    number = next((row["job_number"] for row in logs if row["job_number"]), None)
    own = accounting.get(number) if number else None
    found = [run for log in logs for run in sorted(runs.get(log["log"], ()), key=lambda one: one["run"])]
    hours, source = _hours(logs, found, own)
    known = [run["cards"] for run in found if run["cards"] is not None]
    cards = own["cards"] if own and own["cards"] is not None else max(known, default=None)
    modified = max(log["modified"] for log in logs)
    began = (own and own["started"]) or min(
        (run["started"] for run in found if run["started"]), default=modified
    )
    for run in found:
        run["card"] = own["card"] if own else None
        run["date"] = run["started"] or began
        run["job"] = key
    return JobSummary(key, number, logs, found, own, hours, cards, source, began)


def _hours(logs: Sequence[Row], runs: Iterable[Row], own: Row | None) -> tuple[float | None, str]:
    """Return the hours of a job: of accounting, else the longest of its logs, each the sum of its runs."""
    elapsed = own["elapsed_s"] if own else None
    if elapsed is not None:
        for run in runs:
            longer = run["span_s"] is not None and run["span_s"] > elapsed * _SLACK + _SLACK_SECONDS
            if longer and run["clock"] == "ok":
                run["clock"] = "longer than accounting"
        return elapsed / 3600, "accounting"
    spans: dict[str, float] = defaultdict(float)
    for run in runs:
        if run["clock"] != "ok":
            return None, f"clock not trusted: {run['clock']}"
        spans[run["log"]] += run["span_s"]
    return (max(spans.values()) / 3600, "log") if spans else (None, "no run")


def levels_of(store: Store, runs: Container[RunId]) -> dict[RunId, dict[tuple[int, int], float]]:
    """Return the generation throughput of runs by the range of running requests; of ranges with few samples none."""
    levels: dict[RunId, dict[tuple[int, int], float]] = defaultdict(dict)
    for row in store.table("load", ["run", "low", "high", "samples", "generation_p50"]).to_pylist():
        if (row["log"], row["run"]) in runs and row["samples"] >= 3 and row["generation_p50"]:
            levels[row["log"], row["run"]][row["low"], row["high"]] = row["generation_p50"]
    return levels


def size_words(run: Mapping[str, Any]) -> list[str]:
    """Return the parallel sizes of a run beyond 1: TP=4."""
    return [f"{name.upper()}={run[name]}" for name in ("tp", "pp", "dp") if run[name] not in (None, 1)]


def job_rows(jobs: Iterable[JobSummary]) -> list[Row]:
    """Return one plain row per job."""
    return [
        {
            "job": job.key, "job_number": job.number, "path": job.logs[0]["path"], "user": job.accounting["user"] if job.accounting else None,
            "logs": len(job.logs), "runs": len(job.runs), "outcome": job.last["outcome"] if job.last else None, "root": job.root,
            "model": job.last["model"] if job.last else None, "release": job.last["release"] if job.last else None, "started": job.date,
            "hours": job.hours, "card_hours": job.card_hours, "hours_from": job.hours_from,
        }
        for job in jobs
    ]  # fmt: skip
