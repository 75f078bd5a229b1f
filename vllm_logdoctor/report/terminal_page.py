"""A page of our own Markdown on a terminal: headings, lists and tables in its width, with colour where wanted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from markdown_it.token import Token
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from vllm_logdoctor.report.reader import reader

_INDENT = 2


def print_page(markdown: str, console: Console | None = None) -> None:
    """Print a page.

    Args:
        markdown: what to show; all log text in it is escaped.
        console: where; by default standard output, which honours NO_COLOR, FORCE_COLOR and COLUMNS.
    """
    console = console or Console(highlight=False, markup=False, emoji=False)
    for part in _parts(reader().parse(markdown)):
        console.print(part, markup=False, highlight=False)


def _parts(tokens: Sequence[Token]) -> Iterator[RenderableType]:
    position, depth = 0, 0
    while position < len(tokens):
        token = tokens[position]
        if token.type == "table_open":
            end = next(at for at in range(position, len(tokens)) if tokens[at].type == "table_close")
            yield _table(tokens[position:end])
            yield Text("")
            position = end
        elif token.type == "heading_open":
            position += 1
            yield _words(tokens[position], "bold underline" if token.tag == "h1" else "bold")
        elif token.type == "inline":
            yield _item(token, depth) if depth else _words(token)
            yield from () if depth else (Text(""),)
        elif token.type == "fence":
            yield Text(token.content)
        if token.type == "bullet_list_close" and depth == 1:
            yield Text("")
        depth += {"bullet_list_open": 1, "bullet_list_close": -1}.get(token.type, 0)
        position += 1


def _item(token: Token, depth: int) -> RenderableType:
    grid = Table.grid(padding=(0, 1))
    grid.add_row("•" if depth == 1 else "-", _words(token))
    return Padding(grid, (0, 0, 0, _INDENT * (depth - 1)))


def _table(tokens: Sequence[Token]) -> Table:
    rows: list[list[Text]] = []
    for token in tokens:
        if token.type == "tr_open":
            rows.append([])
        elif token.type == "inline":
            rows[-1].append(_words(token))
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
    for cell in rows[0]:
        table.add_column(cell, overflow="fold")
    for row in rows[1:]:
        table.add_row(*row)
    return table


def _words(token: Token, style: str = "") -> Text:
    text, bold = Text(style=style), 0
    for child in token.children or []:
        bold += {"strong_open": 1, "strong_close": -1}.get(child.type, 0)
        if child.type in ("softbreak", "hardbreak"):
            text.append(" ")
        elif child.type == "code_inline":
            text.append(child.content, style="cyan")
        elif child.type in ("text", "text_special"):
            text.append(child.content, style="bold" if bold else "")
    return text
