"""Run sets and what is kept of them: a directory may hold a hundred thousand files, and each set is judged when it was read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from vllm_logdoctor.evidence.model import EvidenceFile
from vllm_logdoctor.parse import Record
from vllm_logdoctor.report.model import Diagnosis
from vllm_logdoctor.run.assemble import finished
from vllm_logdoctor.run.beside import attach
from vllm_logdoctor.run.builder import RunBuilder
from vllm_logdoctor.run.clock import runs_backwards
from vllm_logdoctor.run.job import JobEnd, combined, job_end_in
from vllm_logdoctor.run.lifecycle import trail_of
from vllm_logdoctor.run.model import Coverage, Evidence, Run, SourceSummary, Unknown
from vllm_logdoctor.run.omissions import omissions
from vllm_logdoctor.run.other_programs import argument_not_taken
from vllm_logdoctor.run.segments import Segmenter
from vllm_logdoctor.source.chunks import InputSize
from vllm_logdoctor.streams import StreamReader

NEWEST_FIRST = "the lines run backwards in time, newest first: turn the file round and analyse it again (tac LOG | logdoctor analyze -)"
MOST_RUNS_IN_DETAIL = 1000
"""Runs of all inputs that are reported; further ones are judged and counted by outcome."""
_MOST_SOURCES = 2000
_MOST_NOTES = 200
_MOST_UNKNOWN = 200
_MOST_NAMED = 10


class SetResult(Struct):
    """What one run set gave."""

    diagnoses: Sequence[Diagnosis]
    sources: Sequence[SourceSummary]
    coverage: Coverage
    foreign: Sequence[Diagnosis]


class RunSet:
    """Files that belong together, with their runs until they are judged."""

    def __init__(self, job: JobEnd | None = None, evidence: Sequence[EvidenceFile] = ()) -> None:
        self.job = job
        self.evidence = evidence
        self.names: list[str] = []
        self.readings: list[InputSize] = []
        self.readers: list[StreamReader] = []
        self.segmenter = Segmenter(self.names)
        self.defects: list[str] = []

    def open(self, name: str) -> int:
        """Announce a file; return its number."""
        self.names.append(name)
        self.readings.append(InputSize())
        return len(self.names) - 1

    def result(self, objective: str, *, judged: bool = True) -> SetResult:
        """Return the runs as known so far, judged unless they are only counted by their outcome."""
        runs, defects = self.runs()
        attach(self.evidence, runs)
        diagnoses = []
        for run in runs:
            try:
                diagnoses.append(diagnosed(run, objective) if judged else Diagnosis(run))
            except Exception as error:
                defects.append(defect(f"run at line {run.first_line} of {run.first_file}", error))
        foreign = () if runs else self._foreign(objective)
        sources = [
            SourceSummary(name, one.bytes, one.lines, one.note or "")
            for name, one in zip(self.names, self.readings, strict=True)
        ]
        return SetResult(diagnoses, sources, self._coverage(runs, defects), foreign)

    def _foreign(self, objective: str) -> list[Diagnosis]:
        """Return the run of a text without a word of vLLM that an error ended: what there is to say of the only file given."""
        from vllm_logdoctor.rules.failure import shows_error

        builder = self.segmenter.current
        if len(self.names) != 1 or len(self.segmenter.runs) != 1 or builder.first is None:
            return []
        run = finished(builder, ())
        run.number = 1
        if shows_error(run):
            return [diagnosed(run, objective)]
        if name := argument_not_taken(trail_of(run)):
            self.readings[0].note = NOT_SENT.format(name=name)
        return []

    def runs(self) -> tuple[list[Run], list[str]]:
        """Return the runs as known so far, and a note for each that this program fails on."""
        self.segmenter.flush()
        tail: list[Record] = [record for reader in self.readers for record in reader.tail()]
        backwards = _is_backwards(self.segmenter.runs)
        runs: list[Run] = []
        defects: list[str] = []
        job = self.job
        for builder in self.segmenter.runs:
            if builder.number > 1 and builder.only_launched:
                continue
            try:
                run = finished(builder, tail if builder is self.segmenter.current else ())
            except Exception as error:
                defects.append(defect(", ".join(self.names[:1]), error))
                continue
            run.newest_first = backwards
            if _is_of_vllm(run):
                runs.append(run)
            elif len(self.readers) > 1:
                # Error output beside a log.
                job = combined(job_end_in(run.records, run.files), job)
        runs = _with_job(runs, job)
        for number, run in enumerate(runs, start=1):
            run.number = number
            run.secrets = self._secrets_of(run)
            run.followed = _is_followed(run, runs[number:])
        return runs, defects

    def _secrets_of(self, run: Run) -> list[tuple[Evidence, tuple[str, ...]]]:
        return [
            (Evidence(self.names[secret.file], secret.line, secret.text), secret.names)
            for reader in self.readers
            for secret in reader.parser.secrets
            if self.names[secret.file] in (run.first_file, run.last_file)
            and run.first_line <= secret.line <= run.last_line
        ]

    def _coverage(self, runs: Sequence[Run], defects: Iterable[str]) -> Coverage:
        segmenter = self.segmenter
        unread = sum(reader.left_out for reader in self.readers)
        notes = [
            *(one.note for one in self.readings if one.note),
            *self.defects,
            *defects,
            *((NEWEST_FIRST,) if any(run.newest_first for run in runs) else ()),
            *((runs_left_out(segmenter.left_out),) if segmenter.left_out else ()),
            *((unattributed(segmenter.unattributed_accesses),) if segmenter.unattributed_accesses else ()),
            *((lines_left_out(unread),) if unread else ()),
            *((note,) if len(self.names) == 1 and (note := omissions_of(runs)) else ()),
            *((PROCESSES_LEFT_OUT,) if any(one.processes_left_out for one in segmenter.runs) else ()),
        ]
        return Coverage(
            lines=sum(one.lines for one in self.readings),
            vllm_lines=sum(run.vllm_records for run in runs) + segmenter.records_left_out,
            recognised=sum(run.recognised_records for run in runs) + segmenter.recognised_left_out,
            cut_characters=sum(reader.parser.cut_characters for reader in self.readers),
            unknown=tuple(u for run in runs for u in run.unknown if u.level not in ("INFO", "DEBUG")),
            notes=tuple(notes),
            tracebacks=sum(run.tracebacks for run in runs),
        )


class Results(Struct):
    """What all run sets gave, in bounded memory: runs and files beyond the limits are counted.

    Attributes:
        diagnoses: the runs that are reported.
        sources: the files that are listed.
        more: files that are not listed, as one.
        outcomes: further runs by outcome.
        failed: files of further runs that failed, the first ones.
        foreign: runs without a word of vLLM that an error ended.
    """

    diagnoses: list[Diagnosis] = field(default_factory=list)
    sources: list[SourceSummary] = field(default_factory=list)
    more: list[SourceSummary] = field(default_factory=list)
    more_files: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    failed: list[str] = field(default_factory=list)
    total: Coverage = field(default_factory=lambda: Coverage(0, 0, 0, 0, ()))
    notes_left_out: int = 0
    foreign: list[Diagnosis] = field(default_factory=list)

    @property
    def full(self) -> bool:
        """Return whether further runs are only counted."""
        return len(self.diagnoses) >= MOST_RUNS_IN_DETAIL

    def add(self, result: SetResult) -> None:
        """Add what a run set gave."""
        self.foreign = [*self.foreign, *result.foreign][:1]
        for one in result.diagnoses:
            if len(self.diagnoses) < MOST_RUNS_IN_DETAIL:
                self.diagnoses.append(one)
                continue
            self.outcomes[one.run.outcome] += 1
            if one.run.outcome.startswith(("failed", "crashed")) and len(self.failed) < _MOST_NAMED:
                self.failed.append(one.run.first_file)
        for source in result.sources:
            if len(self.sources) < _MOST_SOURCES:
                self.sources.append(source)
                continue
            self.more_files += 1
            before = self.more.pop() if self.more else SourceSummary("", 0, 0)
            self.more.append(
                SourceSummary(
                    f"({self.more_files:,} more files)", before.bytes + source.bytes, before.lines + source.lines, "not listed one by one"
                )
            )  # fmt: skip
        self._add_coverage(result.coverage)

    def with_one(self, result: SetResult) -> Results:
        """Return these results with those of one more run set."""
        both = Results(
            [*self.diagnoses], [*self.sources], [*self.more], self.more_files, Counter(self.outcomes), [*self.failed],
            self.total, self.notes_left_out, self.foreign,
        )  # fmt: skip
        both.add(result)
        return both

    def reported(self) -> list[Diagnosis]:
        """Return the runs to report; of a single file that vLLM did not write, what broke in it."""
        if not self.diagnoses and len(self.sources) == 1:
            return self.foreign
        return self.diagnoses

    def all_sources(self) -> list[SourceSummary]:
        """Return the files that are listed, and one entry for all others."""
        return [*self.sources, *self.more]

    def coverage(self, notes: Iterable[str]) -> Coverage:
        """Return how much was understood; notes on what was left out come last."""
        left_out = []
        if self.outcomes:
            counts = ", ".join(f"{number:,} {outcome}" for outcome, number in self.outcomes.most_common())
            named = f"; failed, among others: {', '.join(self.failed)}" if self.failed else ""
            left_out.append(
                f"{self.outcomes.total():,} more runs were analysed and only counted: {counts}{named}"
            )
        if self.notes_left_out:
            left_out.append(f"{self.notes_left_out:,} more notes on files were left out")
        return replace(self.total, notes=(*self.total.notes, *notes, *left_out))

    def _add_coverage(self, found: Coverage) -> None:
        total = self.total
        unknown: list[Unknown] = sorted(
            (*total.unknown, *found.unknown), key=lambda one: (-one.count, one.template)
        )
        room = max(0, _MOST_NOTES - len(total.notes))
        new = [note for note in found.notes if note not in total.notes]
        self.notes_left_out += len(new[room:])
        self.total = Coverage(
            lines=total.lines + found.lines,
            vllm_lines=total.vllm_lines + found.vllm_lines,
            recognised=total.recognised + found.recognised,
            cut_characters=total.cut_characters + found.cut_characters,
            unknown=tuple(unknown[:_MOST_UNKNOWN]),
            notes=(*total.notes, *new[:room]),
            tracebacks=total.tracebacks + found.tracebacks,
        )


OF_A_DEFECT = "because of a defect of logdoctor"
"""Words of every note on an error of this program."""
PROCESSES_LEFT_OUT = "more processes wrote to this log than are listed: the first 2,000 of a run are"


def _is_backwards(builders: Sequence[RunBuilder]) -> bool:
    """Return whether a set is written newest line first, by the clock of a wrapper where there is one."""
    outer = [one.outer_clock for one in builders]
    wrapped = any(clock.first is not None for clock in outer)
    return runs_backwards(outer if wrapped else [one.clock for one in builders])


def runs_left_out(number: int) -> str:
    """Return the note on runs that were only counted."""
    return f"{number:,} more runs come between the last two that are reported: counted, not reported"


def lines_left_out(number: int) -> str:
    """Return the note on lines that were not read."""
    return (
        f"{number:,} lines without known text, or of starts and statistics, are unlike the 20,000 kinds before them, or of a start behind the first "
        "100,000: not read"
    )


_MOST_MARKS = 5


def omissions_of(runs: Sequence[Run]) -> str:
    """Return where whoever copied a log says that lines are left out, or ""."""
    lines = [one.line for run in runs for one in omissions(trail_of(run))]
    if not lines:
        return ""
    places = ", ".join(f"L{line}" for line in lines[:_MOST_MARKS])
    more = f" and {len(lines) - _MOST_MARKS} more places" if len(lines) > _MOST_MARKS else ""
    return f"Whoever copied this log left lines out at {places}{more}"


def unattributed(number: int) -> str:
    """Return the note on access lines that name no server while several write to one log."""
    return f"{number:,} access lines name none of the servers that wrote to this log side by side: counted for none of them"


def defect(where: str, error: Exception) -> str:
    """Return the note on an error of this program that cost a part of the input."""
    kind = f"{type(error).__name__}: {error}"[:200]
    return f"{where}: analysed only in part {OF_A_DEFECT} ({kind}); please report it"


_SIDE_BY_SIDE_SECONDS = 60.0
"""A server whose log ends earlier than that before the last one had ended before its job did."""


def _with_job(runs: list[Run], job: JobEnd | None) -> list[Run]:
    """Give the runs that their job ended with its end; a file that holds nothing but the batch system's words is no run of its own."""
    of_vllm = [run for run in runs if _holds_lines_of_vllm(run)]
    for run in runs if of_vllm else ():
        said = job_end_in(run.records, run.files) if run not in of_vllm else None
        if said is not None:
            job = combined(said, job)
            runs = [other for other in runs if other is not run]
    last = max((run.ended for run in runs if run.ended is not None), default=0.0)
    if job is None:
        return runs
    for number, run in enumerate(runs, start=1):
        # A limit ends all servers that run side by side, each with a log of its own; of runs in one file the last one.
        lived = run.ended is None or last - run.ended <= _SIDE_BY_SIDE_SECONDS
        together = lived if job.limit else job.exit_status is None and job.signal is None
        if number == len(runs) or (together and not _is_followed(run, runs[number:])):
            run.job = job
    return runs


