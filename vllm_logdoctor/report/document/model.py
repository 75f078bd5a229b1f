"""The whole JSON document: the one place that names what it holds.

`logdoctor/1` changes only by added fields; a changed or removed one makes it `logdoctor/2`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import field

from vllm_logdoctor.engines.model import EngineLog
from vllm_logdoctor.report.clock import clock, iso
from vllm_logdoctor.report.document.findings import (
    AlreadyRightOut,
    BottleneckOut,
    CeilingOut,
    FindingOut,
    MessageOut,
    PlanOut,
    SpanClockOut,
    WhatIfOut,
)
from vllm_logdoctor.report.document.part import Part, means
from vllm_logdoctor.report.document.serving import ServingOut
from vllm_logdoctor.report.model import Analysis, Diagnosis
from vllm_logdoctor.report.opinion import Opinion
from vllm_logdoctor.rules.limits import BottleneckName
from vllm_logdoctor.run.beside import Beside, Certainty
from vllm_logdoctor.run.model import (
    Evidence,
    Kind,
    Outcome,
    Phase,
    Provenance,
    Run,
)
from vllm_logdoctor.run.observed import GROUPS, Observed

Platform = Literal["cuda", "rocm", "tpu", "xpu", "cpu", "hpu", "npu", "neuron"]

MEASURED = (
    "model_weights_gib", "model_load_seconds", "available_kv_cache_gib", "kv_cache_tokens", "max_concurrency",
    "torch_compile_seconds", "graph_capture_seconds", "graph_capture_gib", "init_engine_seconds",
)  # fmt: skip
"""Figures that every run has in the document, null where they are not known."""


class ValueOut(Part):
    """A value with where it comes from."""

    value: Annotated[Any, means("null is a value: not set")]
    provenance: Provenance
    evidence: list[Evidence]
    note: Annotated[str | None, means("of defaults and computed values: from what")] = None


class SourceOut(Part):
    """What was read of one file."""

    file: str
    bytes: int
    lines: int
    note: Annotated[str | None, means("why reading stopped early, or why the file was skipped")] = None
    kind: Annotated[str, means('"log", or the kind of a file that was named and skipped')] = "log"


class ClockOut(Part):
    """Bounds of the run as the log prints them: month, day and time, whether the year is known or not."""

    started: str | None
    ended: str | None
    year_known: bool


class ProcessOut(Part):
    """A process that wrote into the log."""

    name: str
    role: str | None
    pid: int | None
    rank: str | None
    host: str | None


class PhaseOut(Part):
    """A named span of the run."""

    name: str
    process: str
    parent: Annotated[str | None, means("name of the phase that it is a part of")]
    start: Annotated[str | None, means("ISO 8601 without zone; null where the log prints no year")]
    end: str | None
    clock: SpanClockOut
    seconds: float | None
    evidence: list[Evidence]

    @classmethod
    def of_phase(cls, phase: Phase, year_known: bool) -> PhaseOut:
        """Give a phase its times."""
        return cls.of(
            phase,
            start=iso(phase.start, year_known),
            end=iso(phase.end, year_known),
            clock=SpanClockOut(clock(phase.start), clock(phase.end)),
        )


class BenchmarkOut(Part):
    """A result that `vllm bench` printed into the same log."""

    kind: Literal["serve", "throughput", "latency"]
    figures: Annotated[dict[str, float | None], means("by the name that the benchmark prints")]
    evidence: Annotated[list[Evidence], means("first and last line")]


class FactOut(Part):
    """One value of a log of another engine."""

    name: str
    value: str | int | float
    unit: str | None
    line: int | None
    text: str | None


class EngineLogOut(Part):
    """What was read of a log of SGLang or llama.cpp; speeds are among `serving.levels`."""

    facts: list[FactOut]
    dropped: Annotated[dict[str, int], means("decode rates that say nothing about the speed, by reason")]
    requests: Annotated[int, means("requests with their own times")]

    @classmethod
    def of_log(cls, log: EngineLog) -> EngineLogOut:
        """Return the values of a log, with the number of its requests."""
        return cls.of(
            log, facts=[FactOut.of(fact) for fact in log.facts.values()], requests=len(log.requests)
        )


class MeasuredOut(Part):
    """One measured value with the file that holds it."""

    name: str
    value: Any
    unit: str | None
    subject: str | None
    file: str
    line: int | None
    where: Annotated[str | None, means("place in a file without lines")]
    how: str
    joined: Annotated[bool, means("whether something in the file says that it is of this run")]


class ObservedOut(Part):
    """What files beside the log measured of a run, by group; empty without such files."""

    client: Annotated[list[MeasuredOut], means("what the client saw")]
    latency: Annotated[list[MeasuredOut], means("seconds; quantiles are the bounds of a bucket")]
    scheduler: list[MeasuredOut]
    gpus: list[MeasuredOut]
    links: list[MeasuredOut]
    kernels: Annotated[list[MeasuredOut], means("time by class of kernels, busy share, launches")]
    host: list[MeasuredOut]
    fate: Annotated[list[MeasuredOut], means("how a process, a container or a job ended")]

    @classmethod
    def of_observed(cls, observed: Observed) -> ObservedOut:
        """Return the values of each group."""
        values = {group: observed.of(group, joined=False) for group in GROUPS}
        return cls(**{group: [MeasuredOut.of(one) for one in values[group]] for group in GROUPS})


class RunOut(Part):
    """One life of one server or offline engine."""

    number: Annotated[int, means("1-based position among the runs")]
    server: Annotated[str, means("the engine that wrote the log; only vllm is judged")]
    kind: Kind
    engine: Literal["V0", "V1"] | None
    vllm_version: ValueOut | None
    platform: Platform | None
    model: ValueOut | None
    started: Annotated[str | None, means("ISO 8601 without zone; null where the log prints no year")]
    ended: str | None
    clock: ClockOut
    lines: Annotated[tuple[int, int], means("first and last line, each in its file of `files`")]
    files: tuple[str, str]
    startup_complete: bool
    outcome: Outcome
    processes: list[ProcessOut]
    config: Annotated[dict[str, ValueOut], means("effective configuration by EngineArgs field")]
    environment: Annotated[
        dict[str, ValueOut],
        means("variables that the log shows: set by the launch (explicit) or by vLLM itself (adjusted)"),
    ]
    measured: Annotated[dict[str, ValueOut | None], means("what the engine printed of itself")]
    phases: list[PhaseOut]
    serving: ServingOut
    benchmarks: list[BenchmarkOut]
    engine_log: EngineLogOut | None
    beside: Annotated[ObservedOut, means("measured beside the log")]
    bottleneck: BottleneckName
    bottleneck_detail: BottleneckOut
    findings: Annotated[list[FindingOut], means("in order of importance; a failure's root first")]
    plan: PlanOut
    what_if: list[WhatIfOut]
    ceiling: CeilingOut | None
    already_right: list[AlreadyRightOut]
    messages: list[MessageOut]
    not_known: Annotated[list[str], means("what the log can't tell, and what would tell it")]

    @classmethod
    def of_diagnosis(cls, diagnosis: Diagnosis) -> RunOut:
        """Return a run with what was judged of it."""
        run, ceiling = diagnosis.run, diagnosis.ceiling
        known = run.year_known
        return cls.of(
            run,
            vllm_version=ValueOut.of(run.version) if run.version else None,
            started=iso(run.started, known),
            ended=iso(run.ended, known),
            clock=ClockOut(clock(run.started), clock(run.ended), known),
            lines=(run.first_line, run.last_line),
            files=(run.first_file, run.last_file),
            measured=_measured(run),
            phases=[PhaseOut.of_phase(phase, known) for phase in run.phases],
            serving=ServingOut.of_run(run),
            engine_log=EngineLogOut.of_log(run.engine_log) if run.engine_log else None,
            beside=ObservedOut.of_observed(run.observed),
            bottleneck=diagnosis.bottleneck.name,
            bottleneck_detail=BottleneckOut.of_limit(diagnosis.bottleneck, known),
            findings=[FindingOut.of(finding) for finding in diagnosis.findings],
            plan=PlanOut.of_plan(diagnosis.plan),
            what_if=[WhatIfOut.of(answer) for answer in diagnosis.what_if],
            ceiling=CeilingOut.of(ceiling) if ceiling else None,
            already_right=[AlreadyRightOut.of(item) for item in diagnosis.already_right],
            messages=[MessageOut.of(message) for message in diagnosis.messages],
            not_known=list(diagnosis.unknowns),
        )


class UnknownOut(Part):
    """Warnings or errors of one template that no pattern knows."""

    level: str
    template: str
    count: int
    evidence: Evidence


class CoverageOut(Part):
    """How much was understood."""

    lines: int
    vllm_lines: Annotated[
        int,
        means(
            "log messages that were compared with vLLM's, without routine lines and files that no release has"
        ),
    ]
    recognised: int
    cut_characters: int
    unknown_warnings: list[UnknownOut]
    notes: list[str]
    tracebacks: Annotated[int, means("tracebacks that processes printed")]


class ReadingOut(Part):
    """One value of a file beside the log."""

    name: str
    value: Any
    unit: str
    subject: str
    line: int | list[int] | None
    where: str | None
    how: str


class BelongsOut(Part):
    """Which run a file beside the log belongs to."""

    run: int | None
    certainty: Certainty
    because: list[str]


class BesideOut(Part):
    """A file beside the logs: its kind, and what was read of it."""

    file: str
    kind: str | None
    used: Annotated[bool, means("whether its readings were taken over into a run")]
    why_not: str | None
    note: str | None
    belongs: BelongsOut
    readings: list[ReadingOut]

    @classmethod
    def of_beside(cls, one: Beside) -> BesideOut:
        """Return a file with its readings."""
        return cls.of(
            one.evidence,
            used=one.used,
            why_not=one.why_not,
            belongs=BelongsOut(one.run, one.certainty, list(one.because)),
        )


class DocumentOut(Part):
    """What `logdoctor analyze --format json` writes."""

    schema_name: Literal["logdoctor/1"] = field(name="schema")
    objective: str
    sources: list[SourceOut]
    runs: list[RunOut]
    evidence: Annotated[list[BesideOut], means("files beside the logs")]
    coverage: CoverageOut
    opinions: Annotated[
        list[Opinion], means("what models said that were asked (--ask), with what was checked of it")
    ]

    @classmethod
    def of_analysis(cls, analysis: Analysis) -> DocumentOut:
        """Return all of an analysis."""
        coverage = analysis.coverage
        return cls(
            schema_name="logdoctor/1",
            objective=analysis.objective,
            sources=[SourceOut.of(source) for source in analysis.sources],
            runs=[RunOut.of_diagnosis(diagnosis) for diagnosis in analysis.runs],
            evidence=[BesideOut.of_beside(one) for one in analysis.beside],
            coverage=CoverageOut.of(
                coverage,
                unknown_warnings=[UnknownOut.of(one, evidence=one.first) for one in coverage.unknown],
            ),
            opinions=list(analysis.opinions),
        )


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of the document.

    Example:
        >>> json_schema()["properties"]["schema"]["enum"]
        ['logdoctor/1']
    """
    from msgspec import json

    (top,), parts = json.schema_components([DocumentOut], ref_template="#/$defs/{name}")
    for part in parts.values():
        # The first paragraph says what a part is; what follows is for those who read the code.
        part["description"] = part["description"].split("\n\n")[0]
    return {**parts.pop(top["$ref"].rsplit("/", 1)[-1]), "$defs": parts}


def _measured(run: Run) -> dict[str, ValueOut | None]:
    names = [*MEASURED, *(name for name in run.measured if name not in MEASURED)]
    return {name: ValueOut.of(run.measured[name]) if name in run.measured else None for name in names}
