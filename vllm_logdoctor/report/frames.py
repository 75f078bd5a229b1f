"""Tables of a run as pandas DataFrames: one row per thing, units in `parse.attrs["units"]`.

Every frame with times has `time` (datetime64, naive: logs print no zone; NaT where the log prints no year)
and `seconds` (float64, since the start of the run; NaN where the line has no time).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from vllm_logdoctor.errors import LogdoctorError
from vllm_logdoctor.events import Event
from vllm_logdoctor.report.clock import moment
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


def stats_frame(run: Run) -> pandas.DataFrame:
    """Return the statistics lines, one row each (or one per thinned group, see `count`)."""
    return _frame(STATS, (_stats_row(run, sample) for sample in run.samples))


def phases_frame(run: Run) -> pandas.DataFrame:
    """Return the phases of the run."""
    return _frame(PHASES, (_phase_row(run, phase) for phase in run.phases))


def config_frame(config: Mapping[str, Value]) -> pandas.DataFrame:
    """Return settings with provenance."""
    return _frame(CONFIG, ((name, v.value, v.provenance, _line(v.evidence)) for name, v in config.items()))


def findings_frame(findings: Iterable[Finding]) -> pandas.DataFrame:
    """Return findings in order of importance."""
    return _frame(FINDINGS, (_finding_row(finding) for finding in findings))


def events_frame(run: Run, events: Iterable[Event]) -> pandas.DataFrame:
    """Return the events that were kept: of each message the first three and the last."""
    return _frame(EVENTS, (_event_row(run, event) for event in events))


def requests_frame(run: Run) -> pandas.DataFrame:
    """Return answered requests by endpoint and status."""
    return _frame(REQUESTS, ((*key, count) for key, count in sorted(run.accesses.items())))


def requests_by_minute_frame(run: Run) -> pandas.DataFrame:
    """Return answered requests by minute and status; requests without a time are left out."""
    rows = (
        (*_times(run, minute * 60.0), status, count)
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
    frame = pd.DataFrame(list(rows), columns=names)
    frame = frame.astype({name: dtype for name, dtype, _ in columns})
    frame.attrs["units"] = {name: unit for name, _, unit in columns if unit}
    return frame


def _times(run: Run, seconds: float | None) -> tuple[Any, float]:
    when = moment(seconds) if run.year_known else None
    if seconds is None or run.started is None:
        return when, math.nan
    return when, seconds - run.started


def _line(evidence: tuple[Any, ...]) -> int | None:
    return evidence[0].line if evidence else None


def _stats_row(run: Run, sample: Sample) -> tuple[Any, ...]:
    return (
        *_times(run, sample.time),
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


def _phase_row(run: Run, phase: Phase) -> tuple[Any, ...]:
    start, since = _times(run, phase.start)
    end, _ = _times(run, phase.end)
    return (phase.name, phase.process, phase.parent, start, end, since, phase.seconds, _line(phase.evidence))


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


def _event_row(run: Run, event: Event) -> tuple[Any, ...]:
    record = event.record
    seen = run.seen(event.pattern.id)
    return (
        event.name,
        event.pattern.id,
        record.level,
        record.process.name,
        *_times(run, record.time),
        record.line,
        seen.count if seen else 1,
        dict(event.fields),
        record.message,
    )
