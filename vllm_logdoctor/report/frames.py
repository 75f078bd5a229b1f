"""Tables of a run as pandas DataFrames: one row per thing, units in `frame.attrs["units"]`.

Every frame with times has `time` (datetime64, naive: logs print no zone; NaT where no year is known)
and `seconds` (float64, since the start of the run; NaN where the line has no time).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from vllm_logdoctor.errors import LogdoctorError
from vllm_logdoctor.events import Event
from vllm_logdoctor.report.clock import moment
from vllm_logdoctor.report.key_figures import startup_seconds
from vllm_logdoctor.report.model import Diagnosis
from vllm_logdoctor.report.serving import requests_of, serving_of
from vllm_logdoctor.rules.model import Finding
from vllm_logdoctor.run.model import Phase, Run, Sample, Value

if TYPE_CHECKING:
    import pandas

Column = tuple[str, str, str]
"""Name, dtype, unit ("" for none)."""

STATS: tuple[Column, ...] = (
    ("time", "datetime64[ns]", ""),
    ("seconds", "float64", "s since the start of the run"),
    ("engine", "Int64", "engine number, -1 for an aggregate"),
    ("prompt", "float64", "tokens/s"),
    ("generation", "float64", "tokens/s"),
    ("running", "Int64", "requests"),
    ("waiting", "Int64", "requests"),
    ("kv_usage", "float64", "%"),
    ("prefix_hit", "float64", "%"),
    ("external_hit", "float64", "%"),
    ("mm_hit", "float64", "%"),
    ("preemptions", "Int64", "in this interval"),
    ("line", "Int64", "line number"),
    ("count", "Int64", "statistics lines in this row"),
)
PHASES: tuple[Column, ...] = (
    ("run", "Int64", "number in the report"),
    ("name", "string", ""),
    ("process", "string", ""),
    ("parent", "string", ""),
    ("start", "datetime64[ns]", ""),
    ("end", "datetime64[ns]", ""),
    ("start_seconds", "float64", "s since the start of the run"),
    ("seconds", "float64", "s"),
    ("line", "Int64", "line number of the first evidence"),
)
CONFIG: tuple[Column, ...] = (
    ("name", "string", "EngineArgs field"),
    ("value", "object", ""),
    ("provenance", "string", "explicit, reported, adjusted, default or derived"),
    ("line", "Int64", "line number of the first evidence"),
)
FINDINGS: tuple[Column, ...] = (
    ("id", "string", ""),
    ("kind", "string", ""),
    ("role", "string", ""),
    ("severity", "string", ""),
    ("confidence", "string", ""),
    ("title", "string", ""),
    ("explanation", "string", ""),
    ("knob", "string", "of the first change"),
    ("before", "object", ""),
    ("after", "object", ""),
    ("effect_metric", "string", ""),
    ("effect_low", "float64", "after / before"),
    ("effect_high", "float64", "after / before"),
    ("line", "Int64", "line number of the decisive evidence"),
)
EVENTS: tuple[Column, ...] = (
    ("event", "string", ""),
    ("pattern", "string", "pattern id"),
    ("level", "string", ""),
    ("process", "string", ""),
    ("time", "datetime64[ns]", ""),
    ("seconds", "float64", "s since the start of the run"),
    ("line", "Int64", "line number"),
    ("count", "Int64", "times this message was seen in the run"),
    ("fields", "object", "values by field name"),
    ("message", "string", ""),
)
REQUESTS: tuple[Column, ...] = (
    ("method", "string", ""),
    ("path", "string", "without query"),
    ("status", "Int64", "HTTP status"),
    ("count", "Int64", "answered requests"),
)
REQUESTS_BY_MINUTE: tuple[Column, ...] = (
    ("time", "datetime64[ns]", ""),
    ("seconds", "float64", "s since the start of the run"),
    ("status", "Int64", "HTTP status"),
    ("count", "Int64", "answered requests in that minute"),
)


RUNS: tuple[Column, ...] = (
    ("run", "Int64", "number in the report"),
    ("file", "string", ""),
    ("kind", "string", ""),
    ("version", "string", ""),
    ("model", "string", ""),
    ("platform", "string", ""),
    ("outcome", "string", ""),
    ("bottleneck", "string", ""),
    ("started", "datetime64[ns]", ""),
    ("ended", "datetime64[ns]", ""),
    ("duration", "float64", "s"),
    ("startup", "float64", "s"),
    ("generation_mean", "float64", "tokens/s, mean of busy statistics lines"),
    ("generation_max", "float64", "tokens/s"),
    ("prompt_mean", "float64", "tokens/s, mean of busy statistics lines"),
    ("running_max", "Int64", "requests"),
    ("waiting_max", "Int64", "requests"),
    ("kv_usage_max", "float64", "%"),
    ("generated", "float64", "tokens, throughput times interval"),
    ("requests", "Int64", "answered requests"),
    ("failed_requests", "Int64", "answered with status 500 or above"),
    ("kv_cache_tokens", "float64", "tokens"),
    ("findings", "Int64", "findings of severity high or critical"),
)
PERIODS: tuple[Column, ...] = (
    ("run", "Int64", "number in the report"),
    ("limit", "string", "what limited the run"),
    ("start", "datetime64[ns]", ""),
    ("end", "datetime64[ns]", ""),
    ("start_seconds", "float64", "s since the start of the run"),
    ("duration", "float64", "s"),
    ("samples", "Int64", "statistics lines"),
    ("reason", "string", ""),
)
MESSAGES: tuple[Column, ...] = (
    ("run", "Int64", "number in the report"),
    ("pattern", "string", "pattern id"),
    ("verdict", "string", ""),
    ("count", "Int64", "times"),
    ("text", "string", ""),
    ("meaning", "string", ""),
    ("line", "Int64", "line number of the first one"),
)
WHAT_IF: tuple[Column, ...] = (
    ("run", "Int64", "number in the report"),
    ("knob", "string", ""),
    ("before", "object", ""),
    ("after", "object", ""),
    ("kv_cache_tokens", "Int64", "tokens"),
    ("max_concurrency", "float64", "requests of max_model_len"),
    ("basis", "string", ""),
)
PROCESSES: tuple[Column, ...] = (
    ("run", "Int64", "number in the report"),
    ("name", "string", ""),
    ("role", "string", ""),
    ("pid", "Int64", "process id"),
    ("rank", "string", ""),
    ("host", "string", ""),
)


class Times(Struct, frozen=True):
    """Turns seconds on a run's clock into days.

    Attributes:
        started: begin of the run on its clock, or None.
        year: year of the begin, or None where nothing tells it.
        source: "parameter", "log", "file date", or "" without a year.
    """

    started: float | None
    year: int | None
    source: str

    @classmethod
    def of_run(cls, run: Run, year: int | None = None, written: datetime | None = None) -> Times:
        """Take the year from a parameter, else from the log, else from the date of the file's last change."""
        first, last = moment(run.started), moment(run.ended)
        if first is None or last is None:
            return cls(run.started, None, "")
        if run.year_known:
            return cls(run.started, first.year, "log")
        if year is not None:
            return cls(run.started, year, "parameter")
        if written is None:
            return cls(run.started, None, "")
        # The last line is no later than the last change of the file, but for a day of time zones.
        month, day = (written + timedelta(days=1)).month, (written + timedelta(days=1)).day
        ended = written.year - ((last.month, last.day) > (month, day) and month >= written.month)
        return cls(run.started, ended - (last.year - first.year), "file date")

    def at(self, seconds: float | None) -> datetime | None:
        """Return the day and time, or None where no year is known."""
        when, first = moment(seconds), moment(self.started)
        if when is None or first is None or self.year is None:
            return None
        try:
            return when.replace(year=self.year + when.year - first.year)
        except ValueError:
            return None

    def since(self, seconds: float | None) -> float:
        """Return seconds since the start of the run, or NaN."""
        return math.nan if seconds is None or self.started is None else seconds - self.started


