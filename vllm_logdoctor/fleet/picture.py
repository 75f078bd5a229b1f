"""What the page shows: sections of rows, each number with its jobs, and a report of each job."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from datetime import datetime, timedelta
from statistics import median
from typing import Any, TypeVar

from msgspec import Struct

from vllm_logdoctor.fleet.changes import planned_changes
from vllm_logdoctor.fleet.effects import MeasuredEffect, effects_of
from vllm_logdoctor.fleet.facts import Job, Row, jobs_of
from vllm_logdoctor.fleet.jobreport import JobReport, reports_of
from vllm_logdoctor.fleet.peers import METRICS, outliers_of, slow_starts
from vllm_logdoctor.fleet.schema import STATUSES
from vllm_logdoctor.fleet.sections import Line, Section, hours_of, hours_words, rule_titles, share
from vllm_logdoctor.fleet.store import Store
from vllm_logdoctor.knowledge.versions import parse_version

SCHEMA = "logdoctor-fleet/1"
_MOST_LINES = 20
_PERIOD = timedelta(days=14)
_HEAD_ROOM = ((90.0, "90 % and more"), (50.0, "50 to 90 %"), (10.0, "10 to 50 %"), (0.0, "below 10 %"))

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


class Picture(Struct, frozen=True):
    """All that the page shows.

    Attributes:
        headline: what was read, in one line.
        hours: hours of all jobs and how far they can be trusted, in one line.
        sections: the parts of the page; the first ones are the first screen.
        reports: each job's report, by the name of the job.
        titles: what the ids of rules mean.
    """

    headline: str
    hours: str
    sections: list[Section]
    reports: dict[str, JobReport]
    titles: dict[str, str]


def picture_of(store: Store, since: datetime | None = None) -> Picture:
    """Return the page's content for a store.

    Args:
        store: the store.
        since: leave out jobs that began before.
    """
    jobs = jobs_of(store, since)
    effects = effects_of(store, jobs)
    sections = [
        _broke(jobs),
        planned_changes(store, jobs, effects, _MOST_LINES),
        _starts(jobs),
        _outliers(store, jobs),
        _periods(jobs),
        _releases(jobs),
        _modes(jobs),
        _months(jobs),
        _head_room(jobs),
        _secrets(jobs),
        _not_understood(store, jobs),
        _effects(effects),
        _statuses(jobs),
        _clocks(jobs),
    ]
    reports = reports_of(store, jobs)
    return Picture(
        _headline(jobs), _hours_line(jobs), sections, reports, rule_titles(sections, reports.values())
    )


def _headline(jobs: Sequence[Job]) -> str:
    logs = [log for job in jobs for log in job.logs]
    counts = _grouped(logs, lambda log: log["status"])
    runs = sum(len(job.runs) for job in jobs)
    others = [f"{len(counts[name]):,} {name}" for name in STATUSES if name != "ok" and name in counts]
    return ", ".join([f"{len(logs):,} logs", f"{len(jobs):,} jobs", f"{runs:,} runs", *others])


def _hours_line(jobs: Sequence[Job]) -> str:
    known = [job for job in jobs if job.hours is not None]
    exact = sum(job.hours_from == "accounting" for job in known)
    cards = [job.card_hours for job in known if job.card_hours is not None]
    left_out = len(jobs) - len(known)
    return (
        f"{hours_words(sum(cards))} card hours and {hours_words(sum(job.hours or 0.0 for job in known))} job hours of {len(known):,} jobs: "
        f"{share(exact, len(known))} from accounting, the others from their logs (a lower bound); {left_out:,} jobs without hours that can be "
        f"trusted, {len(known) - len(cards):,} without a known number of cards"
    )


def _broke(jobs: Sequence[Job]) -> Section:
    groups = _grouped((job for job in jobs if job.root), lambda job: str(job.root))
    lines = [
        Line(
            (cause, len(found), *hours_of(found), max(job.date for job in found).date().isoformat()),
            _names(found),
        )
        for cause, found in groups.items()
    ]
    return Section(
        "broke",
        "What broke",
        "Root cause of the last run that failed in each job, by hours of these jobs.",
        ("cause", "jobs", "card hours", "job hours", "jobs without hours", "last"),
        _by(lines, 2, 3, 1),
        first=True,
    )


def _starts(jobs: Sequence[Job]) -> Section:
    slow = [one for one in slow_starts(jobs) if one.hours > 0]
    total = sum(one.hours for one in slow)
    lines = [
        Line((one.group, one.n, one.hours, one.quarter, one.median), one.jobs) for one in slow[:_MOST_LINES]
    ]
    return Section(
        "starts",
        "Start-up above the best quarter of peers",
        f"{hours_words(total)} card hours in all: time above what the quickest quarter of equal runs needed (a run without known cards counts once).",
        ("peers", "runs", "card hours above", "best quarter, s", "median, s"),
        lines,
        first=True,
    )


def _outliers(store: Store, jobs: Sequence[Job]) -> Section:
    result = outliers_of(store, jobs)
    groups = _grouped(result.found, lambda one: (one.metric, one.level, one.group, one.ratio > 1))
    lines = []
    for (metric, level, group, _), found in groups.items():
        ratios = sorted(one.ratio for one in found)
        rare = _grouped((name for one in found for name in one.differs_in), str)
        common = sorted(rare, key=lambda name: -len(rare[name]))[:3]
        cells = (
            f"{METRICS[metric]}{f' at {level}' if level else ''}", len({one.job for one in found}), ratios[0], ratios[-1], found[0].median,
            found[0].n, found[0].spread, group, ", ".join(common),
        )  # fmt: skip
        lines.append(Line(cells, tuple(dict.fromkeys(one.job for one in found))))
    return Section(
        "outliers",
        "Outliers among peers",
        f"{len(result.found):,} of {result.compared:,} compared figures in {result.groups:,} groups of at least 8 peers; about "
        f"{result.expected:.0f} are to be expected by chance. Differs in: settings that few of the peers have, no proof of a cause.",
        (
            "figure",
            "jobs",
            "lowest ratio",
            "highest",
            "median of peers",
            "n",
            "spread",
            "peers",
            "differs in",
        ),
        lines,
        first=True,
    )


def _periods(jobs: Sequence[Job]) -> Section:
    end = max((job.date for job in jobs), default=datetime.min)
    last = [job for job in jobs if job.date > end - _PERIOD]
    before = [job for job in jobs if end - 2 * _PERIOD < job.date <= end - _PERIOD]
    lines = [Line(("jobs", len(last), len(before), ""), _names(last))]
    failed = [[job for job in period if job.root] for period in (last, before)]
    lines.append(
        Line(
            (
                "jobs that failed",
                len(failed[0]),
                len(failed[1]),
                f"{share(len(failed[0]), len(last))} after {share(len(failed[1]), len(before))}",
            ),
            _names(failed[0]),
        )
    )
    causes = [_grouped(period, lambda job: str(job.root)) for period in failed]
    for cause in sorted({*causes[0], *causes[1]}, key=lambda one: -len(causes[0].get(one, ()))):
        now, then = causes[0].get(cause, []), causes[1].get(cause, [])
        lines.append(
            Line(
                (cause, len(now), len(then), "new" if not then else "gone" if not now else ""),
                _names(now or then),
            )
        )
    return Section(
        "periods",
        "The last 14 days against the 14 before",
        f"Until {end:%Y-%m-%d}, the newest job. Dates from accounting, else from the log, else from the file's last change."
        if jobs
        else "",
        ("what", "last 14 days", "14 before", ""),
        lines[:_MOST_LINES],
    )


def _releases(jobs: Sequence[Job]) -> Section:
    judged = [job for job in jobs if job.last and job.last["server"] == "vllm"]
    groups = _grouped(
        judged,
        lambda job: str(_last(job)["release"] or ("source build" if _last(job)["version"] else "not known")),
    )
    lines = [
        Line(
            (
                release,
                len(found),
                *hours_of(found)[:2],
                sum(job.root is not None for job in found),
                share(sum(job.root is not None for job in found), len(found)),
            ),
            _names(found),
        )
        for release, found in groups.items()
    ]
    return Section(
        "releases",
        "Releases",
        "Source builds (0.1.devN and others between releases) are none. Failure shares compare only where the work is alike.",
        ("vLLM release", "jobs", "card hours", "job hours", "failed", "share"),
        sorted(lines, key=lambda line: _release_order(str(line.cells[0])), reverse=True),
    )


def _release_order(release: str) -> tuple[bool, Any]:
    version = parse_version(release)
    return version is not None, version.sort_key if version is not None else release


def _modes(jobs: Sequence[Job]) -> Section:
    tests: tuple[tuple[str, Callable[[Row], bool]], ...] = (
        ("engine V0", lambda run: run["engine"] == "V0"),
        ("eager mode (enforce_eager)", lambda run: run["eager"] is True),
        ("preemptions", lambda run: bool(run["preemptions"])),
        ("requests answered with 5xx", lambda run: bool(run["requests_5xx"])),
        ("never got ready", lambda run: not run["startup_complete"] and run["outcome"] != "running"),
    )
    lines = []
    for words, test in tests:
        found = [job for job in jobs if any(test(run) for run in job.runs)]
        if found:
            lines.append(
                Line(
                    (
                        words,
                        len(found),
                        *hours_of(found)[:2],
                        max(job.date for job in found).date().isoformat(),
                    ),
                    _names(found),
                )
            )
    return Section(
        "modes", "Who still runs what", "", ("runs with", "jobs", "card hours", "job hours", "last"), lines
    )


def _months(jobs: Sequence[Job]) -> Section:
    lines = []
    for month, found in sorted(
        _grouped((job for job in jobs if job.runs), lambda job: f"{job.date:%Y-%m}").items(), reverse=True
    ):
        runs = [run for job in found for run in job.runs]
        releases = _grouped(
            (run for run in runs if run["release"]), lambda run: ".".join(str(run["release"]).split(".")[:2])
        )
        common = ", ".join(
            f"{release} ({len(used)})"
            for release, used in sorted(releases.items(), key=lambda pair: -len(pair[1]))[:3]
        )
        starts = [run["startup_s"] for run in runs if run["startup_s"] and run["clock"] == "ok"]
        eager = sum(run["eager"] is True for run in runs)
        failed = sum(job.root is not None for job in found)
        lines.append(
            Line(
                (month, len(found), failed, common, eager, median(starts) if starts else None), _names(found)
            )
        )
    return Section(
        "months",
        "Releases and settings by month",
        "",
        ("month", "jobs", "failed", "most used releases (runs)", "eager runs", "median start-up, s"),
        lines[:_MOST_LINES],
    )


def _head_room(jobs: Sequence[Job]) -> Section:
    known = [job for job in jobs if any(run["kv_max"] is not None and run["busy"] for run in job.runs)]

    def band(job: Job) -> str:
        highest = max(run["kv_max"] for run in job.runs if run["kv_max"] is not None and run["busy"])
        return next(words for least, words in _HEAD_ROOM if highest >= least)

    groups = _grouped(known, band)
    lines = [
        Line((words, len(groups[words]), *hours_of(groups[words])[:2]), _names(groups[words]))
        for _, words in _HEAD_ROOM
        if words in groups
    ]
    return Section(
        "headroom",
        "Head-room of the KV cache",
        f"Highest use while busy; {len(jobs) - len(known):,} jobs print no such figure.",
        ("highest use", "jobs", "card hours", "job hours"),
        lines,
    )


def _secrets(jobs: Sequence[Job]) -> Section:
    found = [
        (job, sum(run["secrets"] for run in job.runs))
        for job in jobs
        if any(run["secrets"] for run in job.runs)
    ]
    lines = [
        Line(
            (job.key, count, ", ".join([place for run in job.runs for place in run["secret_places"]][:3])),
            (job.key,),
        )
        for job, count in sorted(found, key=lambda pair: -pair[1])
    ]
    return Section(
        "secrets",
        "Credentials in logs",
        f"{sum(count for _, count in found):,} lines in {len(found):,} jobs; the store holds places, no text.",
        ("job", "lines", "first places"),
        lines[:_MOST_LINES],
    )


def _not_understood(store: Store, jobs: Sequence[Job]) -> Section:
    owner = {log["log"]: job.key for job in jobs for log in job.logs}
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in store.table(
        "messages", ["run", "pattern", "known", "level", "call_site", "count", "file", "line"]
    ).to_pylist():
        if not row["known"] and row["log"] in owner:
            groups[row["pattern"]].append(row)
    lines = [
        Line(
            (
                name,
                rows[0]["level"],
                rows[0]["call_site"],
                len({owner[row["log"]] for row in rows}),
                sum(row["count"] for row in rows),
                f"{rows[0]['file']}:{rows[0]['line']}",
            ),
            tuple(dict.fromkeys(owner[row["log"]] for row in rows)),
        )
        for name, rows in groups.items()
    ]
    return Section(
        "unknown",
        "Not understood",
        "Warnings and errors that no pattern knows, by a hash of their template; the store keeps the place, not the text.",
        ("message", "level", "printed by", "jobs", "lines", "first place"),
        sorted(lines, key=lambda line: -_number(line.cells[3]))[:_MOST_LINES],
    )


def _effects(effects: Sequence[MeasuredEffect]) -> Section:
    lines = [
        Line(
            (
                f"{one.setting}: {one.before} to {one.after}",
                one.metric,
                one.low,
                one.middle,
                one.high,
                one.pairs,
                one.jobs,
            ),
            one.members,
        )
        for one in effects[:_MOST_LINES]
    ]
    return Section(
        "effects",
        "Effects measured in this fleet",
        "Ratio after / before between neighbouring runs of one job that differ in this setting alone; throughput at equal load.",
        ("change", "figure", "low", "median", "high", "pairs", "job series"),
        lines,
    )


def _statuses(jobs: Sequence[Job]) -> Section:
    pairs = [(log, job) for job in jobs for log in job.logs]
    lines = []
    for status, meaning in STATUSES.items():
        found = [job for log, job in pairs if log["status"] == status]
        if found:
            notes = _grouped(
                (log for log, _ in pairs if log["status"] == status and log["note"]),
                lambda log: str(log["note"]),
            )
            most = ", ".join(
                f"{note} ({len(logs)})"
                for note, logs in sorted(notes.items(), key=lambda pair: -len(pair[1]))[:3]
            )
            lines.append(Line((status, len(found), meaning, most), _names(found)))
    return Section(
        "statuses", "How the logs were read", "", ("status", "logs", "meaning", "most often"), lines
    )


def _clocks(jobs: Sequence[Job]) -> Section:
    groups = _grouped(jobs, lambda job: job.hours_from)
    lines = [
        Line((source, len(found), *hours_of(found)[:2]), _names(found)) for source, found in groups.items()
    ]
    return Section(
        "clocks",
        "Where the hours are from",
        "Hours of clocks that can't be trusted are never summed.",
        ("hours from", "jobs", "card hours", "job hours"),
        sorted(lines, key=lambda line: -_number(line.cells[1])),
    )


def _grouped(items: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    groups: dict[K, list[T]] = defaultdict(list)
    for item in items:
        groups[key(item)].append(item)
    return groups


def _names(jobs: Iterable[Job]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(job.key for job in jobs))


def _by(lines: Iterable[Line], *columns: int) -> list[Line]:
    return sorted(lines, key=lambda line: tuple(-_number(line.cells[column]) for column in columns))[
        :_MOST_LINES
    ]


def _number(cell: object) -> float:
    return float(cell) if isinstance(cell, int | float) else 0.0


def _last(job: Job) -> Row:
    return job.runs[-1]
