"""The report's Markdown as the body of a page: sections, tables, charts and the cited lines in place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape

from markdown_it import MarkdownIt
from markdown_it.token import Token
from msgspec import Struct, field

from vllm_logdoctor.report import markdown
from vllm_logdoctor.report.charts import Chart, chart_html, first_charts, more_charts
from vllm_logdoctor.report.escape import shorten, visible
from vllm_logdoctor.report.model import Analysis, Diagnosis
from vllm_logdoctor.report.observed_charts import observed_charts
from vllm_logdoctor.report.reader import reader
from vllm_logdoctor.run.model import Evidence

_LINES = 12
_SHORT_CODE = 28


class HeadedText(Struct):
    """A heading with what is below it up to the next heading.

    Attributes:
        level: 1 for the title.
        title: plain text.
        name: unique in the page.
        html: heading apart, as HTML.
        heading: inner HTML of the heading.
        cited: names of the lines that it cites, in order.
        charts: charts that belong into it.
    """

    level: int
    title: str
    name: str
    heading: str
    html: str
    cited: list[str] = field(default_factory=list)
    charts: list[Chart] = field(default_factory=list)

    @property
    def heading_html(self) -> str:
        """The heading as HTML, with the name that links lead to."""
        return f'<h{self.level} id="{self.name}">{self.heading}</h{self.level}>\n'


def report_blocks(
    analysis: Analysis, with_charts: bool = True
) -> tuple[list[HeadedText], dict[str, Evidence]]:
    """Return the report in blocks, one per heading, and the lines that it cites by their anchors."""
    lines: dict[str, Evidence] = {}
    blocks = blocks_in(markdown.render(analysis, lines))
    if with_charts:
        _add_charts(blocks, analysis)
    return blocks, lines


def blocks_in(text: str) -> list[HeadedText]:
    """Return a page of our own Markdown in blocks, one per heading."""
    parser = reader(linked=True)
    tokens = parser.parse(text)
    starts = [position for position, token in enumerate(tokens) if token.type == "heading_open"]
    return [
        _block(parser, tokens[start:end], number)
        for number, (start, end) in enumerate(zip(starts, [*starts[1:], len(tokens)], strict=True))
    ]


def block_html(block: HeadedText, lines: Mapping[str, Evidence]) -> str:
    """Return what is below a heading: its charts, its text, and the lines it cites."""
    return charts_html(block.charts) + block.html + cited_html(block.cited, lines)


def charts_html(charts: Sequence[Chart]) -> str:
    """Return charts beside each other where there is room."""
    drawn = "".join(map(chart_html, charts))
    return f'<div class="charts">{drawn}</div>\n' if drawn else ""


def cited_html(cited: Sequence[str], lines: Mapping[str, Evidence]) -> str:
    """Return cited lines, folded in."""
    known = [(name, lines[name]) for name in dict.fromkeys(cited) if name in lines]
    if not known:
        return ""
    more = f"<li>and {len(known) - _LINES} more, at the end of the report</li>" if len(known) > _LINES else ""
    with_file = of_several_files(lines)
    items = "".join(line_html(evidence, with_file=with_file) for _, evidence in known[:_LINES])
    words = "The line" if len(known) == 1 else f"The {len(known)} lines"
    return f'<details class="lines"><summary>{words}</summary><ol>{items}{more}</ol></details>\n'


def line_html(evidence: Evidence, name: str = "", with_file: bool = False) -> str:
    """Return one line of evidence as a list item."""
    place = f"{visible(evidence.file)} L{evidence.line}" if with_file else f"L{evidence.line}"
    anchor = f' id="{escape(name)}"' if name else ""
    text = escape(visible(evidence.text))
    return f"<li{anchor}><span>{escape(place)}</span><code>{text}</code></li>"


def of_several_files(anchors: Iterable[str]) -> bool:
    """Return whether lines are of more than one file."""
    return len({_place(name)[0] for name in anchors}) > 1


def all_cited(blocks: Sequence[HeadedText], lines: Mapping[str, Evidence]) -> list[tuple[str, Evidence]]:
    """Return every cited line once, in order of files and lines."""
    names = {name for block in blocks for name in block.cited if name in lines}
    return [(name, lines[name]) for name in sorted(names, key=_place)]


def _place(name: str) -> tuple[int, int]:
    file, _, line = name.lstrip("e").partition("-")
    return int(file), int(line)


def _block(parser: MarkdownIt, tokens: Sequence[Token], number: int) -> HeadedText:
    inline = tokens[1]
    _mark_short_code(inline)
    heading = parser.renderer.render([inline], parser.options, {})
    title = "".join(child.content for child in inline.children or [] if child.type in ("text", "code_inline"))
    body = list(_styled(tokens[3:], title))
    block = HeadedText(
        int(tokens[0].tag[1]),
        title,
        f"s{number}",
        heading,
        parser.renderer.render(body, parser.options, {}),
    )
    block.cited = [
        str(child.attrs["href"])[1:]
        for token in tokens
        for child in token.children or []
        if child.type == "link_open"
    ]
    return block


def _styled(tokens: Sequence[Token], title: str) -> Iterator[Token]:
    _mark_headers(tokens)
    for token in tokens:
        if token.type == "table_open":
            label = escape(f"Table: {shorten(title, 80)}")
            yield _raw(f'<div class="scroll cards" role="group" tabindex="0" aria-label="{label}">')
        _mark_short_code(token)
        for child in token.children or []:
            if child.type == "link_open":
                child.attrSet("class", "line")
        yield token
        if token.type == "table_close":
            yield _raw("</div>\n")


def _mark_headers(tokens: Sequence[Token]) -> None:
    """Mark headers as such, and name the column in each cell: on a phone a row is a card of named values."""
    headers: list[str] = []
    column = 0
    for opened, words, closed in zip(tokens, tokens[1:], tokens[2:], strict=False):
        if opened.type == "thead_open":
            headers = []
        elif opened.type == "tr_open":
            column = 0
        elif opened.type == "th_open":
            headers.append(words.content)
            if words.content:
                opened.attrSet("scope", "col")
            else:
                opened.tag = closed.tag = "td"
        elif opened.type == "td_open":
            if headers[column]:
                opened.attrSet("data-label", headers[column])
            column += 1


def _mark_short_code(token: Token) -> None:
    """Keep flags and values in one piece: a narrow column would break them at any letter."""
    for child in token.children or []:
        if child.type == "code_inline" and len(child.content) <= _SHORT_CODE:
            child.attrSet("class", "short")


def _raw(html: str) -> Token:
    return Token("html_block", "", 0, content=html)


def _add_charts(blocks: Sequence[HeadedText], analysis: Analysis) -> None:
    level = 2 if len(analysis.runs) > 1 else 1
    titles = iter(analysis.runs)
    current: Diagnosis | None = None
    for block in blocks:
        if block.level == level and block.title != "What was read":
            current = next(titles, None)
            block.charts = first_charts(current) if current else []
        elif current is not None and block.level == level + 1 and block.title == "Load":
            block.charts = more_charts(current.run)
        elif current is not None and block.level == level + 1 and block.title == "Measured beside the log":
            block.charts = observed_charts(current.run)
