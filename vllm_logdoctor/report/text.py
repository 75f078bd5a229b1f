"""The report as plain text for mail, terminals without colour and files that nobody renders."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from markdown_it.token import Token

from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.report import markdown
from vllm_logdoctor.report.model import Analysis
from vllm_logdoctor.report.reader import reader

WIDTH = 100
_NARROWEST = 8
_ITEM = lazy_pattern(r"(?:-|\d+\.) ")
_UNDERLINES = {"h1": "=", "h2": "-", "h3": "~"}


def render(analysis: Analysis, width: int = WIDTH) -> str:
    """Return the report as plain text, wrapped to `width` columns."""
    return plain_text(markdown.render(analysis), width)


def plain_text(source: str, width: int = WIDTH) -> str:
    """Return Markdown as plain text.

    Example:
        >>> print(plain_text("# A\\n\\n- `b` **c**", 20), end="")
        A
        =
        <BLANKLINE>
        - b c
    """
    lines: list[str] = []
    tokens = reader().parse(source)
    position = 0
    while position < len(tokens):
        block, position = _block(tokens, position, width)
        if block:
            lines += [*block, ""]
    return "\n".join(_tight_lists(lines)).rstrip() + "\n"


def _block(tokens: Sequence[Token], position: int, width: int) -> tuple[list[str], int]:
    token = tokens[position]
    if token.type == "heading_open":
        return _heading(token, _spoken(tokens[position + 1]), width), position + 3
    if token.type == "table_open":
        end = _closing(tokens, position)
        return _table(tokens[position:end], width), end + 1
    if token.type == "fence":
        return ["    " + line for line in token.content.rstrip("\n").split("\n")], position + 1
    if token.type == "list_item_open":
        end = _closing(tokens, position)
        number = f"{token.info}." if token.info.isdigit() else ""
        return _item(tokens[position + 1 : end], width, number), end + 1
    if token.type == "inline":
        return textwrap.wrap(_spoken(token), width, break_on_hyphens=False), position + 1
    return [], position + 1


def _heading(token: Token, text: str, width: int) -> list[str]:
    wrapped = textwrap.wrap(text, width) or [""]
    mark = _UNDERLINES.get(token.tag)
    return [*wrapped, mark * max(map(len, wrapped))] if mark else wrapped


def _item(tokens: Sequence[Token], width: int, number: str = "") -> list[str]:
    lines: list[str] = []
    depth = 0
    for token in tokens:
        depth += {"bullet_list_open": 1, "bullet_list_close": -1}.get(token.type, 0)
        if token.type == "inline":
            mark = f"{'  ' * depth}{number or '-'} "
            lines += textwrap.wrap(
                _spoken(token),
                width,
                initial_indent=mark,
                subsequent_indent=" " * len(mark),
                break_on_hyphens=False,
            )
    return lines


def _spoken(token: Token) -> str:
    parts = []
    for child in token.children or []:
        if child.type in ("softbreak", "hardbreak"):
            parts.append(" ")
        elif child.type in ("text", "code_inline", "text_special"):
            parts.append(child.content)
    return "".join(parts)


def _closing(tokens: Sequence[Token], position: int) -> int:
    level = tokens[position].level
    kind = tokens[position].type.replace("_open", "_close")
    return next(
        i for i in range(position + 1, len(tokens)) if tokens[i].type == kind and tokens[i].level == level
    )


def _table(tokens: Sequence[Token], width: int) -> list[str]:
    rows = list(_rows(tokens))
    widths = _widths(rows, width)
    lines: list[str] = []
    for number, row in enumerate(rows):
        lines += _row(row, widths)
        if number == 0:
            lines.append("  ".join("-" * column for column in widths))
    return lines


def _rows(tokens: Sequence[Token]) -> Iterator[list[str]]:
    row: list[str] = []
    for token in tokens:
        if token.type == "inline":
            row.append(_spoken(token))
        elif token.type == "tr_close":
            yield row
            row = []


def _widths(rows: Sequence[Sequence[str]], width: int) -> list[int]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    room = width - 2 * (len(widths) - 1)
    while sum(widths) > room and max(widths) > _NARROWEST:
        widths[widths.index(max(widths))] -= 1
    return [max(1, column) for column in widths]


def _row(cells: Sequence[str], widths: Sequence[int]) -> list[str]:
    wrapped = [
        textwrap.wrap(cell, column, break_on_hyphens=False) or [""]
        for cell, column in zip(cells, widths, strict=True)
    ]
    height = max(len(cell) for cell in wrapped)
    columns = [cell + [""] * (height - len(cell)) for cell in wrapped]
    return [
        "  ".join(part.ljust(column) for part, column in zip(line, widths, strict=True)).rstrip()
        for line in zip(*columns, strict=True)
    ]


def _tight_lists(lines: list[str]) -> Iterator[str]:
    for number, line in enumerate(lines):
        before = lines[number - 1] if number else ""
        after = lines[number + 1] if number + 1 < len(lines) else ""
        in_list = _in_list(lines, number - 1) and _ITEM.match(after) is not None
        if line or not (before and in_list):
            yield line


def _in_list(lines: list[str], number: int) -> bool:
    while number >= 0 and lines[number].startswith("  ") and not lines[number].startswith("    "):
        number -= 1
    return number >= 0 and _ITEM.match(lines[number]) is not None
