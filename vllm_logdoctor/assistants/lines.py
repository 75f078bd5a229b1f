"""Lines of a log by place or by text, masked; read anew for each request, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from msgspec import Struct

from vllm_logdoctor.assistants.excerpt import LogLine, Places, chosen, shortened
from vllm_logdoctor.errors import LogdoctorError
from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.parse import Record, RecordParser
from vllm_logdoctor.report.model import Analysis
from vllm_logdoctor.run.lifecycle import trail_of
from vllm_logdoctor.run.model import Run
from vllm_logdoctor.scan import WantedLine
from vllm_logdoctor.source import Input, read_chunks
from vllm_logdoctor.source.chunks import InputSize

MOST_LINES = 100
"""Lines that one request returns."""
LONGEST_TEXT = 200
SHORTEST_TEXT = 3
_BEFORE = 80
"""Lines read before the first one: a private key or a value on a line of its own is masked by what precedes it."""
_LONGEST_READ = 1 << 16
_WORD = lazy_pattern(r"[A-Za-z0-9_]+")
# 12     L12     2:12 for line 12 of the second file
_PLACE = lazy_pattern(r"[Ll]?(?:(?P<file>\d{1,6}):)?(?P<line>\d{1,15})\Z")


class LinePage(Struct, frozen=True):
    """Some lines; `next` is the place to go on from, or None at the end."""

    lines: tuple[LogLine, ...]
    next: str | None = None


class LineSource(Protocol):
    """Where lines are looked up; a place is "12", or "2:12" for line 12 of the second of several files."""

    def between(self, first: str, last: str) -> LinePage:
        """Return the lines from one place of a file to another."""

    def containing(self, text: str, start: str = "1") -> LinePage:
        """Return lines that hold a text, from a place on."""


class MaskedLog:
    """A log of one or more files that are read for each request, so that they may grow between two of them."""

    def __init__(self, *sources: Input) -> None:
        self._sources = sources

    def between(self, first: str, last: str) -> LinePage:
        """Return the lines from `first` to `last`, at most `MOST_LINES` of them.

        Raises:
            LogdoctorError: these are no places in one file, or the file can't be read.
        """
        (file, begin), (other, end) = (_place(one, len(self._sources)) for one in (first, last))
        if file != other or end < begin:
            raise LogdoctorError(f"lines {first} to {last}: name lines of one file, the first one first", 2)
        until = min(end, begin + MOST_LINES - 1)
        parser = RecordParser()
        found: list[LogLine] = []
        for number, lines in self._blocks(file):
            for at, data in enumerate(lines, start=number):
                if at > until:
                    return LinePage(tuple(found), self._at(file, at))
                if at >= begin - _BEFORE:
                    text = _masked(parser, at, data)
                    if at >= begin:
                        found.append(LogLine(self._at(file, at), text))
        return LinePage(tuple(found))

    def containing(self, text: str, start: str = "1") -> LinePage:
        """Return lines from `start` on whose masked text holds `text`, in any case of letters.

        The masked text alone is searched: a search tells nothing of what is masked.

        Raises:
            LogdoctorError: the text is too short or too long, this is no place, or a file can't be read.
        """
        words = _WORD.findall(text)
        if not SHORTEST_TEXT <= len(text.strip()) <= LONGEST_TEXT or not words:
            raise LogdoctorError(f"search for a text of {SHORTEST_TEXT} to {LONGEST_TEXT} characters", 2)
        first, begin = _place(start, len(self._sources), or_first=True)
        found: list[LogLine] = []
        for file in range(first, len(self._sources)):
            for at, shown in self._holding(
                file, text.strip().lower(), max(words, key=len), begin if file == first else 1
            ):
                if len(found) == MOST_LINES:
                    return LinePage(tuple(found), self._at(file, at))
                found.append(LogLine(self._at(file, at), shown))
        return LinePage(tuple(found))

    def _holding(self, file: int, wanted: str, word: str, start: int) -> Iterator[tuple[int, str]]:
        """Yield number and masked text of each line from `start` on that holds a text; `word` is a part of it."""
        mark = word.lower().encode()
        before: list[bytes] = []
        for number, lines in self._blocks(file):
            if number + len(lines) > start and mark in b"\n".join(lines).lower():
                for place, data in enumerate(lines):
                    if number + place >= start and mark in data.lower():
                        context = [*before, *lines[:place]][-_BEFORE:]
                        shown = _in_context(number + place, data, context)
                        if wanted in shown.lower():
                            yield number + place, shown
            before = [*before, *lines][-_BEFORE:]

    def _blocks(self, file: int) -> Iterator[tuple[int, list[bytes]]]:
        """Yield a file as number of the first line and lines."""
        for chunk in read_chunks(self._sources[file], 0, InputSize()):
            data = chunk.data
            yield chunk.first_line, (data[:-1] if data.endswith(b"\n") else data).split(b"\n")

    def _at(self, file: int, line: int) -> str:
        return f"{file + 1}:{line}" if len(self._sources) > 1 else str(line)


class KeptLines:
    """The lines that an analysis kept of a run, for a log that can't be read again."""

    def __init__(self, run: Run, records: Sequence[Record]) -> None:
        places = Places(run)
        self._files = len(places.names)
        self._lines = [
            ((one.file, one.line), LogLine(places.at(line.file, line.line), shortened(line.text)))
            for one, line in ((one, run.evidence(one)) for one in records)
        ]

    def between(self, first: str, last: str) -> LinePage:
        """Return the kept lines from one place to another."""
        begin, end = (_place(one, self._files) for one in (first, last))
        return self._first([line for at, line in self._lines if begin <= at <= end])

    def containing(self, text: str, start: str = "1") -> LinePage:
        """Return kept lines that hold a text, from a place on."""
        wanted, begin = text.strip().lower(), _place(start, self._files, or_first=True)
        return self._first([line for at, line in self._lines if at >= begin and wanted in line.text.lower()])

    def _first(self, found: Sequence[LogLine]) -> LinePage:
        more = found[MOST_LINES].at if len(found) > MOST_LINES else None
        return LinePage(tuple(found[:MOST_LINES]), more)


