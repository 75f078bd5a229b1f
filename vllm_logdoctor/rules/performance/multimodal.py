"""Rules on images, video and sound: how they are prepared, and whether what was prepared is kept."""

from __future__ import annotations

from math import ceil

from vllm_logdoctor.knowledge.flags import flag_for_field
from vllm_logdoctor.rules.context import (
    RuleContext,
    action,
    flag,
    message_lines,
    plural,
    rounded,
    sample_lines,
    setting_lines,
)
from vllm_logdoctor.rules.rule import Advice, Rule

# Images are the load when prompts are most of the work of few requests at once.
FEW = 4
LONG_ENOUGH = 60.0
# Requests that the engine was given, and their mean distance in seconds: a tokenizer takes milliseconds, and
# what comes less than once a second and a half is hardly held up.
LEAST_ADDED = 10
LEAST_APART, MOST_APART = 0.15, 1.5
TOO_LARGE, TOO_LARGE_SHARED = (
    "skipping-multi-modal-processor-cache-insert-item",
    "mm-input-too-large-cache-raise-mm",
)
# A cache holds more than the one item that did not fit.
ITEMS_KEPT = 2


def multimodal_preprocessing_bound(case: RuleContext) -> Advice | None:
    """Images or sound are most of a load that does not fill the engine.

    Needs the hit rate of the multimodal cache in statistics lines, prompts as most of the work, and no queue.
    """
    if not case.load.spans:
        return _admitted_one_by_one(case)
    load = case.load
    shown = [span for span in load.busy if span.sample.mm_hit is not None]
    if case.bottleneck.name != "client-limited" or load.busy_seconds < LONG_ENOUGH or not shown:
        return None
    if load.running > FEW or not load.carries_media:
        return None
    text = (
        f"Requests carry images, video or sound (multimodal cache hit rate {shown[-1].sample.mm_hit:g} %), prompts are"
        f" most of the work ({load.prompt:,.0f} prompt tokens/s, {rounded(load.generation)} generated), and only"
        f" {load.running:.0f} at a time reached the engine. Decoding and resizing happen in the API server's process"
        " before the engine counts a request: if the client sends more than that, this process is the limit."
    )
    return Advice(
        text,
        sample_lines(case, shown),
        confidence="low",
        changes=(
            action(
                "look at the API server's process under load (top -H): one core at 100 % means that this process is the limit"
            ),
        ),
        alternatives=(
            *(("more API server processes: --api-server-count",) if _has(case, "api_server_count") else ()),
            "smaller images before they are sent, or fewer pixels by --mm-processor-kwargs",
        ),
        verify="`Running` and `Avg prompt throughput` rise at the same number of clients.",
    )


def _admitted_one_by_one(case: RuleContext) -> Advice | None:
    """Requests reach the engine at even, long distances. Needs the lines that say so, and no statistics lines."""
    seen = case.run.seen("request-added")
    if seen is None or seen.count < LEAST_ADDED or seen.last is None:
        return None
    first, last = seen.first[0].record, seen.last.record
    if first.time is None or last.time is None:
        return None
    apart = (last.time - first.time) / (seen.count - 1)
    if not LEAST_APART <= apart <= MOST_APART:
        return None
    text = (
        f"{seen.count:,} requests reached the engine one after the other, one every {apart:.2g} s. The API server's"
        " process tokenizes each prompt, and decodes and resizes its images, before the engine counts the request: if the client"
        " sends faster, that process is the limit. Without statistics lines"
        " the log does not show which of them sets the pace, the client or this process."
    )
    return Advice(
        text,
        (case.run.evidence(first), case.run.evidence(last)),
        confidence="low",
        changes=(
            action(
                "look at the API server's process under load (top -H): one core at 100 % means that this process is the limit"
            ),
        ),
        alternatives=("more API server processes (--api-server-count), where the release has them",),
        verify="`Added request` lines come as fast as the client sends.",
        title="Requests reach the engine one by one: preprocessing in the API server may be the limit",
    )


def multimodal_items_larger_than_cache(case: RuleContext) -> Advice | None:
    """Images or videos are too large for the cache of prepared ones. Needs the engine's warnings, with sizes."""
    event = case.event(TOO_LARGE, TOO_LARGE_SHARED)
    if event is None:
        return None
    seen = [found for name in (TOO_LARGE, TOO_LARGE_SHARED) if (found := case.run.seen(name)) is not None]
    item, limit = event.number("item_gib"), event.number("limit_gib")
    text = (
        f"{plural(sum(found.count for found in seen), 'input')} did not fit the cache of prepared images and videos"
        + (f" ({item:g} GiB, the cache takes {limit:g} GiB)" if item and limit else "")
        + ": each is prepared anew when it is sent again. It matters only where inputs repeat."
    )
    note = "memory of the host, once for each API server and engine process"
    wanted = ceil(ITEMS_KEPT * item) if item and limit else None
    return Advice(
        text,
        (*message_lines(case, TOO_LARGE, TOO_LARGE_SHARED), *setting_lines(case, "mm_processor_cache_gb")),
        confidence="low",
        changes=(flag(case, "--mm-processor-cache-gb", limit, wanted, "needs-test", note) if wanted else ())
        or (action("a larger --mm-shm-cache-max-object-size-mb, where inputs repeat"),),
        alternatives=("smaller images or fewer frames, before they are sent",),
        verify="no such warning, and a higher `MM cache hit rate`.",
    )


def _has(case: RuleContext, field: str) -> bool:
    return flag_for_field(field, case.version) is not None


RULES = (
    Rule("multimodal-preprocessing-bound", multimodal_preprocessing_bound),
    Rule("multimodal-items-larger-than-cache", multimodal_items_larger_than_cache),
)
