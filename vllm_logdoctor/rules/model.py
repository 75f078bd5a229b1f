"""A finding: what is judged of a run, with what proves it and what to change."""

from __future__ import annotations

import math
from typing import Any, Literal

from msgspec import Struct

from vllm_logdoctor.catalogue.topics import MessageVerdict, Resource, RuleKind, Safety, Severity, Topic
from vllm_logdoctor.run.model import Evidence

Confidence = Literal["high", "medium", "low"]
Role = Literal["root", "cascade", "contributing"]


class Change(Struct, frozen=True):
    """One knob from one value to another.

    Attributes:
        knob: "--max-num-seqs", "VLLM_CACHE_ROOT", or words for an action.
        kind: "flag", "env", "setting" or "action".
        before, after: values; None for "not set", and for `after` of a flag: drop it.
        safety: "safe", "needs-test" (may cost or fail), "changes-results" (answers may differ).
        note: what to look out for.

    Example:
        >>> Change("--max-num-seqs", "flag", 1, 32).after
        32
    """

    knob: str
    kind: Literal["flag", "env", "setting", "action"]
    before: Any = None
    after: Any = None
    safety: Safety = "safe"
    note: str = ""


class Effect(Struct, frozen=True):
    """Expected effect as a ratio after/before of a metric.

    Attributes:
        metric: "generation_throughput", "kv_cache_tokens", "startup_seconds", "max_concurrency" ...
        low, high: ratio range.
        origin: "measured" (this log), "computed" (formula, inputs in basis), "published" (source and conditions in basis).
        basis: where the range is from, with n and conditions.
        share: share of the run's busy time in which the change acts; the range holds for that time.
        next_limit: what limits with the change made: "max_num_seqs", "KV cache", "client", or "" where not known.
        median: of the measured pairs, where they were published with one.

    Example:
        >>> Effect("kv_cache_tokens", 2.0, 2.0, "computed", "2 bytes an element -> 1").origin
        'computed'
        >>> Effect("generation_throughput", 2.0, 2.0, "computed", "", share=0.5).over_run(2.0)
        1.3333333333333333
    """

    metric: str
    low: float
    high: float
    origin: Literal["measured", "computed", "published"]
    basis: str
    share: float = 1.0
    next_limit: str = ""
    median: float | None = None

    @property
    def middle(self) -> float:
        """Return the ratio to reckon with: the median of the pairs, or the geometric mean of the bounds."""
        return self.median or math.sqrt(self.low * self.high)

    def over_run(self, ratio: float) -> float:
        """Return a throughput ratio over the whole run from the one in the time in which the change acts."""
        return 1 / (1 - self.share + self.share / ratio)


class Finding(Struct, frozen=True):
    """One judged statement on a run.

    Attributes:
        id: rule id (a page patterns/rules/<id>.md exists).
        kind: failure, performance, configuration or security.
        severity, confidence: how bad, how sure.
        title: names what is wrong, in the words that people search for.
        explanation: what it means here, with the log's own numbers.
        role: failures: "root" (at most one a run), "cascade" or "contributing"; else None.
        evidence: lines that prove it, the decisive one first.
        shown_by: those of them that show what the words say beside the decisive line: a place, a phase.
        changes: what to change, first choice first.
        alternatives: other ways, in words, in order.
        avoid: what not to do, in words.
        effect: expected effect, or None where no range has an origin.
        verify: the line to look for in the next log.
        topic: what it is about.
        exhausts: what a failure used up, or what is full; None for none.

    Example:
        >>> Finding("eager-mode", "performance", "high", "medium", "eager mode", "No graphs.").role is None
        True
    """

    id: str
    kind: RuleKind
    severity: Severity
    confidence: Confidence
    title: str
    explanation: str
    role: Role | None = None
    evidence: tuple[Evidence, ...] = ()
    changes: tuple[Change, ...] = ()
    alternatives: tuple[str, ...] = ()
    avoid: str = ""
    effect: Effect | None = None
    verify: str = ""
    topic: Topic = "other"
    exhausts: Resource | None = None
    shown_by: tuple[Evidence, ...] = ()


class AlreadyRight(Struct, frozen=True):
    """An optimization that is on: its name, its state in words, what it brings, and the line that proves it."""

    name: str
    state: str
    brings: str
    evidence: tuple[Evidence, ...]


class Message(Struct, frozen=True):
    """A warning or error that was seen, with its verdict.

    Attributes:
        pattern: pattern id, or "" for one that no pattern knows.
        text: the message of the first one.
        verdict: information, harmless, needs-attention, costs-performance, will-break, cause-of-failure, "not-fatal"
            (it can end a run, this one went on) or "unknown".
        meaning: what it means, in a sentence.
        count: how often.
        evidence: the first line.
        custom: whether a pack of the user's own knows it.
    """

    pattern: str
    text: str
    verdict: MessageVerdict
    meaning: str
    count: int
    evidence: Evidence
    custom: bool = False
