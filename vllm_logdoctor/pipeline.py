"""The whole way of the data: inputs to analysis, one pass, bounded memory."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from threading import local
from time import monotonic

from msgspec import Struct
from msgspec.structs import replace

from vllm_logdoctor.catalogue.foreign import ForeignMatcher
from vllm_logdoctor.catalogue.index import PackIndex
from vllm_logdoctor.catalogue.loading import load_all
from vllm_logdoctor.errors import LogdoctorError
from vllm_logdoctor.events import FastLine, Matcher
from vllm_logdoctor.evidence.model import EvidenceFile
from vllm_logdoctor.report.model import Analysis
from vllm_logdoctor.report.own_reports import is_own_report
from vllm_logdoctor.results import Results, RunSet, defect
from vllm_logdoctor.run.beside import files_of_runs
from vllm_logdoctor.run.job import JobEnd
from vllm_logdoctor.run.model import Run, SourceSummary
from vllm_logdoctor.scan import Prefilter, Scanned, build_prefilter
from vllm_logdoctor.selection import says_end_of_job, split_by_kind
from vllm_logdoctor.source import (
    Chunk,
    Input,
    Stream,
    opened,
    read_chunks,
    read_pieces,
    servers_apart,
    sets_of,
    with_words_of_jobs,
)
from vllm_logdoctor.source.chunks import CHUNK_BYTES, InputSize
from vllm_logdoctor.streams import Item, StreamReader, merged

INTERRUPTED = "reading was interrupted; what came before is analysed"
OUT_OF_TIME = "reading stopped at the time limit of {:g} s; what came before is analysed"

OBJECTIVES = ("balanced", "throughput", "latency", "long-context", "memory", "startup", "cost")
"""What advice can be for."""

_SMALL_FILE_CHUNKS = 4
"""Below so many chunks the start of processes costs more than it saves."""


class Options(Struct, frozen=True):
    """How to analyse.

    Attributes:
        patterns: directories or files with packs of others.
        objective: what the advice is for.
        pure_python: find literals without hyperscan.
        chunk_bytes: bytes per chunk; the result does not depend on it.
        cache: folder for compiled literals, or None for none.
        jobs: processes that scan.
        job: how the batch job ended that the logs are of, or None.
        time_limit: seconds after which reading stops and what was read is judged, or None.
    """

    patterns: tuple[Path, ...] = ()
    objective: str = "balanced"
    pure_python: bool = False
    chunk_bytes: int = CHUNK_BYTES
    cache: Path | None = None
    jobs: int = 1
    job: JobEnd | None = None
    time_limit: float | None = None


class Recognition(Struct):
    """What finds lines and recognises their messages: built once for the analyses of a thread, one after the other."""

    index: PackIndex
    pure_python: bool
    prefilter: Prefilter
    foreign: ForeignMatcher
    matcher: Matcher


_THREAD = local()


def _recognition(index: PackIndex, options: Options) -> Recognition:
    """Return what the last analysis of this thread used where the index is the same, else build it."""
    known: Recognition | None = getattr(_THREAD, "recognition", None)
    if known is None or known.index is not index or known.pure_python != options.pure_python:
        foreign = ForeignMatcher()
        prefilter = build_prefilter(index.literals, options.cache, options.pure_python, index.digest)
        matcher = Matcher(index, foreign.match)
        known = _THREAD.recognition = Recognition(index, options.pure_python, prefilter, foreign, matcher)
    return known


class Analyser:
    """Takes chunks, gives an analysis at any time: the state of one pass.

    Args:
        options: how to analyse.
        evidence: what was read of files beside the logs.

    Example:
        >>> analyser = Analyser(Options())
        >>> number = analyser.open("vllm.log")
        >>> analyser.feed(Chunk(number, 1, b"INFO 01-01 00:00:00 [api_server.py:1043] vLLM API server version 0.9.0\\n"))
        >>> len(analyser.analysis().runs)
        1
    """

    def __init__(self, options: Options, evidence: Sequence[EvidenceFile] = ()) -> None:
        self.options = options
        self.evidence = evidence
        self.index, self._pack_notes = load_all(options.patterns)
        recognition = _recognition(self.index, options)
        self._foreign, self._matcher = recognition.foreign, recognition.matcher
        self.prefilter = recognition.prefilter
        self._ends = None if options.time_limit is None else monotonic() + options.time_limit
        self._group = RunSet(self.options.job, self.evidence)
        self._results = Results()
        self.interrupted = False
        self.out_of_time = False

    def open(self, name: str) -> int:
        """Announce a file of the current run set; return its number there."""
        return self._group.open(name)

    def stream(self, label: str = "") -> StreamReader:
        """Return a reader for one continuous stream of files of the current run set."""
        reader = StreamReader(self.prefilter, self._matcher, label)
        self._group.readers.append(reader)
        return reader

    def reading(self, number: int) -> InputSize:
        """Return what was read of a file, for the reader of its chunks to fill in."""
        return self._group.readings[number]

    def feed(self, chunk: Chunk) -> None:
        """Take the next chunk of a single stream."""
        reader = self._group.readers[0] if self._group.readers else self.stream()
        self.take(reader.items(chunk))
        self.take(reader.waiting())

    def take(self, items: Iterable[Item]) -> None:
        """Fold items into the runs of the current run set."""
        segmenter = self._group.segmenter
        for item in items:
            if isinstance(item, FastLine):
                segmenter.add_fast(item)
            elif isinstance(item, Counter):
                segmenter.add_accesses(item)
            else:
                segmenter.add(*item)

    def note_defect(self, error: Exception) -> None:
        """Note that an error of this program ended the reading of the current run set: it costs that set, not the others."""
        if os.environ.get("LOGDOCTOR_TRACEBACK"):
            raise error
        self._group.defects.append(defect(self._group.names[-1] if self._group.names else "input", error))

    def close(self) -> None:
        """Judge the runs of the current run set and begin the next one; only the results are kept."""
        self._results.add(self._group.result(self.options.objective, judged=not self._results.full))
        self._group = RunSet(self.options.job, self.evidence)

    def check_time(self) -> None:
        """Note whether the time limit is reached."""
        self.out_of_time = self.out_of_time or (self._ends is not None and monotonic() > self._ends)

    def runs(self) -> list[Run]:
        """Return the runs of the current run set as known so far."""
        return self._group.runs()[0]

    def analysis(self) -> Analysis:
        """Judge what is known so far."""
        results = self._results
        if self._group.names:
            results = results.with_one(self._group.result(self.options.objective))
        notes = (
            *((INTERRUPTED,) if self.interrupted else ()),
            *((OUT_OF_TIME.format(self.options.time_limit),) if self.out_of_time else ()),
            *self._pack_notes,
            *(_rules_left_out() if results.diagnoses else ()),
            *self._foreign.disabled.values(),
        )
        diagnoses = results.reported()
        for number, one in enumerate(diagnoses, start=1):
            one.run.number = number
        sources, coverage = tuple(results.all_sources()), results.coverage(notes)
        return Analysis(sources, tuple(diagnoses), coverage, self.options.objective)


def analyse(
    inputs: Iterable[Input],
    options: Options | None = None,
    progress: Callable[[int], None] | None = None,
    evidence: Sequence[EvidenceFile] = (),
) -> Analysis:
    """Analyse inputs in reading order.

    Args:
        inputs: what to read (`source.inputs_from`).
        options: how.
        progress: called with the number of bytes read since the last call.
        evidence: what was read of files beside the logs.

    Raises:
        LogdoctorError: nothing could be read (exit code 3), or nothing of vLLM is in it (4).
    """
    selected = split_by_kind(inputs)
    if not selected.logs and not selected.evidence:
        raise _no_log(selected.others)
    files = (*evidence, *selected.evidence)
    analyser = Analyser(options or Options(), files)
    analyser.interrupted = selected.interrupted
    failures: list[LogdoctorError] = []
    try:
        for input_set in servers_apart(with_words_of_jobs(sets_of(selected.logs), says_end_of_job)):
            streams = [_items(analyser, stream, failures, progress) for stream in input_set.streams]
            try:
                analyser.take(streams[0] if len(streams) == 1 else merged(streams))
            except Exception as error:
                analyser.note_defect(error)
            analyser.close()
    except KeyboardInterrupt:
        analyser.interrupted = True
    analysis = analyser.analysis()
    runs = [diagnosis.run for diagnosis in analysis.runs]
    beside = files_of_runs(files, runs)
    analysis = replace(analysis, sources=(*analysis.sources, *selected.others), beside=beside)
    if not runs and not beside:
        if failures and not any(s.bytes for s in analysis.sources):
            raise failures[0]
        raise LogdoctorError(nothing_of_vllm(analysis.sources), 4)
    return analysis


def _rules_left_out() -> Iterator[str]:
    """Yield a note for each rule page of the tool that can't be used."""
    from vllm_logdoctor.rules.failure.signatures import failure_rules

    return (f"rule left out: {problem}" for problem in failure_rules().problems)


