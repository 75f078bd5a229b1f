"""Findings, plan and what is already right for one run, in the order of the packages."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from vllm_logdoctor.plan.model import Plan
from vllm_logdoctor.report.model import Diagnosis
from vllm_logdoctor.rules.bottleneck import Bottleneck
from vllm_logdoctor.rules.engine import RuleRunner, settings_findings
from vllm_logdoctor.rules.job import KILLED_AT_LIMIT
from vllm_logdoctor.rules.load import Load, load_of
from vllm_logdoctor.rules.messages import messages_of
from vllm_logdoctor.rules.model import Finding
from vllm_logdoctor.run.model import Run
from vllm_logdoctor.run.servers import NAMES, VLLM

_NOTHING: tuple[Any, ...] = ()


def judge(run: Run, objective: str = "balanced") -> Diagnosis:
    """Judge a run: what broke, what limits it, what to change; a run of another engine is only named."""
    if run.server != VLLM:
        run.outcome = "unknown"
        name = NAMES.get(run.server, run.server)
        return Diagnosis(
            run, bottleneck=Bottleneck("none-clear", f"This is a log of {name}: it is not judged.")
        )
    from vllm_logdoctor.plan import plan_of, what_if_table
    from vllm_logdoctor.rules.already_right import already_right
    from vllm_logdoctor.rules.bottleneck import bottleneck_of
    from vllm_logdoctor.rules.capacity.ceiling import ceiling_of
    from vllm_logdoctor.rules.unknowns import unknowns_of

    parts = RuleRunner()
    failures = parts.get("failure analysis", lambda: _failures(run), _NOTHING)
    load = parts.get("load", lambda: load_of(run), None)
    bottleneck = parts.get("bottleneck", lambda: bottleneck_of(run, load), Bottleneck("none-clear", ""))
    advice = parts.get("advice", lambda: _advice(run, bottleneck, objective, load, parts), _NOTHING)
    findings = _in_order(failures, advice)
    plan = parts.get("plan", lambda: plan_of(run, findings, objective, load), Plan())
    what_if = parts.get("capacity table", lambda: what_if_table(run), _NOTHING)
    right = parts.get("list of what is right", lambda: already_right(run, load, findings), _NOTHING)
    messages = parts.get("list of warnings", lambda: messages_of(run, failures), _NOTHING)
    unknowns = parts.get(
        "list of unknowns",
        lambda: unknowns_of(
            run,
            _topic(run, failures),
            by_release=_asks_for_release(failures),
            open_question=bool(plan.changes or _topic(run, failures) or not (run.samples or run.progress)),
        ),
        _NOTHING,
    )
    ceiling = parts.get("distance to the limit", lambda: ceiling_of(run, load), None)
    not_known = (*unknowns, *parts.failed)
    return Diagnosis(run, findings, bottleneck, plan, what_if, right, messages, not_known, ceiling)


def _topic(run: Run, failures: tuple[Finding, ...]) -> str:
    """Return the topic of the failure that ended a run, or of a request's where a piece of a log shows nothing else; or ""."""
    piece = not (run.config or run.samples or run.startup_complete)
    roots = (one for one in failures if one.role == "root" and (one.kind == "failure" or piece))
    return next((one.topic or "other" for one in roots), "")


def _asks_for_release(failures: tuple[Finding, ...]) -> bool:
    """Return whether what to do about a failure depends on the release of vLLM; True without a failure, or without a step."""
    root = next((one for one in failures if one.role == "root" and one.kind == "failure"), None)
    if root is None or root.confidence != "high":
        return True
    steps = (*root.alternatives, *(f"{one.knob} {one.after}" for one in root.changes))
    return not steps or any(word in step for step in steps for word in ("release", "vLLM", "--", "VLLM_"))


def _in_order(failures: tuple[Finding, ...], advice: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """Put failures first, most requests that fail, leaked secrets, what limits the speed, then remarks on stops and settings."""
    ends = tuple(found for found in advice if found.kind == "failure")
    failures = _with_end(failures, ends)
    advice = tuple(found for found in advice if found.kind != "failure")
    failures, advice = _with_refusals(failures, advice)
    others = [
        *(found for found in failures if found.kind != "failure"),
        *(found for found in advice if found.kind == "configuration"),
    ]
    urgent = [found for found in others if found.topic == "serving" and found.severity == "high"]
    return (
        *(found for found in failures if found.kind == "failure"),
        *urgent,
        *(found for found in advice if found.kind != "configuration"),
        *(found for found in others if found not in urgent),
    )


_TOO_LONG = "requests-beyond-context"
_REFUSED = "request-error-not-server-fault"


def _with_refusals(
    failures: tuple[Finding, ...], advice: tuple[Finding, ...]
) -> tuple[tuple[Finding, ...], tuple[Finding, ...]]:
    """Give the lines on refused requests to the finding that says why they were refused, so that they are counted once."""
    reason = next((one for one in advice if one.id == _TOO_LONG), None)
    if reason is None:
        return failures, advice
    same = [
        one
        for one in failures
        if one.id == _REFUSED and (not one.evidence or one.evidence[0] in reason.evidence)
    ]
    lines = dict.fromkeys([*reason.evidence, *(line for one in same for line in one.evidence)])
    whole = replace(reason, evidence=tuple(lines))
    return (
        tuple(one for one in failures if one not in same),
        tuple(whole if one is reason else one for one in advice),
    )


_NO_CAUSE = {"process-killed-externally"}
_ENDED_FROM_OUTSIDE = {*_NO_CAUSE, "killed-by-orchestrator", "stopped-by-user-or-script"}
"""What says less of an end at a limit of the job than the finding on the job does."""


def _with_end(failures: tuple[Finding, ...], ends: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """Put what a file beside the log says of the end before the rest; it is the root where the log names no cause."""
    root = next((found for found in failures if found.role == "root"), None)
    if not ends:
        return failures
    follows = _ENDED_FROM_OUTSIDE if ends[0].id == KILLED_AT_LIMIT else _NO_CAUSE
    if root is not None and root.id not in follows:
        return (*failures, *(replace(found, role="contributing") for found in ends))
    followed = (replace(found, role="cascade") if found is root else found for found in failures)
    return (replace(ends[0], role="root"), *followed)


def _failures(run: Run) -> tuple[Finding, ...]:
    from vllm_logdoctor.rules.failure import failures_of

    run.outcome, findings = failures_of(run)
    if run.outcome in ("running", "truncated", "unknown") and run.observed.kills_for_memory():
        # A killed process writes nothing: its log just ends.
        run.outcome = "killed"
    if run.outcome == "running" and run.followed:
        # It does not run any more: an offline engine was done, a server left without a word.
        run.outcome = "clean_shutdown" if run.kind == "offline" else "unknown"
    return findings


def _advice(
    run: Run, bottleneck: Bottleneck, objective: str, load: Load | None, runner: RuleRunner
) -> tuple[Finding, ...]:
    from vllm_logdoctor.rules import configuration, job, observed, security
    from vllm_logdoctor.rules.performance import performance_findings

    return (
        *settings_findings(job.RULES, run, runner),
        *performance_findings(run, bottleneck, objective, load, runner),
        *(settings_findings(observed.RULES, run, runner) if run.observed.groups else ()),
        *settings_findings(configuration.RULES, run, runner),
        *settings_findings(security.RULES, run, runner),
    )
