"""Rules on prefix caching, chunked prefill and what a full cache costs to read."""

from __future__ import annotations

from vllm_logdoctor.catalogue.topics import Severity
from vllm_logdoctor.rules.capacity.memory import memory_of
from vllm_logdoctor.rules.context import RuleContext, flag, message_lines, sample_lines, setting_lines
from vllm_logdoctor.rules.limits import SERVER_LIMITS
from vllm_logdoctor.rules.performance.cache_room import can_use_fp8_cache
from vllm_logdoctor.rules.performance.published import CACHE_FP8
from vllm_logdoctor.rules.placement import on_each_card
from vllm_logdoctor.rules.rule import Advice, Rule
from vllm_logdoctor.rules.tasks import has_encoder, pools
from vllm_logdoctor.run.model import Run

# An fp8 cache is worth a thought when reading the cache costs as much as reading the weights, in a real
# batch.
LEAST_BATCH = 8
LARGE_BATCH = 64
WITHOUT_IT_IN_V0 = ("neuron", "tpu", "xpu", "hpu")
LEAST_SHARE = 0.25


def prefix_caching_silently_off(case: RuleContext) -> Advice | None:
    """V1 runs without prefix caching although nobody asked for that.

    Needs the engine's configuration line.
    """
    if not _switched_off_by_vllm(case.run):
        return None
    load = case.load
    heavy = load.busy_seconds > 0 and load.is_mostly_prompts
    severity: Severity = "medium" if heavy else "low"
    text = (
        "`enable_prefix_caching=False` in the engine's configuration, and no argument asked for it: vLLM"
        " switches it off for some models (those that mix attention with state space layers, encoders,"
        " pooling). Prefixes that prompts share are computed again for each request."
    )
    if heavy:
        text += (
            f" Prompts are most of this load: {load.prompt:,.0f} prompt tokens/s against"
            f" {load.generation:,.1f} generated ones in the median."
        )
    changes = (
        flag(
            case,
            "--enable-prefix-caching",
            False,
            True,
            "needs-test",
            "drop it again if vLLM warns at the start that it is not supported for the model",
        )
        if heavy and case.event("prefix-caching-unsupported") is None
        else ()
    )
    return Advice(
        text,
        (
            *setting_lines(case, "enable_prefix_caching"),
            *message_lines(case, "prefix-caching-unsupported"),
            *sample_lines(case, load.busy[-1:]),
        ),
        confidence="high" if heavy else "medium",
        severity=severity,
        changes=changes,
        alternatives=("a release that caches prefixes of this model",),
        verify=(
            "`enable_prefix_caching=True` in the engine's configuration and a hit rate above 0 % where"
            " prompts share a prefix."
        ),
    )


def _switched_off_by_vllm(run: Run) -> bool:
    value = run.config.get("enable_prefix_caching")
    if run.engine != "V1" or pools(run) or has_encoder(run) or value is None or value.value is not False:
        return False
    asked = (
        value.provenance == "explicit"
        or run.arguments.get("enable_prefix_caching") is False
        or run.arguments.get("no_enable_prefix_caching")
    )
    # An offline engine and an excerpt print no arguments: who switched it off is not known then.
    return bool(value.evidence) and not asked and bool(run.arguments or run.kind != "offline")


def prefix_caching_switched_off(case: RuleContext) -> Advice | None:
    """Prefix caching was switched off by hand, or V0 leaves it off.

    Needs the setting and prompts in the load.
    """
    run, load = case.run, case.load
    value = run.config.get("enable_prefix_caching")
    if pools(run) or value is None or value.value is not False or not load.busy_seconds:
        return None
    if load.prompt <= load.generation:
        return None
    if run.engine == "V1" and run.arguments.get("enable_prefix_caching") is not False:
        return None
    if run.engine == "V0" and run.platform in WITHOUT_IT_IN_V0:
        return None
    why = "by an argument" if run.engine == "V1" else "the default of the V0 engine"
    text = (
        f"Prefix caching is off ({why}). The log does not show whether prompts share a prefix; if they do"
        " (system prompts, conversations), the shared part is computed again for each request."
    )
    return Advice(
        text,
        setting_lines(case, "enable_prefix_caching"),
        confidence="low",
        changes=flag(
            case,
            "--enable-prefix-caching",
            False,
            True,
            "safe" if run.engine == "V1" else "needs-test",
            # Measured with attention alone: a cache of Mamba layers keeps states of its own for each block.
            ""
            if (memory := memory_of(run)) and memory.hybrid
            else "costs nothing measurable where prompts share nothing (2 pairs: 1.00 x)",
        ),
        verify="`Prefix cache hit rate` above 0 % in the statistics lines.",
    )


