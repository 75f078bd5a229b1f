"""Shapes that many tools print: columns under a header, boxes, keys with values, JSON keys with their lines."""

from __future__ import annotations

import csv
import re
from collections.abc import Collection, Iterable, Iterator

from vllm_logdoctor.evidence.model import Lines, Reading, Scalar, number_or_text

Row = tuple[int, dict[str, str]]

# "max_concurrency": 2,
_JSON_VALUE = re.compile(
    r'"([^"\\\n]{1,200})"\s*:\s*("(?:[^"\\\n]|\\.){0,2000}"|-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?|true|false|null)'
)
_JSON_WORDS: dict[str, Scalar] = {"true": True, "false": False, "null": None}


def columns(lines: Lines, header: int) -> Iterator[Row]:
    """Yield the rows under a header of words, by name of the column, up to an empty line; text that is left over belongs to the last column.

    Example:
        >>> list(columns(["PID CMD", "7 a b"], 0))
        [(2, {'PID': '7', 'CMD': 'a b'})]
    """
    names = lines[header].lstrip("#").split()
    for index in range(header + 1, len(lines)):
        text = lines[index]
        if not text.strip():
            return
        values = text.split(maxsplit=len(names) - 1)
        if len(values) == len(names):
            yield index + 1, dict(zip(names, values, strict=True))


def cells(text: str) -> list[str]:
    """Return the cells of a row of a box or a Markdown table.

    Example:
        >>> cells("| a | 1.0 |"), cells("│ b ┃ 2 │")
        (['a', '1.0'], ['b', '2'])
    """
    return [cell.strip() for cell in re.split(r"[|│┃]", text.strip().strip("|│┃"))]


def comma_separated(lines: Lines) -> Iterator[Row]:
    """Yield the rows of a CSV file by name of the column; the first line that is not empty is the header."""
    header = next((at for at, text in enumerate(lines) if text.strip()), 0)
    rows = csv.reader(lines[header:])
    names = [name.strip() for name in next(rows, [])]
    for line, row in enumerate(rows, start=header + 2):
        if row:
            yield line, dict(zip(names, (value.strip() for value in row), strict=False))


def keyed(lines: Lines, wanted: dict[str, str]) -> Iterator[Reading]:
    """Yield the values of lines "key: value" for the keys that are wanted, under the names given for them."""
    for line, text in enumerate(lines, start=1):
        key, found, value = text.partition(":")
        name = wanted.get(key.strip())
        if found and name:
            yield Reading(name, number_or_text(value), line=line)


def json_values(lines: Lines, wanted: Collection[str] = ()) -> Iterator[Reading]:
    """Yield the scalar values of JSON text with their lines, for some keys or for all.

    The text is not parsed as a whole: a truncated file gives what it holds.

    Example:
        >>> [(one.name, one.value, one.line) for one in json_values(['{"a": 1,', '"b": "x"}'])]
        [('a', 1, 1), ('b', 'x', 2)]
    """
    for line, text in enumerate(lines, start=1):
        for key, value in _JSON_VALUE.findall(text):
            if not wanted or key in wanted:
                yield Reading(key, _json_scalar(value), line=line)


def _json_scalar(text: str) -> Scalar:
    if text in _JSON_WORDS:
        return _JSON_WORDS[text]
    return text[1:-1].replace('\\"', '"') if text.startswith('"') else number_or_text(text)


def first_of_each(readings: Iterable[Reading]) -> Iterator[Reading]:
    """Yield the first reading of each name and subject."""
    seen: set[tuple[str, str]] = set()
    for one in readings:
        if (one.name, one.subject) not in seen:
            seen.add((one.name, one.subject))
            yield one
