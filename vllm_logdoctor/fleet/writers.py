"""The page as HTML, Markdown or JSON, and answers of SQL as text, CSV or JSON."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
from collections.abc import Iterator, Sequence
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import asdict

from vllm_logdoctor.errors import LogdoctorError
from vllm_logdoctor.fleet.picture import SCHEMA, Picture
from vllm_logdoctor.fleet.sections import ON_FIRST_SCREEN, Cell, Section, SectionRow
from vllm_logdoctor.report.escape import inline, visible
from vllm_logdoctor.report.figures import table

if TYPE_CHECKING:
    import pyarrow

_TITLE = "Fleet of vLLM jobs"
_MOST_WIDTH = 60
_SHORT = 12


def rendered(picture: Picture, name: str) -> str:
    """Return the page in the format that the ending of a file asks for; "-" is Markdown.

    Raises:
        LogdoctorError: another ending (exit code 2).
    """
    ending = name.rpartition(".")[2].lower() if name != "-" else "md"
    if ending not in ("html", "md", "json"):
        raise LogdoctorError(f"-o {name}: end it in .html, .md or .json", 2)
    return html(picture) if ending == "html" else markdown(picture) if ending == "md" else json_text(picture)


def markdown(picture: Picture) -> str:
    """Return the page as Markdown, without the reports of single jobs."""
    lines = [f"# {_TITLE}", "", inline(picture.headline), "", inline(picture.hours), ""]
    for section in picture.sections:
        lines += [f"## {section.title}", "", *([inline(section.note), ""] if section.note else [])]
        rows = [[inline(_text(cell)) for cell in line.cells] for line in section.lines]
        lines += [*(table(list(map(inline, section.columns)), rows) if rows else ["None."]), ""]
    return "\n".join(lines)


def json_text(picture: Picture) -> str:
    """Return the page as one JSON document."""
    document = {
        "schema": SCHEMA,
        "headline": picture.headline,
        "hours": picture.hours,
        "sections": [
            {
                "id": one.id, "title": one.title, "note": one.note, "columns": one.columns,
                "rows": [{"cells": line.cells, "jobs": line.jobs} for line in one.lines],
            }
            for one in picture.sections
        ],
        "jobs": {key: _named(report) for key, report in picture.reports.items()},
    }  # fmt: skip
    return _json(document)


def html(picture: Picture) -> str:
    """Return the page as one self-contained HTML document; its script only shows what is in it."""
    style, script = _asset("fleet.css"), _asset("fleet.js")
    policy = f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; base-uri 'none'; form-action 'none'"
    first = "".join(_tile_html(one, picture.titles) for one in picture.sections if one.first)
    below = "".join(_section_html(one, picture.titles) for one in picture.sections)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n<meta name="referrer" content="no-referrer">\n'
        f'<meta name="generator" content="logdoctor">\n<title>{_TITLE}</title>\n<style>{style}</style>\n</head>\n<body>\n'
        f"<header><h1>{_TITLE}</h1><input id=find type=search placeholder='Find a job by id or path' aria-label='Find a job'>"
        f"<p class=head><a href='#all'>{escape(visible(picture.headline))}</a></p><p>{escape(picture.hours)}</p></header>\n"
        f"<main id=page><div class=tiles>{first}</div>\n{below}</main>\n<main id=drill hidden></main>\n"
        f'<script type="application/json" id="data">{_data(picture)}</script>\n<script>{script}</script>\n</body>\n</html>\n'
    )


def table_text(rows: pyarrow.Table, format: str) -> str:
    """Return a table as text in columns, as CSV or as JSON."""
    if format == "json":
        return _json(rows.to_pylist())
    names = list(rows.column_names)
    values = [[row[name] for name in names] for row in rows.to_pylist()]
    if format == "csv":
        written = io.StringIO()
        csv.writer(written).writerows([names, *values])
        return written.getvalue()
    cells = [names, *([visible(_text(value))[:_MOST_WIDTH] for value in row] for row in values)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(names))]
    padded = (map(str.ljust, row, widths) for row in cells)
    lines = ["  ".join(row).rstrip() for row in padded]
    return "\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:]]) + "\n"


def _json(value: Any) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=1).decode() + "\n"


def _tile_html(section: Section, titles: dict[str, str]) -> str:
    """Return the first rows of a section for the first screen, with a link to all."""
    chosen = [number for number, column in enumerate(section.columns) if column in section.first]
    left_out = section.total - len(section.lines)
    more = f"first {len(section.lines)} of {section.total:,}" if left_out else f"all {section.total}"
    link = f' <a href="#{section.id}">{more}</a>' if section.total else ""
    return (
        f"<section><h2>{escape(section.title)}{link}</h2><p class=note>{escape(section.note)}</p>"
        f"{_table_html(section, section.lines[:ON_FIRST_SCREEN], chosen, titles)}</section>\n"
    )


def _section_html(section: Section, titles: dict[str, str]) -> str:
    left_out = section.total - len(section.lines)
    more = f"<p class=note>The first {len(section.lines)} of {section.total:,}.</p>" if left_out else ""
    return (
        f'<section id="{section.id}"><h2>{escape(section.title)}</h2><p class=note>{escape(section.note)}</p>'
        f"{_table_html(section, section.lines, range(len(section.columns)), titles)}{more}</section>\n"
    )


def _table_html(
    section: Section, lines: Sequence[SectionRow], chosen: Sequence[int], titles: dict[str, str]
) -> str:
    """Return a table of some columns; one that is wider than the screen scrolls in its box, by keys as well."""
    if not lines:
        return "<p>None.</p>"
    head = "".join(f"<th>{escape(section.columns[number])}</th>" for number in chosen)
    body = "".join(_row_html(section, number, line, chosen, titles) for number, line in enumerate(lines))
    return (
        f"<div class=box tabindex=0><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _row_html(
    section: Section, number: int, line: SectionRow, chosen: Sequence[int], titles: dict[str, str]
) -> str:
    cells = []
    for position in chosen:
        cell = line.cells[position]
        text = escape(visible(_text(cell)))
        if isinstance(cell, int | float):
            cells.append(f'<td class=n><a href="#{section.id}/{number}">{text}</a></td>')
        else:
            known = titles.get(str(cell)) if position == 0 else None
            title = f" <span class=dim>{escape(known)}</span>" if known is not None else ""
            short = " class=s" if len(text) <= _SHORT else ""
            cells.append(f"<td{short}>{text}{title}</td>")
    return f"<tr>{''.join(cells)}</tr>"


def _data(picture: Picture) -> str:
    keys = list(picture.reports)
    numbers = {key: number for number, key in enumerate(keys)}
    data = {
        "keys": keys,
        "titles": picture.titles,
        "lists": {
            one.id: [[_text(line.cells[0]), [numbers[key] for key in line.jobs]] for line in one.lines]
            for one in picture.sections
        },
        "jobs": list(_interned(picture)),
    }
    encoded = msgspec.json.encode(data).decode("utf-8", "replace")
    return encoded.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _interned(picture: Picture) -> Iterator[Any]:
    """Yield the table of texts, then each job's report with numbers in place of texts: ten thousand jobs share most of them."""
    texts: dict[str, int] = {}
    reports = [
        [_packed(item, texts) for item in msgspec.to_builtins(report)] for report in picture.reports.values()
    ]
    yield list(texts)
    yield from reports


def _packed(value: Any, texts: dict[str, int]) -> Any:
    """Return a value with a text as -1 minus its number, and a figure in a list of one."""
    if isinstance(value, str):
        return -1 - texts.setdefault(value, len(texts))
    if isinstance(value, list | tuple):
        return [_packed(item, texts) for item in value]
    return None if value is None else [value]


def _named(report: Any) -> dict[str, Any]:
    return {**asdict(report), "runs": [asdict(run) for run in report.runs]}


def _text(cell: Cell | object) -> str:
    if cell is None:
        return ""
    if isinstance(cell, float):
        return f"{cell:,.0f}" if abs(cell) >= 100 else f"{cell:.3g}"
    return f"{cell:,}" if isinstance(cell, int) and not isinstance(cell, bool) else str(cell)


def _asset(name: str) -> str:
    return (files("vllm_logdoctor.fleet") / "assets" / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode()