def _no_log(others: Sequence[SourceSummary]) -> LogdoctorError:
    if not others:
        return LogdoctorError("no log of vLLM among these files; name the log itself", 4)
    names = ", ".join(f"{one.file} ({one.kind})" for one in others[:3])
    more = f" and {len(others) - 3} more" if len(others) > 3 else ""
    if all(is_own_report(one.kind) for one in others):
        return LogdoctorError(f"no log of vLLM: {names}{more}; give the log that the report was made of")
    return LogdoctorError(f"no log of vLLM: {names}{more}", 4)


def _items(
    analyser: Analyser,
    stream: Stream,
    failures: list[LogdoctorError],
    progress: Callable[[int], None] | None,
) -> Iterator[Item]:
    """Read one stream: its files one after the other; a file that can't be read is noted and left out."""
    reader = analyser.stream(stream.label)
    for source in stream.inputs:
        if analyser.out_of_time:
            break
        number = analyser.open(source.name)
        try:
            with closing(_scanned(analyser, reader, source, number)) as pieces:
                for chunk, scanned in pieces:
                    if analyser.out_of_time:
                        break
                    yield from reader.items(chunk, scanned)
                    if progress is not None:
                        progress(chunk.size)
                    analyser.check_time()
        except LogdoctorError as error:
            analyser.reading(number).note = str(error)
            failures.append(error)
    yield from reader.waiting()