def chunked_prefill_off(case: RuleContext) -> Advice | None:
    """Chunked prefill was switched off in V1, and requests can run beside a prompt. Needs the setting."""
    value = case.run.config.get("enable_chunked_prefill")
    if (
        case.run.engine != "V1"
        or pools(case.run)
        or value is None
        or value.value is not False
        or case.run.arguments.get("enable_chunked_prefill") is not False
        or (case.load.busy and case.load.peak_running <= 1)
        or case.run.setting("max_num_seqs") == 1
    ):
        return None
    text = (
        "Chunked prefill is off by an argument: a long prompt holds up all running requests until it is"
        " computed. Switching it off gained nothing in seven measured pairs (0.95 to 1.00 x) and made the"
        " first token up to 4.8 times later."
    )
    return Advice(
        text,
        setting_lines(case, "enable_chunked_prefill"),
        confidence="medium",
        changes=flag(case, "--enable-chunked-prefill", False, True, "safe"),
        verify="`Chunked prefill is enabled` at the start.",
    )


LEAST_SECONDS = 60.0
"""Seconds of load, fewer of which are no reason to change answers."""


def kv_cache_reads_dominate(case: RuleContext) -> Advice | None:
    """Each step reads more cache than weights.

    Needs weights and cache in GiB, KV usage, and 16-bit cache elements.
    """
    run, load = case.run, case.load
    memory = memory_of(run)
    if memory is None or not memory.available or not memory.weights or not can_use_fp8_cache(case):
        return None
    full = [
        span
        for span in load.busy
        if (span.sample.running or 0) >= LEAST_BATCH
        and (span.sample.kv_usage or 0) / 100 * memory.available >= memory.weights
    ]
    if (
        sum(span.seconds for span in full) < LEAST_SHARE * load.busy_seconds
        or not full
        or case.objective == "startup"
    ):
        return None
    usage = max(span.sample.kv_usage or 0.0 for span in full)
    text = (
        f"A step reads {memory.weights:g} GiB of weights and, at up to {usage:g} % usage, about"
        f" {memory.available * usage / 100:.1f} GiB of KV cache{on_each_card(run)}. An fp8 cache halves the larger"
        " part. It needs a card with fp8 arithmetic (compute capability 8.9 or later) to gain."
    )
    before = run.setting("kv_cache_dtype") or "auto"
    note = "answers can differ without calibrated scales"
    # Where a small batch waits for nothing, a gain of a few per cent is no reason to change answers.
    asked = case.objective in ("throughput", "latency")
    wanted = asked or case.bottleneck.name in SERVER_LIMITS or load.running >= LARGE_BATCH
    wanted = wanted and load.busy_seconds >= LEAST_SECONDS
    return Advice(
        text,
        (*setting_lines(case, "model_weights_gib", "available_kv_cache_gib"), *sample_lines(case, full)),
        confidence="low",
        severity=None if wanted else "info",
        changes=flag(case, "--kv-cache-dtype", before, "fp8", "changes-results", note) if wanted else (),
        effect=CACHE_FP8.effect("generation_throughput") if wanted else None,
        alternatives=()
        if wanted
        else (
            f"--kv-cache-dtype fp8 ({CACHE_FP8.low:g} to {CACHE_FP8.high:g} x generation throughput where measured): {note}",
        ),
        verify=(
            "`kv_cache_dtype=fp8` in the engine's configuration, twice as much in `GPU KV cache size`, and"
            " a higher generation throughput at the same load."
        ),
    )


def benchmark_measures_cache(case: RuleContext) -> Advice | None:
    """The prefix cache answers almost everything.

    Needs a printed hit rate of 85 % or more at the end, and a real load.
    """
    rate, load = case.load.hit_rate, case.load
    if rate is None or rate < 85.0 or load.busy_seconds < 60:
        return None
    lines = [span for span in load.busy if span.sample.prefix_hit is not None]
    text = (
        f"{rate:g} % of the prompt tokens came from the prefix cache. For conversations, agents and shared"
        " prompts this is what the cache is for. If this load was a benchmark, its prompts repeat, and it hardly"
        " measured prefill."
    )
    return Advice(
        text,
        sample_lines(case, lines[-1:]),
        confidence="low",
        alternatives=(
            "only if this was a benchmark: use unique prompts, or turn prefix caching off for the test",
        ),
        verify=(
            "`Prefix cache hit rate` near 0 % in the benchmark, and its throughput beside the one measured"
            " here."
        ),
    )


RULES = (
    Rule("prefix-caching-silently-off", prefix_caching_silently_off, objectives=("long-context",)),
    Rule("prefix-caching-switched-off", prefix_caching_switched_off),
    Rule("chunked-prefill-off", chunked_prefill_off, objectives=("latency",)),
    Rule("kv-cache-reads-dominate", kv_cache_reads_dominate, objectives=("memory",)),
    Rule("benchmark-measures-cache", benchmark_measures_cache),
)
