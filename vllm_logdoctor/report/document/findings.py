"""The part of the JSON document on what was judged: findings, plan, what-if, bottleneck, messages."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import field

from vllm_logdoctor.catalogue.topics import MessageVerdict, Resource, RuleKind, Safety, Severity, Topic
from vllm_logdoctor.plan.model import Plan, PlannedChange
from vllm_logdoctor.report.clock import clock, iso
from vllm_logdoctor.report.document.part import Part, means
from vllm_logdoctor.rules.bottleneck import Bottleneck, ServingPeriod
from vllm_logdoctor.rules.limits import BottleneckName
from vllm_logdoctor.rules.model import Confidence, Role
from vllm_logdoctor.run.model import Evidence


class SpanClockOut(Part):
    """Start and end as the log prints them."""

    start: str | None
    end: str | None


class PeriodOut(Part):
    """Neighbouring samples with one limit."""

    name: BottleneckName
    start: str | None
    end: str | None
    clock: SpanClockOut
    samples: int
    reason: str
    evidence: list[Evidence]

    @classmethod
    def of_period(cls, period: ServingPeriod, year_known: bool) -> PeriodOut:
        """Give a period its times."""
        return cls.of(
            period,
            start=iso(period.start, year_known),
            end=iso(period.end, year_known),
            clock=SpanClockOut(clock(period.start), clock(period.end)),
        )


class BottleneckOut(Part):
    """Why the run is limited by what it is limited by."""

    reason: str
    evidence: list[Evidence]
    periods: list[PeriodOut]

    @classmethod
    def of_limit(cls, limit: Bottleneck, year_known: bool) -> BottleneckOut:
        """Give each period its times."""
        return cls.of(limit, periods=[PeriodOut.of_period(period, year_known) for period in limit.periods])


class ChangeOut(Part):
    """One knob from one value to another; null is "not set"."""

    knob: str
    kind: Literal["flag", "env", "setting", "action"]
    before: Any = field(name="from")
    after: Annotated[Any, means("null with kind flag: drop it")] = field(name="to")
    safety: Safety
    note: str | None


class PlannedChangeOut(ChangeOut):
    """A change of the plan, with the findings that ask for it."""

    findings: list[str]
    settled: str | None

    @classmethod
    def of_planned(cls, planned: PlannedChange) -> PlannedChangeOut:
        """Join a change with why it is planned."""
        return cls.of(
            planned.change,
            findings=list(planned.findings),
            settled=planned.settled or None,
        )


class EffectOut(Part):
    """Expected ratio after / before of a metric."""

    metric: str
    low: float | None
    high: float | None
    origin: Literal["measured", "computed", "published"]
    basis: str
    share: Annotated[
        float, means("share of the busy time in which the change acts; the range holds for that time")
    ]
    next_limit: Annotated[
        str | None, means("what limits then: max_num_seqs, KV cache, memory bandwidth or client")
    ]


class FindingOut(Part):
    """One judged statement on the run."""

    id: str
    kind: RuleKind
    role: Annotated[Role | None, means("failures only; at most one root per run")]
    severity: Severity
    confidence: Confidence
    title: Annotated[str, means("what is wrong, in the words that people search for")]
    explanation: str
    evidence: list[Evidence]
    changes: list[ChangeOut]
    alternatives: list[str]
    avoid: str | None
    effect: EffectOut | None
    verify: Annotated[str | None, means("what the next log must show")]
    topic: Topic
    exhausts: Annotated[Resource | None, means("what a failure used up, or what is full")]


class RefusedOut(Part):
    """A requested change that was left out."""

    knob: str
    reason: str


class NextLimitOut(Part):
    """What limits with the plan made."""

    name: str
    where: Annotated[
        str, means("the figures of the planned run at which it limits; empty for a limit of the load")
    ]
    stays: Annotated[bool, means("whether it is what limits this run as well")]


class PlanOut(Part):
    """All changes, one value per knob."""

    command_before: str | None
    command_after: str | None
    changes: list[PlannedChangeOut]
    refused: list[RefusedOut]
    next_limit: Annotated[
        str | None,
        means("what limits with the plan made: max_num_seqs, KV cache, memory bandwidth or client"),
    ]
    next_limits: list[NextLimitOut]

    @classmethod
    def of_plan(cls, plan: Plan) -> PlanOut:
        """Return a plan with its changes."""
        return cls.of(
            plan,
            changes=[PlannedChangeOut.of_planned(planned) for planned in plan.changes],
            refused=[RefusedOut(knob, reason) for knob, reason in plan.refused],
        )


class WhatIfOut(Part):
    """What the KV cache would hold if one knob changed; null with the reason in basis."""

    knob: str
    before: Any = field(name="from")
    after: Any = field(name="to")
    kv_cache_tokens: int | None
    low: int | None
    high: int | None
    max_concurrency: float | None
    basis: str


class CeilingOut(Part):
    """Decode speed that memory bandwidth allows, beside the measured one; null where the log lacks an input."""

    ceiling: Annotated[float | None, means("tokens/s of all requests together at most")]
    measured: Annotated[float | None, means("tokens/s, median of samples without prompts")]
    share: Annotated[float | None, means("measured over ceiling")]
    formula: str
    evidence: list[Evidence]
    variant_open: Annotated[
        bool,
        means(
            "whether the ceiling is that of the fastest variant of a card that the log names by its family only"
        ),
    ]


class AlreadyRightOut(Part):
    """An optimization that is on."""

    name: str
    state: str
    brings: str
    evidence: list[Evidence]


class MessageOut(Part):
    """A warning or error that was seen, with its verdict."""

    pattern: str | None
    text: str
    verdict: MessageVerdict
    meaning: str
    count: int
    evidence: Evidence
