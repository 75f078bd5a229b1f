"""The report as one HTML file: all inline, everything else forbidden."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from html import escape
from importlib.resources import files

from vllm_logdoctor.report.body import Block, all_cited, block_html, blocks_of, line_html
from vllm_logdoctor.report.charts import chart_data
from vllm_logdoctor.report.escape import shorten
from vllm_logdoctor.report.evidence import lines_by_anchor
from vllm_logdoctor.report.model import Analysis

_FAILED = ("crashed_at_startup", "crashed_while_serving", "killed")


def render(analysis: Analysis) -> str:
    """Return the report as a self-contained HTML document."""
    blocks = blocks_of(analysis)
    title = escape(blocks[0].title if blocks else "vLLM log")
    data = chart_data([chart for block in blocks for chart in block.charts])
    page = (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy()}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>{title}</title>\n<style>{style()}</style>\n</head>\n<body>\n"
        '<a class="skip" href="#report">Skip to the report</a>\n<div class="frame">\n'
        f'{_contents(blocks)}<main id="report">\n{_body(blocks, analysis)}</main>\n</div>\n'
        f'<script type="application/json" id="chart-data">{data}</script>\n'
        f"<script>{chart_library()}</script>\n<script>{behaviour()}</script>\n</body>\n</html>\n"
    )
    return page.encode("utf-8", "replace").decode("utf-8")


def policy() -> str:
    """Return the content security policy: nothing but our own style and scripts, by hash."""
    scripts = " ".join(f"'sha256-{_hash(text)}'" for text in (chart_library(), behaviour()))
    styles = f"'sha256-{_hash(style())}'"
    rest = "base-uri 'none'; form-action 'none'"
    return f"default-src 'none'; style-src {styles}; script-src {scripts}; {rest}"


@lru_cache(maxsize=1)
def style() -> str:
    """Return the style sheet of the page."""
    return asset("uPlot.min.css") + "\n" + asset("report.css")


@lru_cache(maxsize=1)
def chart_library() -> str:
    """Return the script of the chart library."""
    return asset("uPlot.iife.min.js")


@lru_cache(maxsize=1)
def behaviour() -> str:
    """Return the script of the page."""
    return asset("report.js")


def asset(name: str) -> str:
    """Return a file of the assets as text."""
    return (files("vllm_logdoctor.report") / "assets" / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode()


def _contents(blocks: Sequence[Block]) -> str:
    deepest = 3 if sum(block.level == 2 and block.title.startswith("Run ") for block in blocks) > 1 else 2
    links = [
        f'<li class="l{block.level}"><a href="#{block.name}">{escape(_short(block, number))}</a></li>'
        for number, block in enumerate(blocks)
        if block.level <= deepest
    ]
    last = '<li><a href="#lines">The lines</a></li>'
    return (
        f'<nav class="contents" aria-label="Contents"><p>Contents</p><ol>{"".join(links)}{last}</ol></nav>\n'
    )


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
    return "".join((*parts, *_lines(blocks, analysis)))


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
