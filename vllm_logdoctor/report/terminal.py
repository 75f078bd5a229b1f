"""The view on a terminal: the first screen, then start-up, curves and findings; log text is never rich markup."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from vllm_logdoctor.catalogue.topics import Severity
from vllm_logdoctor.report.clock import duration
from vllm_logdoctor.report.escape import visible
from vllm_logdoctor.report.excerpt import excerpt
from vllm_logdoctor.report.figures import count, share
from vllm_logdoctor.report.first_screen import FirstScreen, Level, first_screen, level_of, state
from vllm_logdoctor.report.key_figures import start_of
from vllm_logdoctor.report.model import Analysis
from vllm_logdoctor.report.naming import phase_words, run_title
from vllm_logdoctor.report.page import Page
from vllm_logdoctor.report.reader import plain_words
from vllm_logdoctor.report.sections.serving import drawn_curves
from vllm_logdoctor.rules.model import Finding

COLOURS: dict[Severity, str] = {
    "critical": "bold white on red",
    "high": "bold red",
    "medium": "yellow",
    "low": "cyan",
    "info": "dim",
}
LEVELS: dict[Level, str] = {
    "healthy": "bold green",
    "limited": "bold yellow",
    "failed": "bold white on red",
    "cut": "bold cyan",
}
_BAR = 24
_CURVE = 48
_PHASES = 5
_FINDINGS = 4
_RUNS = 12


def print_analysis(analysis: Analysis, console: Console | None = None) -> None:
    """Print the view of an analysis.

    Args:
        analysis: what to show.
        console: where; by default standard output, which honours NO_COLOR, FORCE_COLOR and COLUMNS.
    """
    console = console or Console(highlight=False, markup=False, emoji=False)
    pages = [
        Page(analysis, diagnosis, earlier=analysis.runs[:position])
        for position, diagnosis in enumerate(analysis.runs)
    ]
    shown = pages
    if len(pages) > 1:
        console.print(_overview(pages), markup=False, highlight=False)
        shown = [next((page for page in pages if level_of(page) == "failed"), pages[-1])]
    for page in shown:
        seen = (
            view(page, console.width)
            if len(pages) == 1
            else screen_view(page, first_screen(page), console.width)
        )
        console.print(seen, markup=False, highlight=False)
    console.print(_footer(analysis), markup=False, highlight=False)


def view(page: Page, width: int = 100) -> RenderableType:
    """Return one run's view."""
    screen = first_screen(page)
    parts: list[RenderableType] = [screen_view(page, screen, width)]
    if screen.level != "failed":
        parts += [*_startup(page), *_curves(page, width)]
    return Group(*parts, *_findings(page, screen))


def screen_view(page: Page, screen: FirstScreen, width: int) -> RenderableType:
    """Return the first screen alone."""
    return Group(*_screen(page, screen, width))


def _overview(pages: list[Page]) -> RenderableType:
    """Return one line per run: its number, its state, what ran."""
    table = Table(box=None, padding=(0, 1), show_header=False, pad_edge=False)
    table.add_column()
    table.add_column(overflow="fold", ratio=2)
    table.add_column(overflow="ellipsis", no_wrap=True, ratio=1, style="dim")
    for page in pages[:_RUNS]:
        table.add_row(
            Text(str(page.run.number)),
            Text(plain_words(state(page)), style=LEVELS[level_of(page)]),
            Text(plain_words(run_title(page.run))),
        )
    left = f"; the first {_RUNS}" if len(pages) > _RUNS else ""
    return Group(Text(f"{len(pages)} runs{left}", style="bold"), table, Text(""))


def _screen(page: Page, screen: FirstScreen, width: int) -> Iterator[RenderableType]:
    number = f"Run {page.run.number}: " if len(page.analysis.runs) > 1 else ""
    yield Text(f" {number}{plain_words(screen.state)} ", style=LEVELS[screen.level])
    yield Text(plain_words(screen.ran), style="dim")
    yield Text("")
    if screen.quote:
        yield Text(plain_words(screen.quote), style="red")
    if screen.verdict:
        yield Text(plain_words(screen.verdict), style="bold")
    if screen.figures:
        yield Text("")
        yield _figures(screen, width)
    yield Text("")
    for position, action in enumerate(screen.actions, start=1):
        grid = Table.grid(padding=(0, 1))
        grid.add_row(Text(str(position), style="green"), Text(plain_words(action)))
        yield grid
    if screen.note:
        yield Text(plain_words(screen.note), style="dim")
    if screen.actions or screen.note:
        yield Text("")


