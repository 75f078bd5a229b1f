"""What the page shows: sections of rows, each number with its jobs, and a report of each job."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from statistics import median
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from vllm_logdoctor.fleet.changes import planned_changes
from vllm_logdoctor.fleet.effects import MeasuredEffect, effects_of
from vllm_logdoctor.fleet.facts import JobSummary, Row, jobs_of
from vllm_logdoctor.fleet.jobreport import JobReport, reports_of
from vllm_logdoctor.fleet.peers import METRICS, outliers_of, slow_starts
from vllm_logdoctor.fleet.schema import STATUSES
from vllm_logdoctor.fleet.sections import (
    Section,
    SectionRow,
    grouped,
    hours_line,
    hours_of,
    hours_words,
    job_names,
    share,
    sorted_by,
)
from vllm_logdoctor.fleet.store import Store
from vllm_logdoctor.knowledge.versions import parse_version
from vllm_logdoctor.rules.context import plural

SCHEMA = "logdoctor-fleet/1"
_MOST_LINES = 30
_PERIOD = timedelta(days=14)
_HEAD_ROOM = ((90.0, "90 % and more"), (50.0, "50 to 90 %"), (10.0, "10 to 50 %"), (0.0, "below 10 %"))


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
        planned_changes(store, jobs, effects),
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
    sections = [replace(one, lines=one.lines[:_MOST_LINES], total=len(one.lines)) for one in sections]
    reports = reports_of(store, jobs, effects)
    return Picture(_headline(jobs), _hours_line(jobs), sections, reports, _titles(sections, reports.values()))


def _headline(jobs: Sequence[JobSummary]) -> str:
    logs = [log for job in jobs for log in job.logs]
    counts = Counter(log["status"] for log in logs)
    runs = sum(len(job.runs) for job in jobs)
    others = [f"{counts[name]:,} {name}" for name in STATUSES if name != "ok" and name in counts]
    return ", ".join([f"{len(logs):,} logs", f"{len(jobs):,} jobs", f"{runs:,} runs", *others])


def _hours_line(jobs: Sequence[JobSummary]) -> str:
    known = [job for job in jobs if job.hours is not None]
    exact = sum(job.hours_from == "accounting" for job in known)
    cards = [job.card_hours for job in known if job.card_hours is not None]
    left_out = len(jobs) - len(known)
    exactly = "all" if known and exact == len(known) else share(exact, len(known))
    bound = "" if known and exact == len(known) else ", the others from their logs (a lower bound)"
    return (
        f"{hours_words(sum(cards))} card hours and {hours_words(sum(job.hours or 0.0 for job in known))} job hours of {len(known):,} jobs: "
        f"{exactly} from accounting{bound}; {left_out:,} jobs without hours that can be "
        f"trusted, {len(known) - len(cards):,} without a known number of cards"
    )


def _broke(jobs: Sequence[JobSummary]) -> Section:
    groups = grouped((job for job in jobs if job.root), lambda job: str(job.root))
    lines = [hours_line(cause, found, hours_of(found)[2], _newest(found)) for cause, found in groups.items()]
    return Section(
        "broke",
        "What broke",
        "Root cause of the last run that failed in each job, by hours of these jobs.",
        ("cause", "jobs", "card hours", "job hours", "jobs without hours", "last"),
        sorted_by(lines, 2, 3, 1),
        first=("cause", "jobs", "card hours", "job hours", "last"),
    )


def _starts(jobs: Sequence[JobSummary]) -> Section:
    slow = [one for one in slow_starts(jobs) if one.hours > 0]
    total = sum(one.hours for one in slow)
    lines = [SectionRow((one.group, one.n, one.hours, one.quarter, one.median), one.jobs) for one in slow]
    return Section(
        "starts",
        "Start-up above the best quarter of peers",
        f"{hours_words(total)} card hours in all: time above what the quickest quarter of equal runs needed (a run without known cards counts once).",
        ("peers", "runs", "card hours above", "best quarter, s", "median, s"),
        lines,
        first=("peers", "runs", "card hours above", "best quarter, s"),
    )


def _outliers(store: Store, jobs: Sequence[JobSummary]) -> Section:
    result = outliers_of(store, jobs)
    groups = grouped(result.found, lambda one: (one.metric, one.level, one.group, one.ratio > 1))
    lines = []
    for (metric, level, group, _), found in groups.items():
        ratios = sorted(one.ratio for one in found)
        rare = Counter(name for one in found for name in one.differs_in)
        cells = (
            f"{METRICS[metric]}{f' at {level}' if level else ''}", len({one.job for one in found}), ratios[0], ratios[-1], found[0].median,
            found[0].n, found[0].spread, group, ", ".join(name for name, _ in rare.most_common(3)),
        )  # fmt: skip
        lines.append(SectionRow(cells, tuple(dict.fromkeys(one.job for one in found))))
    return Section(
        "outliers",
        "Outliers among peers",
        f"{len(result.found):,} of {result.compared:,} compared figures in {plural(result.groups, 'group')} of at least 8 peers; about "
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
        first=("figure", "jobs", "lowest ratio", "highest", "n", "peers"),
    )


def _periods(jobs: Sequence[JobSummary]) -> Section:
    end = max((job.date for job in jobs), default=datetime.min)
    last = [job for job in jobs if job.date > end - _PERIOD]
    before = [job for job in jobs if end - 2 * _PERIOD < job.date <= end - _PERIOD]
    failed, failed_before = ([job for job in period if job.root] for period in (last, before))
    shares = f"{share(len(failed), len(last))} after {share(len(failed_before), len(before))}"
    lines = [
        SectionRow(("jobs", len(last), len(before), ""), job_names(last)),
        SectionRow(("jobs that failed", len(failed), len(failed_before), shares), job_names(failed)),
    ]
    causes, causes_before = (grouped(period, lambda job: str(job.root)) for period in (failed, failed_before))
    for cause in sorted({*causes, *causes_before}, key=lambda one: (-len(causes.get(one, ())), one)):
        now, then = causes.get(cause, []), causes_before.get(cause, [])
        words = "new" if not then else "gone" if not now else ""
        lines.append(SectionRow((cause, len(now), len(then), words), job_names(now or then)))
    return Section(
        "periods",
        "The last 14 days against the 14 before",
        f"Until {end:%Y-%m-%d}, the newest job. Dates from accounting, else from the log, else from the file's last change."
        if jobs
        else "",
        ("what", "last 14 days", "14 before", ""),
        lines,
    )


def _releases(jobs: Sequence[JobSummary]) -> Section:
    lines = []
    for release, found in grouped((job for job in jobs if job.server == "vllm"), _release_of).items():
        failed = sum(job.root is not None for job in found)
        lines.append(hours_line(release, found, failed, share(failed, len(found))))
    return Section(
        "releases",
        "Releases",
        "Source builds (0.1.devN and others between releases) are none. Failure shares compare only where the work is alike.",
        ("vLLM release", "jobs", "card hours", "job hours", "failed", "share"),
        sorted(lines, key=lambda line: _release_order(str(line.cells[0])), reverse=True),
    )


def _release_of(job: JobSummary) -> str:
    """Return the release of the last run of a job."""
    run = job.runs[-1]
    return str(run["release"] or ("source build" if run["version"] else "not known"))


def _release_order(release: str) -> tuple[bool, Any]:
    version = parse_version(release)
    return version is not None, version.sort_key if version is not None else release


def _modes(jobs: Sequence[JobSummary]) -> Section:
    tests: tuple[tuple[str, Callable[[Row], bool]], ...] = (
        ("engine V0", lambda run: run["engine"] == "V0"),
        ("eager mode (enforce_eager)", lambda run: run["eager"] is True),
        ("preemptions", lambda run: bool(run["preemptions"])),
        ("requests answered with 5xx", lambda run: bool(run["requests_5xx"])),
        ("never got ready", lambda run: not run["startup_complete"] and run["outcome"] != "running"),
    )
    groups = {words: [job for job in jobs if any(map(test, job.runs))] for words, test in tests}
    lines = [hours_line(words, found, _newest(found)) for words, found in groups.items() if found]
    return Section(
        "modes", "Who still runs what", "", ("runs with", "jobs", "card hours", "job hours", "last"), lines
    )


def _newest(jobs: Iterable[JobSummary]) -> str:
    return max(job.date for job in jobs).date().isoformat()


def _months(jobs: Sequence[JobSummary]) -> Section:
    lines = []
    months = grouped((job for job in jobs if job.runs), lambda job: f"{job.date:%Y-%m}")
    for month, found in sorted(months.items(), reverse=True):
        runs = [run for job in found for run in job.runs]
        releases = Counter(".".join(run["release"].split(".")[:2]) for run in runs if run["release"])
        starts = [run["startup_s"] for run in runs if run["startup_s"] and run["clock"] == "ok"]
        eager = sum(run["eager"] is True for run in runs)
        failed = sum(job.root is not None for job in found)
        start = median(starts) if starts else None
        cells = (month, len(found), failed, _most(releases), eager, start)
        lines.append(SectionRow(cells, job_names(found)))
    return Section(
        "months",
        "Releases and settings by month",
        "",
        ("month", "jobs", "failed", "most used releases (runs)", "eager runs", "median start-up, s"),
        lines,
    )


def _head_room(jobs: Sequence[JobSummary]) -> Section:
    known = [job for job in jobs if any(run["kv_max"] is not None and run["busy"] for run in job.runs)]

    def band(job: JobSummary) -> str:
        highest = max(run["kv_max"] for run in job.runs if run["kv_max"] is not None and run["busy"])
        return next(words for least, words in _HEAD_ROOM if highest >= least)

    groups = grouped(known, band)
    lines = [hours_line(words, groups[words]) for _, words in _HEAD_ROOM if words in groups]
    return Section(
        "headroom",
        "Head-room of the KV cache",
        f"Highest use while busy; {len(jobs) - len(known):,} jobs print no such figure.",
        ("highest use", "jobs", "card hours", "job hours"),
        lines,
    )


def _secrets(jobs: Sequence[JobSummary]) -> Section:
    found = [(job, count) for job in jobs if (count := sum(run["secrets"] or 0 for run in job.runs))]
    lines = []
    for job, count in found:
        places = [place for run in job.runs for place in run["secret_places"]]
        lines.append(SectionRow((job.key, count, ", ".join(places[:3])), (job.key,)))
    return Section(
        "secrets",
        "Credentials in logs",
        f"{plural(sum(count for _, count in found), 'line')} in {plural(len(found), 'job')}; the store holds places, no text.",
        ("job", "lines", "first places"),
        sorted_by(lines, 1),
    )


def _not_understood(store: Store, jobs: Sequence[JobSummary]) -> Section:
    owner = {log["log"]: job.key for job in jobs for log in job.logs}
    columns = ["run", "pattern", "known", "level", "call_site", "count", "file", "line"]
    rows = store.table("messages", columns).to_pylist()
    unknown = (row for row in rows if not row["known"] and row["log"] in owner)
    lines = []
    for name, found in grouped(unknown, lambda row: str(row["pattern"])).items():
        first, count = found[0], sum(row["count"] for row in found)
        of_jobs = tuple(dict.fromkeys(owner[row["log"]] for row in found))
        place = f"{first['file']}:{first['line']}"
        cells = (name, first["level"], first["call_site"], len(of_jobs), count, place)
        lines.append(SectionRow(cells, of_jobs))
    return Section(
        "unknown",
        "Not understood",
        "Warnings and errors that no pattern knows, by a hash of their template; the store keeps the place, not the text.",
        ("message", "level", "printed by", "jobs", "lines", "first place"),
        sorted_by(lines, 3),
    )


def _effects(effects: Sequence[MeasuredEffect]) -> Section:
    lines = []
    for one in effects:
        change = f"{one.setting}: {one.before} to {one.after}"
        cells = (change, one.metric, one.low, one.middle, one.high, one.pairs, one.jobs)
        lines.append(SectionRow(cells, one.members))
    return Section(
        "effects",
        "Effects measured in this fleet",
        "Ratio after / before between neighbouring runs of one job that differ in this setting alone; throughput at equal load.",
        ("change", "figure", "low", "median", "high", "pairs", "job series"),
        lines,
    )


def _statuses(jobs: Sequence[JobSummary]) -> Section:
    groups = grouped(((log, job) for job in jobs for log in job.logs), lambda pair: str(pair[0]["status"]))
    lines = []
    for status, meaning in STATUSES.items():
        if found := groups.get(status):
            notes = Counter(str(log["note"]) for log, _ in found if log["note"])
            cells = (status, len(found), meaning, _most(notes))
            lines.append(SectionRow(cells, job_names(job for _, job in found)))
    return Section(
        "statuses", "How the logs were read", "", ("status", "logs", "meaning", "most often"), lines
    )


def _most(counts: Counter[str]) -> str:
    return ", ".join(f"{name} ({count})" for name, count in counts.most_common(3))


def _clocks(jobs: Sequence[JobSummary]) -> Section:
    groups = grouped(jobs, lambda job: job.hours_from)
    lines = [hours_line(source, found) for source, found in groups.items()]
    return Section(
        "clocks",
        "Where the hours are from",
        "Hours of clocks that can't be trusted are never summed.",
        ("hours from", "jobs", "card hours", "job hours"),
        sorted_by(lines, 1),
    )


def _titles(sections: Iterable[Section], reports: Iterable[JobReport]) -> dict[str, str]:
    """Return the titles of the rules that a page names."""
    from vllm_logdoctor.catalogue.locate import builtin_root, page_files
    from vllm_logdoctor.catalogue.pages import read_pages

    named = {finding[0] for report in reports for run in report.runs for finding in run.findings}
    named |= {
        str(line.cells[0])
        for section in sections
        if section.id in ("broke", "changes", "periods")
        for line in section.lines
    }
    pages, _ = read_pages(page_files(builtin_root()))
    return {page.id: page.title for page in pages if page.id in named}
