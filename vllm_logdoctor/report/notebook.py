"""How a report and its tables show themselves in a notebook: HTML without scripts and without links."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from vllm_logdoctor.report.body import block_html, report_blocks
from vllm_logdoctor.report.escape import shorten, visible
from vllm_logdoctor.report.model import Analysis

if TYPE_CHECKING:
    import pandas

ROWS = 60
_STYLE = (
    "<style>.logdoctor table{border-collapse:collapse;margin:.5em 0}"
    ".logdoctor th,.logdoctor td{text-align:left!important;vertical-align:top;padding:.2em .7em .2em 0;"
    "border-bottom:1px solid #8884;white-space:normal}"
    ".logdoctor pre{overflow-x:auto}.logdoctor .scroll{overflow-x:auto}.logdoctor summary{cursor:pointer}"
    ".logdoctor ol{list-style:none;padding:0}.logdoctor li>span{opacity:.7;margin-right:.7em}"
    ".logdoctor>details>summary{font-weight:600;margin:.3em 0}</style>"
)


def fragment(analysis: Analysis) -> str:
    """Return the report for a notebook cell: the verdict open, each section folded in."""
    blocks, lines = report_blocks(analysis, with_charts=False)
    top = 2 if len(analysis.runs) > 1 else 1
    parts = [_STYLE, '<div class="logdoctor">']
    open_section = False
    for block in blocks:
        if block.level <= top + 1 and open_section:
            parts.append("</details>")
            open_section = False
        body = _without_links(block_html(block, lines))
        if block.level == top + 1:
            parts.append(f"<details><summary>{block.heading}</summary>{body}")
            open_section = True
        else:
            parts.append(f"<h{block.level + 2}>{_without_links(block.heading)}</h{block.level + 2}>{body}")
    parts += ["</details>" if open_section else "", "</div>"]
    return "".join(parts)


def frame_table(frame: pandas.DataFrame) -> str:
    """Return a DataFrame as an HTML table with nothing in it but text; long frames are cut and say so."""
    units: dict[str, str] = frame.attrs.get("units", {})
    head = "".join(
        f'<th title="{escape(units.get(str(c), ""))}">{escape(str(c))}</th>' for c in frame.columns
    )
    rows = []
    for values in frame.head(ROWS).itertuples(index=False):
        rows.append("<tr>" + "".join(f"<td>{_cell(value)}</td>" for value in values) + "</tr>")
    more = f"<p>{len(frame):,} rows; {ROWS} shown. to_frame() has all.</p>" if len(frame) > ROWS else ""
    return f'{_STYLE}<div class="logdoctor"><table><tr>{head}</tr>{"".join(rows)}</table>{more}</div>'


def _cell(value: Any) -> str:
    text = str(value)
    if text in ("<NA>", "NaT", "nan", "None"):
        return ""
    return escape(shorten(" ".join(visible(text).split()), 200))


def _without_links(html: str) -> str:
    """Take the links to lines out: a notebook page holds many reports, and none of them the list of lines."""
    out, rest = [], html
    while '<a href="#' in rest:
        before, _, rest = rest.partition('<a href="#')
        inside, _, rest = rest.partition("</a>")
        out += [before, inside.partition(">")[2]]
    return "".join(out) + rest
