"""Lines of a log by number or by text, masked; read anew for each request, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from msgspec import Struct

from vllm_logdoctor.assistants.excerpt import LogLine, Places, shortened
from vllm_logdoctor.errors import LogdoctorError
from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.parse import Record, RecordParser
from vllm_logdoctor.run.model import Run
from vllm_logdoctor.scan import Line
from vllm_logdoctor.source import Input, read_chunks
from vllm_logdoctor.source.chunks import Reading

MOST_LINES = 100
"""Lines that one request returns."""
LONGEST_TEXT = 200
SHORTEST_TEXT = 3
_BEFORE = 80
"""Lines read before the first one: a private key or a value on a line of its own is masked by what precedes it."""
_LONGEST_READ = 1 << 16
_WORD = lazy_pattern(r"[A-Za-z0-9_]+")


class Lines(Struct, frozen=True):
    """Some lines; `next` is the number to go on from, or None at the end."""

    lines: tuple[LogLine, ...]
    next: int | None = None


class LineSource(Protocol):
    """Where lines are looked up."""

    def between(self, first: int, last: int) -> Lines:
        """Return the lines with these numbers."""

    def containing(self, text: str, start: int = 1) -> Lines:
        """Return lines that hold a text, from a line on."""


class MaskedLog:
    """The lines of one file.

    Args:
        source: the file; it may grow between two requests.
        label: what precedes each number, "2:" for the second of several files.
    """

    def __init__(self, source: Input, label: str = "") -> None:
        self._source = source
        self._label = label

    def between(self, first: int, last: int) -> Lines:
        """Return the lines from `first` to `last`, at most `MOST_LINES` of them.

        Raises:
            LogdoctorError: these are no line numbers, or the file can't be read.
        """
        if first < 1 or last < first:
            raise LogdoctorError(
                f"lines {first} to {last}: lines are numbered from 1, the first one first", 2
            )
        until = min(last, first + MOST_LINES - 1)
        parser, found, more = RecordParser(), [], False
        for number, lines in self._blocks():
            if number + len(lines) <= max(1, first - _BEFORE):
                continue
            for at, data in enumerate(lines, start=number):
                if at > until:
                    more = True
                    break
                if at >= first - _BEFORE:
                    text = _masked(parser, at, data)
                    if at >= first:
                        found.append(LogLine(f"{self._label}{at}", text))
            if more:
                break
        return Lines(tuple(found), until + 1 if more else None)

    def containing(self, text: str, start: int = 1) -> Lines:
        """Return lines from `start` on whose masked text holds `text`, in any case of letters.

        The masked text alone is searched: a search tells nothing of what is masked.

        Raises:
            LogdoctorError: the text is too short or too long, or the file can't be read.
        """
        words = _WORD.findall(text)
        if not SHORTEST_TEXT <= len(text.strip()) <= LONGEST_TEXT or not words:
            raise LogdoctorError(f"search for a text of {SHORTEST_TEXT} to {LONGEST_TEXT} characters", 2)
        wanted, word = text.strip().lower(), max(words, key=len).lower().encode()
        found: list[LogLine] = []
        before: list[bytes] = []
        for number, lines in self._blocks():
            joined = b"\n".join(lines).lower()
            if number + len(lines) > start and word in joined:
                for place, data in enumerate(lines):
                    if number + place < start or word not in data.lower():
                        continue
                    context = [*before, *lines[:place]][-_BEFORE:]
                    shown = self._in_context(number + place, data, context)
                    if wanted not in shown.lower():
                        continue
                    if len(found) == MOST_LINES:
                        return Lines(tuple(found), number + place)
                    found.append(LogLine(f"{self._label}{number + place}", shown))
            before = [*before, *lines][-_BEFORE:]
        return Lines(tuple(found))

    def _in_context(self, number: int, data: bytes, context: Sequence[bytes]) -> str:
        parser = RecordParser()
        for at, earlier in enumerate(context, start=number - len(context)):
            _masked(parser, at, earlier)
        return _masked(parser, number, data)

    def _blocks(self) -> Iterator[tuple[int, list[bytes]]]:
        """Yield the file as number of the first line and lines."""
        for chunk in read_chunks(self._source, 0, Reading()):
            data = chunk.data
            yield chunk.first_line, (data[:-1] if data.endswith(b"\n") else data).split(b"\n")


class KeptLines:
    """The lines that an analysis kept of a run, for a log that can't be read again or that consists of several files."""

    def __init__(self, run: Run, records: Sequence[Record]) -> None:
        places = Places(run)
        evidence = [(one.line, run.evidence(one)) for one in records]
        self._lines = [
            (line, LogLine(places.at(one.file, one.line), shortened(one.text))) for line, one in evidence
        ]

    def between(self, first: int, last: int) -> Lines:
        """Return the kept lines with these numbers."""
        return self._first([(at, line) for at, line in self._lines if first <= at <= last])

    def containing(self, text: str, start: int = 1) -> Lines:
        """Return kept lines that hold a text, from a line on."""
        wanted = text.strip().lower()
        return self._first(
            [(at, line) for at, line in self._lines if at >= start and wanted in line.text.lower()]
        )

    def _first(self, found: Sequence[tuple[int, LogLine]]) -> Lines:
        more = found[MOST_LINES][0] if len(found) > MOST_LINES else None
        return Lines(tuple(line for _, line in found[:MOST_LINES]), more)


def _masked(parser: RecordParser, number: int, data: bytes) -> str:
    records = parser.parse(Line(0, number, data[:_LONGEST_READ]))
    return shortened(" ".join(record.text for record in records))