def _scanned(
    analyser: Analyser, reader: StreamReader, source: Input, number: int
) -> Generator[tuple[Chunk, Scanned | None], None, None]:
    """Read the chunks of a file, scanned by several processes on request and where the file is large."""
    options, reading = analyser.options, analyser.reading(number)
    is_small = source.size is not None and source.size < _SMALL_FILE_CHUNKS * options.chunk_bytes
    # A process that does not inherit memory and open files would have to be given all of it.
    if options.jobs < 2 or is_small or not hasattr(os, "fork"):
        yield from ((chunk, None) for chunk in read_chunks(source, number, reading, options.chunk_bytes))
        return
    from vllm_logdoctor.scan.workers import Workers

    with opened(source) as file, Workers(options.jobs - 1, reader.scanner) as workers:
        for chunk, scanned in workers.scan(read_pieces(source, file, number, reading, options.chunk_bytes)):
            reading.place(chunk, scanned.lines)
            yield chunk, scanned
    reading.close()


def nothing_of_vllm(sources: Sequence[SourceSummary]) -> str:
    """Return what was seen where nothing of vLLM was."""
    lines, size = sum(s.lines for s in sources), sum(s.bytes for s in sources)
    names = sources[0].file if len(sources) == 1 else f"{len(sources)} files"
    if size == 0:
        return f"{names}: empty; was the log written elsewhere (standard error, another rank's file)?"
    return (
        f"{names}: {lines:,} {'line' if lines == 1 else 'lines'}, {size:,} bytes, nothing that vLLM writes; "
        f"{sources[0].note if len(sources) == 1 and sources[0].note else 'is this the log of the server?'}"
    )
