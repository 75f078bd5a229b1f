"""All of an analysis: what the writers of the report get."""

from __future__ import annotations

from functools import cached_property

from msgspec import Struct, field

from vllm_logdoctor.plan.model import Plan, WhatIf
from vllm_logdoctor.report.opinion import Opinion
from vllm_logdoctor.rules.bottleneck import Bottleneck
from vllm_logdoctor.rules.capacity.ceiling import Ceiling
from vllm_logdoctor.rules.model import AlreadyRight, Finding, Message
from vllm_logdoctor.run.beside import Beside
from vllm_logdoctor.run.model import Coverage, Run, SourceSummary
from vllm_logdoctor.texts import shared_start

__all__ = ["SCHEMA", "AlreadyRight", "Analysis", "Diagnosis", "Message"]

SCHEMA = "logdoctor/1"


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

    @cached_property
    def shared_folder(self) -> str:
        """Folder that all inputs are below, with its last slash; "" where there is none."""
        # The smallest and the largest name begin alike where all do.
        names = [one.file for one in self.sources]
        first, last = min(names, default=""), max(names, default="")
        return first[: first.rfind("/", 0, shared_start(first, last)) + 1]