NOT_SENT = (
    "the error is the client's: the openai package does not know the argument {name} and sent no request;"
    " give it as extra_body={{'{name}': VALUE}}"
)


_OUT_OF_ORDER = 5.0
"""Seconds by which the lines of one start may be out of order: each process has a buffer."""


def _is_followed(run: Run, later: Sequence[Run]) -> bool:
    """Return whether the next run begins behind a run in the same file; a dump may join logs of servers that lived side by side."""
    return any(
        other.first_file == run.last_file
        and other.first_line > run.last_line
        and not _begins_before_end(other, run)
        for other in later[:1]
    )


def _begins_before_end(other: Run, run: Run) -> bool:
    """Return whether a run began before another one ended; False where the log does not show it."""
    if run.ended is None or other.started is None or run.year_known != other.year_known:
        return False
    return other.started < run.ended - _OUT_OF_ORDER


_OF_CLIENTS = "foreign-clients"
"""Pack of what programs print that ask a server: any of them, not only those that ask vLLM."""


def _holds_lines_of_vllm(run: Run) -> bool:
    messages = (seen.first[0].pattern.pack for seen in run.messages.values() if seen.first)
    return bool(run.vllm_records or run.accesses) or any(pack != _OF_CLIENTS for pack in messages)


def _is_of_vllm(run: Run) -> bool:
    if _holds_lines_of_vllm(run):
        return True
    from vllm_logdoctor.rules.failure import speaks_of_vllm

    return speaks_of_vllm(run) or _prints_what_vllm_prints(run)


def _prints_what_vllm_prints(run: Run) -> bool:
    """Return whether the text of a record is one of vLLM's messages, in an excerpt without headers."""
    from vllm_logdoctor.catalogue.vllm_messages import vllm_messages

    known = vllm_messages()
    return any(known.is_printed(record.text) for record in run.records[:2000])


def diagnosed(run: Run, objective: str) -> Diagnosis:
    """Judge one run."""
    from vllm_logdoctor.diagnose import judge

    return judge(run, objective)
