"""What follow says of an analysis that grows: lines for a pipe, a screen for a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct, field
from msgspec.structs import replace

from vllm_logdoctor.comparison.identity import fingerprint
from vllm_logdoctor.report.clock import time_of_day
from vllm_logdoctor.report.escape import shorten, visible
from vllm_logdoctor.report.figures import number
from vllm_logdoctor.report.model import Analysis, Diagnosis
from vllm_logdoctor.report.naming import BOTTLENECKS, OUTCOMES, model_name
from vllm_logdoctor.report.sparkline import sparkline
from vllm_logdoctor.rules.context import plural
from vllm_logdoctor.rules.model import Change, Finding
from vllm_logdoctor.run.clock import duration
from vllm_logdoctor.run.model import Evidence, Sample

_CURVE_SAMPLES = 120
_FINDINGS_SHOWN = 12
_WIDTH = 300


class Reported(Struct):
    """What follow has said already, so that a pipe gets each thing once."""

    titles: dict[int, str] = field(default_factory=dict)
    ready: set[int] = field(default_factory=set)
    findings: set[tuple[int, str]] = field(default_factory=set)
    stages: dict[int, tuple[str, str]] = field(default_factory=dict)
    samples: dict[int, int] = field(default_factory=dict)


def still_written(analysis: Analysis) -> Analysis:
    """Take back what was concluded from the end of a log that is still being written.

    Args:
        analysis: of the log so far; a last run whose log just stops counts as running.
    """
    if not analysis.runs or analysis.runs[-1].run.outcome not in ("truncated", "unknown"):
        return analysis
    last = analysis.runs[-1]
    findings = tuple(finding for finding in last.findings if finding.kind != "failure" and not finding.role)
    alive = replace(last, run=replace(last.run, outcome="running"), findings=findings)
    return replace(analysis, runs=(*analysis.runs[:-1], alive))


def new_lines(analysis: Analysis, reported: Reported) -> list[str]:
    """Return what an analysis says that was not reported before, one line each."""
    files = _cited_files(analysis)
    return [_plain(line) for diagnosis in analysis.runs for line in _new_of_run(diagnosis, reported, files)]


def screen(analysis: Analysis, width: int, height: int = 100) -> list[str]:
    """Return the lines of the live view: the last run, its rates, as many of its findings as have room."""
    if not analysis.runs:
        lines = ["nothing of vLLM so far"]
    else:
        diagnosis = analysis.runs[-1]
        lines = [_title(diagnosis), _verdict(diagnosis)]
        lines += _curves(diagnosis.run.samples, min(60, max(width - 40, 10)))
        lines += _findings(diagnosis, _cited_files(analysis), room=height - len(lines) - 3)
    gap = [""] if len(lines) + 2 <= height else []
    shown = [*lines[: max(height - 1, 0)], *gap, _footer(analysis)]
    return [shorten(_plain(line), max(width, 20)) for line in shown]


def _findings(diagnosis: Diagnosis, files: bool, room: int) -> list[str]:
    found = diagnosis.findings
    shown = min(_FINDINGS_SHOWN, room if len(found) <= room else room - 1)
    if not found or shown < 1:
        return []
    left = len(found) - shown
    lines = [f"{one.severity:>8}  {_finding(one, files)}" for one in found[:shown]]
    return ["", *lines, *([f"{plural(left, 'finding')} more"] if left > 0 else [])]


def _cited_files(analysis: Analysis) -> bool:
    """Return whether a line number needs its file: once the log was rotated, it does."""
    return len(analysis.sources) > 1


def _curves(samples: list[Sample], width: int) -> list[str]:
    if not samples:
        return []
    last = [sample for sample in samples if sample.engine == samples[-1].engine][-_CURVE_SAMPLES:]
    rows: list[tuple[str, str, list[float | None]]] = [
        ("generation", "tokens/s", [sample.generation for sample in last]),
        ("prompt", "tokens/s", [sample.prompt for sample in last]),
        ("running", "requests", [sample.running for sample in last]),
        ("waiting", "requests", [sample.waiting for sample in last]),
        ("KV cache", "%", [sample.kv_usage for sample in last]),
    ]
    return [
        "",
        *(f"{name:10} {_gauge(row[-1]):>9} {unit:8}  {sparkline(row, width)}" for name, unit, row in rows),
    ]


def _says_something(diagnosis: Diagnosis) -> bool:
    """Wait with the announcement of a run whose first lines do not yet show what runs."""
    run = diagnosis.run
    # A release that call sites tell may be another one as soon as the server prints its own.
    known = run.model is not None or (run.version is not None and run.version.provenance != "derived")
    return bool(known or run.startup_complete or run.sample_count or diagnosis.findings)


def _new_of_run(diagnosis: Diagnosis, reported: Reported, files: bool) -> Iterator[str]:
    run = diagnosis.run
    title = _title(diagnosis)
    if reported.titles.get(run.number) != title and _says_something(diagnosis):
        reported.titles[run.number] = title
        yield f"run {run.number}: {title}"
    if run.startup_complete and run.number not in reported.ready:
        reported.ready.add(run.number)
        seconds = run.startup_seconds
        yield f"run {run.number}: ready{f' after {duration(seconds)}' if seconds else ''}"
    for finding in diagnosis.findings:
        identity = (run.number, fingerprint(finding))
        if identity not in reported.findings:
            reported.findings.add(identity)
            yield f"finding, {finding.severity}: {_finding(finding, files)}"
    if run.sample_count > reported.samples.get(run.number, 0) and run.samples:
        reported.samples[run.number] = run.sample_count
        yield _rates(run.samples[-1])
    stage = _stage(diagnosis)
    if (run.startup_complete or diagnosis.findings) and reported.stages.get(run.number) != stage:
        reported.stages[run.number] = stage
        yield f"run {run.number}: {_verdict(diagnosis)}"


def _stage(diagnosis: Diagnosis) -> tuple[str, str]:
    """Return what makes a verdict another one: its figures change with every line of the log."""
    root = next((one.id for one in diagnosis.findings if one.role == "root"), "")
    return diagnosis.run.outcome, root or diagnosis.bottleneck.name


def _title(diagnosis: Diagnosis) -> str:
    run = diagnosis.run
    version = f"vLLM {run.version.value}" if run.version and run.version.value else "vLLM of unknown version"
    model = f", {model_name(str(run.model.value))}" if run.model and run.model.value else ""
    return version + model


def _verdict(diagnosis: Diagnosis) -> str:
    run = diagnosis.run
    root = next((one for one in diagnosis.findings if one.role == "root"), None)
    if root is not None:
        return f"{OUTCOMES[run.outcome]}: {root.title}"
    if not run.startup_complete:
        return "starting" if run.outcome in ("running", "unknown", "truncated") else OUTCOMES[run.outcome]
    limit = diagnosis.bottleneck
    return limit.reason or BOTTLENECKS[limit.name]


def _finding(finding: Finding, files: bool) -> str:
    places = ", ".join(_place(one, files) for one in finding.evidence[:3])
    changes = "; ".join(_change(change) for change in finding.changes[:2])
    return f"{finding.title}{f' [{places}]' if places else ''}{f' -> {changes}' if changes else ''}"


def _place(evidence: Evidence, files: bool) -> str:
    name = evidence.file.rpartition("/")[2]
    return f"{name} L{evidence.line}" if files else f"L{evidence.line}"


def _change(change: Change) -> str:
    if change.kind == "action":
        return change.knob
    if change.after is None:
        return f"drop {change.knob}"
    return f"add {change.knob}" if change.after is True else f"{change.knob} {change.after}"


def _rates(sample: Sample) -> str:
    parts = [
        f"{number(sample.prompt)} prompt and {number(sample.generation)} generation tokens/s",
        *([f"{sample.running} running"] if sample.running is not None else []),
        *([f"{sample.waiting} waiting"] if sample.waiting is not None else []),
        *([f"KV cache {number(sample.kv_usage)} %"] if sample.kv_usage is not None else []),
    ]
    time = time_of_day(sample.time)
    return f"{time + ' ' if time else ''}{', '.join(parts)}"


def _gauge(value: float | None) -> str:
    return "" if value is None else number(value)


def _footer(analysis: Analysis) -> str:
    lines = sum(source.lines for source in analysis.sources)
    return f"{plural(lines, 'line')} read; Ctrl-C ends with the report"


def _plain(text: str) -> str:
    return shorten(visible(text), _WIDTH)
