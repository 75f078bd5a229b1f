"""Rules on what the memory of the device is spent on: wide weights, weights on the host, a context that
hardly fits, caches of layers with a window.
"""

from __future__ import annotations

import math

from vllm_logdoctor.rules.bottleneck import offloaded_gib
from vllm_logdoctor.rules.capacity.fp8 import condition_of_fp8
from vllm_logdoctor.rules.capacity.memory import memory_of
from vllm_logdoctor.rules.context import RuleContext, action, flag, message_lines, sample_lines, setting_lines
from vllm_logdoctor.rules.model import Change, Effect
from vllm_logdoctor.rules.performance.cache_room import can_use_fp8_cache
from vllm_logdoctor.rules.rule import Advice, Rule
from vllm_logdoctor.run.metrics import offline_batches

FEW_REQUESTS = 2.0
# A cache is larger than its load when at most this much of it was used; what is kept is so many times the use, and
# a request of full length with a reserve. Less than a twentieth of the card is not worth a restart.
MOST_USED = 30.0
USE_RESERVE = 2
FULL_RESERVE = 1.1
LEAST_SAVING = 0.05
_DISABLED = "hybrid-kv-cache-manager-disabled-hybrid-model"
_CONNECTOR = (
    "turning-off-hybrid-kv-cache-manager-because",
    "turning-off-hybrid-kv-cache-manager-because-2",
    "turning-off-hybrid-kv-cache-manager-because-3",
)


def weights_in_32_bit(case: RuleContext) -> Advice | None:
    """Weights have four bytes each on a device that computes in two.

    Needs dtype float32 and a GPU platform.
    """
    run = case.run
    if run.setting("dtype") not in ("float32", "float") or run.platform not in ("cuda", "rocm"):
        return None
    text = (
        "The weights are float32: each step reads twice the bytes of bfloat16, the KV cache holds half the"
        " tokens, and the card's 16-bit arithmetic is not used."
    )
    basis = (
        "decode follows the bytes read: 4 -> 2 bytes a weight, half of the time where weights are all that is"
        " read"
    )
    return Advice(
        text,
        setting_lines(case, "dtype"),
        confidence="medium",
        changes=flag(case, "--dtype", "float32", "bfloat16", "changes-results", "answers differ slightly"),
        effect=Effect("generation_throughput", 1.0, 2.0, "computed", basis),
        verify="`dtype=torch.bfloat16` in the engine's configuration.",
    )


def weights_on_the_host(case: RuleContext) -> Advice | None:
    """Weights are fetched from host memory in every step. Needs cpu_offload_gb above 0."""
    run = case.run
    gib = offloaded_gib(run)
    if not gib:
        return None
    slowest, fastest = (1000 * gib * 1.0737 / speed for speed in (25, 50))
    measured = _longest_fast_step(case)
    partly = measured is not None and measured < fastest / 2
    text = (
        f"{gib:g} GiB of weights stay on the host, and steps read them over the link to the processor. The fastest steps took at"
        f" most {measured:.0f} ms, where all of them take {fastest:.0f} ms over PCIe 5: only a part is read in a step, as of a"
        " mixture of experts, or the link is faster."
        if partly
        else f"{gib:g} GiB of weights stay on the host and are copied to the card in every step, whatever the batch: at"
        f" the 25 to 50 GB/s of a PCIe 4 or 5 link that is {fastest:.0f} to {slowest:.0f} ms a step (links between"
        " card and processor as on GH200 are several times faster)."
    )
    quantized = run.setting("quantization") not in (None, "", "None")
    fitting = (
        "more cards (tensor parallelism)"
        if quantized
        else "a quantized checkpoint, or one more card (tensor parallelism)"
    )
    memory = memory_of(run)
    spare = memory is not None and memory.available is not None and memory.available > 2 * gib
    return Advice(
        text,
        (
            *setting_lines(case, "cpu_offload_gb", "available_kv_cache_gib"),
            *sample_lines(case, case.load.busy[:1]),
        ),
        confidence="medium" if partly else "high",
        changes=(
            flag(case, "--cpu-offload-gb", gib, None, "needs-test", "the cache gets smaller by as much")
            if spare
            else (action(f"hold all weights on the cards: {fitting}"),)
        ),
        alternatives=(fitting,) if spare else (),
        verify="no offload in the arguments, and a higher generation throughput at the same load.",
        title="CPU offload: weights read from the host" if partly else "",
    )


def _longest_fast_step(case: RuleContext) -> float | None:
    """Return the milliseconds that a step took at most when most tokens were made, or None where tokens tell no steps."""
    most = max((span.sample.generation for span in case.load.busy), default=0.0)
    if not most or not case.load.peak_running or case.run.setting("speculative_config"):
        return None
    return 1000 * case.load.peak_running / most


def cache_larger_than_load(case: RuleContext) -> Advice | None:
    """The device could be shared: most of the cache was never used. Reported for the objective "memory" only.

    Needs a load, and the memory of the device and its share for vLLM.
    """
    memory, load = memory_of(case.run), case.load
    if case.objective != "memory" or memory is None or not memory.available or memory.fixed or not load.busy:
        return None
    if memory.utilization is None or memory.total is None or load.peak_kv > MOST_USED:
        return None
    longest = memory.available * (memory.length or 0) / memory.held
    wanted = max(USE_RESERVE * load.peak_kv / 100 * memory.available, FULL_RESERVE * longest)
    target = math.ceil(100 * (memory.utilization - (memory.available - wanted) / memory.total.gib)) / 100
    if target > memory.utilization - LEAST_SAVING:
        return None
    saved = (memory.utilization - target) * memory.total.gib
    text = (
        f"At most {load.peak_kv:g} % of {memory.available:g} GiB of KV cache were used. {wanted:.1f} GiB hold"
        f" {USE_RESERVE} times that and a request of full length: about {saved:.1f} GiB of the card can go to"
        " something else."
    )
    note = "a larger load then waits; one step down at a time"
    return Advice(
        text,
        (
            *sample_lines(case, load.busy[:1]),
            *setting_lines(case, "available_kv_cache_gib", "gpu_memory_utilization"),
        ),
        confidence="medium",
        changes=flag(case, "--gpu-memory-utilization", memory.utilization, target, "needs-test", note),
        effect=Effect(
            "device_memory",
            round(target / memory.utilization, 3),
            round(target / memory.utilization, 3),
            "computed",
            f"{memory.utilization:g} -> {target:g} of {memory.total.gib:g} GiB ({memory.total.basis})",
        ),
        verify="`Available KV cache memory` near the proposed size, and nothing waits at the same load.",
    )