def _figures(screen: FirstScreen, width: int) -> Table:
    """Return the figures, two beside each other where there is room."""
    beside = 2 if width >= 110 else 1
    table = Table.grid(padding=(0, 3, 0, 1))
    cells = [
        cell
        for name, value in screen.figures
        for cell in (Text(plain_words(name), style="dim"), Text(plain_words(value)))
    ]
    for at in range(0, len(cells), 2 * beside):
        table.add_row(*cells[at : at + 2 * beside])
    return table


def _findings(page: Page, screen: FirstScreen) -> Iterator[RenderableType]:
    """Yield the findings that the first screen does not show, one line each with its first proof."""
    shown = page.failures[:1] if screen.level == "failed" else page.advice[: len(screen.actions)]
    others = [one for one in (*page.failures, *page.advice) if one not in shown and one.severity != "info"]
    for finding in others[:_FINDINGS]:
        yield _finding(page, finding)
    if len(others) > _FINDINGS:
        yield Text(f"{count(len(others) - _FINDINGS, 'more finding')} in the report", style="dim")
    if others:
        yield Text("")


def _finding(page: Page, finding: Finding) -> RenderableType:
    head = Text(no_wrap=True, overflow="ellipsis")
    head.append(f" {finding.severity} ", style=COLOURS[finding.severity])
    head.append(f" {_shown(finding.title)}", style="bold")
    parts: list[RenderableType] = [head]
    knobs = [change.knob for change in finding.changes]
    for one in finding.evidence[:1]:
        place = plain_words(page.cite([one]).strip("[]"))
        said = excerpt(_shown(one.text), knobs, 90)
        parts.append(Text.assemble("   ", (place, "dim"), " ", said, overflow="ellipsis", no_wrap=True))
    return Group(*parts)


def _shown(text: str) -> str:
    return " ".join(visible(text).split())


def _startup(page: Page) -> Iterator[RenderableType]:
    """Yield the longest phases of a start, in their order."""
    total = start_of(page.run)
    phases = [one for one in page.run.phases if one.parent == "startup" and one.seconds]
    if not total or not phases:
        return
    longest = sorted(phases, key=lambda one: -(one.seconds or 0.0))[:_PHASES]
    table = Table(box=None, padding=(0, 1), show_header=False)
    for phase in phases:
        if phase in longest:
            seconds = phase.seconds or 0.0
            table.add_row(
                Text(_shown(phase_words(phase.name))),
                Text(duration(seconds), justify="right"),
                Text(share(seconds, total), justify="right"),
                Text("█" * round(_BAR * min(1.0, seconds / total)), style="blue"),
            )
    yield Text(f"Start-up: {duration(total)}", style="bold")
    yield Padding(table, (0, 0, 1, 0))


def _curves(page: Page, width: int) -> Iterator[RenderableType]:
    table = Table(box=None, padding=(0, 1), show_header=False)
    for name, curve, low, high in drawn_curves(page, max(10, min(_CURVE, width - 48))):
        table.add_row(Text(name), Text(curve, style="magenta", no_wrap=True), Text(f"{low} to {high}"))
    if table.row_count:
        yield Text(f"Load: {count(page.run.sample_count, 'statistics line')}", style="bold")
        yield Padding(table, (0, 0, 1, 0))


def _footer(analysis: Analysis) -> RenderableType:
    coverage = analysis.coverage
    known = (
        f"; {share(coverage.recognised, coverage.vllm_lines)} of vLLM's recognized"
        if coverage.vllm_lines
        else ""
    )
    unknown = f", {count(len(coverage.unknown), 'unknown warning')}" if coverage.unknown else ""
    notes = f" {' '.join(coverage.notes)}." if coverage.notes else ""
    return Text(
        f"{count(coverage.lines, 'line')} read{known}{unknown}.{_shown(notes)} Full report: logdoctor analyze LOG -o report.md (or .html)",
        style="dim",
    )
