"""What a log of another engine says: its facts with their lines, and its decode speed by running requests."""

from __future__ import annotations

from vllm_logdoctor.report.escape import code, inline
from vllm_logdoctor.report.figures import number, table
from vllm_logdoctor.report.page import Page
from vllm_logdoctor.rules.context import plural
from vllm_logdoctor.rules.equal_load import load_levels
from vllm_logdoctor.rules.steps import acceptance_length


def engine_log(page: Page) -> list[str]:
    """Return facts and speeds of a run of another engine; nothing for a run of vLLM."""
    log = page.run.engine_log
    if log is None:
        return []
    rows = [
        [
            inline(fact.name),
            code(str(fact.value), 160),
            inline(fact.unit, 80),
            f"L{fact.line}" if fact.line else "",
        ]
        for fact in log.facts.values()
    ]
    lines = table(["fact", "value", "unit", "line"], rows) if rows else []
    levels = load_levels(page.run.samples)
    if levels:
        speeds = [
            [f"{level.low}" if level.low == level.high else f"{level.low} to {level.high}", number(level.generation[1]), str(level.samples)]
            for level in levels
        ]  # fmt: skip
        lines += ["", *table(["running", "decode tok/s, median", "samples"], speeds)]
    length = acceptance_length(page.run)
    lines += ["", f"Acceptance length, median: {number(length)} tokens per step."] if length else []
    if log.dropped:
        reasons = ", ".join(f"{inline(reason)} ({number})" for reason, number in log.dropped.items())
        lines += ["", f"Left out of the speeds: {reasons}."]
    answered = plural(len(log.requests), "request")
    lines += ["", f"{answered} with times of their own."] if log.requests else []
    return [*lines, "", "Compare it with a run of vLLM: `logdoctor compare vllm.log THIS.log`."]
