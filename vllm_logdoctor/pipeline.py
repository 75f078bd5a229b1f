"""The whole way of the data: inputs to analysis, one pass, bounded memory."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from vllm_logdoctor.catalogue.foreign import ForeignMatcher
from vllm_logdoctor.catalogue.loading import load_all
from vllm_logdoctor.errors import LogdoctorError
from vllm_logdoctor.events import FastLine, Matcher
from vllm_logdoctor.parse import Record
from vllm_logdoctor.report.model import Analysis, Diagnosis
from vllm_logdoctor.run.assemble import finished
from vllm_logdoctor.run.builder import RunBuilder
from vllm_logdoctor.run.clock import runs_backwards
from vllm_logdoctor.run.model import Coverage, Evidence, Run, SourceSummary, Unknown
from vllm_logdoctor.run.segments import Segmenter
from vllm_logdoctor.scan import Scanned, build_prefilter
from vllm_logdoctor.selection import split_by_kind
from vllm_logdoctor.source import (
    Chunk,
    Input,
    Stream,
    opened,
    read_chunks,
    read_pieces,
    sets_of,
)
from vllm_logdoctor.source.chunks import CHUNK_BYTES, Reading
from vllm_logdoctor.streams import Item, StreamReader, merged

NEWEST_FIRST = "the lines run backwards in time, newest first: turn the file round and analyse it again (tac LOG | logdoctor analyze -)"
INTERRUPTED = "reading was interrupted; what came before is analysed"

OBJECTIVES = ("balanced", "throughput", "latency", "long-context", "memory", "startup")
"""What advice can be for."""

_SMALL_FILE_CHUNKS = 4
"""Below so many chunks the start of processes costs more than it saves."""


class Options(Struct, frozen=True):
    """How to analyse.

    Attributes:
        patterns: directories or files with packs of others.
        objective: what the advice is for.
        pure_python: find gates without hyperscan.
        chunk_bytes: bytes per chunk; the result does not depend on it.
        cache: folder for compiled gates, or None for none.
        jobs: processes that scan.
    """

    patterns: tuple[Path, ...] = ()
    objective: str = "balanced"
    pure_python: bool = False
    chunk_bytes: int = CHUNK_BYTES
    cache: Path | None = None
    jobs: int = 1


class _File(Struct):
    name: str
    group: int
    reading: Reading = field(default_factory=Reading)


class Analyser:
    """Takes chunks, gives an analysis at any time: the state of one pass.

    Args:
        options: how to analyse.

    Example:
        >>> analyser = Analyser(Options())
        >>> number = analyser.open("vllm.log")
        >>> analyser.feed(Chunk(number, 1, b"INFO 01-01 00:00:00 [a.py:1] hello\\n"))
        >>> len(analyser.analysis().runs)
        1
    """

    def __init__(self, options: Options) -> None:
        self.options = options
        self.index, self._pack_notes = load_all(options.patterns)
        self._foreign = ForeignMatcher()
        self._matcher = Matcher(self.index, self._foreign.match)
        self.prefilter = build_prefilter(
            self.index.literals, options.cache, options.pure_python, self.index.digest
        )
        self._files: list[_File] = []
        self._names: list[str] = []
        self._readers: list[StreamReader] = []
        self._segmenters: list[Segmenter] = []
        self.interrupted = False

    def open(self, name: str, group: int = 0) -> int:
        """Announce a file of a group; returns its number. Files of one group are one run set."""
        self._segmenter(group)
        self._files.append(_File(name, group))
        self._names.append(name)
        return len(self._files) - 1

    def stream(self, label: str = "") -> StreamReader:
        """Return a reader for one continuous stream of files."""
        reader = StreamReader(self.prefilter, self._matcher, label)
        self._readers.append(reader)
        return reader

    def reading(self, number: int) -> Reading:
        """Return what was read of a file, for the reader of its chunks to fill in."""
        return self._files[number].reading

    def feed(self, chunk: Chunk) -> None:
        """Take the next chunk of a single stream."""
        if not self._readers:
            self.stream()
        reader, group = self._readers[0], self._files[chunk.file].group
        self.take(group, reader.items(chunk))
        self.take(group, reader.waiting())

    def take(self, group: int, items: Iterable[Item]) -> None:
        """Fold items of a group into its runs."""
        segmenter = self._segmenter(group)
        for item in items:
            if isinstance(item, FastLine):
                segmenter.add_fast(item)
            elif isinstance(item, Counter):
                segmenter.add_accesses(item)
            else:
                segmenter.add(*item)

    def _segmenter(self, group: int) -> Segmenter:
        while len(self._segmenters) <= group:
            self._segmenters.append(Segmenter(self._names))
        return self._segmenters[group]

    def runs(self) -> list[Run]:
        """Return the runs as known so far, numbered over all groups."""
        tails: dict[int, list[Record]] = {}
        for reader in self._readers:
            for record in reader.tail():
                tails.setdefault(self._files[record.file].group, []).append(record)
        runs = [
            finished(builder, tails.get(group, ()) if builder is segmenter.runs[-1] else ())
            for group, segmenter in enumerate(self._segmenters)
            for builder in segmenter.runs
        ]
        backwards = [told for one in self._segmenters for told in [_is_backwards(one.runs)] * len(one.runs)]
        for run, turned in zip(runs, backwards, strict=True):
            run.newest_first = turned
        runs = [run for run in runs if _worth_telling(run)]
        for number, run in enumerate(runs, start=1):
            run.number = number
            run.secrets = self._secrets_of(run)
            run.followed = _is_followed(run, runs[number:])
        return runs

    def _secrets_of(self, run: Run) -> list[tuple[Evidence, tuple[str, ...]]]:
        return [
            (Evidence(self._names[secret.file], secret.line, secret.text), secret.names)
            for reader in self._readers
            for secret in reader.parser.secrets
            if self._names[secret.file] in (run.first_file, run.last_file)
            and run.first_line <= secret.line <= run.last_line
        ]

    def analysis(self) -> Analysis:
        """Judge what is known so far."""
        runs = self.runs()
        judged = tuple(diagnosed(run, self.options.objective) for run in runs)
        return Analysis(self.sources(), judged, self.coverage(runs), self.options.objective)

    def sources(self) -> tuple[SourceSummary, ...]:
        """Return what was read, file by file."""
        return tuple(
            SourceSummary(f.name, f.reading.bytes, f.reading.lines, f.reading.note or "") for f in self._files
        )

    def coverage(self, runs: Sequence[Run]) -> Coverage:
        """Return how much was understood."""
        unknown: list[Unknown] = sorted(
            (u for run in runs for u in run.unknown if u.level not in ("INFO", "DEBUG")),
            key=lambda u: (-u.count, u.template),
        )
        return Coverage(
            lines=sum(f.reading.lines for f in self._files),
            vllm_lines=sum(run.vllm_records for run in runs)
            + sum(one.records_left_out for one in self._segmenters),
            recognised=sum(run.recognised_records for run in runs)
            + sum(one.recognised_left_out for one in self._segmenters),
            cut_characters=sum(reader.parser.cut_characters for reader in self._readers),
            unknown=tuple(unknown[:200]),
            notes=(
                *(f.reading.note for f in self._files if f.reading.note),
                *((NEWEST_FIRST,) if any(run.newest_first for run in runs) else ()),
                *((INTERRUPTED,) if self.interrupted else ()),
                *(runs_left_out(one.left_out) for one in self._segmenters if one.left_out),
                *(of_nobody(one.accesses_of_nobody) for one in self._segmenters if one.accesses_of_nobody),
                *self._pack_notes,
                *self._foreign.disabled.values(),
            ),
        )


def _is_backwards(builders: Sequence[RunBuilder]) -> bool:
    """Say whether a set is written newest line first, by the clock of a wrapper where there is one."""
    outer = [one.outer_clock for one in builders]
    wrapped = any(clock.first is not None for clock in outer)
    return runs_backwards(outer if wrapped else [one.clock for one in builders])


def runs_left_out(number: int) -> str:
    """Say that runs were counted only."""
    return f"{number:,} more runs stand between the last two told here: counted, not told"


def of_nobody(number: int) -> str:
    """Say that access lines name no server while several write to one log."""
    return f"{number:,} access lines name none of the servers that wrote to this log side by side: counted for none of them"


def _is_followed(run: Run, later: Sequence[Run]) -> bool:
    return any(other.first_file == run.last_file and other.first_line > run.last_line for other in later[:1])


def _worth_telling(run: Run) -> bool:
    if run.vllm_records or run.messages or run.accesses:
        return True
    from vllm_logdoctor.rules.failure import speaks_of_vllm

    return speaks_of_vllm(run) or _prints_what_vllm_prints(run)


def _prints_what_vllm_prints(run: Run) -> bool:
    """Return whether the text of a record is one of vLLM's messages, in an excerpt without headers."""
    from vllm_logdoctor.catalogue.vllm_messages import VllmMessages

    known = VllmMessages()
    return any(known.is_printed(record.text) for record in run.records[:2000])


