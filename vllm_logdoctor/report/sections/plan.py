"""The launch command with all changes, and what they do to the figures."""

from __future__ import annotations

from collections.abc import Iterable

from vllm_logdoctor.plan.command import shell
from vllm_logdoctor.plan.launch import changed, launch_of
from vllm_logdoctor.report.escape import code, fence, prose
from vllm_logdoctor.report.figures import number, table
from vllm_logdoctor.report.naming import BROKEN
from vllm_logdoctor.report.page import Page
from vllm_logdoctor.rules.model import Finding


def launch_command(page: Page) -> list[str]:
    """Return the section; nothing where no flag of a known command changes."""
    command = _changed_command(page)
    if command is None:
        return []
    same = next((d.run.number for d in page.earlier if d.plan == page.diagnosis.plan), None)
    return _parts([f"As in run {same}."] if same is not None else fence(command, "sh"), _notes(page))


def expected_effect(page: Page) -> list[str]:
    """Return what the changes together do to the figures, and what is then the limit."""
    notes = _notes(page) if _changed_command(page) is None else []
    return _parts(_expected(page), _next_limit(page), notes)


def in_python(page: Page, findings: Iterable[Finding]) -> list[str]:
    """Return how the flags of findings are given to an offline engine; nothing where there are none."""
    flags = [change.knob for one in findings for change in one.changes if change.kind == "flag"]
    if page.run.kind != "offline" or not flags:
        return []
    name = flags[0].lstrip("-").replace("-", "_")
    return [f"In Python, a flag is an argument of `LLM(...)`: {code(flags[0])} is {code(name)}."]


def _parts(*parts: list[str]) -> list[str]:
    shown = [part for part in parts if part]
    return [line for number, part in enumerate(shown) for line in ([""] if number else []) + part]


def _notes(page: Page) -> list[str]:
    plan = page.diagnosis.plan
    left_out = {knob for finding in page.advice for knob, _ in page.refused(finding)}
    settled = [f"- {code(one.change.knob)}: {prose(one.settled)}" for one in plan.changes if one.settled]
    refused = [
        f"- Left out: {code(knob)}: {prose(reason)}" for knob, reason in plan.refused if knob not in left_out
    ]
    return [*settled, *refused]


def _changed_command(page: Page) -> str | None:
    before, after = page.diagnosis.plan.command_before, _command(page)
    return after if before and after and before != after else None


def _command(page: Page) -> str | None:
    """Return the command with what the report advises: after a failure that is its repair, without any tuning."""
    plan, run = page.diagnosis.plan, page.run
    failures = {finding.id for finding in page.failures}
    repairs = [planned.change for planned in plan.changes if failures.intersection(planned.findings)]
    launch = launch_of(run) if run.outcome in BROKEN and len(repairs) < len(plan.changes) else None
    return shell(changed(launch, repairs)) if launch is not None else plan.command_after


def _expected(page: Page) -> list[str]:
    """Return the table of figures to expect; nothing where the plan moves none."""
    plan = page.diagnosis.plan
    if not plan.expected:
        return []
    rows = [
        [
            prose(row.figure),
            number(row.now),
            number(row.low) if row.low == row.high else f"{number(row.low)} to {number(row.high)}",
            prose(row.why),
        ]
        for row in plan.expected
    ]
    return ["Expected under the same demand:", "", *table(["figure", "now", "after", "why"], rows)]


def _next_limit(page: Page) -> list[str]:
    """Return the sentence on what limits the run after the changes; nothing where that is not known."""
    limits = page.diagnosis.plan.next_limits
    demand = "the number of prompts" if page.run.kind == "offline" else "the client"
    named = [
        f"{demand if limit.name == 'client' else limit.name}{', as now' if limit.stays else ''} ({limit.where})"
        for limit in limits
    ]
    return [f"With the changed settings the limit is {prose('; then '.join(named))}."] if named else []