def runs_frame(runs: Iterable[tuple[Diagnosis, Times]]) -> pandas.DataFrame:
    """Return one row per run."""
    return _frame(RUNS, (_run_row(diagnosis, times) for diagnosis, times in runs))


def periods_frame(runs: Iterable[tuple[Diagnosis, Times]]) -> pandas.DataFrame:
    """Return the periods in which one thing limited a run."""
    rows = (
        (
            one.run.number, period.name, times.at(period.start), times.at(period.end), times.since(period.start),
            (period.end or math.nan) - (period.start or math.nan), period.samples, period.reason,
        )
        for one, times in runs
        for period in one.bottleneck.periods
    )  # fmt: skip
    return _frame(PERIODS, rows)


def messages_frame(diagnoses: Iterable[Diagnosis]) -> pandas.DataFrame:
    """Return warnings and errors with their verdict."""
    rows = (
        (one.run.number, m.pattern or None, m.verdict, m.count, m.text, m.meaning, m.evidence.line)
        for one in diagnoses
        for m in one.messages
    )
    return _frame(MESSAGES, rows)


def what_if_frame(diagnoses: Iterable[Diagnosis]) -> pandas.DataFrame:
    """Return what the KV cache would hold with other settings."""
    rows = (
        (one.run.number, w.knob, w.before, w.after, w.kv_cache_tokens, w.max_concurrency, w.basis)
        for one in diagnoses
        for w in one.what_if
    )
    return _frame(WHAT_IF, rows)


