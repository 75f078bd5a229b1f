"""A page of Markdown in the width of a terminal: headings, lists and tables, in colour or as plain text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from markdown_it.token import Token
from rich.box import Box
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from vllm_logdoctor.report.reader import plain_words, reader

_INDENT = 2
_WIDEST = 1000
_UNDERLINES = {"h1": "=", "h2": "-", "h3": "~"}
_RULE_BELOW_HEADER = Box("    \n    \n -- \n    \n    \n    \n    \n    \n", ascii=True)


def print_page(markdown: str, console: Console | None = None, plain: bool = False) -> None:
    """Print a page.

    Args:
        markdown: what to show; all log text in it is escaped.
        console: where; by default standard output, which honours NO_COLOR, FORCE_COLOR and COLUMNS.
        plain: whether characters, not styles, mark headings, blocks of code and headers of tables.
    """
    console = console or standard_output()
    for part in _parts(reader().parse(markdown), plain):
        console.print(part, markup=False, highlight=False)


def standard_output() -> Console:
    """Return the terminal, or what standard output is; COLUMNS may hold any number."""
    console = Console(highlight=False, markup=False, emoji=False)
    console.width = min(console.width, _WIDEST)
    return console


def _parts(tokens: Sequence[Token], plain: bool) -> Iterator[RenderableType]:
    position, lists = 0, 0
    mark = ""
    while position < len(tokens):
        token = tokens[position]
        if token.type == "table_open":
            end = next(at for at in range(position, len(tokens)) if tokens[at].type == "table_close")
            yield _table(tokens[position:end], plain)
            yield Text("")
            position = end
        elif token.type == "heading_open":
            position += 1
            yield from _heading(tokens[position], token.tag, plain)
        elif token.type == "list_item_open":
            mark = f"{token.info}." if token.info.isdigit() else "-" if plain or lists > 1 else "•"
        elif token.type == "inline":
            yield _item(token, mark, lists) if lists else _words(token)
            yield from () if lists else (Text(""),)
        elif token.type == "fence":
            yield Padding(Text(token.content.rstrip("\n")), (0, 0, 1, 4 if plain else 0))
        lists += {"list_open": 1, "list_close": -1}.get(token.type.partition("_")[2], 0)
        if token.type.endswith("list_close") and not lists:
            yield Text("")
        position += 1


def _heading(token: Token, tag: str, plain: bool) -> Iterator[RenderableType]:
    yield _words(token, "bold underline" if tag == "h1" else "bold")
    if plain:
        under = _UNDERLINES.get(tag, "") * len(plain_words(token.content))
        yield Text(f"{under}\n", no_wrap=True)


def _item(token: Token, mark: str, depth: int) -> RenderableType:
    grid = Table.grid(padding=(0, 1))
    grid.add_row(mark, _words(token))
    return Padding(grid, (0, 0, 0, _INDENT * (depth - 1)))


def _table(tokens: Sequence[Token], plain: bool) -> Table:
    rows: list[list[Text]] = []
    for token in tokens:
        if token.type == "tr_open":
            rows.append([])
        elif token.type == "inline":
            rows[-1].append(_words(token))
    table = Table(
        box=_RULE_BELOW_HEADER if plain else None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False, show_edge=False
    )  # fmt: skip
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
