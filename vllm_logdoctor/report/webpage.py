"""One HTML file for a page of blocks: all inline, everything else forbidden."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from functools import lru_cache
from html import escape
from importlib.resources import files

from vllm_logdoctor.report.body import HeadedText
from vllm_logdoctor.report.charts import chart_data


def webpage(blocks: Sequence[HeadedText], contents: Sequence[tuple[str, str, int]], body: str) -> str:
    """Return a self-contained HTML document.

    Args:
        blocks: what the page holds; the first one's title is the page's, their charts are drawn.
        contents: links of the contents: name, words, level.
        body: the blocks as HTML.
    """
    title = escape(blocks[0].title if blocks else "vLLM log")
    data = chart_data([chart for block in blocks for chart in block.charts])
    page = (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy()}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n<meta name="generator" content="logdoctor">\n'
        f"<title>{title}</title>\n<style>{style()}</style>\n</head>\n<body>\n"
        '<a class="skip" href="#report">Skip to the report</a>\n<div class="frame">\n'
        f'{_contents(contents)}<main id="report">\n{body}</main>\n</div>\n'
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


def _contents(contents: Sequence[tuple[str, str, int]]) -> str:
    links = "".join(
        f'<li class="l{level}"><a href="#{name}">{escape(words)}</a></li>' for name, words, level in contents
    )
    words = "<details open><summary>Contents</summary>"
    return f'<nav class="contents" aria-label="Contents">{words}<ol>{links}</ol></details></nav>\n'
