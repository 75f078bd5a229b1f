"""Tables of a run as pandas DataFrames: one row per thing, units in `frame.attrs["units"]`; frames.csv lists the columns.

Every frame with times has `time` (datetime64, naive: logs print no zone; NaT where no year is known)
and `seconds` (float64, since the start of the run; NaN where the line has no time).
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from vllm_logdoctor.errors import LogdoctorError
from vllm_logdoctor.events import Event
from vllm_logdoctor.report.clock import moment
from vllm_logdoctor.report.key_figures import startup_seconds
from vllm_logdoctor.report.model import Diagnosis
from vllm_logdoctor.report.serving import requests_of, serving_of
from vllm_logdoctor.rules.model import Finding
from vllm_logdoctor.run.model import Run, Value

if TYPE_CHECKING:
    import pandas


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


Row = tuple[object, dict[str, Any]]
"""What holds the values of a row as attributes, and the values that it does not hold, by column."""


def runs_frame(runs: Iterable[tuple[Diagnosis, Times]]) -> pandas.DataFrame:
    """Return one row per run."""
    return _frame("runs", ((diagnosis.run, _of_run(diagnosis, times)) for diagnosis, times in runs))


def periods_frame(runs: Iterable[tuple[Diagnosis, Times]]) -> pandas.DataFrame:
    """Return the periods in which one thing limited a run."""
    rows = (
        (
            period,
            {
                "run": one.run.number, "limit": period.name, "start": times.at(period.start), "end": times.at(period.end),
                "start_seconds": times.since(period.start),
                "duration": (period.end or math.nan) - (period.start or math.nan),
            },
        )
        for one, times in runs
        for period in one.bottleneck.periods
    )  # fmt: skip
    return _frame("periods", rows)


def messages_frame(diagnoses: Iterable[Diagnosis]) -> pandas.DataFrame:
    """Return warnings and errors with their verdict."""
    rows = (
        (m, {"run": one.run.number, "pattern": m.pattern or None, "line": m.evidence.line})
        for one in diagnoses
        for m in one.messages
    )
    return _frame("messages", rows)


def what_if_frame(diagnoses: Iterable[Diagnosis]) -> pandas.DataFrame:
    """Return what the KV cache would hold with other settings."""
    return _frame("what_if", ((w, {"run": one.run.number}) for one in diagnoses for w in one.what_if))


def processes_frame(runs: Iterable[Run]) -> pandas.DataFrame:
    """Return the processes that wrote."""
    return _frame("processes", ((one, {"run": run.number}) for run in runs for one in run.processes))


def measured_frame(run: Run) -> pandas.DataFrame:
    """Return what files beside the log measured of a run."""
    rows = (
        (
            one,
            {
                "run": run.number, "group": group, "value": str(one.value),
                "number": float(one.value) if isinstance(one.value, int | float) else None,
            },
        )
        for group, values in run.observed.groups.items()
        for one in values
    )  # fmt: skip
    return _frame("measured", rows)


def stats_frame(run: Run, times: Times) -> pandas.DataFrame:
    """Return the statistics lines, one row each (or one per thinned group, see `count`)."""
    return _frame("stats", ((one, _when(times, one.time)) for one in run.samples))


def phases_frame(runs: Iterable[tuple[Run, Times]]) -> pandas.DataFrame:
    """Return the phases of runs."""
    rows = (
        (
            phase,
            {
                "run": run.number, "start": times.at(phase.start), "end": times.at(phase.end),
                "start_seconds": times.since(phase.start), "line": _line(phase.evidence),
            },
        )
        for run, times in runs
        for phase in run.phases
    )  # fmt: skip
    return _frame("phases", rows)


def config_frame(config: Mapping[str, Value]) -> pandas.DataFrame:
    """Return settings with provenance."""
    rows = ((value, {"name": name, "line": _line(value.evidence)}) for name, value in config.items())
    return _frame("config", rows)


def findings_frame(findings: Iterable[Finding]) -> pandas.DataFrame:
    """Return findings in order of importance."""
    return _frame("findings", ((finding, _of_finding(finding)) for finding in findings))


def events_frame(run: Run, times: Times, events: Iterable[Event]) -> pandas.DataFrame:
    """Return the events that were kept: of each message the first three and the last."""
    return _frame("events", ((event.record, _of_event(run, times, event)) for event in events))


def requests_frame(run: Run) -> pandas.DataFrame:
    """Return answered requests by endpoint and status."""
    names = ("method", "path", "status", "count")
    rows = (dict(zip(names, (*key, count), strict=True)) for key, count in sorted(run.accesses.items()))
    return _frame("requests", ((None, row) for row in rows))


def requests_by_minute_frame(run: Run, times: Times) -> pandas.DataFrame:
    """Return answered requests by minute and status; requests without a time are left out."""
    rows = (
        (None, {**_when(times, minute * 60.0), "status": status, "count": count})
        for minute, counts in sorted(run.accesses_by_minute.items())
        if minute >= 0
        for status, count in sorted(counts.items())
    )
    return _frame("requests_by_minute", rows)


@cache
def _columns(frame: str) -> list[tuple[str, str, str]]:
    """Return name, dtype and unit ("" for none) of the columns of a frame."""
    with Path(__file__).with_suffix(".csv").open(encoding="utf-8", newline="") as stream:
        return [(name, dtype, unit) for of, name, dtype, unit in csv.reader(stream) if of == frame]


def _frame(name: str, rows: Iterable[Row]) -> pandas.DataFrame:
    """Return a frame of rows: each value is the row's own by that name, else the attribute of that name."""
    try:
        import pandas as pd
    except ImportError as error:
        raise LogdoctorError("pandas is not installed; pip install 'vllm-logdoctor[pandas]'", 2) from error
    columns = _columns(name)
    names = [name for name, _, _ in columns]
    cells = (
        [_encodable(own[name] if name in own else getattr(item, name)) for name in names]
        for item, own in rows
    )
    frame = pd.DataFrame(cells, columns=names).astype({name: dtype for name, dtype, _ in columns})
    frame.attrs["units"] = {name: unit for name, _, unit in columns if unit}
    return frame