def line_source(analysis: Analysis, inputs: Sequence[Input], run: int | None = None) -> LineSource:
    """Return where lines of a run are looked up: its files, if all can be read again, else what the analysis kept.

    Args:
        analysis: all of an analysis.
        inputs: what it was made of.
        run: number of the run; default: the last that failed, else the last.

    Raises:
        LogdoctorError: no such run (exit code 2).
    """
    facts = chosen(analysis, run).run
    by_name = {one.name: one for one in inputs if one.path is not None and one.path.is_file()}
    files = facts.files or (facts.first_file,)
    if all(name in by_name for name in files):
        return MaskedLog(*(by_name[name] for name in files))
    return KeptLines(facts, trail_of(facts))


def _place(text: str, files: int, or_first: bool = False) -> tuple[int, int]:
    """Read a place as the number of the file, from 0, and the line.

    Args:
        text: the place.
        files: how many files there are.
        or_first: whether a place without a file is one in the first of several.
    """
    found = _PLACE.match(str(text).strip())
    if found is None or int(found["line"]) < 1:
        raise LogdoctorError(f"line {str(text)[:40]!r}: lines are numbered from 1", 2)
    if found["file"] is None and files > 1 and not or_first:
        raise LogdoctorError(f"line {text}: there are {files} files; name line 12 of the second one 2:12", 2)
    file = int(found["file"] or 1)
    if not 1 <= file <= files:
        raise LogdoctorError(f"line {text}: there {'is one file' if files == 1 else f'are {files} files'}", 2)
    return file - 1, int(found["line"])


def _in_context(number: int, data: bytes, context: Sequence[bytes]) -> str:
    parser = RecordParser()
    for at, earlier in enumerate(context, start=number - len(context)):
        _masked(parser, at, earlier)
    return _masked(parser, number, data)


def _masked(parser: RecordParser, number: int, data: bytes) -> str:
    records = parser.parse(WantedLine(0, number, data[:_LONGEST_READ]))
    return shortened(" ".join(record.text for record in records))
