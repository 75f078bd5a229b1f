"""Performance rules by topic; their findings come in the order of what is most worth doing."""

from __future__ import annotations

from vllm_logdoctor.rules.bottleneck import Bottleneck
from vllm_logdoctor.rules.context import rule_context
from vllm_logdoctor.rules.engine import RuleRunner
from vllm_logdoctor.rules.load import Load, load_of
from vllm_logdoctor.rules.model import Finding
from vllm_logdoctor.rules.performance import (
    accelerators,
    adapters,
    balance,
    caching,
    context_length,
    cpu,
    engine_start,
    experts,
    full_cache,
    graphs,
    host,
    kernels,
    long_answers,
    machine,
    memory_use,
    messages,
    multimodal,
    observing,
    parallelism,
    platforms,
    prefill,
    serving,
    single_stream,
    speculation,
    startup,
    steps,
    transfers,
)
from vllm_logdoctor.rules.performance.order import by_worth
from vllm_logdoctor.rules.rule import Rule
from vllm_logdoctor.run.model import Run

LEAST_BEFORE_CRASH = 60.0
"""Seconds of load before a crash, fewer of which show nothing of the speed."""

RULES: tuple[Rule, ...] = (
    *steps.RULES,
    *full_cache.RULES,
    *prefill.RULES,
    *serving.RULES,
    *single_stream.RULES,
    *long_answers.RULES,
    *context_length.RULES,
    *balance.RULES,
    *adapters.RULES,
    *transfers.RULES,
    *parallelism.RULES,
    *machine.RULES,
    *observing.RULES,
    *graphs.RULES,
    *experts.RULES,
    *kernels.RULES,
    *accelerators.RULES,
    *caching.RULES,
    *speculation.RULES,
    *memory_use.RULES,
    *platforms.RULES,
    *cpu.RULES,
    *multimodal.RULES,
    *host.RULES,
    *startup.RULES,
    *engine_start.RULES,
    *messages.RULES,
)


def performance_findings(
    run: Run,
    bottleneck: Bottleneck,
    objective: str = "balanced",
    load: Load | None = None,
    runner: RuleRunner | None = None,
) -> tuple[Finding, ...]:
    """Judge the performance of a run.

    Args:
        run: the run.
        bottleneck: what limits it (`rules.bottleneck.bottleneck_of`).
        objective: balanced, throughput, latency, long-context, memory, startup or cost; it changes the order and
            some proposals.
        load: its load, where it is known already.
        runner: keeps the report from a rule that fails; without it, the error is raised.

    Returns:
        findings, what is most worth doing first.
    """
    load = load or load_of(run)
    soon = run.outcome == "crashed_while_serving" and load.busy_seconds < LEAST_BEFORE_CRASH
    if soon or run.outcome == "crashed_at_startup":
        return ()
    case = rule_context(run, load, bottleneck, objective)
    runner = runner or RuleRunner(strict=True)
    found = list(runner.findings(RULES, case))
    made = {rule.id for rule, _ in found}
    by_patterns = (rule for rule in messages.rules_of_patterns(run, _checked()) if rule.id not in made)
    return by_worth(case, (*found, *runner.findings(by_patterns, case)))


def _checked() -> frozenset[str]:
    """Return the ids of all rules that have a check."""
    from vllm_logdoctor.rules.registry import CHECKED

    return frozenset(rule.id for rule in CHECKED)
