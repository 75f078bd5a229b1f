"""Rule on prompts that fill the steps while other requests wait."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

from vllm_logdoctor.rules.capacity.ceiling import distance
from vllm_logdoctor.rules.capacity.defaults import slots_in_a_line, step_tokens_of
from vllm_logdoctor.rules.context import (
    RuleContext,
    action,
    flag,
    plural,
    rounded,
    sample_lines,
    setting_lines,
    whole,
)
from vllm_logdoctor.rules.limits import mostly_queue, recomputed, slots_may_be_taken
from vllm_logdoctor.rules.load import Span, rate_each, speed_of_longest, weighted_median
from vllm_logdoctor.rules.model import Change
from vllm_logdoctor.rules.performance.serving import (
    LEAST_LINES,
    LEAST_PREFILL_SHARE,
    LONG_QUEUE,
)
from vllm_logdoctor.rules.rule import Advice, Rule
from vllm_logdoctor.rules.tasks import pools
from vllm_logdoctor.run.model import Sample

LARGE_STEP = 4096
"""Tokens of a step that are no default of small cards: those are 2,048, and a few more where an image takes them."""
UNDER_WAY = "the cache fills, and a prompt is counted once it is computed"
QUEUE_OF_EITHER = "Requests queue behind prompts or at max_num_seqs, whose value is not in the log"
_STEPS_OR_SLOTS = "either prompts fill the steps, or as many run as max_num_seqs allows."
_LOOK_UP = (
    "look up --max-num-seqs in the launch command: raise it if it is {running}; else add prefill capacity, another replica"
    " or shorter prompts"
)
_CAPACITY = ("more replicas: prefill is compute-bound and scales with the cards", "shorter prompts")
MORE_CAPACITY = "add prefill capacity: another replica, or shorter prompts"
SHARED_PREFIXES = "prefix caching, if prompts share a prefix"
SHORTER_PROMPTS = (
    "send shorter prompts, or put the text that they share first, so that the prefix cache serves it"
)
_LARGER_STEPS = (
    "fewer and larger steps for a prompt, which need more GPU memory: compare the time of one long prompt"
)
PROMPT_SHARE = 0.2
"""Seconds of long prompts for each second that the statistics lines cover, from which they are what a client waits for."""
IMAGES_TOO = " Images and sound are a part of prompts: their encoder runs in the same steps. Very short answers look the same in the statistics."


def prefill_bound_queueing(case: RuleContext) -> Advice | None:
    """Requests wait with max_num_seqs slots and cache free: the steps are spent on prompts.

    Needs such statistics lines.
    """
    held = case.spans("prefill-limited")
    if len(held) < LEAST_LINES or case.share("prefill-limited") < LEAST_PREFILL_SHARE:
        return None
    prompt, generated = (weighted_median(held, attrgetter(name)) for name in ("prompt", "generation"))
    waiting = max(span.sample.waiting or 0 for span in held) if mostly_queue(held) else 0
    slots = slots_in_a_line(case.run)
    rate = max(rate_each(span.sample) for span in held)
    running = max(span.sample.running or 0 for span in held)
    tokens = step_tokens_of(case.run)
    size = f"{tokens:,} tokens" if tokens else "a fixed number of tokens"
    unknown = slots_may_be_taken(case.run, case.load, held)
    queued, lines = (case.load.lines_of(spans) for spans in ([one for one in held if one.waits], held))
    some = f" (in {queued:,} of them)" if 0 < queued < lines else ""
    text = (
        f"{case.load.extent_of(held).capitalize()} "
        + (
            f"up to {plural(waiting, 'request')} waited{some}"
            f" {'although max_num_seqs slots and KV cache were free' if slots else 'although the KV cache had room'}"
            if waiting
            else f"up to {plural(running, 'request')} ran and got at most {rate:.2g} tokens/s each"
        )
        + (f" ({_rates(case, prompt, generated)})" if prompt else f" ({UNDER_WAY})")
        + (
            f": {_STEPS_OR_SLOTS}"
            if unknown
            else f": a step processes at most {size}, and prompts used them up."
        )
        + _again(case, held)
        + ("" if waiting else IMAGES_TOO)
        + distance(case.run, case.load)
    )
    changes = _prefill_changes(case, unknown, running)
    adds_capacity = any(change.kind == "action" for change in changes)
    return Advice(
        text,
        (*sample_lines(case, held, prompts_first), *setting_lines(case, "max_num_batched_tokens")),
        confidence="low" if unknown else "medium",
        title=QUEUE_OF_EITHER if unknown else "",
        changes=changes,
        alternatives=(SHARED_PREFIXES, *(() if adds_capacity else _CAPACITY)),
        avoid="Raising --max-num-seqs: slots are free." if slots else "",
        verify=(
            "`Waiting` stays lower at the same load."
            if waiting
            else "`Avg generation throughput` rises while prompts are computed."
        ),
    )


def long_wait_for_first_token(case: RuleContext) -> Advice | None:
    """Prompts take several intervals each in small steps. Needs statistics lines of V1 that show it."""
    load, long = case.load, case.load.long_prompts
    before, tokens = _tokens_for_prompts(case)
    short = not long or load.computing_seconds < PROMPT_SHARE * load.busy_seconds
    if short or case.bottleneck.name != "client-limited" or tokens is None or tokens >= LARGE_STEP:
        return None
    rate, longest = speed_of_longest(long)
    return Advice(
        f"{plural(len(long), 'statistics line')} count{'s' if len(long) == 1 else ''} prompts that took more than two intervals, the longest"
        f" {longest}, about {rounded(rate)} prompt tokens/s. An answer begins only behind its prompt.",
        (*sample_lines(case, long, prompts_first), *setting_lines(case, "max_num_batched_tokens")),
        confidence="medium",
        changes=flag(case, "--max-num-batched-tokens", before, 8192, "needs-test", _LARGER_STEPS),
        alternatives=(SHORTER_PROMPTS,),
        avoid="More requests at once: they share the same arithmetic.",
        verify="The same prompt takes less time to its first token.",
    )


def prompts_first(sample: Sample) -> tuple[float, ...]:
    """Order samples by their prompts, then by the length of the queue behind them."""
    return (sample.prompt, sample.waiting or 0)


def _again(case: RuleContext, held: Sequence[Span]) -> str:
    """Return in how many lines preempted requests were computed again: a cache with room for them would save that."""
    lines = case.load.lines_of(span for span in recomputed(case.load.spans) if span in held)
    if not lines or not case.spans("kv-cache-limited"):
        return ""
    return f" In {lines:,} of them the queue got shorter and no prompt is counted: requests preempted from the full KV cache were computed again."


def _rates(case: RuleContext, prompt: float, generated: float) -> str:
    """Return the medians of the rates in words; a pooling model generates nothing."""
    words = "" if pools(case.run) else f" and {rounded(generated)} generated"
    return f"median {rounded(prompt)} prompt{words} tokens/s"


def _prefill_changes(case: RuleContext, unknown: bool, running: int) -> tuple[Change, ...]:
    """Return larger steps where they are small, else more capacity; nothing where few statistics lines show a short queue."""
    before, tokens = _tokens_for_prompts(case)
    # Prompts of tens of thousands of tokens need many small steps.
    if tokens is None or tokens >= LARGE_STEP or case.objective == "latency":
        if case.load.is_short and case.load.peak_waiting < LONG_QUEUE:
            return ()
        return (action(_LOOK_UP.format(running=running) if unknown else MORE_CAPACITY),)
    return flag(
        case,
        "--max-num-batched-tokens",
        before,
        8192,
        "needs-test",
        "larger steps help prompts and slow down the tokens of running requests; six measured pairs gave 0.95 to 1.13 x"
        " generation throughput, so compare both values at your load",
    )


def _tokens_for_prompts(case: RuleContext) -> tuple[int | None, int | None]:
    """Return max_num_batched_tokens and what of it a step has for prompts, where the log tells them: drafts take a part."""
    printed = whole(case.run.setting("max_num_batched_tokens"))
    event = case.event("speculative-token-budget")
    left = whole(event.number("tokens")) if event else None
    return printed, left or printed


RULES = (
    Rule(
        "prefill-bound-queueing",
        prefill_bound_queueing,
        objectives=("long-context",),
        removes="prefill-limited",
    ),
    Rule("long-wait-for-first-token", long_wait_for_first_token, objectives=("latency", "long-context")),
)
