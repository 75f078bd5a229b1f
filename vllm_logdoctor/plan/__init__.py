"""Merge the changes of the findings: one value per flag, the command before and after, and answers to what-ifs."""

from __future__ import annotations

from collections.abc import Sequence

from vllm_logdoctor.plan.command import shell
from vllm_logdoctor.plan.compose import composed, in_command
from vllm_logdoctor.plan.launch import changed, launch_of
from vllm_logdoctor.plan.merge import merge
from vllm_logdoctor.plan.model import Plan
from vllm_logdoctor.plan.objectives import suited
from vllm_logdoctor.plan.outlook import next_limits
from vllm_logdoctor.plan.table import what_if_table
from vllm_logdoctor.rules import configuration
from vllm_logdoctor.rules.bottleneck import bottleneck_of
from vllm_logdoctor.rules.engine import settings_findings
from vllm_logdoctor.rules.load import Load, load_of
from vllm_logdoctor.rules.model import Finding
from vllm_logdoctor.rules.performance import performance_findings
from vllm_logdoctor.rules.performance.order import by_gain
from vllm_logdoctor.run.model import Run

__all__ = ["advice_on", "plan_of", "what_if_table"]


def plan_of(
    run: Run, findings: Sequence[Finding], objective: str = "balanced", load: Load | None = None
) -> Plan:
    """Merge findings into one plan and judge the run that it leads to.

    Args:
        run: the run.
        findings: in order of importance, failures first, as they were ordered for the objective.
        objective: what the advice is for.
        load: the load of the run, where it is known already.

    Returns:
        changes with one value per knob that can be made together, the launch command before and after, and what was
        left out with the reason.
    """
    merged = merge(run, by_gain(findings))
    failures = frozenset(finding.id for finding in findings if finding.kind == "failure")
    load = load or load_of(run)
    items, left_out = suited(merged.changes, objective, failures)
    found = composed(
        run, items, load, lambda other: advice_on(other, objective), findings, objective == "long-context"
    )
    refused = tuple(dict.fromkeys((*merged.refused, *left_out, *found.held_back)))
    launch = launch_of(run)
    before, after = None, None
    if launch is not None:
        before = shell(launch)
        after = shell(changed(launch, (one.change for one in in_command(found.changes, findings))))
    return Plan(found.changes, before, after, refused, next_limits(found, findings, run, load))


def advice_on(run: Run, objective: str = "balanced") -> tuple[Finding, ...]:
    """Judge the settings and the load of a run: findings of performance and configuration."""
    load = load_of(run)
    return (
        *performance_findings(run, bottleneck_of(run, load), objective, load),
        *settings_findings(configuration.RULES, run),
    )
