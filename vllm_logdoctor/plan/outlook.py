"""Outlook of a plan: what limits next."""

from __future__ import annotations

from collections.abc import Sequence

from vllm_logdoctor.plan.compose import BANDWIDTH, FULL_LENGTH, Composed
from vllm_logdoctor.plan.model import NextLimit, PlannedChange
from vllm_logdoctor.plan.planned import PlannedRun
from vllm_logdoctor.rules.bottleneck import bottleneck_of
from vllm_logdoctor.rules.capacity.weights import weights_of
from vllm_logdoctor.rules.load import Load, load_of
from vllm_logdoctor.rules.model import Effect, Finding
from vllm_logdoctor.run.model import Run

THROUGHPUT = "generation_throughput"
LEAST_SAMPLES = 3
"""Statistics lines with requests, fewer of which show no load to go by."""
LEAST_SHARE = 0.02
"""Share of the weights, below which the cache that a step reads is not named."""
_LIMITS = {
    "client-limited": "client",
    "kv-cache-limited": "KV cache",
    "max-num-seqs-limited": "max_num_seqs",
}


def planned_effects(
    items: Sequence[PlannedChange], findings: Sequence[Finding]
) -> list[tuple[Finding, Effect]]:
    """Return the effects on throughput of the findings whose settings a plan changes."""
    made = {name for item in items if item.change.kind in ("flag", "env") for name in item.findings}
    return [
        (finding, finding.effect)
        for finding in findings
        if finding.id in made and finding.effect is not None and finding.effect.metric == THROUGHPUT
    ]


def next_limits(found: Composed, findings: Sequence[Finding], run: Run, load: Load) -> tuple[NextLimit, ...]:
    """Return what limits with a plan made and where: by its effects and by how its run is judged, else what limits it as now.

    Empty where the plan changes no setting. A limit that stays is not named for a repair, nor where the log shows next to no load.
    """
    made = {name for item in found.changes if item.change.kind in ("flag", "env") for name in item.findings}
    if not made:
        return ()
    after = load_of(found.planned.run)
    then = _LIMITS.get(bottleneck_of(found.planned.run, after).name, "")
    effects = [effect.next_limit for _, effect in planned_effects(found.changes, findings)]
    # An effect speaks of the time in which it acts, the planned run of all: it may still hold a queue.
    effects = [then if name == "client" else name for name in effects]
    new = [*filter(None, effects), *found.next_limits]
    repairs = any(finding.id in made for finding in findings if finding.kind == "failure")
    now = _LIMITS.get(bottleneck_of(run, load).name, "")
    unchanged = now and now == then
    shown = unchanged and not repairs and load.peak_running and len(load.busy) >= LEAST_SAMPLES
    stays = [now] if shown and not set(new) - {FULL_LENGTH} else []
    return tuple(
        NextLimit(name, _where(name, found.planned, after), name in stays)
        for name in dict.fromkeys([*stays, *new])
    )


def _where(name: str, planned: PlannedRun, load: Load) -> str:
    """Return the figures of a planned run at which a limit of its memory acts; an empty text for one of its load."""
    memory = planned.after
    held = planned.run.measure("max_concurrency")
    if name == FULL_LENGTH and memory is not None and held and memory.length:
        return f"it holds {held:.3g} requests of {memory.length:,} tokens"
    weights, _ = weights_of(planned.run)
    if name == BANDWIDTH and weights:
        cache = (memory.available or 0.0) * load.peak_kv / 100 if memory is not None else 0.0
        beside = f" and {cache:.3g} GiB of KV cache" if cache > LEAST_SHARE * weights else ""
        return f"a step reads up to {weights:.4g} GiB of weights{beside} on each card"
    return ""  # How a load behaves that no log shows is no figure to name.
