"""The report as Markdown: the one text from which plain text and HTML are made."""

from __future__ import annotations

from collections.abc import Callable

from vllm_logdoctor.report.escape import inline
from vllm_logdoctor.report.figures import table
from vllm_logdoctor.report.first_screen import FirstScreen, first_screen
from vllm_logdoctor.report.model import Analysis
from vllm_logdoctor.report.naming import run_title
from vllm_logdoctor.report.page import Page, file_name
from vllm_logdoctor.report.sections.advice import changes, other_findings
from vllm_logdoctor.report.sections.beside import files_beside, pod_in_trouble
from vllm_logdoctor.report.sections.broke import beside_failure, broke, reported, verification_line
from vllm_logdoctor.report.sections.capacity import capacity
from vllm_logdoctor.report.sections.configuration import already_right, configuration_summary
from vllm_logdoctor.report.sections.coverage import missing, what_was_read
from vllm_logdoctor.report.sections.engine import engine_log
from vllm_logdoctor.report.sections.machine import machine
from vllm_logdoctor.report.sections.measure import measure
from vllm_logdoctor.report.sections.messages import warnings_in_log
from vllm_logdoctor.report.sections.observed import measured_beside
from vllm_logdoctor.report.sections.opinion import opinions
from vllm_logdoctor.report.sections.plan import launch_command, left_out
from vllm_logdoctor.report.sections.serving import serving
from vllm_logdoctor.report.sections.timeline import timeline
from vllm_logdoctor.report.state import state, state_level
from vllm_logdoctor.report.steps import REVERSED
from vllm_logdoctor.rules.context import plural
from vllm_logdoctor.run.model import Evidence

Section = Callable[[Page], list[str]]

_OF_A_FAILED_START: tuple[tuple[str, Section], ...] = (
    ("What broke", broke),
    ("Where the error surfaced", reported),
    ("More on the failure", beside_failure),
    ("To check after the fix", verification_line),
    ("Launch command with the changed settings", launch_command),
    ("Left out of the changes", left_out),
    ("Measured beside the log", measured_beside),
    ("Start-up", timeline),
    ("Configuration", configuration_summary),
    ("Model, hardware, software", machine),
    ("Other findings", other_findings),
    ("Warnings in the log", warnings_in_log),
    ("Missing from this log", missing),
)
_OF_A_REPEATED_FAILURE: tuple[tuple[str, Section], ...] = (
    ("Measured beside the log", measured_beside),
    ("Configuration", configuration_summary),
)
_OF_A_RUN: tuple[tuple[str, Section], ...] = (
    ("In the log", engine_log),
    ("What broke", broke),
    ("Where the error surfaced", reported),
    ("More on the failure", beside_failure),
    ("To check after the fix", verification_line),
    ("What to change", changes),
    ("Launch command with the changed settings", launch_command),
    ("Left out of the changes", left_out),
    ("Load", serving),
    ("Measured beside the log", measured_beside),
    ("Timeline", timeline),
    ("KV cache", capacity),
    ("Configuration", lambda page: [*configuration_summary(page), *already_right(page)]),
    ("Model, hardware, software", machine),
    ("Other findings", other_findings),
    ("Warnings in the log", warnings_in_log),
    ("How to measure the change", measure),
    ("Missing from this log", missing),
)


_NAMED = 3
_SHORT_LOG = 60
_ROOM = 40
"""A log of so many lines gets a report of at most twice its length and so many more."""
_DISPENSABLE = (
    "How to measure the change",
    "Model, hardware, software",
    "KV cache",
    "Warnings in the log",
    "Timeline",
    "Start-up",
    "Configuration",
    "Other findings",
    "Load",
)
"""What a report on a short log leaves out first."""


def render(analysis: Analysis, links: dict[str, Evidence] | None = None) -> str:
    """Return the report of an analysis as Markdown (CommonMark with tables).

    Args:
        analysis: what to report.
        links: for HTML, where citations are links to the lines and charts take the place of curves: gets each cited line by its anchor.
    """
    several = len(analysis.runs) > 1
    lines = _overview(analysis, links) if several else []
    for position, diagnosis in enumerate(analysis.runs):
        page = Page(analysis, diagnosis, 2 if several else 1, links, analysis.runs[:position])
        lines += _run(page, several)
    if not analysis.runs:
        lines = [*pod_in_trouble(analysis), "", *files_beside(analysis)]
    else:
        last = Page(analysis, analysis.runs[-1], 1, links)
        if beside := files_beside(analysis):
            lines += [last.heading("Files beside the log"), "", *beside, ""]
        lines += [last.heading("What was read"), "", *what_was_read(analysis, last), ""]
    lines += opinions(analysis.opinions)
    return "\n".join(_without_double_gaps(lines)).rstrip() + "\n"


