"""Rules on LoRA adapters."""

from __future__ import annotations

from vllm_logdoctor.knowledge.flags import flag_for_field
from vllm_logdoctor.rules.context import (
    RuleContext,
    flag,
    message_lines,
    plural,
    sample_lines,
    setting_lines,
    whole,
)
from vllm_logdoctor.rules.load import Span
from vllm_logdoctor.rules.rule import Advice, Rule

LOADED = "loaded-new-lora-adapter-name-path"
# Adapters of a batch take memory each; beyond this number it is not proposed without a look.
MOST_SLOTS = 8
LEAST_LINES = 2
LEAST_SHARE = 0.05


def adapters_take_turns(case: RuleContext) -> Advice | None:
    """Requests of one adapter wait for those of another although max_num_seqs slots and cache are free.

    Needs more adapters in the log than --max-loras, and statistics lines with such a queue.
    """
    slots, adapters = _slots(case), _adapters(case)
    held = _free_but_waiting(case)
    if slots is None or adapters <= slots or len(held) < LEAST_LINES:
        return None
    share = case.load.share_of(held)
    if share < LEAST_SHARE:
        return None
    waiting = max(span.sample.waiting or 0 for span in held)
    text = (
        f"The log names {plural(adapters, 'adapter')}, and a batch takes {slots} (max_loras): requests of the others"
        f" wait until none of these runs. Up to {plural(waiting, 'request')} waited for {100 * share:.3g} % of the busy"
        " time although max_num_seqs slots and cache were free."
    )
    return Advice(
        text,
        (
            *sample_lines(case, held),
            *setting_lines(case, "max_loras", "enable_lora", "lora_modules"),
            *message_lines(case, LOADED),
        ),
        confidence="medium",
        changes=flag(
            case,
            "--max-loras",
            slots,
            min(adapters, MOST_SLOTS),
            "needs-test",
            "each slot takes memory for an adapter of max_lora_rank, on every card",
        ),
        alternatives=("a replica for each group of adapters that are used together",),
        verify="`Running` above the old level and `Waiting` near 0 at the same mix of adapters.",
    )


def _free_but_waiting(case: RuleContext) -> list[Span]:
    limited = ("kv-cache-limited", "idle")
    max_num_seqs = whole(case.run.setting("max_num_seqs"))
    return [
        span
        for span, limit in zip(case.load.spans, case.limits, strict=True)
        if span.waits
        and limit not in limited
        and span.sample.prompt == 0
        and (limit != "none-clear" or span.sample.generation > 0)
        and (max_num_seqs is None or (span.sample.running or 0) < max_num_seqs)
    ]


def _slots(case: RuleContext) -> int | None:
    """Return max_loras where adapters are on: as set, else the default of the version."""
    if not case.switched_on("enable_lora"):
        return None
    known = flag_for_field("max_loras", case.version)
    return whole(case.run.setting("max_loras")) or (whole(known.default) if known else None)


def _adapters(case: RuleContext) -> int:
    """Return how many adapters the log names: at the start, or loaded later."""
    modules = case.run.arguments.get("lora_modules")
    at_start = len(modules) if isinstance(modules, list | tuple) else 0
    seen = case.run.seen(LOADED)
    events = [*seen.first, seen.last] if seen else []
    return max(at_start, len({event.text("lora_name") for event in events if event is not None}))


RULES = (Rule("adapters-take-turns", adapters_take_turns),)
