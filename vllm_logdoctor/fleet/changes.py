"""What waits to be changed: settings of the jobs' plans, by the hours of these jobs, with the range to expect."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from vllm_logdoctor.fleet.effects import MeasuredEffect, measured_words
from vllm_logdoctor.fleet.facts import JobSummary, Row
from vllm_logdoctor.fleet.sections import ON_FIRST_SCREEN, Section, hours_line, range_words, sorted_by
from vllm_logdoctor.fleet.store import Store
from vllm_logdoctor.fleet.values import shown


def planned_changes(store: Store, jobs: Sequence[JobSummary], effects: Sequence[MeasuredEffect]) -> Section:
    """Return the changes of all plans; a job counts once for each, and effects are neither multiplied nor summed."""
    owner = {log["log"]: job for job in jobs for log in job.logs}
    # Only the last run of a job says what still waits.
    last = {(job.runs[-1]["log"], job.runs[-1]["run"]) for job in jobs if job.runs}
    groups: dict[tuple[str, str, str | None], list[tuple[Row, JobSummary]]] = defaultdict(list)
    columns = ["run", "knob", "kind", "after", "metric", "low", "high", "origin"]
    for row in store.table("changes", columns).to_pylist():
        if (row["log"], row["run"]) in last and row["log"] in owner:
            # The table keeps of an action a hash of its words: all of one rule are one row.
            after = row["after"] if row["kind"] != "action" else None
            groups[row["knob"], row["kind"], after].append((row, owner[row["log"]]))
    lines = []
    for (knob, kind, after), found in groups.items():
        own = list({job.key: job for _, job in found}.values())
        expected = expected_effect([row for row, _ in found])
        lines.append(
            hours_line(_words(knob, kind, after), own, expected, measured_words(effects, knob, after))
        )
    lines = sorted_by(lines, 2, 3, 1)
    measured = ("measured on your own jobs",) if any(one.cells[5] for one in lines[:ON_FIRST_SCREEN]) else ()
    return Section(
        "changes",
        "What waits to be changed",
        "Settings in the plan of each job's last run, or the rule whose advice is no setting. Ranges are of one run, not summed over jobs.",
        (
            "change",
            "jobs",
            "card hours",
            "job hours",
            "expected effect (origin)",
            "measured on your own jobs",
        ),
        lines,
        first=("change", "jobs", "card hours", "expected effect (origin)", *measured),
    )


def _words(knob: str, kind: str, after: str | None) -> str:
    if kind == "action":
        return knob.removeprefix("action of ")
    if after is None:
        return f"drop {knob}"
    return knob if after == "True" and knob.startswith("--") else f"{knob} {shown(after)}"


def expected_effect(rows: Sequence[Row]) -> str:
    """Return the widest range of the two metrics and origins that most rows have."""
    ranges: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        if row["metric"] and row["low"] is not None and row["high"] is not None:
            ranges[row["metric"], row["origin"]].append(row)
    words = []
    for (metric, origin), found in sorted(ranges.items(), key=lambda pair: -len(pair[1]))[:2]:
        low, high = min(row["low"] for row in found), max(row["high"] for row in found)
        words.append(f"{metric.replace('_', ' ')} x {range_words(low, high)} ({origin}, n={len(found)})")
    return "; ".join(words)
