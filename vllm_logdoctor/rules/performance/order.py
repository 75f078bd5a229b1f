"""Order of performance findings: expected effect times confidence over effort, the limit of the run before
the rest.
"""

from __future__ import annotations

import math

from vllm_logdoctor.rules.bottleneck import SERVER_LIMITS
from vllm_logdoctor.rules.model import Finding
from vllm_logdoctor.rules.performance.context import RuleContext

CONFIDENCE = {"high": 1.0, "medium": 0.7, "low": 0.4}
# What a finding without a number counts for, as the logarithm (base 2) of a gain.
SEVERITY = {"critical": 0.7, "high": 0.5, "medium": 0.3, "low": 0.1, "info": 0.02}
EFFORT = {"safe": 1.0, "needs-test": 1.15, "changes-results": 2.0}
BY_HAND = 2.0

# What removes the limit that a run was found to have comes before what merely helps.
REMOVES = {
    "kv-cache-preemption": "kv-cache-limited",
    "scheduler-limit-not-memory": "max-num-seqs-limited",
    "prefill-bound-queueing": "prefill-limited",
    "inter-node-network-bound": "interconnect-limited",
    "cpu-backend-thread-or-memory-binding": "host-limited",
    "steps-slower-than-memory": "host-limited",
    "weights-on-the-host": "host-limited",
    "gguf-slow-path": "host-limited",
    "engine-makes-no-progress": "none-clear",
}
LIMIT = 0.4

# Where a small part of the engines' time is limited and others have room, sharing the load comes before more room.
UNEVEN = "engines-loaded-unevenly"
SERVERS_PART = 0.5

# What makes every figure of the run void comes before all that is judged by these figures.
VOIDS_FIGURES = frozenset({"every-call-traced"})

# That the client sends little is no fault of the server: what surely slows the server down comes before it, what
# merely may comes behind.
CLIENT = "client-concurrency-bound"
CLIENTS_OWN = 0.2
SERVER_ERRORS = "answered-with-server-errors"

STARTUP = frozenset(
    {
        "slow-startup-torch-compile",
        "slow-startup-graphs-and-dynamo",
        "slow-startup-encoder-profiling",
        "slow-weight-loading-storage",
        "slow-startup-model-download",
        "compile-cache-disabled",
    }
)
MEMORY = frozenset(
    {
        "kv-cache-preemption",
        "kv-cache-smaller-after-upgrade",
        "kv-cache-reads-dominate",
        "cache-larger-than-load",
        "small-model-split-over-cards",
    }
)
LATENCY = frozenset(
    {
        "eager-mode",
        "cuda-graphs-not-captured",
        "graphs-off-for-expert-exchange",
        "expert-rebalancing-stalls",
        "chunked-prefill-off",
        "jit-compilation-while-serving",
        "inter-node-network-bound",
    }
)
THROUGHPUT = frozenset(
    {
        "scheduler-limit-not-memory",
        "kv-cache-preemption",
        "small-model-split-over-cards",
        "client-concurrency-bound",
    }
)
LONG_CONTEXT = frozenset(
    {
        "kv-cache-preemption",
        "kv-cache-smaller-after-upgrade",
        "prefill-bound-queueing",
        "prefix-caching-silently-off",
    }
)

# What an objective raises, and by how much; a start is seldom, so that its findings stand behind those of
# serving.
OBJECTIVES: dict[str, tuple[frozenset[str], float]] = {
    "throughput": (THROUGHPUT, 1.5),
    "latency": (LATENCY, 2.0),
    "long-context": (LONG_CONTEXT, 2.0),
    "memory": (MEMORY, 2.0),
    "startup": (STARTUP, 33.0),
}
SELDOM = 0.03


def ordered(case: RuleContext, findings: list[Finding]) -> tuple[Finding, ...]:
    """Return findings with the most worth doing first; equals keep the order of their rules."""
    return tuple(sorted(findings, key=lambda found: -worth(case, found)))


def worth(case: RuleContext, found: Finding) -> float:
    """Return expected effect times confidence over effort, for the objective of the case."""
    value = gain(found) * CONFIDENCE[found.confidence] / effort(found)
    limit = REMOVES.get(found.id)
    if limit is not None:
        value += LIMIT + case.share(limit)  # type: ignore[arg-type]
    limited = sum(case.share(name) for name in SERVER_LIMITS)
    if found.id == UNEVEN and limited < SERVERS_PART:
        value += LIMIT + 1.0 - limited
    if found.id in VOIDS_FIGURES:
        value += LIMIT + 1.0
    if found.id in STARTUP and case.load.busy_seconds:
        value *= SELDOM
    if found.id == CLIENT:
        value = CLIENTS_OWN
    if found.id == SERVER_ERRORS:
        # More requests to a server that fails some are no advice.
        value = max(value, CLIENTS_OWN + 0.01)
    raised, factor = OBJECTIVES.get(case.objective, (frozenset[str](), 1.0))
    return value * factor if found.id in raised else value


def gain(found: Finding) -> float:
    """Return the logarithm (base 2) of the expected ratio, or what the severity stands for where no ratio is
    known.
    """
    effect = found.effect
    if effect is None or effect.low <= 0 or effect.high <= 0:
        return SEVERITY[found.severity]
    return max(0.0, abs(math.log2(math.sqrt(effect.low * effect.high))))


def effort(found: Finding) -> float:
    """Return how much work the first change is; findings without a change cost a look."""
    if not found.changes:
        return BY_HAND
    first = found.changes[0]
    return BY_HAND if first.kind == "action" else EFFORT[first.safety]
