"""The part of the JSON document on logs of other engines."""

from __future__ import annotations

from typing import Annotated

from vllm_logdoctor.report.document.part import Part, means
from vllm_logdoctor.run.model import Run


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
    def of_run(cls, run: Run) -> EngineLogOut | None:
        """Return what was read, or None for a run of vLLM and of an engine that is only named."""
        log = run.engine_log
        if log is None:
            return None
        return cls([FactOut.of(fact) for fact in log.facts.values()], dict(log.dropped), len(log.requests))
