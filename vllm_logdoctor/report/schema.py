"""The JSON document as pydantic models: the reference for readers of it, and the source of its JSON Schema.

`logdoctor/1` changes only by added fields; a changed or removed one makes it `logdoctor/2`.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from vllm_logdoctor.rules.bottleneck import BottleneckName
from vllm_logdoctor.rules.model import Confidence, FindingKind, Role, Safety, Severity
from vllm_logdoctor.run.model import Kind, Outcome, Provenance

Platform = Literal["cuda", "rocm", "tpu", "xpu", "cpu", "hpu", "npu", "neuron"]


class Strict(BaseModel):
    """A part of the document; names that are not declared are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, populate_by_name=True)


class EvidenceOut(Strict):
    """The line that proves a statement."""

    file: str
    line: int = Field(description='1-based; only "\\n" ends a line')
    text: str = Field(description="the line, secrets masked, at most 600 characters")


class ValueOut(Strict):
    """A value with where it comes from."""

    value: Any = Field(description="null is a value: not set")
    provenance: Provenance
    evidence: list[EvidenceOut]
    note: str | None = Field(None, description="of defaults and computed values: from what")


class SourceOut(Strict):
    """What was read of one file."""

    file: str
    bytes: int
    lines: int
    note: str | None = None


class ClockOut(Strict):
    """Bounds of the run as the log prints them: month, day and time, whether the year is known or not."""

    started: str | None
    ended: str | None
    year_known: bool


class SpanClockOut(Strict):
    """Start and end as the log prints them."""

    start: str | None
    end: str | None


class ProcessOut(Strict):
    """A process that wrote into the log."""

    name: str
    role: str | None
    pid: int | None
    rank: str | None
    host: str | None


class PhaseOut(Strict):
    """A named span of the run."""

    name: str
    process: str
    parent: str | None = Field(description="name of the phase that it is a part of")
    start: str | None = Field(description="ISO 8601 without zone; null where the log prints no year")
    end: str | None
    clock: SpanClockOut
    seconds: float | None
    evidence: list[EvidenceOut]


class SpreadOut(Strict):
    """Tokens/s of the statistics lines: mean and percentiles of the busy ones, highest of all."""

    mean_busy: float | None
    p50: float | None
    p95: float | None
    max: float | None


class CountMaxOut(Strict):
    """Most requests in one statistics line."""

    max: int | None


class PercentMaxOut(Strict):
    """Highest share in percent."""

    max: float | None


class LastOut(Strict):
    """Last printed value in percent."""

    last: float | None


class EndpointOut(Strict):
    """Answered requests of one endpoint and status."""

    method: str
    path: str
    status: int
    count: int


class MinuteOut(Strict):
    """Answered requests of one minute, or of several in a long log."""

    start: str | None = Field(description="ISO 8601 without zone; null where the log prints no year")
    clock: str | None = Field(description="month, day and time as the log prints them")
    minutes: int = Field(description="length")
    by_status: dict[str, int]


class RequestsOut(Strict):
    """Answered requests by the access log."""

    total: int
    by_status: dict[str, int]
    by_minute: list[MinuteOut] = Field(description="requests without a time are left out")
    by_endpoint: list[EndpointOut]


class LevelOut(Strict):
    """Statistics lines with about the same number of running requests: speed at equal load."""

    low: int = Field(description="fewest running requests of an engine in the level")
    high: int = Field(description="most running requests of the level")
    running: float = Field(description="mean")
    samples: int
    generation: list[float] = Field(description="tokens/s: 25 %, median, 75 %")
    prompt: float = Field(description="tokens/s")


class DraftsOut(Strict):
    """Speculative decoding over the run."""

    lines: int
    accepted: int | None = Field(description="tokens; null where the lines do not tell or not all were kept")
    drafted: int | None
    acceptance: float | None = Field(description="percent")
    mean_length: float | None = Field(description="tokens per step with the bonus token")
    per_position: list[float] = Field(description="percent, by position of the draft")
    evidence: list[EvidenceOut]


class TransferFigureOut(Strict):
    """One figure of a KV connector, in the unit that its name holds."""

    mean: float | None
    highest: float | None
    last: float | None


class TransfersOut(Strict):
    """Lines of a KV connector."""

    lines: int
    figures: dict[str, TransferFigureOut] = Field(description="by the name that the connector prints")
    evidence: list[EvidenceOut]


class BatchOut(Strict):
    """Last state of one progress bar of the offline engine."""

    done: int
    total: int
    seconds: float | None
    input: float | None = Field(description="tokens/s")
    output: float | None = Field(description="tokens/s")
    evidence: EvidenceOut


class OfflineOut(Strict):
    """Batches of the offline engine by its progress bars."""

    batches: int
    prompts: int
    seconds: float
    last: list[BatchOut] = Field(description="at most 50")


class BenchmarkOut(Strict):
    """A result that `vllm bench` printed into the same log."""

    kind: Literal["serve", "throughput", "latency"]
    figures: dict[str, float | None] = Field(description="by the name that the benchmark prints")
    evidence: list[EvidenceOut] = Field(description="first and last line")


class ServingOut(Strict):
    """Figures of the statistics lines and of the access log."""

    samples: int = Field(description="statistics lines, all engines")
    busy_samples: int
    engines: list[int] = Field(description="engine numbers; -1 is an aggregate")
    prompt_throughput: SpreadOut
    generation_throughput: SpreadOut
    running: CountMaxOut
    waiting: CountMaxOut
    kv_cache_usage: PercentMaxOut
    prefix_cache_hit_rate: LastOut
    preemptions: int | None
    levels: list[LevelOut] = Field(description="by number of running requests")
    speculation: DraftsOut | None
    transfers: TransfersOut | None
    offline: OfflineOut | None
    requests: RequestsOut


