"""The view on a terminal: verdict, findings, timeline, curves; log text is never rich markup."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from vllm_logdoctor.catalogue.topics import Severity
from vllm_logdoctor.report.clock import duration, time_of_day
from vllm_logdoctor.report.effects import change_words, effect_range
from vllm_logdoctor.report.escape import visible
from vllm_logdoctor.report.excerpt import excerpt
from vllm_logdoctor.report.figures import count, number, share
from vllm_logdoctor.report.model import Analysis
from vllm_logdoctor.report.naming import PHASES, run_title
from vllm_logdoctor.report.page import Page
from vllm_logdoctor.report.sections.serving import CURVES
from vllm_logdoctor.report.sections.timeline import startup_seconds
from vllm_logdoctor.report.sections.verdict import verdict
from vllm_logdoctor.report.series import points_of
from vllm_logdoctor.report.sparkline import sparkline
from vllm_logdoctor.report.text import plain_text
from vllm_logdoctor.rules.model import Finding

COLOURS: dict[Severity, str] = {
    "critical": "bold white on red",
    "high": "bold red",
    "medium": "yellow",
    "low": "cyan",
    "info": "dim",
}
_BAR = 24
_CURVE = 48
_EVIDENCE = 3


def print_analysis(analysis: Analysis, console: Console | None = None) -> None:
    """Print the view of an analysis.

    Args:
        analysis: what to show.
        console: where; by default standard output, which honours NO_COLOR, FORCE_COLOR and COLUMNS.
    """
    console = console or Console(highlight=False, markup=False, emoji=False)
    for diagnosis in analysis.runs:
        console.print(view(Page(analysis, diagnosis), console.width), markup=False, highlight=False)
    console.print(_footer(analysis), markup=False, highlight=False)


def view(page: Page, width: int = 100) -> RenderableType:
    """Return one run's view."""
    parts: list[RenderableType] = [Rule(Text(_words(run_title(page.run)), style="bold"), align="left")]
    parts += [*_verdict(page), *_findings(page), *_startup(page), *_curves(page, width)]
    return Group(*parts)


def _words(markdown: str) -> str:
    return plain_text(markdown, 10_000).strip()


def _verdict(page: Page) -> Iterator[RenderableType]:
    lines = [line for line in verdict(page) if line and not line.startswith("|")]
    for position, line in enumerate(lines):
        yield Text(_words(line), style="bold" if position == 0 else "")
    yield Text("")


def _findings(page: Page) -> Iterator[RenderableType]:
    for finding in (*page.failures, *page.advice):
        yield _finding(page, finding)


def _finding(page: Page, finding: Finding) -> RenderableType:
    head = Text()
    head.append(f" {finding.severity} ", style=COLOURS[finding.severity])
    role = f" ({finding.role})" if finding.role else ""
    head.append(f" {_shown(finding.title)}{role}", style="bold")
    parts: list[RenderableType] = [head]
    knobs = [change.knob for change in finding.changes]
    for one in finding.evidence[:_EVIDENCE]:
        place = page.cite([one]).strip("[]")
        parts.append(
            Text.assemble(
                "  ",
                (_words(place), "dim"),
                " ",
                excerpt(_shown(one.text), knobs, 300),
                overflow="ellipsis",
                no_wrap=True,
            )
        )
    for change in finding.changes:
        parts.append(Text.assemble("  → ", (_words(change_words(change)), "green")))
    if finding.effect is not None:
        parts.append(
            Text(
                f"    {_words(effect_range(finding.effect))} ({finding.effect.origin}), "
                f"confidence {finding.confidence}"
            )
        )
    return Padding(Group(*parts), (0, 0, 1, 0))


def _shown(text: str) -> str:
    return " ".join(visible(text).split())


def _startup(page: Page) -> Iterator[RenderableType]:
    apart = ("startup", "serving", "idle", "shutdown")
    shown = [phase for phase in page.run.phases if phase.seconds is not None and phase.name not in apart]
    if not shown:
        return
    total = startup_seconds(page.run.phases)
    longest = total or max(phase.seconds or 0.0 for phase in shown)
    table = Table(box=None, padding=(0, 1), show_header=False)
    for phase in shown:
        name = PHASES.get(phase.name, phase.name.replace("-", " "))
        seconds = phase.seconds or 0.0
        bar = "█" * round(_BAR * min(1.0, seconds / longest)) if longest else ""
        part = share(seconds, total) if total else ""
        table.add_row(
            Text(time_of_day(phase.start), style="dim"),
            Text(("  " if phase.parent not in ("", "startup") else "") + _shown(name)),
            Text(_shown(phase.process), style="dim"),
            Text(duration(phase.seconds), justify="right"),
            Text(part, justify="right"),
            Text(bar, style="blue"),
        )
    yield Text(f"Start-up{': ' + duration(total) if total else ''}", style="bold")
    yield table
    yield Text("")


def _curves(page: Page, width: int) -> Iterator[RenderableType]:
    points = points_of(page.run)
    table = Table(box=None, padding=(0, 1), show_header=False)
    room = max(10, min(_CURVE, width - 50))
    for name, pick in CURVES:
        values = [None if (value := pick(point)) is None else float(value) for point in points]
        known = [value for value in values if value is not None]
        if len(known) > 2 and max(known) > 0:
            table.add_row(
                Text(name),
                Text(sparkline(values, room), style="magenta"),
                Text(f"highest {number(max(known))}"),
            )
    if table.row_count:
        yield Text(f"Serving: {count(page.run.sample_count, 'statistics line')}", style="bold")
        yield table
        yield Text("")


def _footer(analysis: Analysis) -> RenderableType:
    coverage = analysis.coverage
    told = f"{coverage.recognised:,} of {coverage.vllm_lines:,} lines of vLLM understood"
    if not coverage.vllm_lines:
        told = f"{count(coverage.lines, 'line')} read"
    unknown = f", {count(len(coverage.unknown), 'kind')} of warnings not known" if coverage.unknown else ""
    return Text(
        f"{told}{unknown}. The whole report: logdoctor analyze … -o report.md (or .html)", style="dim"
    )
