"""All of an analysis: what the writers of the report get."""

from __future__ import annotations

import math
from functools import cached_property

from msgspec import Struct, field

from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.plan.model import Plan, WhatIf
from vllm_logdoctor.report.excerpt import excerpt
from vllm_logdoctor.report.naming import BROKEN
from vllm_logdoctor.report.opinion import Opinion
from vllm_logdoctor.rules.bottleneck import Bottleneck
from vllm_logdoctor.rules.capacity.ceiling import Ceiling
from vllm_logdoctor.rules.model import AlreadyRight, Finding, Message
from vllm_logdoctor.run.beside import Beside
from vllm_logdoctor.run.model import Coverage, Run, SourceSummary
from vllm_logdoctor.texts import shared_start

__all__ = ["SCHEMA", "AlreadyRight", "Analysis", "Diagnosis", "Message"]

SCHEMA = "logdoctor/1"
_SAME = 400
"""Characters by which two errors are the same."""
_NUMBER = lazy_pattern(r"\d+")


class Diagnosis(Struct, frozen=True):
    """A run with what was judged of it.

    Attributes:
        hidden: findings that a baseline or a suppression leaves out of `findings`; the state of the run counts them.
    """

    run: Run
    findings: tuple[Finding, ...] = ()
    bottleneck: Bottleneck = field(default_factory=lambda: Bottleneck("none-clear", ""))
    plan: Plan = field(default_factory=Plan)
    what_if: tuple[WhatIf, ...] = ()
    already_right: tuple[AlreadyRight, ...] = ()
    messages: tuple[Message, ...] = ()
    unknowns: tuple[str, ...] = ()
    ceiling: Ceiling | None = None
    hidden: tuple[Finding, ...] = ()

    @property
    def failures(self) -> tuple[Finding, ...]:
        """Findings of kind failure, the root first."""
        found = [finding for finding in self.findings if finding.kind == "failure"]
        return tuple(sorted(found, key=lambda finding: finding.role != "root"))

    @property
    def root(self) -> Finding | None:
        """The failure that comes first, or what ended a broken run; None for a run that did not fail.

        A hidden one counts: what a baseline knows or a suppression accepts broke the run all the same.
        """
        broken = self.run.outcome in BROKEN
        hidden = (one for one in self.hidden if one.kind == "failure")
        ended = (one for one in self.findings if broken and one.role == "root")
        return next(iter((*self.failures, *hidden, *ended)), None)

    @property
    def shown_root(self) -> Finding | None:
        """The root, unless it is hidden."""
        return None if self.root in self.hidden else self.root

    @property
    def broke_at(self) -> float:
        """The time at which the run broke; what a limit of its job ended comes after all that broke by itself."""
        at_limit = self.run.job is not None and self.run.job.limit and self.run.outcome == "killed"
        return math.inf if at_limit or self.run.ended is None else self.run.ended


class Analysis(Struct, frozen=True, dict=True):
    """Everything that is known of a set of logs: sources, runs with findings and plans, coverage; and what models say."""

    sources: tuple[SourceSummary, ...]
    runs: tuple[Diagnosis, ...]
    coverage: Coverage
    objective: str = "balanced"
    beside: tuple[Beside, ...] = ()
    opinions: tuple[Opinion, ...] = ()

    @cached_property
    def file_numbers(self) -> dict[str, int]:
        """Number of each input and of each file beside the logs by its name, in order."""
        names = (*(one.file for one in self.sources), *(one.evidence.file for one in self.beside))
        return {name: number for number, name in enumerate(dict.fromkeys(names))}

    @property
    def with_known_cache(self) -> Diagnosis:
        """The last run whose log tells the size of the KV cache, else the last one."""
        known = [one for one in self.runs if one.run.measure("kv_cache_tokens")]
        return (known or self.runs)[-1]

    @cached_property
    def repeated(self) -> dict[int, Run]:
        """Number of each run that failed as an earlier one did, and the first one of these: same cause and, but for numbers, same line."""
        first: dict[tuple[str, str], Run] = {}
        found: dict[int, Run] = {}
        for one in self.runs:
            root = one.shown_root
            if root is not None and root.evidence:
                before = first.setdefault(
                    (root.id, _NUMBER.sub("", excerpt(root.evidence[0].text, limit=_SAME))), one.run
                )
                if before is not one.run:
                    found[one.run.number] = before
        return found

    @cached_property
    def shared_folder(self) -> str:
        """Folder that all inputs are below, with its last slash; "" where there is none."""
        # The smallest and the largest name begin alike where all do.
        names = [one.file for one in self.sources]
        first, last = min(names, default=""), max(names, default="")
        return first[: first.rfind("/", 0, shared_start(first, last)) + 1]
