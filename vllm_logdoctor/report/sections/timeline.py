"""The timeline: start-up phases with the unexplained rest, serving periods, the end, and what it cost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from vllm_logdoctor.report.clock import clock, duration, time_of_day
from vllm_logdoctor.report.escape import inline, prose
from vllm_logdoctor.report.figures import count, number, share, table
from vllm_logdoctor.report.naming import OUTCOMES, PHASES, accelerator_unit, accelerators
from vllm_logdoctor.report.page import Page
from vllm_logdoctor.run.model import Evidence, Phase

PERIODS = 12
_BEGINNINGS = ("imports", "engine-start", "engine-init", "api-server")


def timeline(page: Page) -> list[str]:
    """Return the section as Markdown lines; nothing where no line has a time and no phase is known."""
    lines = _bounds(page)
    if page.run.phases:
        lines += [*_phases(page), ""]
    lines += _periods(page)
    return lines


def startup_seconds(phases: list[Phase]) -> float | None:
    """Return the length of the whole start-up, or None where the log does not show one from its beginning."""
    if not any(phase.name in _BEGINNINGS for phase in phases):
        return None
    return next((phase.seconds for phase in phases if phase.name == "startup"), None)


def _bounds(page: Page) -> list[str]:
    run = page.run
    first, last = clock(run.started), clock(run.ended)
    if first is None or last is None:
        return ["No line of this run has a time.", ""] if run.phases else []
    year = "" if run.year_known else " The log prints no year and no time zone."
    return [f"From {first} to {last}, {OUTCOMES[run.outcome]}.{year}{_open_end(page)}", ""]


def _open_end(page: Page) -> str:
    """Say what a log that ends while requests run may mean: it holds no word of a process that was killed."""
    run = page.run
    last = run.samples[-1] if run.samples else None
    if run.outcome != "running" or last is None or not last.running:
        return ""
    return (
        f" The last statistics line shows {count(last.running, 'running request')}"
        f"{page.cited([Evidence(run.last_file, last.line, last.text)])}: the log was copied at work, or the process"
        " was killed without a word."
    )


def _phases(page: Page) -> list[str]:
    phases = page.run.phases
    total = startup_seconds(phases)
    shown = [phase for phase in phases if phase.name != "startup" and (total or phase.name != "unexplained")]
    if not shown:
        return []
    several = len({phase.process for phase in shown}) > 1
    rows = [_row(page, phase, total, several, part) for phase, part in _nested(shown)]
    header = ["phase", *(["process"] if several else []), "from", "time", "share of start-up", "evidence"]
    return [*table(header, rows), "", *_whole(page, total)]


def _nested(phases: Sequence[Phase]) -> Iterator[tuple[Phase, bool]]:
    """Yield the phases in order, each followed by its parts, and whether it is a part."""
    names = {phase.name for phase in phases}
    told: set[int] = set()
    for phase in phases:
        if phase.parent in names:
            continue
        yield phase, False
        for part in phases:
            if part.parent == phase.name and id(part) not in told and _belongs(part, phase, phases):
                told.add(id(part))
                yield part, True


def _belongs(part: Phase, whole: Phase, phases: Sequence[Phase]) -> bool:
    """Say whether a part is this whole's: of several with one name its own process', else the one it lies in."""
    wholes = [phase for phase in phases if phase.name == whole.name]
    same = [phase for phase in wholes if phase.process == part.process]
    if len(wholes) == 1 or not part.start:
        return whole is wholes[0]
    chosen = same or wholes
    begun = [phase for phase in chosen if phase.start is not None and phase.start <= part.start]
    return whole is (begun[-1] if begun else chosen[0])


def _whole(page: Page, total: float | None) -> list[str]:
    if not total:
        return []
    ranks = accelerators(page.run)
    cost = ""
    if ranks and page.run.platform not in (None, "cpu"):
        hours = number(ranks * total / 3600)
        unit = accelerator_unit(page.run)
        cost = f"; {count(ranks, unit)} × {duration(total)} = {hours} {unit}-hours"
    told = "took" if page.run.startup_complete else "broke off after"
    return [f"Start-up {told} {duration(total)}{cost}."]


def _row(page: Page, phase: Phase, total: float | None, several: bool, part: bool) -> list[str]:
    name = PHASES.get(phase.name, phase.name.replace("-", " "))
    inside = "· " if part else ""
    known = total is not None and phase.seconds is not None and phase.seconds <= total and _in_startup(phase)
    told = share(phase.seconds or 0.0, total or 0.0) if known else ""
    cells = [
        inside + prose(name),
        *([inline(phase.process, 60)] if several else []),
        time_of_day(phase.start),
    ]
    return [*cells, duration(phase.seconds), told, page.cite(phase.evidence, 2)]


def _in_startup(phase: Phase) -> bool:
    return phase.name not in ("serving", "idle", "shutdown")


def _periods(page: Page) -> list[str]:
    periods = page.diagnosis.bottleneck.periods
    if len(periods) < 2:
        return []
    shown = sorted(periods, key=lambda period: -period.samples)[:PERIODS]
    rows = [
        [
            clock(period.start) or "",
            clock(period.end) or "",
            period.name,
            f"{period.samples:,}",
            prose(period.reason) + page.cited(period.evidence, 2),
        ]
        for period in periods
        if period in shown
    ]
    lines = ["Serving periods:", "", *table(["from", "to", "limit", "samples", "why"], rows)]
    left = len(periods) - len(rows)
    return [*lines, "", f"{count(left, 'shorter period')} left out."] if left else lines
