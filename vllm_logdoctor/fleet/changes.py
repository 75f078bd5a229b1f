"""What waits to be changed: settings of the jobs' plans, by the hours of these jobs, with the range to expect."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from vllm_logdoctor.fleet.effects import MeasuredEffect
from vllm_logdoctor.fleet.facts import Job, Row
from vllm_logdoctor.fleet.sections import Line, Section, hours_of
from vllm_logdoctor.fleet.store import Store


def planned_changes(
    store: Store, jobs: Sequence[Job], effects: Sequence[MeasuredEffect], most: int
) -> Section:
    """Return the changes of all plans; a job counts once for each, and effects are neither multiplied nor summed."""
    owner = {log["log"]: job for job in jobs for log in job.logs}
    # Only the last run of a job says what still waits.
    last = {(job.runs[-1]["log"], job.runs[-1]["run"]) for job in jobs if job.runs}
    groups: dict[tuple[str, str, str | None], list[tuple[Row, Job]]] = defaultdict(list)
    columns = ["run", "knob", "kind", "after", "metric", "low", "high", "origin"]
    for row in store.table("changes", columns).to_pylist():
        if (row["log"], row["run"]) in last and row["log"] in owner:
            groups[row["knob"], row["kind"], row["after"]].append((row, owner[row["log"]]))
    lines = []
    for (knob, kind, after), found in groups.items():
        own = {job.key: job for _, job in found}
        expected, measured = _expected([row for row, _ in found]), _measured(effects, knob, after)
        words = _words(knob, kind, after)
        lines.append(
            Line((words, len(own), *hours_of(list(own.values()))[:2], expected, measured), tuple(own))
        )
    lines.sort(key=lambda line: (-_number(line.cells[2]), -_number(line.cells[3]), -len(line.jobs)))
    return Section(
        "changes",
        "What waits to be changed",
        "Changes in the plan of each job's last run, by hours of these jobs. Ranges are of one run, after / before; they are not summed over jobs.",
        ("change", "jobs", "card hours", "job hours", "expected effect (origin)", "measured in this fleet"),
        lines[:most],
        first=True,
    )


def _words(knob: str, kind: str, after: str | None) -> str:
    if kind == "action":
        return knob
    return f"{knob} {after}" if after is not None else f"drop {knob}"


def _expected(rows: Sequence[Row]) -> str:
    """Return the widest range of each metric and origin."""
    ranges: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        if row["metric"] and row["low"] is not None and row["high"] is not None:
            ranges[row["metric"], row["origin"]].append(row)
    words = []
    for (metric, origin), found in sorted(ranges.items(), key=lambda pair: -len(pair[1]))[:2]:
        low, high = min(row["low"] for row in found), max(row["high"] for row in found)
        values = f"{low:.3g}" if low == high else f"{low:.3g} to {high:.3g}"
        words.append(f"{metric.replace('_', ' ')} x {values} ({origin}, n={len(found)})")
    return "; ".join(words)


def _measured(effects: Sequence[MeasuredEffect], knob: str, after: str | None) -> str:
    """Return what the same change did in this fleet; "" where it was not seen often enough."""
    name = knob.lstrip("-").replace("-", "_")
    wanted = (after,) if after is not None else (None, "False")
    found = [one for one in effects if one.setting in (name, knob) and one.after in wanted]
    return "; ".join(f"{one.metric.replace('_', ' ')} x {one.words}" for one in found[:2])


def _number(cell: object) -> float:
    return float(cell) if isinstance(cell, int | float) else 0.0
