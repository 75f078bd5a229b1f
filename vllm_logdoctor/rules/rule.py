"""A rule: one object with its id, what it needs of a run, its check, and what its finding is worth."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from vllm_logdoctor.catalogue.pages import RulePage, rule_page
from vllm_logdoctor.catalogue.topics import Severity
from vllm_logdoctor.rules.limits import BottleneckName
from vllm_logdoctor.rules.model import Change, Confidence, Effect
from vllm_logdoctor.run.model import Evidence

if TYPE_CHECKING:
    from vllm_logdoctor.rules.context import RuleContext

Objective = Literal["throughput", "latency", "long-context", "memory", "startup", "cost"]


class Advice(Struct, frozen=True):
    """What a check says of a run; the rule adds its id, and its page the title, the topic and the severity.

    Attributes:
        explanation: what it means here, with the log's own numbers.
        evidence: lines that prove it, the decisive one first.
        confidence: how sure it is.
        severity: None for the severity of the page; given only where it depends on the run.
        changes: what to change, first choice first.
        effect: expected effect, or None where no range has an origin.
        alternatives: other ways, in words, in order.
        avoid: what not to do, in words.
        verify: the line to look for in the next log.
        title: "" for the title of the page.
    """

    explanation: str
    evidence: Iterable[Evidence]
    confidence: Confidence
    severity: Severity | None = None
    changes: Iterable[Change] = ()
    effect: Effect | None = None
    alternatives: Iterable[str] = ()
    avoid: str = ""
    verify: str = ""
    title: str = ""


Check = Callable[["RuleContext"], Advice | None]


class Rule(Struct, frozen=True):
    """One rule. Its page is patterns/rules/<id>.md; its check is a function named like the id.

    Attributes:
        id: "eager-mode"; the check is then `eager_mode`.
        check: what to say of a run, or None. A rule without a check is judged by the signatures of its page
            (`rules.failure`).
        needs: ids of messages of which the run must hold one; () where the check decides.
        objectives: what raises its finding in the order.
        removes: the limit of a run that its changes remove.
        voids_figures: whether every figure of the run is void until it is changed.
        worth: what its finding counts for in the order, from the usual worth; None for the usual worth.
    """

    id: str
    check: Check | None = None
    needs: tuple[str, ...] = ()
    objectives: tuple[Objective, ...] = ()
    removes: BottleneckName | None = None
    voids_figures: bool = False
    worth: Callable[[RuleContext, float], float] | None = None

    @property
    def page(self) -> RulePage:
        """The page of the rule: title, topic, severity, and what people read."""
        return rule_page(self.id)

    @property
    def source(self) -> tuple[Path, int] | None:
        """File and line of the check; None for a rule that its page decides alone."""
        if self.check is None:
            return None
        code = inspect.unwrap(self.check).__code__
        return Path(code.co_filename), code.co_firstlineno