def _encodable(value: Any) -> Any:
    """Return a value as Arrow's strings take it: a lone surrogate of a broken encoding can't be stored as UTF-8."""
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value


def _line(evidence: tuple[Any, ...]) -> int | None:
    return evidence[0].line if evidence else None


def _when(times: Times, seconds: float | None) -> dict[str, Any]:
    return {"time": times.at(seconds), "seconds": times.since(seconds)}


def _of_run(diagnosis: Diagnosis, times: Times) -> dict[str, Any]:
    run, serving = diagnosis.run, serving_of(diagnosis.run)
    statuses = requests_of(run)
    return {
        "run": run.number,
        "file": run.first_file,
        "version": run.release,
        "model": run.model and str(run.model.value),
        "bottleneck": diagnosis.bottleneck.name,
        "started": times.at(run.started),
        "ended": times.at(run.ended),
        "duration": times.since(run.ended),
        "startup": startup_seconds(run.phases),
        "generation_mean": serving.generation.mean_busy,
        "generation_max": serving.generation.max,
        "prompt_mean": serving.prompt.mean_busy,
        "running_max": serving.running,
        "waiting_max": serving.waiting,
        "kv_usage_max": serving.kv_usage,
        "generated": tokens_in_all(run),
        "requests": sum(statuses.values()),
        "failed_requests": sum(count for status, count in statuses.items() if status >= 500),
        "kv_cache_tokens": run.measure("kv_cache_tokens"),
        "findings": sum(finding.severity in ("critical", "high") for finding in diagnosis.findings),
    }


def tokens_in_all(run: Run) -> float | None:
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


def _of_finding(finding: Finding) -> dict[str, Any]:
    change = finding.changes[0] if finding.changes else None
    effect = finding.effect
    return {
        **{name: getattr(change, name, None) for name in ("knob", "before", "after")},
        "effect_metric": effect.metric if effect else None,
        "effect_low": effect.low if effect else math.nan,
        "effect_high": effect.high if effect else math.nan,
        "line": _line(finding.evidence),
    }


def _of_event(run: Run, times: Times, event: Event) -> dict[str, Any]:
    record, seen = event.record, run.seen(event.pattern.id)
    return {
        **_when(times, record.time),
        "event": event.name,
        "pattern": event.pattern.id,
        "process": record.process.name,
        "count": seen.count if seen else 1,
        "fields": dict(event.fields),
    }
