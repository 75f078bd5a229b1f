"""Order of performance findings: expected effect times confidence over effort, the limit of the run before
the rest.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from vllm_logdoctor.rules.bottleneck import RUN_SHARE
from vllm_logdoctor.rules.context import RuleContext
from vllm_logdoctor.rules.model import Finding
from vllm_logdoctor.rules.rule import Rule

CONFIDENCE = {"high": 1.0, "medium": 0.7, "low": 0.4}
# What a finding without a number counts for, as the logarithm (base 2) of a gain.
SEVERITY = {"critical": 0.7, "high": 0.5, "medium": 0.3, "low": 0.1, "info": 0.02}
EFFORT = {"safe": 1.0, "needs-test": 1.15, "changes-results": 2.0}
BY_HAND = 2.0
THROUGHPUT = "generation_throughput"

# What the removal of the limit of a run adds, beside the share of the time that the limit held; a limit of a short
# burst adds as much less as it is shorter than one that makes the run's.
LIMIT = 0.4

# That the client sends little is no fault of the server: what surely slows the server down comes before it, what
# merely may comes behind.
CLIENTS_OWN = 0.2
ABOVE_THE_CLIENT = CLIENTS_OWN + 0.01

CLIENT = "client-concurrency-bound"
# Settings that make each step longer for nothing: mended before a client is asked for more, whoever sets the pace.
WASTED_STEPS = frozenset({"spec-decode-not-profitable"})

# What an objective multiplies the worth of its rules by; a start is seldom, so that its findings come behind those of
# serving wherever the log shows requests.
OBJECTIVES = {
    "throughput": 1.5,
    "latency": 2.0,
    "long-context": 2.0,
    "memory": 2.0,
    "startup": 33.0,
    "cost": 2.0,
}
SELDOM = 0.03


def by_worth(case: RuleContext, findings: Iterable[tuple[Rule, Finding]]) -> tuple[Finding, ...]:
    """Return findings with the most worth doing first; equals keep the order of their rules."""
    return tuple(found for _, found in sorted(findings, key=lambda pair: -worth(case, *pair)))


def worth(case: RuleContext, rule: Rule, found: Finding) -> float:
    """Return expected effect times confidence over effort, for the objective of the case."""
    value = gain(found) * CONFIDENCE[found.confidence] / effort(found)
    if rule.removes is not None:
        share = case.share(rule.removes)
        value += (LIMIT + share) * min(1.0, share / RUN_SHARE)
        value += LIMIT if rule.removes == case.bottleneck.name else 0.0
    if rule.voids_figures:
        value += LIMIT + 1.0
    if "startup" in rule.objectives and case.load.lines:
        value *= SELDOM
    if rule.worth is not None:
        value = rule.worth(case, value)
    return value * OBJECTIVES[case.objective] if case.objective in rule.objectives else value


def gain(found: Finding) -> float:
    """Return the logarithm (base 2) of the ratio expected over the whole run, or what the severity stands for where
    no ratio is known.
    """
    effect = found.effect
    if effect is None or effect.low <= 0 or effect.high <= 0:
        return SEVERITY[found.severity]
    return max(0.0, abs(math.log2(effect.over_run(math.sqrt(effect.low * effect.high)))))


def effort(found: Finding) -> float:
    """Return how much work the first change is; findings without a change cost a look."""
    if not found.changes:
        return BY_HAND
    first = found.changes[0]
    return BY_HAND if first.kind == "action" else EFFORT[first.safety]


def by_gain(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return findings in the order in which to change settings: of those with a known gain the largest over the run first.

    The others keep their places. What limits a run for a quarter of its time is its first finding; what speeds up all of
    its time can be the better first change. More requests from the client come behind what surely wastes steps.
    """
    given = _client_after_waste(list(findings))
    places = [place for place, found in enumerate(given) if _moves_throughput(found)]
    best = iter(sorted((given[place] for place in places), key=lambda found: -_expected(found)))
    return tuple(next(best) if _moves_throughput(found) else found for found in given)


def _client_after_waste(findings: list[Finding]) -> list[Finding]:
    places = [
        place
        for place, found in enumerate(findings)
        if found.id in WASTED_STEPS and found.confidence != "low" and found.changes
    ]
    client = next((found for found in findings[: max(places, default=0)] if found.id == CLIENT), None)
    if client is None:
        return findings
    others = [found for found in findings if found is not client]
    return [*others[: max(places)], client, *others[max(places) :]]


def _moves_throughput(found: Finding) -> bool:
    """Return whether a finding changes settings with a known effect on throughput."""
    effect = found.effect
    return (
        effect is not None
        and effect.metric == THROUGHPUT
        and found.changes[:1] != ()
        and found.changes[0].kind != "action"
    )


def _expected(found: Finding) -> float:
    """Return the logarithm of the middle gain over the run, times its confidence over the effort of the change."""
    assert found.effect is not None
    middle = found.effect.over_run(found.effect.middle)
    return math.log2(middle) * CONFIDENCE[found.confidence] / effort(found)