def diagnosed(run: Run, objective: str) -> Diagnosis:
    """Judge one run."""
    from vllm_logdoctor.diagnose import judge

    return judge(run, objective)


def analyse(
    inputs: Iterable[Input], options: Options | None = None, progress: Callable[[int], None] | None = None
) -> Analysis:
    """Analyse inputs in reading order.

    Args:
        inputs: what to read (`source.inputs_from`).
        options: how.
        progress: called with the number of bytes read since the last call.

    Raises:
        LogdoctorError: nothing could be read (exit code 3), or nothing of vLLM is in it (4).
    """
    logs, skipped = split_by_kind(inputs)
    if skipped and not logs:
        names = ", ".join(f"{one.file} ({one.kind})" for one in skipped[:3])
        more = f" and {len(skipped) - 3} more" if len(skipped) > 3 else ""
        raise LogdoctorError(f"no log of vLLM: {names}{more}", 4)
    analyser = Analyser(options or Options())
    failures: list[LogdoctorError] = []
    try:
        for group, input_set in enumerate(sets_of(logs)):
            streams = [_items(analyser, stream, group, failures, progress) for stream in input_set.streams]
            analyser.take(group, streams[0] if len(streams) == 1 else merged(streams))
    except KeyboardInterrupt:
        analyser.interrupted = True
    analysis = analyser.analysis()
    analysis = replace(analysis, sources=(*analysis.sources, *skipped))
    if not analysis.runs:
        if failures and not any(s.bytes for s in analysis.sources):
            raise failures[0]
        raise LogdoctorError(nothing_of_vllm(analysis.sources), 4)
    return analysis