def processes_frame(runs: Iterable[Run]) -> pandas.DataFrame:
    """Return the processes that wrote."""
    return _frame(
        PROCESSES,
        ((run.number, p.name, p.role, p.pid, p.rank, p.host) for run in runs for p in run.processes),
    )


MEASURED: tuple[Column, ...] = (
    ("run", "Int64", "number in the report"),
    ("group", "string", "latency, scheduler, kernels, gpus ..."),
    ("name", "string", ""),
    ("subject", "string", "card, thread, class of kernels"),
    ("value", "string", "as read"),
    ("number", "Float64", "the value, where it is one number"),
    ("unit", "string", ""),
    ("file", "string", ""),
    ("line", "Int64", ""),
    ("joined", "boolean", "whether the file names this run"),
)


def measured_frame(run: Run) -> pandas.DataFrame:
    """Return what files beside the log measured of a run."""
    rows = (
        (
            run.number, group, one.name, one.subject, str(one.value),
            float(one.value) if isinstance(one.value, int | float) else None, one.unit, one.file, one.line, one.joined,
        )
        for group, values in run.observed.groups.items()
        for one in values
    )  # fmt: skip
    return _frame(MEASURED, rows)


def stats_frame(run: Run, times: Times) -> pandas.DataFrame:
    """Return the statistics lines, one row each (or one per thinned group, see `count`)."""
    return _frame(STATS, (_stats_row(times, sample) for sample in run.samples))


def phases_frame(runs: Iterable[tuple[Run, Times]]) -> pandas.DataFrame:
    """Return the phases of runs."""
    return _frame(PHASES, (_phase_row(run, times, phase) for run, times in runs for phase in run.phases))


def config_frame(config: Mapping[str, Value]) -> pandas.DataFrame:
    """Return settings with provenance."""
    return _frame(CONFIG, ((name, v.value, v.provenance, _line(v.evidence)) for name, v in config.items()))


def findings_frame(findings: Iterable[Finding]) -> pandas.DataFrame:
    """Return findings in order of importance."""
    return _frame(FINDINGS, (_finding_row(finding) for finding in findings))


def events_frame(run: Run, times: Times, events: Iterable[Event]) -> pandas.DataFrame:
    """Return the events that were kept: of each message the first three and the last."""
    return _frame(EVENTS, (_event_row(run, times, event) for event in events))


def requests_frame(run: Run) -> pandas.DataFrame:
    """Return answered requests by endpoint and status."""
    return _frame(REQUESTS, ((*key, count) for key, count in sorted(run.accesses.items())))


def requests_by_minute_frame(run: Run, times: Times) -> pandas.DataFrame:
    """Return answered requests by minute and status; requests without a time are left out."""
    rows = (
        (times.at(minute * 60.0), times.since(minute * 60.0), status, count)
        for minute, counts in sorted(run.accesses_by_minute.items())
        if minute >= 0
        for status, count in sorted(counts.items())
    )
    return _frame(REQUESTS_BY_MINUTE, rows)


