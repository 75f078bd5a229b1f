"""What an objective leaves out of a plan: changes that pay for one aim with another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from vllm_logdoctor.plan.merge import Refusal
from vllm_logdoctor.plan.model import PlannedChange
from vllm_logdoctor.rules.model import Change

Direction = Literal["raised", "lowered", "dropped", "set"]

# objective -> (flag, how it changes) -> why the change is not for it
_AGAINST: dict[str, dict[tuple[str, Direction], str]] = {
    "latency": {
        ("--max-num-seqs", "raised"): "each request gets slower as more run at once",
        ("--max-num-batched-tokens", "raised"): "larger steps delay the tokens of the requests that run",
    },
    "memory": {
        ("--gpu-memory-utilization", "raised"): "takes more of the device",
        ("--kv-cache-memory-bytes", "set"): "takes more of the device",
        ("--enforce-eager", "dropped"): "CUDA graphs take memory",
        ("--max-num-batched-tokens", "raised"): "larger steps need more memory for activations",
    },
    "startup": {
        ("--enforce-eager", "dropped"): "compiling and capturing make the start longer",
        ("--optimization-level", "dropped"): "compiling and capturing make the start longer",
    },
    "cost": {
        ("--tensor-parallel-size", "raised"): "takes more cards for the same work",
        ("--pipeline-parallel-size", "raised"): "takes more cards for the same work",
    },
    "long-context": {
        ("--max-model-len", "lowered"): "refuses the longest requests",
        ("--max-num-seqs", "raised"): "more requests at once leave each of them less of the cache",
    },
}
_MORE_CLIENTS = "client-concurrency-bound"


def suited(
    items: Sequence[PlannedChange], objective: str, failures: frozenset[str]
) -> tuple[list[PlannedChange], list[Refusal]]:
    """Return the changes that serve an objective, and the others with the reason; what repairs a failure stays.

    The changes of one finding are one step: where one of them is against the objective, all are left out.
    """
    against = {
        finding: f"not for {objective}: {reason}"
        for item in items
        if failures.isdisjoint(item.findings) and (reason := _reason(item, objective))
        for finding in item.findings
    }
    kept = [item for item in items if against.keys().isdisjoint(item.findings)]
    left_out = [
        (item.change.knob, next(against[name] for name in item.findings if name in against))
        for item in items
        if item not in kept
    ]
    return kept, left_out


def _reason(item: PlannedChange, objective: str) -> str:
    if objective == "latency" and _MORE_CLIENTS in item.findings:
        return "each request gets slower as more run at once"
    return _AGAINST.get(objective, {}).get((item.change.knob, direction(item.change)), "")


def direction(change: Change) -> Direction:
    """Return how a change moves its flag.

    Example:
        >>> direction(Change("--max-num-seqs", "flag", 64, 128)), direction(Change("--enforce-eager", "flag", True))
        ('raised', 'dropped')
    """
    before, after = change.before, change.after
    if after is None:
        return "dropped"
    if isinstance(before, int | float) and isinstance(after, int | float) and before != after:
        return "raised" if after > before else "lowered"
    return "set"
