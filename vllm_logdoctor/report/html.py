"""The report as one HTML file: all inline, everything else forbidden."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from vllm_logdoctor.report.body import (
    HeadedText,
    all_cited,
    block_html,
    charts_html,
    cited_html,
    line_html,
    of_several_files,
    report_blocks,
)
from vllm_logdoctor.report.escape import shorten
from vllm_logdoctor.report.model import Analysis
from vllm_logdoctor.report.page import Page
from vllm_logdoctor.report.state import state_level
from vllm_logdoctor.report.webpage import webpage
from vllm_logdoctor.run.model import Evidence

_RUNS_WITH_PARTS = 4


def render(analysis: Analysis) -> str:
    """Return the report as a self-contained HTML document."""
    blocks, lines = report_blocks(analysis)
    cited = "".join(_lines(blocks, lines))
    contents = [*_contents(blocks), *([("lines", "The lines", 2)] if cited else [])]
    return webpage(blocks, contents, _body(blocks, analysis, lines) + cited)


def _contents(blocks: Sequence[HeadedText]) -> Iterator[tuple[str, str, int]]:
    runs = sum(block.level == 2 and block.title.startswith("Run ") for block in blocks)
    deepest = 3 if 1 < runs <= _RUNS_WITH_PARTS else 2
    for number, block in enumerate(blocks):
        if block.level <= deepest:
            first = "Overview" if runs else "First screen"
            yield block.name, shorten(block.title, 60) if number else first, block.level


def _body(blocks: Sequence[HeadedText], analysis: Analysis, lines: Mapping[str, Evidence]) -> str:
    parts: list[str] = []
    title = 2 if len(analysis.runs) > 1 else 1
    runs = iter(enumerate(analysis.runs))
    for block in blocks:
        run = next(runs, None) if block.level == title and block.title != "What was read" else None
        if run is None:
            parts.append(block.heading_html + block_html(block, lines))
            continue
        page = Page(analysis, run[1], title, earlier=analysis.runs[: run[0]])
        said = f"{block.heading_html}{block.html}{cited_html(block.cited, lines)}"
        place = f'class="verdict {state_level(page)}" id="run-{page.run.number}"'
        parts.append(f"<div {place}>{said}</div>\n{charts_html(block.charts)}")
    return "".join(parts)


def _lines(blocks: Sequence[HeadedText], lines: Mapping[str, Evidence]) -> Iterator[str]:
    cited = all_cited(blocks, lines)
    if not cited:
        return
    several = of_several_files(lines)
    yield '<h2 id="lines">The lines</h2>\n<p>Every line that this report cites, secrets masked.</p>\n'
    yield '<div class="lines"><ol>\n'
    for name, evidence in cited:
        yield line_html(evidence, name, several) + "\n"
    yield "</ol></div>\n"