def _frame(columns: tuple[Column, ...], rows: Iterable[tuple[Any, ...]]) -> pandas.DataFrame:
    try:
        import pandas as pd
    except ImportError as error:
        raise LogdoctorError("pandas is not installed; pip install 'vllm-logdoctor[pandas]'", 2) from error
    names = [name for name, _, _ in columns]
    frame = pd.DataFrame([tuple(map(_encodable, row)) for row in rows], columns=names)
    frame = frame.astype({name: dtype for name, dtype, _ in columns})
    frame.attrs["units"] = {name: unit for name, _, unit in columns if unit}
    return frame


def _encodable(value: Any) -> Any:
    """Return a value as Arrow's strings take it: a lone surrogate of a broken encoding can't be stored as UTF-8."""
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value


def _line(evidence: tuple[Any, ...]) -> int | None:
    return evidence[0].line if evidence else None


def _stats_row(times: Times, sample: Sample) -> tuple[Any, ...]:
    return (
        times.at(sample.time),
        times.since(sample.time),
        sample.engine,
        sample.prompt,
        sample.generation,
        sample.running,
        sample.waiting,
        sample.kv_usage,
        sample.prefix_hit,
        sample.external_hit,
        sample.mm_hit,
        sample.preemptions,
        sample.line,
        sample.count,
    )


def _run_row(diagnosis: Diagnosis, times: Times) -> tuple[Any, ...]:
    run, serving = diagnosis.run, serving_of(diagnosis.run)
    statuses = requests_of(run)
    return (
        run.number,
        run.first_file,
        run.kind,
        run.version and str(run.version.value),
        run.model and str(run.model.value),
        run.platform,
        run.outcome,
        diagnosis.bottleneck.name,
        times.at(run.started),
        times.at(run.ended),
        times.since(run.ended),
        startup_seconds(run.phases),
        serving.generation.mean_busy,
        serving.generation.max,
        serving.prompt.mean_busy,
        serving.running,
        serving.waiting,
        serving.kv_usage,
        generated_tokens(run),
        sum(statuses.values()),
        sum(count for status, count in statuses.items() if status >= 500),
        run.measure("kv_cache_tokens"),
        sum(finding.severity in ("critical", "high") for finding in diagnosis.findings),
    )


def generated_tokens(run: Run) -> float | None:
    """Return the tokens generated in all, throughput times interval of each engine's lines; None without such lines."""
    total, counted = 0.0, False
    previous: dict[int, float] = {}
    for sample in run.samples:
        before = previous.get(sample.engine)
        if sample.time is not None:
            if before is not None:
                total += sample.generation * (sample.time - before)
                counted = True
            previous[sample.engine] = sample.time
    return total if counted else None


def _phase_row(run: Run, times: Times, phase: Phase) -> tuple[Any, ...]:
    start, end = times.at(phase.start), times.at(phase.end)
    since = times.since(phase.start)
    return (
        run.number, phase.name, phase.process, phase.parent, start, end, since, phase.seconds, _line(phase.evidence)
    )  # fmt: skip


def _finding_row(finding: Finding) -> tuple[Any, ...]:
    change = finding.changes[0] if finding.changes else None
    effect = finding.effect
    return (
        finding.id,
        finding.kind,
        finding.role,
        finding.severity,
        finding.confidence,
        finding.title,
        finding.explanation,
        change.knob if change else None,
        change.before if change else None,
        change.after if change else None,
        effect.metric if effect else None,
        effect.low if effect else math.nan,
        effect.high if effect else math.nan,
        _line(finding.evidence),
    )


def _event_row(run: Run, times: Times, event: Event) -> tuple[Any, ...]:
    record = event.record
    seen = run.seen(event.pattern.id)
    return (
        event.name,
        event.pattern.id,
        record.level,
        record.process.name,
        times.at(record.time),
        times.since(record.time),
        record.line,
        seen.count if seen else 1,
        dict(event.fields),
        record.message,
    )
