"""The library: `analyze` reads logs and returns a `Report`; all else hangs on it.

Plain attributes need nothing but this package; `to_frame()` needs pandas, `plot` needs matplotlib (extras
`pandas` and `plot`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from vllm_logdoctor.errors import LogdoctorError, unknown_choice
from vllm_logdoctor.events import Event
from vllm_logdoctor.parse import Process
from vllm_logdoctor.pipeline import OBJECTIVES, Options, analyse
from vllm_logdoctor.plan.model import WhatIf
from vllm_logdoctor.report import frames, json, markdown, text
from vllm_logdoctor.report.key_figures import startup_seconds
from vllm_logdoctor.report.model import Analysis, Diagnosis
from vllm_logdoctor.report.naming import run_title
from vllm_logdoctor.report.reader import plain_words
from vllm_logdoctor.rules.bottleneck import ServingPeriod
from vllm_logdoctor.rules.model import Finding, Message
from vllm_logdoctor.run.model import Coverage, Phase, Run, Sample, SourceSummary, Value
from vllm_logdoctor.run.observed import Measured
from vllm_logdoctor.source import Input, inputs_from

if TYPE_CHECKING:
    import pandas

    from vllm_logdoctor.assistants.asking import Client
    from vllm_logdoctor.assistants.excerpt import Excerpt
    from vllm_logdoctor.report.opinion import Opinion
    from vllm_logdoctor.report.plots import Plots

Row = TypeVar("Row", covariant=True)


def analyze(
    source: str | PathLike[str] | bytes | Iterable[str] | Iterable[bytes],
    *,
    objective: str = "balanced",
    patterns: str | PathLike[str] | Iterable[str | PathLike[str]] = (),
    year: int | None = None,
) -> Report:
    """Analyse a log.

    Args:
        source: a path, a directory, several paths, "-" for standard input, the bytes of a log, or its lines.
        objective: what the advice is for: balanced, throughput, latency, cost, long-context, memory or startup.
        patterns: pattern packs of your own, directories or files.
        year: year in which a log without years begins; default: by the date of the file, see `run.year_source`.

    Returns:
        The report: one run per life of a server or offline engine.

    Raises:
        LogdoctorError: an argument is wrong (exit_code 2), nothing could be read (3), or nothing in it is of vLLM (4).

    Example:
        >>> lines = ["INFO 07-16 12:29:43 [api_server.py:1289] vLLM API server version 0.8.5"]
        >>> analyze(lines).runs[0].version
        '0.8.5'
    """
    if not isinstance(source, str | bytes | bytearray | PathLike | Iterable):
        raise LogdoctorError(f"source: expected a path, bytes or lines, got {type(source).__name__}", 2)
    if objective not in OBJECTIVES:
        raise unknown_choice("objective", str(objective), OBJECTIVES)
    if year is not None and not (isinstance(year, int) and 1970 <= year <= 9998):
        raise LogdoctorError(f"year: expected a number such as 2026, got {year!r}", 2)
    packs = tuple(Path(place) for place in ([patterns] if isinstance(patterns, str | PathLike) else patterns))
    if missing := [str(pack) for pack in packs if not pack.exists()]:
        raise LogdoctorError(f"no such pattern pack: {missing[0]}", 2)
    inputs = inputs_from(cast("Any", source))
    written = {one.name: date for one in inputs if (date := _last_change(one)) is not None}
    return Report(analyse(inputs, Options(patterns=packs, objective=objective)), year, written, inputs)


def _last_change(source: Input) -> datetime | None:
    """Return when a file was last changed, or None for what is no file."""
    try:
        return datetime.fromtimestamp(source.path.stat().st_mtime) if source.path else None
    except (OSError, OverflowError, ValueError):
        return None


class Rows(Sequence[Row], Generic[Row]):
    """An unchanging sequence that knows how to become a DataFrame.

    Example:
        >>> rows = Rows((1, 2), lambda: None)
        >>> len(rows), rows[0]
        (2, 1)
    """

    __slots__ = ("_build", "_items")

    def __init__(self, items: Iterable[Row], build: Callable[[], pandas.DataFrame]) -> None:
        self._items = tuple(items)
        self._build = build

    def to_frame(self) -> pandas.DataFrame:
        """Return a tidy DataFrame; `frame.attrs["units"]` holds the units by column."""
        return self._build()

    def __len__(self) -> int:
        return len(self._items)

    def __getitem__(self, index: Any) -> Any:
        return self._items[index]

    def __iter__(self) -> Iterator[Row]:
        return iter(self._items)

    def __eq__(self, other: object) -> bool:
        return self._items == (other._items if isinstance(other, Rows) else other)

    def __hash__(self) -> int:
        return hash(self._items)

    def __repr__(self) -> str:
        return f"<{len(self)} rows; to_frame() gives a DataFrame>"

    def _repr_html_(self) -> str | None:
        return frame_html(self)


class Settings(Mapping[str, Any]):
    """Values by name; `value(name)` adds provenance and evidence.

    Example:
        >>> from vllm_logdoctor.run.model import Value
        >>> config = Settings({"max_num_seqs": Value(256, "default")})
        >>> config["max_num_seqs"], config.value("max_num_seqs").provenance
        (256, 'default')
    """

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, Value]) -> None:
        self._values = dict(values)

    def value(self, name: str) -> Value:
        """Return a value with provenance and the lines that prove it."""
        return self._values[name]

    def to_frame(self) -> pandas.DataFrame:
        """Return a DataFrame: name, value, provenance, line."""
        return frames.config_frame(self._values)

    def __getitem__(self, name: str) -> Any:
        return self._values[name].value

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return repr({name: value.value for name, value in self._values.items()})

    def _repr_html_(self) -> str | None:
        return frame_html(self)


class RunView:
    """One run: what it was, what it did, what was judged of it.

    Attributes:
        title: one line that says what ran, on what, how long and how it ended.
        run: the facts underneath.
        number, kind, outcome, bottleneck, version, model, platform: as in the JSON document.
        started, ended, duration: when it ran, and how many seconds; `year_source` says where the year is from.
        startup_seconds: length of the start-up, or None.
        config: effective configuration by EngineArgs field.
        measured: what the engine printed of itself.
        beside: what files beside the log measured; rows with `to_frame()`.
        phases, stats, periods, findings, messages, events, requests, what_if, processes: rows; each has `to_frame()`.
        plan: the merged changes with the launch command before and after.
        plot: figures (matplotlib).
        diagnosis: everything underneath.

    Example:
        >>> lines = ["INFO 07-16 12:29:43 [api_server.py:1289] vLLM API server version 0.8.5"]
        >>> run = analyze(lines).runs[0]
        >>> run.kind, run.outcome, run.number
        ('server', 'truncated', 1)
    """

    def __init__(self, analysis: Analysis, diagnosis: Diagnosis, times: frames.Times | None = None) -> None:
        run, times = diagnosis.run, times or frames.Times.of_run(diagnosis.run)
        self._analysis = analysis
        self.diagnosis = diagnosis
        self.run = run
        self.times = times
        self.number = run.number
        self.kind: str = run.kind
        self.outcome: str = run.outcome
        self.bottleneck: str = diagnosis.bottleneck.name
        self.version = run.release
        self.model = str(run.model.value) if run.model else None
        self.platform = run.platform
        self.startup_seconds = startup_seconds(run.phases)
        self.started = times.at(run.started)
        self.ended = times.at(run.ended)
        self.year_source = times.source
        self.duration = None if run.started is None or run.ended is None else run.ended - run.started
        self.config = Settings(run.config)
        self.measured = Settings(run.measured)
        self.plan = diagnosis.plan
        beside = [one for values in run.observed.groups.values() for one in values]
        self.beside: Rows[Measured] = Rows(beside, lambda: frames.measured_frame(run))
        self.phases: Rows[Phase] = Rows(run.phases, lambda: frames.phases_frame([(run, times)]))
        self.stats: Rows[Sample] = Rows(run.samples, lambda: frames.stats_frame(run, times))
        self.findings: Rows[Finding] = Rows(
            diagnosis.findings, lambda: frames.findings_frame(diagnosis.findings)
        )
        self.periods: Rows[ServingPeriod] = Rows(
            diagnosis.bottleneck.periods, lambda: frames.periods_frame([(diagnosis, times)])
        )
        self.messages: Rows[Message] = Rows(diagnosis.messages, lambda: frames.messages_frame([diagnosis]))
        self.what_if: Rows[WhatIf] = Rows(diagnosis.what_if, lambda: frames.what_if_frame([diagnosis]))
        self.processes: Rows[Process] = Rows(run.processes, lambda: frames.processes_frame([run]))

    @property
    def title(self) -> str:
        """One line that says what ran, on what, how long and how it ended."""
        return plain_words(run_title(self.run))

    @property
    def events(self) -> Rows[Event]:
        """The events that were kept: of each message the first three and the last, in order of lines."""
        kept = kept_events(self.run)
        return Rows(kept, lambda: frames.events_frame(self.run, self.times, kept))

    @property
    def requests(self) -> Rows[tuple[str, str, int, int]]:
        """Answered requests as (method, path, status, count)."""
        rows = [(*key, count) for key, count in sorted(self.run.accesses.items())]
        return Rows(rows, lambda: frames.requests_frame(self.run))

    @property
    def requests_by_minute(self) -> Rows[tuple[int, int, int]]:
        """Answered requests as (minute of the run's clock, status, count)."""
        counts = sorted(self.run.accesses_by_minute.items())
        rows = [(minute, status, count) for minute, by in counts for status, count in sorted(by.items())]
        return Rows(rows, lambda: frames.requests_by_minute_frame(self.run, self.times))

    @property
    def plot(self) -> Plots:
        """Figures: timeline, throughput, kv_cache, startup, requests."""
        from vllm_logdoctor.report.plots import Plots

        return Plots(self.run)

    def to_dict(self) -> dict[str, Any]:
        """Return this run's part of the JSON document."""
        return json.run_document(self.diagnosis)

    def to_markdown(self) -> str:
        """Return the report of this run alone."""
        return markdown.render(self._alone())

    def _alone(self) -> Analysis:
        a = self._analysis
        return Analysis(a.sources, (self.diagnosis,), a.coverage, a.objective)

    def __repr__(self) -> str:
        return f"<run {self.number}: {self.title}>"

    def _repr_markdown_(self) -> str:
        return self.to_markdown()

    def _repr_html_(self) -> str:
        from vllm_logdoctor.report.notebook import fragment

        return fragment(self._alone())


class Report:
    """All of an analysis.

    Attributes:
        runs: one per life of a server or offline engine, in file order.
        analysis: everything underneath.

    Example:
        >>> report = analyze(["INFO 07-16 12:29:43 [api_server.py:1289] vLLM API server version 0.8.5"])
        >>> len(report.runs), report.to_dict()["schema"]
        (1, 'logdoctor/1')
    """

    def __init__(
        self,
        analysis: Analysis,
        year: int | None = None,
        written: Mapping[str, datetime] | None = None,
        inputs: Sequence[Input] = (),
    ) -> None:
        self.analysis = analysis
        self._inputs = tuple(inputs)
        dates = written or {}
        self.runs = tuple(
            RunView(analysis, one, frames.Times.of_run(one.run, year, dates.get(one.run.last_file)))
            for one in analysis.runs
        )

    def to_frame(self) -> pandas.DataFrame:
        """Return a DataFrame with one row per run; `frame.attrs["units"]` holds the units by column."""
        return frames.runs_frame((run.diagnosis, run.times) for run in self.runs)

    @property
    def phases(self) -> Rows[Phase]:
        """Phases of all runs."""
        pairs = [(run.run, run.times) for run in self.runs]
        return Rows((p for run, _ in pairs for p in run.phases), lambda: frames.phases_frame(pairs))

    @property
    def periods(self) -> Rows[ServingPeriod]:
        """Periods of all runs in which one thing limited each."""
        pairs = [(run.diagnosis, run.times) for run in self.runs]
        return Rows(
            (p for one, _ in pairs for p in one.bottleneck.periods), lambda: frames.periods_frame(pairs)
        )

    @property
    def messages(self) -> Rows[Message]:
        """Warnings and errors of all runs with their verdict."""
        found = self.analysis.runs
        return Rows((m for one in found for m in one.messages), lambda: frames.messages_frame(found))

    @property
    def sources(self) -> tuple[SourceSummary, ...]:
        """What was read, file by file."""
        return self.analysis.sources

    @property
    def coverage(self) -> Coverage:
        """How much of it was understood."""
        return self.analysis.coverage

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON document as dictionaries and lists."""
        return json.document(self.analysis)

    def to_json(self, indent: int | None = 2) -> str:
        """Return the JSON document as text."""
        return json.render(self.analysis, indent)

    def to_markdown(self) -> str:
        """Return the report as Markdown."""
        return markdown.render(self.analysis)

    def to_text(self) -> str:
        """Return the report as plain text."""
        return text.render(self.analysis)

    def excerpt(self, run: int | None = None, lines: int = 150) -> Excerpt:
        """Return what somebody else needs to judge a run without its log, secrets masked.

        Args:
            run: number of the run; default: the last one that failed, else the last one.
            lines: most lines of it as Markdown, 30 to 150.

        Raises:
            LogdoctorError: no such run, or too few or too many lines.
        """
        from vllm_logdoctor.assistants.excerpt import excerpt_of

        return excerpt_of(self.analysis, run, lines)

    def ask(self, client: Client, run: int | None = None) -> Opinion:
        """Ask a model for a second opinion on a run; the report itself stays as it is.

        Args:
            client: anything with a `model` and a `complete(messages, schema)` that returns the answer as text; for an
                OpenAI-compatible endpoint `vllm_logdoctor.assistants.endpoint.Endpoint`.
            run: number of the run; default: the last one that failed, else the last one.

        Raises:
            LogdoctorError: no such run. What goes wrong with the client is in the opinion's `error`.
        """
        from vllm_logdoctor.assistants.asking import ask
        from vllm_logdoctor.assistants.lines import line_source

        return ask(self.analysis, client, line_source(self.analysis, self._inputs, run), run)

    def to_html(self) -> str:
        """Return the report as one self-contained HTML file."""
        from vllm_logdoctor.report import html

        return html.render(self.analysis)

    def __repr__(self) -> str:
        return f"<report of {len(self.runs)} {'run' if len(self.runs) == 1 else 'runs'}: {'; '.join(run.title for run in self.runs[:3])}>"

    def _repr_markdown_(self) -> str:
        return self.to_markdown()

    def _repr_html_(self) -> str:
        from vllm_logdoctor.report.notebook import fragment

        return fragment(self.analysis)


def kept_events(run: Run) -> list[Event]:
    """Return the events of a run that were kept, in order of lines."""
    kept = []
    for seen in run.messages.values():
        kept += seen.first
        if seen.last is not None and all(seen.last is not event for event in seen.first):
            kept.append(seen.last)
    return sorted(kept, key=lambda event: (event.record.file, event.record.line))


def frame_html(rows: Rows[Any] | Settings) -> str | None:
    """Return a table for a notebook; None, and so the plain representation, where pandas is not installed."""
    try:
        import pandas  # noqa: F401
    except ImportError:
        return None
    from vllm_logdoctor.report.notebook import frame_table

    return frame_table(rows.to_frame())
