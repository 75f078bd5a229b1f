"""Plan room: findings become one set of changes, a command before and after, and answers to what-ifs."""

from __future__ import annotations

from collections.abc import Sequence

from vllm_logdoctor.plan.command import shell
from vllm_logdoctor.plan.launch import changed, launch_of
from vllm_logdoctor.plan.merge import merge
from vllm_logdoctor.plan.model import Plan
from vllm_logdoctor.plan.table import what_if_table
from vllm_logdoctor.rules.model import Finding
from vllm_logdoctor.run.model import Run

__all__ = ["plan_of", "what_if_table"]


def plan_of(run: Run, findings: Sequence[Finding], objective: str = "balanced") -> Plan:
    """Merge findings into one plan.

    Args:
        run: the run.
        findings: in order of importance, failures first, as they were ordered for the objective.
        objective: what the advice is for; the order of the findings already says so.

    Returns:
        changes with one value per knob, the launch command before and after, and what was left out.
    """
    merged = merge(run, findings)
    launch = launch_of(run)
    if launch is None:
        return Plan(merged.changes, None, None, merged.refused)
    after = changed(launch, (planned.change for planned in merged.changes))
    return Plan(merged.changes, shell(launch), shell(after), merged.refused)
