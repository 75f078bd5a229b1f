"""The report as one HTML file: all inline, everything else forbidden."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from vllm_logdoctor.report.body import Block, all_cited, block_html, blocks_of, line_html
from vllm_logdoctor.report.escape import shorten
from vllm_logdoctor.report.evidence import lines_by_anchor
from vllm_logdoctor.report.model import Analysis
from vllm_logdoctor.report.webpage import webpage

_RUNS_WITH_PARTS = 4
_FAILED = ("crashed_at_startup", "crashed_while_serving", "killed")


def render(analysis: Analysis) -> str:
    """Return the report as a self-contained HTML document."""
    blocks = blocks_of(analysis)
    lines = "".join(_lines(blocks, analysis))
    contents = [*_contents(blocks), *([("lines", "The lines", 2)] if lines else [])]
    return webpage(blocks, contents, _body(blocks, analysis) + lines)


def _contents(blocks: Sequence[Block]) -> Iterator[tuple[str, str, int]]:
    runs = sum(block.level == 2 and block.title.startswith("Run ") for block in blocks)
    deepest = 3 if 1 < runs <= _RUNS_WITH_PARTS else 2
    for number, block in enumerate(blocks):
        if block.level <= deepest:
            yield block.name, _short(block, number), block.level


def _short(block: Block, number: int) -> str:
    run = re.match(r"Run \d+(?=: )", block.title)
    return "Verdict" if number == 0 else run.group() if run else shorten(block.title, 60)


def _body(blocks: Sequence[Block], analysis: Analysis) -> str:
    lines = lines_by_anchor(analysis)
    parts: list[str] = []
    for number, block in enumerate(blocks):
        body = block_html(block, lines)
        if number == 0 and len(analysis.runs) == 1:
            failed = " failed" if analysis.runs[0].run.outcome in _FAILED else ""
            body = f'<div class="verdict{failed}">{body}</div>\n'
        parts.append(f'<h{block.level} id="{block.name}">{block.heading}</h{block.level}>\n{body}')
    return "".join(parts)


def _lines(blocks: Sequence[Block], analysis: Analysis) -> Iterator[str]:
    cited = all_cited(blocks, analysis)
    if not cited:
        return
    several = len(analysis.sources) > 1
    yield '<h2 id="lines">The lines</h2>\n<p>Every line that this report cites, secrets masked.</p>\n'
    yield '<div class="lines"><ol>\n'
    for name, evidence in cited:
        yield line_html(evidence, name, several) + "\n"
    yield "</ol></div>\n"
