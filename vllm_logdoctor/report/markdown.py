"""The report as Markdown: the one text from which the others are made."""

from __future__ import annotations

from collections.abc import Callable

from vllm_logdoctor.report.escape import inline
from vllm_logdoctor.report.figures import count, table
from vllm_logdoctor.report.model import Analysis
from vllm_logdoctor.report.naming import BROKEN, OUTCOMES, run_title
from vllm_logdoctor.report.page import Page
from vllm_logdoctor.report.sections.advice import changes, worth_knowing
from vllm_logdoctor.report.sections.broke import broke
from vllm_logdoctor.report.sections.capacity import capacity
from vllm_logdoctor.report.sections.configuration import configuration
from vllm_logdoctor.report.sections.coverage import cannot_tell, not_understood
from vllm_logdoctor.report.sections.distance import distance
from vllm_logdoctor.report.sections.machine import machine
from vllm_logdoctor.report.sections.measure import measure
from vllm_logdoctor.report.sections.messages import warnings_seen
from vllm_logdoctor.report.sections.plan import whole_plan
from vllm_logdoctor.report.sections.right import already_right
from vllm_logdoctor.report.sections.serving import serving
from vllm_logdoctor.report.sections.timeline import timeline
from vllm_logdoctor.report.sections.verdict import BACKWARDS, sentence, verdict

Section = Callable[[Page], list[str]]

SECTIONS: tuple[tuple[str, Section], ...] = (
    ("What broke", broke),
    ("What to change", changes),
    ("The plan", whole_plan),
    ("Worth knowing", worth_knowing),
    ("What is already right", already_right),
    ("Effective configuration", configuration),
    ("Timeline", timeline),
    ("Serving performance", serving),
    ("Capacity", capacity),
    ("Distance to the limit", distance),
    ("Model, hardware, software", machine),
    ("How to measure the change", measure),
    ("Warnings seen", warnings_seen),
    ("What this log can't tell", cannot_tell),
)


def render(analysis: Analysis, linked: bool = False) -> str:
    """Return the report of an analysis as Markdown (CommonMark with tables).

    Args:
        analysis: what to tell.
        linked: whether citations are links to the lines, for the HTML report.
    """
    several = len(analysis.runs) > 1
    lines: list[str] = []
    if several:
        lines += _overview(analysis, linked)
    for position, diagnosis in enumerate(analysis.runs):
        page = Page(analysis, diagnosis, 2 if several else 1, linked, analysis.runs[:position])
        lines += _run(page, several)
    if analysis.runs:
        last = Page(analysis, analysis.runs[-1], 1, linked)
        lines += [last.heading("What was not understood"), "", *not_understood(analysis, last), ""]
    return "\n".join(_without_double_gaps(lines)).rstrip() + "\n"


def _run(page: Page, several: bool) -> list[str]:
    number = f"Run {page.run.number}: " if several else ""
    lines = [page.heading(f"{number}{run_title(page.run)}", 0), "", *verdict(page)]
    position = 0
    for title, section in SECTIONS:
        body = section(page)
        if body:
            position += 1
            lines += [page.heading(f"{position} · {title}"), "", *body, ""]
    return lines


def _overview(analysis: Analysis, linked: bool) -> list[str]:
    files = ", ".join(inline(source.file, 200) for source in analysis.sources[:4])
    more = f" and {len(analysis.sources) - 4} more" if len(analysis.sources) > 4 else ""
    lines = [f"# {count(len(analysis.runs), 'run')} of vLLM in {files}{more}", ""]
    rows = []
    for diagnosis in analysis.runs:
        page = Page(analysis, diagnosis, linked=linked)
        run = diagnosis.run
        rows.append([str(run.number), _lines(page), run_title(run), sentence(page)])
    if any(diagnosis.run.newest_first for diagnosis in analysis.runs):
        lines += [BACKWARDS, ""]
    return [*lines, _worst(analysis), "", *table(["run", "lines", "what ran", "verdict"], rows), ""]


def _lines(page: Page) -> str:
    run = page.run
    place = f"L{run.first_line} to L{run.last_line}"
    return f"{inline(run.first_file, 120)} {place}" if len(page.analysis.sources) > 1 else place


def _worst(analysis: Analysis) -> str:
    failed = [
        d for d in analysis.runs if d.run.outcome in BROKEN or any(f.kind == "failure" for f in d.findings)
    ]
    if not failed:
        return "**None of them failed.**"
    first = failed[0].run
    named = f"run {first.number} ({OUTCOMES[first.outcome]})"
    return f"**{len(failed)} of {len(analysis.runs)} failed; look first at {named}.**"


def _without_double_gaps(lines: list[str]) -> list[str]:
    kept: list[str] = []
    for line in lines:
        if line or (kept and kept[-1]):
            kept.append(line)
    return kept
