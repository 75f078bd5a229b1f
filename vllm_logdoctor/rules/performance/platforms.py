"""Rules on the host and the platform: WSL, image preparation, graphs inside the budget."""

from __future__ import annotations

from vllm_logdoctor.rules.capacity.memory import counted_graphs
from vllm_logdoctor.rules.context import RuleContext, flag, message_lines
from vllm_logdoctor.rules.model import Change, Effect
from vllm_logdoctor.rules.rule import Advice, Rule

# Graphs that take this share of what could be cache are worth a line even without a load.
LARGE_GRAPHS = 0.25
MOST_UTILIZATION = 0.95


def kv_cache_smaller_after_upgrade(case: RuleContext) -> Advice | None:
    """Graphs are counted inside the budget and take a large part of it.

    Needs the engine's two lines about it.
    """
    event = case.event("graph-memory-equivalent")
    estimated = case.event("graph-memory-estimated")
    graphs = counted_graphs(case.run) or (estimated.number("gib") if estimated else None)
    available = case.run.measure("available_kv_cache_gib")
    if event is None or not graphs or not available or graphs < LARGE_GRAPHS * available:
        return None
    now, before = event.number("utilization"), event.number("equivalent")
    text = (
        f"{graphs:g} GiB are set aside for CUDA graphs inside the budget and {available:g} GiB are left for"
        f" the KV cache. Releases before 0.21 took the graphs from outside: gpu_memory_utilization {now:g}"
        f" gives the cache what {before:g} gave then."
        if now and before
        else f"{graphs:g} GiB are set aside for CUDA graphs and {available:g} GiB are left for the KV cache."
    )
    changes, kept = _share_kept(case, now, before)
    gain = (available + graphs) / available
    return Advice(
        text,
        message_lines(case, "graph-memory-equivalent", "graph-memory-estimated", "kv-cache-memory-available"),
        confidence="high",
        changes=changes,
        effect=Effect(
            "kv_cache_tokens",
            1.0,
            round(gain, 3),
            "computed",
            f"({available:g} + {graphs:g}) / {available:g} GiB, if all of it is given back",
        ),
        alternatives=(*kept, "fewer capture sizes (--max-cudagraph-capture-size): smaller graphs"),
        verify="a larger `Available KV cache memory`.",
    )


def _share_kept(
    case: RuleContext, now: float | None, before: float | None
) -> tuple[tuple[Change, ...], tuple[str, ...]]:
    """Return the share that gives the cache what it had: as a change, or in words where the user chose the share.

    A chosen share may allow for the graphs already: the log does not show for which release it was chosen.
    """
    if not now or not before or before >= now:
        return (), ()
    target, note = min(MOST_UTILIZATION, round(2 * now - before, 2)), "the device must have it free"
    if target <= now:
        return (), ()
    if case.asked_for("gpu_memory_utilization"):
        return (), (
            f"--gpu-memory-utilization {target:g}, if {now:g} was chosen for a release before 0.21; {note}",
        )
    words = f"the same cache as before; {note}"
    return flag(case, "--gpu-memory-utilization", now, target, "needs-test", words), ()


RULES = (
    Rule(
        "kv-cache-smaller-after-upgrade",
        kv_cache_smaller_after_upgrade,
        objectives=("long-context", "memory"),
    ),
)
