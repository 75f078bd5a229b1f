"""The launch command with all changes."""

from __future__ import annotations

from vllm_logdoctor.plan.command import shell
from vllm_logdoctor.plan.launch import changed, launch_of
from vllm_logdoctor.report.escape import code, fence, prose
from vllm_logdoctor.report.figures import number, table
from vllm_logdoctor.report.naming import BROKEN
from vllm_logdoctor.report.page import Page


def launch_command(page: Page) -> list[str]:
    """Return the section; nothing where no flag changes."""
    plan = page.diagnosis.plan
    same = next((d.run.number for d in page.earlier if d.plan == plan), None)
    lines: list[str] = []
    command = _command(page)
    if plan.command_before and command and plan.command_before != command:
        lines = [f"As in run {same}."] if same is not None else fence(command, "sh")
    elif page.run.kind == "offline" and any(one.change.kind == "flag" for one in plan.changes):
        lines = [
            "The run is offline: in Python each flag above is an argument of `LLM(...)`, with `_` for `-`."
        ]
    left_out = {knob for finding in page.advice for knob, _ in page.refused(finding)}
    notes = [
        f"- Left out: {code(knob)} {prose(reason)}" for knob, reason in plan.refused if knob not in left_out
    ]
    settled = [f"- {code(one.change.knob)}: {prose(one.settled)}" for one in plan.changes if one.settled]
    parts = [part for part in (lines, _expected(page), _next_limit(page), [*settled, *notes]) if part]
    return [line for number, part in enumerate(parts) for line in ([""] if number else []) + part]


def _command(page: Page) -> str | None:
    """Return the command with what the report advises: after a failure that is its repair, without any tuning."""
    plan, run = page.diagnosis.plan, page.run
    failures = {finding.id for finding in page.failures}
    repairs = [planned.change for planned in plan.changes if failures.intersection(planned.findings)]
    launch = launch_of(run) if run.outcome in BROKEN and 0 < len(repairs) < len(plan.changes) else None
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
    """Return the sentence on what limits with the plan made, and where; nothing where the plan does not tell it."""
    limits = page.diagnosis.plan.next_limits
    named = [
        f"{'the client' if limit.name == 'client' else limit.name}{', as now' if limit.stays else ''} ({limit.where})"
        for limit in limits
    ]
    return [f"The limit after it: {prose('; '.join(named))}."] if named else []