class PeriodOut(Strict):
    """Neighbouring samples with one limit."""

    name: BottleneckName
    start: str | None
    end: str | None
    clock: SpanClockOut
    samples: int
    reason: str
    evidence: list[EvidenceOut]


class BottleneckOut(Strict):
    """Why the run is limited by what it is limited by."""

    reason: str
    evidence: list[EvidenceOut]
    periods: list[PeriodOut]


class ChangeOut(Strict):
    """One knob from one value to another; null is "not set"."""

    knob: str
    kind: Literal["flag", "env", "setting", "action"]
    before: Any = Field(alias="from")
    after: Any = Field(alias="to", description="null with kind flag: drop it")
    safety: Safety
    note: str | None


class PlannedChangeOut(ChangeOut):
    """A change of the plan, with the findings that ask for it."""

    findings: list[str]
    settled: str | None


class EffectOut(Strict):
    """Expected ratio after / before of a metric."""

    metric: str
    low: float | None
    high: float | None
    origin: Literal["measured", "computed", "published"]
    basis: str


class FindingOut(Strict):
    """One judged statement on the run."""

    id: str
    kind: FindingKind
    role: Role | None = Field(description="failures only; at most one root per run")
    severity: Severity
    confidence: Confidence
    title: str = Field(description="what is wrong, in the words that people search for")
    explanation: str
    evidence: list[EvidenceOut]
    changes: list[ChangeOut]
    alternatives: list[str]
    avoid: str | None
    effect: EffectOut | None
    verify: str | None = Field(description="what the next log must show")
    topic: str | None


class RefusedOut(Strict):
    """A knob that was asked for and left out."""

    knob: str
    reason: str


class PlanOut(Strict):
    """All changes, one value per knob."""

    command_before: str | None
    command_after: str | None
    changes: list[PlannedChangeOut]
    refused: list[RefusedOut]


class WhatIfOut(Strict):
    """What the KV cache would hold if one knob changed; null with the reason in basis."""

    knob: str
    before: Any = Field(alias="from")
    after: Any = Field(alias="to")
    kv_cache_tokens: int | None
    low: int | None
    high: int | None
    max_concurrency: float | None
    basis: str


class CeilingOut(Strict):
    """Decode speed that memory bandwidth allows, beside the measured one; null where the log does not tell enough."""

    ceiling: float | None = Field(description="tokens/s of all requests together at most")
    measured: float | None = Field(description="tokens/s, median of samples without prompts")
    share: float | None = Field(description="measured over ceiling")
    formula: str
    evidence: list[EvidenceOut]


class AlreadyRightOut(Strict):
    """An optimization that is on."""

    name: str
    state: str
    brings: str
    evidence: list[EvidenceOut]


class MessageOut(Strict):
    """A warning or error that was seen, with its verdict."""

    pattern: str | None
    text: str
    verdict: str
    meaning: str
    count: int
    evidence: EvidenceOut


class RunOut(Strict):
    """One life of one server or offline engine."""

    number: int = Field(description="1-based position among the runs")
    kind: Kind
    engine: Literal["V0", "V1"] | None
    vllm_version: ValueOut | None
    platform: Platform | None
    model: ValueOut | None
    started: str | None = Field(description="ISO 8601 without zone; null where the log prints no year")
    ended: str | None
    clock: ClockOut
    lines: tuple[int, int] = Field(description="first and last line, each in its file of `files`")
    files: tuple[str, str]
    startup_complete: bool
    outcome: Outcome
    processes: list[ProcessOut]
    config: dict[str, ValueOut] = Field(description="effective configuration by EngineArgs field")
    environment: dict[str, ValueOut] = Field(
        description="variables that the log shows: set by the launch (explicit) or by vLLM itself (adjusted)"
    )
    measured: dict[str, ValueOut | None] = Field(description="what the engine printed of itself")
    phases: list[PhaseOut]
    serving: ServingOut
    benchmarks: list[BenchmarkOut]
    bottleneck: BottleneckName
    bottleneck_detail: BottleneckOut
    findings: list[FindingOut] = Field(description="in order of importance; a failure's root first")
    plan: PlanOut
    what_if: list[WhatIfOut]
    ceiling: CeilingOut | None
    already_right: list[AlreadyRightOut]
    messages: list[MessageOut]
    not_known: list[str] = Field(description="what the log can't tell, and what would tell it")


class UnknownOut(Strict):
    """Warnings or errors of one template that no pattern knows."""

    level: str
    template: str
    count: int
    evidence: EvidenceOut


class CoverageOut(Strict):
    """How much was understood."""

    lines: int
    vllm_lines: int = Field(description="records that vLLM wrote")
    recognised: int
    cut_characters: int
    unknown_warnings: list[UnknownOut]
    notes: list[str]


class DocumentOut(Strict):
    """What `logdoctor analyze --format json` writes."""

    schema_name: Literal["logdoctor/1"] = Field(alias="schema")
    objective: str
    sources: list[SourceOut]
    runs: list[RunOut]
    coverage: CoverageOut


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of the document.

    Example:
        >>> json_schema()["properties"]["schema"]["const"]
        'logdoctor/1'
    """
    return DocumentOut.model_json_schema(by_alias=True)
