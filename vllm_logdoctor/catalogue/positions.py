"""Where in a pack file a key is: TOML readers keep no line numbers."""

from __future__ import annotations

import re
from collections.abc import Sequence

_HEADER = re.compile(r"\s*(\[\[?)\s*([\w.\-\"' ]+?)\s*\]\]?\s*(?:#.*)?$")
_KEY = re.compile(r"\s*([\w\-]+|\"[^\"]*\"|'[^']*')\s*=")
_MULTILINE = ("'''", '"""')

Location = tuple[int | str, ...]


class Positions:
    """The line of every table and key of one TOML text.

    >>> Positions('[pack]\\nname = "x"\\n\\n[[pattern]]\\nid = "a"\\n').line_of(("pattern", 0, "id"))
    5
    """

    def __init__(self, text: str) -> None:
        self._lines: dict[Location, int] = {}
        self._counts: dict[Location, int] = {}
        self._ids: list[tuple[int, str]] = []
        self._scan(text)

    def line_of(self, location: Sequence[int | str]) -> int:
        """Return the 1-based line of a key; of the nearest table above it when the key is not there."""
        place = tuple(location)
        while place:
            if place in self._lines:
                return self._lines[place]
            place = place[:-1]
        return 1

    def line_of_id(self, pattern_id: str) -> int:
        """Return the 1-based line at which the pattern with an id is named; 1 where there is none."""
        return next((number for number, text in self._ids if text == pattern_id), 1)

    def _scan(self, text: str) -> None:
        table: Location = ()
        closing = ""
        for number, line in enumerate(text.split("\n"), start=1):
            if closing:
                closing = "" if closing in line else closing
                continue
            header = _HEADER.match(line)
            if header:
                table = self._enter(header.group(2).split("."), array=header.group(1) == "[[")
                self._lines.setdefault(table, number)
                continue
            key = _KEY.match(line)
            if key:
                self._lines.setdefault((*table, key.group(1).strip("\"'")), number)
                closing = _left_open(line[key.end() :])
                if key.group(1) == "id":
                    self._ids.append((number, line[key.end() :].strip().strip("\"'")))

    def _enter(self, parts: Sequence[str], *, array: bool) -> Location:
        """Return the location of a table header; names of arrays get the number of their last entry."""
        place: Location = ()
        for position, part in enumerate(parts):
            place = (*place, part.strip().strip("\"'"))
            if array and position == len(parts) - 1:
                self._counts[place] = self._counts.get(place, -1) + 1
            if place in self._counts:
                place = (*place, self._counts[place])
        return place


def _left_open(value: str) -> str:
    """Return the closing quotes that a value still waits for at the end of its line."""
    for quotes in _MULTILINE:
        if value.lstrip().startswith(quotes):
            return "" if value.count(quotes) > 1 else quotes
    return ""
