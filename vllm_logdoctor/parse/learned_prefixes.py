"""Prefixes that no list knows, learned from a file: what precedes its headers precedes the lines of its tracebacks too."""

from __future__ import annotations

import re
from collections import Counter

from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.parse.processes import PROCESS_PREFIX

LONGEST = 160
MOST = 4
"""Prefixes of one file: a merged log has the formats of a few programs, and each line is compared with all of them."""
_MOST_COUNTED = 64
_ENOUGH = 2
# [2026-03-14 10:00:05] launcher/42 - INFO -      serve.log:17:      0|server   |      Mar 14 10:00:05
_CHANGING = lazy_pattern(
    r"(?P<level>DEBUG|INFO|WARN(?:ING)?|ERROR|CRITICAL)\b|(?P<stream>\bstd(?:out|err)\b)"
    r"|(?P<month>\b(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)\b)|(?P<hex>\b[0-9a-f]{6,64}\b)|(?P<number>\d+)|(?P<spaces>  +)"
)
_WIDTH = {
    "level": "(?:DEBUG|INFO|WARN(?:ING)?|ERROR|CRITICAL)", "stream": "std(?:out|err)", "month": "[A-Z][a-z]{2}",
    "hex": "[0-9a-f]{6,64}", "number": r"\d{1,20}", "spaces": " {1,40}",
}  # fmt: skip
# RuntimeError: Traceback (most recent call last):    (an exception whose text is a traceback)
_EXCEPTION = lazy_pattern(r"(?:Error|Exception|Exit|Interrupt)\b")
OPENING = "Traceback (most recent call last):"


class LearnedPrefixes:
    """The prefixes of the files of one stream, by file."""

    def __init__(self) -> None:
        self._seen: Counter[str] = Counter()
        self._file = 0
        self._known: dict[int, tuple[re.Pattern[str], ...]] = {}

    def __bool__(self) -> bool:
        return bool(self._known)

    def learn(self, file: int, before: str, times: int = 1) -> None:
        """Note what precedes a header; twice is enough.

        Args:
            file: number of the file.
            before: text of the line before the header.
            times: for how many headers it counts.
        """
        process = PROCESS_PREFIX.search(before)
        foreign = before[: process.start()] if process else before
        if not 0 < len(foreign) <= LONGEST or len(self._known.get(file, ())) >= MOST:
            return
        if file != self._file:
            self._seen.clear()
            self._file = file
        shape = shape_of(foreign)
        if self._seen[shape] < _ENOUGH and len(self._seen) < _MOST_COUNTED:
            self._seen[shape] += times
            if self._seen[shape] >= _ENOUGH:
                self._known[file] = (*self._known.get(file, ()), re.compile(shape))

    def learn_from_traceback(self, file: int, text: str) -> None:
        """Note what precedes the first line of a traceback: one is enough."""
        before, opening, _ = text.partition(OPENING)
        if opening and not _EXCEPTION.search(before):
            self.learn(file, before, _ENOUGH)

    def length(self, file: int, text: str) -> int:
        """Return the length of the prefix of a line, 0 where it has none that was learned."""
        for known in self._known.get(file, ()):
            match = known.match(text)
            if match:
                return match.end()
        return 0


def shape_of(before: str) -> str:
    """Return the expression of all prefixes that differ from one in numbers, names of months, levels and streams alone.

    Example:
        >>> re.match(shape_of("0|web  | 10:00:05 ["), "1|web  | 23:11:59 [INFO").end()
        19
    """
    pieces, end = [], 0
    for found in _CHANGING.finditer(before):
        pieces += [re.escape(before[end : found.start()]), _width(found, len(before))]
        end = found.end()
    return "".join([*pieces, re.escape(before[end:])])


def _width(found: re.Match[str], length: int) -> str:
    """Return the expression of one part: blanks at the end are counted, those behind them belong to the line."""
    kind = found.lastgroup or ""
    return f" {{{len(found[0])}}}" if kind == "spaces" and found.end() == length else _WIDTH[kind]