def few_full_length_requests_fit(case: RuleContext) -> Advice | None:
    """The cache holds less than two requests of full length. Needs the engine's concurrency line."""
    requests = case.run.measure("max_concurrency")
    length = case.run.setting("max_model_len")
    # A model without a KV cache, an encoder, prints none: 0.00x. With one slot requests run one after the other anyway.
    if case.run.setting("max_num_seqs") == 1 and (requests or 0) >= 1:
        return None
    if not requests or requests >= FEW_REQUESTS or not isinstance(length, int):
        return None
    then = (
        "Requests that need more than half of the cache run one after the other."
        if requests >= 1
        else "A request of that length does not fit, and the engine can't finish it."
    )
    held = f"The cache holds {requests:g} {'request' if requests == 1 else 'requests'} of the full {length:,} tokens."
    of_batch = _of_batch(case) if requests >= 1 else ""
    text = f"{held} {of_batch or then}"
    fits = () if requests >= 1 else _length_that_fits(case, length, requests)
    return Advice(
        text,
        setting_lines(case, "max_concurrency", "max_model_len"),
        confidence="high",
        severity="low" if case.objective == "long-context" or fits else None,
        changes=fits or _room_for_length(case),
        alternatives=(
            (
                "a smaller --max-model-len, if requests never get so long: it refuses the longest, it frees"
                " nothing"
            ),
            f"{'an fp8 cache, ' if can_use_fp8_cache(case) else ''}quantized weights or more cards, if they do",
        ),
        verify="a larger `Maximum concurrency for ... tokens per request`.",
    )


def _of_batch(case: RuleContext) -> str:
    """Return how many prompts of the largest offline batch fit the cache at once, by its own tokens; "" where more fit than it has."""
    tokens = case.run.measure("kv_cache_tokens")
    batch = max(offline_batches(case.run), key=lambda one: one.done, default=None)
    if tokens is None or batch is None or not batch.seconds or batch.input is None or batch.output is None:
        return ""
    each = (batch.input + batch.output) * batch.seconds / batch.done
    if each * batch.done <= tokens:
        return ""
    fit = max(round(tokens / each), 1)
    return f"The {batch.done:,} prompts had {each:,.0f} tokens each in the mean, answers included: about {fit:,} of them fit at once."


def _length_that_fits(case: RuleContext, length: int, requests: float) -> tuple[Change, ...]:
    """Return the change to the longest request that the cache holds; 2 % stay free, as a start plans a little less at times."""
    fits = int(0.98 * requests * length) // 1024 * 1024
    note = "longer requests are refused at once, where today they can't be finished"
    return flag(case, "--max-model-len", length, fits, "safe", note) if fits else ()


def _room_for_length(case: RuleContext) -> tuple[Change, ...]:
    if case.objective != "long-context" or not can_use_fp8_cache(case):
        return ()
    condition = condition_of_fp8(case.run)
    note = f"twice the tokens; answers can differ without calibrated scales{f'; {condition}' if condition else ''}"
    before = case.run.setting("kv_cache_dtype") or "auto"
    return flag(case, "--kv-cache-dtype", before, "fp8", "changes-results", note)


def window_layers_keep_whole_cache(case: RuleContext) -> Advice | None:
    """Layers with a sliding window keep the cache of full attention.

    Needs vLLM's warning that its hybrid cache manager is off for this model.
    """
    if case.event(_DISABLED) is None:
        return None
    field = "disable_hybrid_kv_cache_manager"
    asked = case.run.arguments.get(field) is True
    connector = case.event(*_CONNECTOR) is not None
    text = (
        "The model has layers with a sliding window (or with state), and vLLM keeps as much cache for them as for full"
        " attention: far fewer tokens fit than the memory could hold."
    )
    if asked:
        text += " --disable-hybrid-kv-cache-manager asked for it."
    elif connector:
        text += " The KV connector does not support the other way."
    changes = (
        flag(
            case,
            "--disable-hybrid-kv-cache-manager",
            True,
            None,
            "needs-test",
            "unless a KV connector needs it",
        )
        if asked
        else ()
    )
    return Advice(
        text,
        (*message_lines(case, _DISABLED, *_CONNECTOR), *setting_lines(case, field, "kv_cache_tokens")),
        confidence="high",
        severity=None if case.load.peak_kv < 90 else "medium",
        changes=changes
        or ((action("a KV connector that supports the hybrid cache manager, or none"),) if connector else ()),
        verify="no such warning at the start, and a larger `Maximum concurrency`.",
    )


RULES = (
    Rule("weights-in-32-bit", weights_in_32_bit),
    Rule("weights-on-the-host", weights_on_the_host, removes="host-limited"),
    Rule("cache-larger-than-load", cache_larger_than_load, objectives=("memory",)),
    Rule("few-full-length-requests-fit", few_full_length_requests_fit),
    Rule("window-layers-keep-whole-cache", window_layers_keep_whole_cache),
)
