"""The launch command with all changes, and what was left out of them."""

from __future__ import annotations

from vllm_logdoctor.plan.command import shell
from vllm_logdoctor.plan.compose import in_command
from vllm_logdoctor.plan.launch import changed, launch_of
from vllm_logdoctor.report.effects import change_words
from vllm_logdoctor.report.escape import code, fence, prose
from vllm_logdoctor.report.naming import BROKEN
from vllm_logdoctor.report.page import Page
from vllm_logdoctor.report.program_terms import lines_in_program_terms


def launch_command(page: Page) -> list[str]:
    """Return the section; nothing where no flag of a known command changes."""
    command = changed_command(page)
    if command is None:
        return []
    same = next((d.run.number for d in page.earlier if d.plan == page.diagnosis.plan), None)
    shown = [f"As in run {same}."] if same is not None else fence(command, "sh")
    notes = _notes(page)
    return [*shown, "", *notes] if notes else shown


def left_out(page: Page) -> list[str]:
    """Return what was settled or left out where no command shows it."""
    return _notes(page) if changed_command(page) is None else []


def _notes(page: Page) -> list[str]:
    plan = page.diagnosis.plan
    left_out = {knob for finding in page.advice for knob, _ in page.refused(finding)}
    settled = [f"- {code(one.change.knob)}: {prose(one.settled)}" for one in plan.changes if one.settled]
    asked = {change.knob: change for one in page.diagnosis.findings for change in one.changes}
    refused = [
        f"- Left out: {change_words(asked[knob]) if knob in asked else code(knob)}: {prose(reason)}"
        for knob, reason in plan.refused
        if knob not in left_out
    ]
    return lines_in_program_terms([*settled, *refused], page.run)


def changed_command(page: Page) -> str | None:
    """Return the launch command with the changed settings, or None where none of it changes."""
    if not page.run.startup_complete and any(
        one.run.outcome == "crashed_at_startup" and one.run.arguments == page.run.arguments
        for one in page.earlier
    ):
        return None  # The same command failed before: none is known to start.
    before, after = page.diagnosis.plan.command_before, _command(page)
    return after if before and after and before != after else None


def _command(page: Page) -> str | None:
    """Return the command with what the report advises: after a failure that is its repair, without any tuning."""
    plan, run = page.diagnosis.plan, page.run
    failures = {finding.id for finding in page.failures}
    advised = in_command(plan.changes, page.diagnosis.findings)
    repairs = [planned.change for planned in advised if failures.intersection(planned.findings)]
    launch = launch_of(run) if run.outcome in BROKEN and len(repairs) < len(plan.changes) else None
    return shell(changed(launch, repairs)) if launch is not None else plan.command_after
