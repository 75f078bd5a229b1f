"""Rule on a KV cache that has no room: for more requests, or beside one large request."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from vllm_logdoctor.knowledge.versions import at_least
from vllm_logdoctor.rules.bottleneck import limit_is_probable
from vllm_logdoctor.rules.capacity.defaults import max_num_seqs_of
from vllm_logdoctor.rules.capacity.memory import memory_of
from vllm_logdoctor.rules.context import (
    RuleContext,
    action,
    message_lines,
    plural,
    sample_lines,
    setting_lines,
)
from vllm_logdoctor.rules.limits import KV_FULL, full_without_queue, was_preempted
from vllm_logdoctor.rules.load import Span, have_many_sequences
from vllm_logdoctor.rules.model import Change
from vllm_logdoctor.rules.performance.cache_room import Room, no_room, room_changes
from vllm_logdoctor.rules.performance.prefill import MORE_CAPACITY, SHARED_PREFIXES
from vllm_logdoctor.rules.performance.serving import held_long, is_full_alone
from vllm_logdoctor.rules.rule import Advice, Rule
from vllm_logdoctor.run.model import Sample

FULL_ALONE = "KV cache full while the queue is empty"
HELD_BY_FEW = "KV cache held by few large requests"
MANY_SEQUENCES = "Many sequences per request"
LEAST_PUSHED_BACK = 2
FEW_REQUESTS = 2
"""Requests that hold the cache between them: shorter ones would make room."""
PROMPTS_ALONE = 100
"""Prompt tokens per generated one from which the cache fills with prompts that wait for their computation."""
_EMPTIES_AS_FAST = (
    " A hundred prompt tokens or more were computed for each generated one: prefill takes the time, and a larger"
    " cache would hardly help."
)
SAME_CACHE = "Raising --max-num-seqs alone: more requests would share the same full cache"
ONLY_WHEN_WAITING = (
    "more room for the cache once requests wait or preemptions are printed: until then it buys nothing"
)
_MORE_RUN = "More requests run at once (`Running`) at the same load"
_CHECKS = {
    "client": "KV cache usage stays below 90 % and `Waiting` drops to 0",
    "max_num_seqs": "KV cache usage stays below 90 % and `Running` reaches max_num_seqs, for which the rest still waits",
    "KV cache": f"{_MORE_RUN}; the cache stays full, and others still wait for it",
}
"""What to look for with the change made, by what limits then."""
# The CPU backend says that nobody chose the size of its cache.
CACHE_BY_DEFAULT = (
    "environment-variable-vllm-cpu-kvcache-space-gb",
    "environment-variable-vllm-cpu-kvcache-space-gib",
    "vllm-cpu-kvcache-space-not-set-using",
)


def kv_cache_preemption(case: RuleContext) -> Advice | None:
    """The cache is full: requests wait for it or are computed anew.

    Needs KV usage in statistics lines, or preemption lines.
    """
    full = case.spans("kv-cache-limited")
    preempted = was_preempted(case.run, case.load)
    if not preempted and not held_long(case, "kv-cache-limited"):
        return _full_alone(case)
    waiting = max((span.sample.waiting or 0 for span in full), default=0)
    few = held_by_few(full)
    prompts = only_computes_prompts(full)
    room = Room((action(MORE_CAPACITY),), None, (SHARED_PREFIXES,)) if prompts else room_changes(case)
    many = bool(few) and have_many_sequences(full)
    if many and not preempted:
        room = Room((), None, ())  # The slots are full, not the cache.
    shorter = (_shorter_requests(case, few, many),) if few else ()
    larger = "; `GPU KV cache size` is larger" if room.changes and not prompts else ""
    reached = room.effect.next_limit if room.effect is not None else ""
    found = Advice(
        _what_is_full(case, full, few, waiting)
        + (_EMPTIES_AS_FAST if prompts else _preemptions(case, full))
        + _size(case),
        (
            *sample_lines(case, full),
            *message_lines(case, "preempted", *CACHE_BY_DEFAULT),
            *setting_lines(
                case,
                "kv_cache_tokens",
                "available_kv_cache_gib",
                "gpu_memory_utilization",
                "num_gpu_blocks_override",
            ),
        ),
        confidence="medium" if limit_is_probable(case.run, "kv-cache-limited", case.load) else "high",
        severity="medium" if case.is_brief("kv-cache-limited") or not waiting else None,
        changes=(*shorter, *room.changes),
        effect=room.effect,
        alternatives=room.alternatives,
        # The log does not tell a full cache of few requests from a low max_num_seqs, which raising would lift.
        avoid="" if few else "; ".join((SAME_CACHE, *no_room(case))),
        verify=f"{_CHECKS.get(reached, _MORE_RUN)}{larger}.",
    )
    more_at_once = f"`Waiting` drops to 0, and more than {plural(few, 'request')} run at once."
    return (
        replace(found, title=MANY_SEQUENCES if many else HELD_BY_FEW, verify=more_at_once) if few else found
    )


def _full_alone(case: RuleContext) -> Advice | None:
    """Return that the cache is full while no request waits: it limits nothing yet, and more room buys nothing."""
    if not is_full_alone(case):
        return None
    full = full_without_queue(case.load)
    extent = case.load.extent_of(full)
    usage = max(span.sample.kv_usage or 0.0 for span in full)
    return Advice(
        f"The KV cache was full {extent}, peak usage {usage:g} %. No request waited yet, but the next one would.{_size(case)}",
        (*sample_lines(case, full), *setting_lines(case, "kv_cache_tokens", "available_kv_cache_gib")),
        title=FULL_ALONE,
        confidence="medium",
        severity="low",
        alternatives=(ONLY_WHEN_WAITING,),
        avoid=f"{SAME_CACHE}.",
        verify="`Waiting` stays at 0, and no preemption is printed.",
    )


def only_computes_prompts(full: Sequence[Span]) -> bool:
    """Return whether requests end after so few tokens that a full cache empties as fast as prompts are computed, in all its lines."""
    samples = [span.sample for span in full]
    return bool(samples) and all(
        not one.swapped and one.prompt > PROMPTS_ALONE * one.generation for one in samples
    )


def held_by_few(full: Sequence[Span]) -> int:
    """Return how many requests hold the cache between them; 0 where many do, or where it is full to the end."""
    most = max((span.sample.running or 0 for span in full), default=0)
    usage = max((span.sample.kv_usage or 0.0 for span in full), default=0.0)
    return most if most <= FEW_REQUESTS and usage < KV_FULL else 0


def _shorter_requests(case: RuleContext, few: int, many_sequences: bool) -> Change:
    if many_sequences:
        words = "lower n, best_of or the beam width in the clients' requests"
        return action(
            words, f"{plural(few, 'request')} generated more tokens per second than single sequences can"
        )
    words = "limit max_tokens and the length of prompts in the clients"
    if max_num_seqs_of(case.run) is None:
        words = f"look up `--max-num-seqs` in the launch command: {few} would itself be the limit; if it is higher, {words}"
    return action(words, f"{plural(few, 'request')} held the cache while others waited", before=None)


def _what_is_full(case: RuleContext, full: Sequence[Span], few: int, waiting: int) -> str:
    if not full:
        return "Requests were preempted because the KV cache was full; no statistics line shows for how long."
    extent = case.extent("kv-cache-limited")
    queue = f", with up to {plural(waiting, 'request')} waiting." if waiting else "."
    if few:
        usage = max(span.sample.kv_usage or 0.0 for span in full)
        held = f"held up to {usage:g} % of the KV cache"
        if have_many_sequences(full):
            return (
                f"{extent.capitalize()} {plural(few, 'request')} of several sequences each {held}{queue}"
                " Every sequence counts against max_num_seqs."
            )
        unknown = max_num_seqs_of(case.run) is None
        rest = "the rest was too small for another of that size"
        why = f" Either {rest}, or max_num_seqs is {few}: the log does not show which." if unknown else ""
        return f"{extent.capitalize()} {plural(few, 'request')} {held}{'' if unknown else f', and {rest}'}{queue}{why}"
    limited = "The KV cache limited concurrency" if waiting else "The KV cache was full"
    return f"{limited} {extent}, peak usage {case.load.peak_kv:g} %{queue}"


def _preemptions(case: RuleContext, full: Sequence[Span]) -> str:
    if case.load.preemptions:
        return f" The log shows {plural(case.load.preemptions, 'preemption')}."
    if not full or held_by_few(full):
        return ""
    pushed_back = _pushed_back(full)
    unlogged = " This engine logs at most one preemption in fifty."
    if case.run.engine != "V0" or at_least(case.run.release, "0.4.3") is not True:
        unlogged = ""  # Releases before it log none.
    again = "Preempted requests return to the queue and are recomputed." if pushed_back else ""
    return f" {pushed_back}{again}{unlogged}".replace("  ", " ").rstrip()


def _pushed_back(full: Sequence[Span]) -> str:
    """Return where running requests went back to the queue: fewer run, as many more wait, and no prompt is computed."""
    stretches: list[list[Sample]] = []
    for sample in (span.sample for span in full):
        last = stretches[-1][-1] if stretches else None
        if last is not None and _pushes_back(last, sample):
            stretches[-1].append(sample)
        else:
            stretches.append([sample])
    most = max(stretches, key=lambda part: (part[0].running or 0) - (part[-1].running or 0))
    first, last = most[0], most[-1]
    if (first.running or 0) - (last.running or 0) < LEAST_PUSHED_BACK:
        return ""
    return (
        f"Running requests fell from {first.running:,} to {last.running:,} while waiting ones rose from"
        f" {first.waiting:,} to {last.waiting:,} and no prompt was computed: probably preemptions. "
    )


def _pushes_back(before: Sample, after: Sample) -> bool:
    running = (before.running or 0) - (after.running or 0)
    waiting = (after.waiting or 0) - (before.waiting or 0)
    return after.engine == before.engine and not after.prompt and running == waiting > 0


def _size(case: RuleContext) -> str:
    memory = memory_of(case.run)
    if not memory or not memory.concurrency or not memory.length:
        return ""
    held = f"{memory.concurrency:.3g}"
    return f" The cache holds {memory.tokens:,.0f} tokens: {held} {'request' if held == '1' else 'requests'} of {memory.length:,} tokens."


RULES = (
    Rule(
        "kv-cache-preemption",
        kv_cache_preemption,
        objectives=("throughput", "long-context", "memory"),
        removes="kv-cache-limited",
        # Preempted requests are computed again: the full cache then fills the steps with prompts, too.
        worth=lambda case, worth: (
            worth + (case.share("prefill-limited") if was_preempted(case.run, case.load) else 0.0)
        ),
    ),
)
