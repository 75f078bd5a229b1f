"""Stores of rows written for a test: one log and one run per job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from vllm_logdoctor.fleet.store import Store

DAY_MS = 86_400_000
RUN = {
    "run": 1, "kind": "server", "server": "vllm", "model": "org/model-8B", "release": "0.11.2", "version": "0.11.2", "platform": "cuda",
    "tp": 2, "pp": 1, "dp": 1, "cards": 2, "clock": "ok", "span_s": 3600.0, "outcome": "clean_shutdown", "startup_complete": True,
}  # fmt: skip


def key(number: int) -> str:
    """Return the key of a job's log."""
    return f"{number:016d}"


def store_with(
    place: Path, runs: Sequence[Mapping[str, Any]], **tables: Sequence[Mapping[str, Any]]
) -> Store:
    """Write a store with a job `log NNN` per run, each a day after the one before.

    Args:
        place: directory of the store.
        runs: what each run has beyond `RUN`.
        tables: rows of further tables; `log` is the number of the job.
    """
    store = Store(place)
    store.create()
    logs = [
        {
            "log": key(number), "added": 1, "path": f"/logs/vllm-{number}.log", "files": [], "state": "", "job": f"log {number:03d}",
            "status": "ok", "modified": DAY_MS * number,
        }
        for number in range(len(runs))
    ]  # fmt: skip
    rows = [{**RUN, "log": key(number), **run} for number, run in enumerate(runs)]
    others = {
        name: [{"run": 1, **row, "log": key(row["log"])} for row in found] for name, found in tables.items()
    }
    store.write_part("part", {"logs": logs, "runs": rows, **others})
    return store


def store_of(
    place: Path, starts: Sequence[float], settings: Sequence[Mapping[str, str]] = (), **given: Any
) -> Store:
    """Write a store with one job per start-up time, and what the launch of each set."""
    rows = [
        {"log": number, "scope": "config", "name": name, "value": value, "provenance": "explicit"}
        for number, own in enumerate(settings)
        for name, value in own.items()
    ]
    return store_with(place, [{"startup_s": start, **given} for start in starts], settings=rows)