def _items(
    analyser: Analyser,
    stream: Stream,
    group: int,
    failures: list[LogdoctorError],
    progress: Callable[[int], None] | None,
) -> Iterator[Item]:
    """Read one stream: its files one after the other; a file that can't be read is noted and left out."""
    reader = analyser.stream(stream.label)
    for source in stream.inputs:
        number = analyser.open(source.name, group)
        try:
            with closing(_scanned(analyser, reader, source, number)) as pieces:
                for chunk, scanned in pieces:
                    yield from reader.items(chunk, scanned)
                    if progress is not None:
                        progress(chunk.size)
        except LogdoctorError as error:
            analyser.reading(number).note = str(error)
            failures.append(error)
    yield from reader.waiting()


def _scanned(
    analyser: Analyser, reader: StreamReader, source: Input, number: int
) -> Generator[tuple[Chunk, Scanned | None], None, None]:
    """Read the chunks of a file, scanned by several processes where that was asked for and the file is large."""
    options, reading = analyser.options, analyser.reading(number)
    is_small = source.size is not None and source.size < _SMALL_FILE_CHUNKS * options.chunk_bytes
    # A process that does not inherit memory and open files would have to be given all of it.
    if options.jobs < 2 or is_small or not hasattr(os, "fork"):
        yield from ((chunk, None) for chunk in read_chunks(source, number, reading, options.chunk_bytes))
        return
    from vllm_logdoctor.scan.workers import Workers

    with opened(source) as file, Workers(options.jobs - 1, reader.scanner, analyser.prefilter) as workers:
        for chunk, scanned in workers.scan(read_pieces(source, file, number, reading, options.chunk_bytes)):
            reading.place(chunk, scanned.lines)
            yield chunk, scanned
    reading.close()


def nothing_of_vllm(sources: Sequence[SourceSummary]) -> str:
    """Say what was seen where nothing of vLLM was."""
    lines, size = sum(s.lines for s in sources), sum(s.bytes for s in sources)
    names = sources[0].file if len(sources) == 1 else f"{len(sources)} files"
    if size == 0:
        return f"{names}: empty; was the log written elsewhere (standard error, another rank's file)?"
    return (
        f"{names}: {lines:,} {'line' if lines == 1 else 'lines'}, {size:,} bytes, nothing that vLLM writes; "
        "is this the log of the server?"
    )
