"""The whole plan: the launch command as it was and as it should be, and what every change is for."""

from __future__ import annotations

from vllm_logdoctor.plan.model import PlannedChange
from vllm_logdoctor.report.effects import SAFETY, change_words
from vllm_logdoctor.report.escape import code, fence, prose
from vllm_logdoctor.report.figures import table
from vllm_logdoctor.report.page import Page


def whole_plan(page: Page) -> list[str]:
    """Return the section as Markdown lines; nothing where nothing is planned."""
    plan = page.diagnosis.plan
    if not plan.changes and not plan.refused:
        return []
    same = next((d.run.number for d in page.earlier if d.plan == plan), None)
    if same is not None:
        return [f"As in run {same}."]
    lines: list[str] = []
    if plan.command_before and plan.command_after and plan.command_before != plan.command_after:
        lines += ["As it was:", "", *fence(plan.command_before, "sh"), ""]
        lines += ["As it should be:", "", *fence(plan.command_after, "sh"), ""]
    elif not plan.command_before and any(planned.change.kind != "action" for planned in plan.changes):
        lines += [_without_command(page), ""]
    if plan.changes:
        lines += [*table(["change", "for", "safe?"], [_row(planned) for planned in plan.changes]), ""]
    if plan.refused:
        lines += ["Asked for and left out:", ""]
        lines += [f"- {code(knob)}: {prose(reason)}" for knob, reason in plan.refused]
    return lines


def _without_command(page: Page) -> str:
    if page.run.kind == "offline":
        return (
            "An offline engine has no launch command: a flag below is the argument of the same name of `LLM(...)`, "
            "with `_` for `-`."
        )
    return "The log does not hold the arguments, so the whole command can't be written; the changes can."


def _row(planned: PlannedChange) -> list[str]:
    reasons = ", ".join(code(finding) for finding in planned.findings)
    settled = f"; {prose(planned.settled)}" if planned.settled else ""
    return [change_words(planned.change), reasons + settled, SAFETY[planned.change.safety]]