def screen_lines(page: Page, screen: FirstScreen, several: bool) -> list[str]:
    """Return the first screen as Markdown."""
    number = f"Run {page.run.number}: " if several else ""
    lines = [page.heading(f"{number}{screen.state}", 0), "", screen.ran, ""]
    lines += [screen.quote, ""] if screen.quote else []
    lines += [f"**{screen.verdict}**", ""] if screen.verdict else []
    if screen.figures and page.linked:
        lines += [*table(["", ""], [list(figure) for figure in screen.figures]), ""]
    elif screen.figures:
        names, values = zip(*screen.figures, strict=True)
        lines += [*table(list(names), [list(values)]), ""]
    lines += [f"{position}. {action}" for position, action in enumerate(screen.actions, start=1)]
    return [*lines, "", *([screen.note, ""] if screen.note else [])]


def _run(page: Page, several: bool) -> list[str]:
    screen = screen_lines(page, first_screen(page), several)
    run = page.run
    no_load = page.root is not None and not run.samples and not run.progress
    if page.failed_before is not None and no_load:
        sections = _OF_A_REPEATED_FAILURE
    else:
        sections = _OF_A_FAILED_START if run.outcome == "crashed_at_startup" or no_load else _OF_A_RUN
    bodies = {title: body for title, section in sections if any(body := section(page))}
    read = page.analysis.coverage.lines
    room = 2 * read + _ROOM if read <= _SHORT_LOG else None
    for title in _DISPENSABLE:
        if room is not None and len(screen) + sum(len(body) + 3 for body in bodies.values()) > room:
            bodies.pop(title, None)
    return [
        *screen,
        *(line for title, body in bodies.items() for line in (page.heading(title), "", *body, "")),
    ]


def _overview(analysis: Analysis, links: dict[str, Evidence] | None) -> list[str]:
    pages = [
        Page(analysis, diagnosis, links=links, earlier=analysis.runs[:position])
        for position, diagnosis in enumerate(analysis.runs)
    ]
    sources = [source for source in analysis.sources if source.kind == "log"]
    names = (inline(file_name(analysis, source.file) or source.file, 200) for source in sources)
    files = ", ".join(names) if len(sources) <= _NAMED else plural(len(sources), "file")
    lines = [f"# {plural(len(analysis.runs), 'run')} of vLLM in {files}", ""]
    lines += [REVERSED, ""] if any(page.run.newest_first for page in pages) else []
    rows = [[_link(page), _place(page), run_title(page.run), state(page)] for page in pages]
    return [*lines, _worst(pages), "", *table(["run", "lines", "what ran", "state"], rows), ""]


def _link(page: Page) -> str:
    """Return the number of a run; in HTML as a link to it."""
    number = str(page.run.number)
    return f"[{number}](#run-{number})" if page.linked else number


def _place(page: Page) -> str:
    run = page.run
    place = f"L{run.first_line} to L{run.last_line}"
    name = file_name(page.analysis, run.first_file)
    return f"{inline(name, 120)} {place}" if name else place


def _worst(pages: list[Page]) -> str:
    failed = [page for page in pages if state_level(page) == "failed"]
    if not failed:
        return "**No run failed.**"
    first = _link(_failed_first(failed))
    again = sum(page.failed_before is not None for page in failed)
    alike = ", all in the same way" if 0 < again == len(failed) - 1 else ""
    return f"**{len(failed)} of {len(pages)} failed{alike}; start with run {first}.**"


def _failed_first(failed: list[Page]) -> Page:
    """Return the first run that failed; of those that ran beside it, on other nodes, the one whose failure came first."""
    first = failed[0]
    if first.run.ended is None:
        return first
    beside = [
        page
        for page in failed
        if page.run.started is not None and page.run.ended is not None and page.run.started < first.run.ended
    ]
    return min(beside, key=lambda page: page.diagnosis.broke_at, default=first)


def _without_double_gaps(lines: list[str]) -> list[str]:
    kept: list[str] = []
    for line in lines:
        if line or (kept and kept[-1]):
            kept.append(line)
    return kept
