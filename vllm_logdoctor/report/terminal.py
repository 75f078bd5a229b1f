"""The view on a terminal: the first screen, then start-up, curves and findings; log text is never rich markup."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from vllm_logdoctor.catalogue.topics import Severity
from vllm_logdoctor.report.escape import visible
from vllm_logdoctor.report.excerpt import excerpt
from vllm_logdoctor.report.figures import share
from vllm_logdoctor.report.first_screen import FirstScreen, first_screen
from vllm_logdoctor.report.key_figures import start_of
from vllm_logdoctor.report.model import Analysis
from vllm_logdoctor.report.naming import phase_words, run_title
from vllm_logdoctor.report.page import Page
from vllm_logdoctor.report.reader import plain_words
from vllm_logdoctor.report.sections.serving import drawn_curves
from vllm_logdoctor.report.state import Level, state, state_level
from vllm_logdoctor.report.terminal_page import standard_output
from vllm_logdoctor.rules.context import plural
from vllm_logdoctor.rules.model import Finding
from vllm_logdoctor.run.clock import duration

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
_FEWEST_RUNS = 3
_TALLEST = 40
"""Lines of the whole view, whatever the width."""
_END_OF_FINDINGS = 2


def print_analysis(analysis: Analysis, console: Console | None = None) -> None:
    """Print the view of an analysis.

    Args:
        analysis: what to show.
        console: where; by default standard output, which honours NO_COLOR, FORCE_COLOR and COLUMNS.
    """
    console = console or standard_output()
    pages = [
        Page(analysis, diagnosis, earlier=analysis.runs[:position])
        for position, diagnosis in enumerate(analysis.runs)
    ]
    footer = _footer(analysis)
    room = _TALLEST - _height(console, [footer])
    parts: list[RenderableType] = []
    if len(pages) == 1:
        parts = _view(pages[0], console, room)
    elif pages:
        chosen = next((page for page in pages if state_level(page) == "failed"), pages[-1])
        screen = screen_view(chosen, first_screen(chosen), console.width)
        parts = [_overview(pages, console, room - _height(console, [screen])), screen]
    for part in (*parts, footer):
        console.print(part, markup=False, highlight=False)


def _height(console: Console, parts: list[RenderableType]) -> int:
    """Return how many lines of the terminal some parts take."""
    return sum(len(console.render_lines(part, pad=False)) for part in parts)


def _view(page: Page, console: Console, room: int) -> list[RenderableType]:
    """Return one run's view in at most `room` lines: the first screen, then what else there is room for."""
    screen = first_screen(page)
    parts = [screen_view(page, screen, console.width)]
    if screen.level != "failed":
        for block in (list(_startup(page)), list(_curves(page, console.width))):
            if _height(console, [*parts, *block]) <= room - _END_OF_FINDINGS:
                parts += block
    return [*parts, *_findings(page, screen, (room - _height(console, parts) - _END_OF_FINDINGS) // 2)]


def screen_view(page: Page, screen: FirstScreen, width: int) -> RenderableType:
    """Return the first screen alone."""
    return Group(*_screen(page, screen, width))


def _overview(pages: list[Page], console: Console, room: int) -> RenderableType:
    """Return one row per run: its number, its state, what ran; as many as fit `room` lines."""
    states = [Text(plain_words(state(page)), style=LEVELS[state_level(page)]) for page in pages[:_RUNS]]
    table = Table(box=None, padding=(0, 1), show_header=False, pad_edge=False)
    number, wide = len(str(len(pages))), min(max(map(len, states)), console.width * 3 // 5)
    table.add_column(width=number)
    table.add_column(overflow="fold", width=wide)
    table.add_column(overflow="ellipsis", no_wrap=True, style="dim", width=console.width - number - wide - 4)
    for page, words in zip(pages, states, strict=False):
        row = (Text(str(page.run.number)), words, Text(plain_words(run_title(page.run))))
        if table.row_count >= _FEWEST_RUNS and _height(console, [table]) + 4 > room:
            break
        table.add_row(*row)
    left = f"; the first {table.row_count}" if len(pages) > table.row_count else ""
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


def _findings(page: Page, screen: FirstScreen, most: int) -> Iterator[RenderableType]:
    """Yield the findings that the first screen does not show, two lines each; more than `most` are counted."""
    shown = page.failures[:1] if screen.level == "failed" else page.advice[: len(screen.actions)]
    others = [one for one in (*page.failures, *page.advice) if one not in shown and one.severity != "info"]
    fitting = max(0, min(_FINDINGS, most))
    for finding in others[:fitting]:
        yield _finding(page, finding)
    if len(others) > fitting:
        yield Text(f"{plural(len(others) - fitting, 'more finding')} in the report", style="dim")
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
    # Of stamps in whole seconds the sum of the phases may exceed the length of the start.
    whole = max(total, sum(phase.seconds or 0.0 for phase in phases))
    table = Table(box=None, padding=(0, 1), show_header=False)
    for phase in phases:
        if phase in longest:
            seconds = phase.seconds or 0.0
            table.add_row(
                Text(_shown(phase_words(phase.name))),
                Text(duration(seconds), justify="right"),
                Text(share(seconds, whole), justify="right"),
                Text("█" * round(_BAR * min(1.0, seconds / whole)), style="blue"),
            )
    yield Text(f"Start-up: {duration(total)}", style="bold")
    yield Padding(table, (0, 0, 1, 0))


def _curves(page: Page, width: int) -> Iterator[RenderableType]:
    table = Table(box=None, padding=(0, 1), show_header=False)
    for name, curve, heights in drawn_curves(page, max(10, min(_CURVE, width - 56))):
        table.add_row(Text(name), Text(curve, style="magenta", no_wrap=True), Text(heights))
    if table.row_count:
        yield Text(f"Load: {plural(page.run.sample_count, 'statistics line')}", style="bold")
        yield Padding(table, (0, 0, 1, 0))


def _footer(analysis: Analysis) -> RenderableType:
    coverage = analysis.coverage
    unknown = f", {plural(len(coverage.unknown), 'unknown warning')}" if coverage.unknown else ""
    notes = f" {_shown(' '.join(coverage.notes))}." if coverage.notes else ""
    return Text(
        f"{plural(coverage.lines, 'line')} read{unknown}.{notes} Full report: logdoctor analyze LOG -o report.md (or .html)",
        style="dim",
    )
