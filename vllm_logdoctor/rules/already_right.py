"""What is already right: optimizations that are on, each with the line that proves it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from vllm_logdoctor.knowledge.dtypes import weight_bytes
from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.rules.capacity.memory import memory_of
from vllm_logdoctor.rules.load import Load, evidence_of_sample, load_of
from vllm_logdoctor.rules.model import AlreadyRight, Finding
from vllm_logdoctor.rules.performance.engine_start import LONG_CAPTURE
from vllm_logdoctor.rules.performance.published import COMPILE_CACHE_WARM
from vllm_logdoctor.rules.performance.startup import compile_seconds
from vllm_logdoctor.run.model import Evidence, Run

# deepseek_v4_fp8   moe_wna16   ascend
_SMALLER = lazy_pattern(r"fp[48]|int[48]|awq|gptq|marlin|wna16|ascend")
_OF_CACHE = lazy_pattern(r"(?i)KV.cache|fp8 attention")
LEAST_HIT_RATE = 5.0
"""Per cent of the prompt tokens, fewer of which from the cache show no use of it."""
Check = Callable[[Run, Load], "AlreadyRight | None"]


_CONCERNS = {
    "CUDA graphs": lazy_pattern(r"(?i)cuda.?graph|enforce.eager|captur"),
    "torch.compile": lazy_pattern(r"(?i)compil"),
    "prefix caching": lazy_pattern(r"(?i)prefix.cach"),
    "chunked prefill": lazy_pattern(r"(?i)prefill|batched.tokens"),
    "asynchronous scheduling": lazy_pattern(r"(?i)async\w*.schedul"),
    "attention backend": lazy_pattern(r"(?i)attention|attn|flashinfer"),
    "quantization": lazy_pattern(r"(?i)quanti|gguf"),
    "KV cache type": lazy_pattern(r"(?i)kv.cache.d?type|fp8.(?:kv.)?cache"),
    "sampler": lazy_pattern(r"(?i)sampler|flashinfer"),
    "tensor parallelism": lazy_pattern(r"(?i)tensor.parallel"),
}
"""What a finding or a warning says where it concerns an item: that one is then not called right."""


def already_right(
    run: Run, load: Load | None = None, findings: Sequence[Finding] = ()
) -> tuple[AlreadyRight, ...]:
    """Return what needs no change in a run; absence of a line is never taken for a proof.

    Nothing of a run that crashed, and nothing that a finding, its changes or a warning of the log is about.
    """
    if run.outcome in ("crashed_at_startup", "crashed_while_serving"):
        return ()
    load = load or load_of(run)
    found = (item for check in CHECKS if (item := check(run, load)) is not None)
    said = "\n".join((*_said_of(findings), *_warnings(run)))
    return tuple(item for item in found if not _CONCERNS[item.name].search(said))


def _said_of(findings: Sequence[Finding]) -> Iterator[str]:
    for one in findings:
        yield from (one.title, one.explanation, one.avoid, *one.alternatives)
        yield from (change.knob for change in one.changes)


def _warnings(run: Run) -> Iterator[str]:
    for seen in run.messages.values():
        yield from (event.record.message for event in seen.first if event.pattern.level == "warning")


def graphs(run: Run, load: Load) -> AlreadyRight | None:
    """CUDA graphs were captured."""
    if run.seen("graphs-captured") is None:
        return None
    seconds, gib = run.measure("graph_capture_seconds"), run.measure("graph_capture_gib")
    start = run.startup_seconds or 0.0
    if seconds is not None and seconds >= min(LONG_CAPTURE, start / 2 or LONG_CAPTURE):
        return None
    state = (
        "captured"
        + (f" in {seconds:g} s" if seconds is not None else "")
        + (f", {gib:g} GiB" if gib and gib > 0 else "")
    )
    brings = "steps are replayed instead of launched kernel by kernel"
    return AlreadyRight("CUDA graphs", state, brings, _lines(run, "graphs-captured"))


def torch_compile_on(run: Run, load: Load) -> AlreadyRight | None:
    """torch.compile ran; from its cache where lines say so."""
    warm, seconds = ("compile-cache-hit", "compile-cache-aot-hit"), compile_seconds(run)
    if any(run.seen(name) for name in warm):
        cut = COMPILE_CACHE_WARM
        brings = f"a warm cache cuts the engine's start to {cut.low:g} to {cut.high:g} of its seconds"
        lines = _lines(run, *warm, "compile-total")
        return AlreadyRight("torch.compile", "on, loaded from its cache", brings, lines)
    if seconds is None:
        return None
    brings = "fused kernels in every step; the next start loads them"
    lines = _lines(run, "compile-total", "engine-initialised")
    return AlreadyRight("torch.compile", "on", brings, lines)


def prefix_caching(run: Run, load: Load) -> AlreadyRight | None:
    """Prefix caching is on, and prompts share prefixes."""
    value = run.config.get("enable_prefix_caching")
    if value is None or value.value is not True or not value.evidence:
        return None
    if (load.hit_rate or 0.0) < LEAST_HIT_RATE:
        return None
    state = "on" if load.engines > 1 else f"on; hit rate {load.hit_rate:g} % at the end"
    brings = "shared prefixes of prompts are computed once"
    rates = [sample for sample in run.samples if sample.prefix_hit is not None]
    return AlreadyRight(
        "prefix caching",
        state,
        brings,
        (*value.evidence[:1], *(evidence_of_sample(run, sample) for sample in rates[-1:])),
    )


def chunked_prefill(run: Run, load: Load) -> AlreadyRight | None:
    """Chunked prefill is on, under a load."""
    value = run.config.get("enable_chunked_prefill")
    # The first line may be of a default that the arguments of the server change.
    seen = run.seen("chunked-prefill-enabled")
    lines = (run.evidence(seen.last.record),) if seen is not None and seen.last is not None else ()
    if value is None or value.value is not True or not (value.evidence or lines) or not load.busy_seconds:
        return None
    brings = "long prompts do not hold up running requests"
    return AlreadyRight("chunked prefill", "on", brings, (*lines, *value.evidence[:1])[:2])


def async_scheduling(run: Run, load: Load) -> AlreadyRight | None:
    """The next step is scheduled while one runs, under a load."""
    value = run.config.get("async_scheduling")
    if value is None or value.value is not True or not value.evidence or not load.busy_seconds:
        return None
    brings = "the next step is prepared while one runs"
    return AlreadyRight("asynchronous scheduling", "on", brings, value.evidence[:1])


def attention(run: Run, load: Load) -> AlreadyRight | None:
    """The attention backend that was chosen; reported as right only where it was the first of the possible ones."""
    seen = run.seen("attention-backend")
    event = seen.first[0] if seen else None
    name, choices = (event.text("backend"), event.text("choices")) if event else ("", "")
    if not choices or name not in choices.split(",")[0]:
        return None
    brings = "vLLM's first choice for this model and device"
    lines = _lines(run, "attention-backend", "flash-attention-version")
    return AlreadyRight("attention backend", name, brings, lines)


def quantized(run: Run, load: Load) -> AlreadyRight | None:
    """Weights are quantized, with a kernel that is not the slow one."""
    value = run.config.get("quantization")
    slow = ("quantization-kernel-forced", "quantization-not-optimized", "quantization-emulated")
    if value is None or not value.value or not value.evidence or any(run.seen(name) for name in slow):
        return None
    if _accuracy_warned(run, of_cache=False):
        return None
    # What a plug-in registers under its own name may be no smaller at all.
    if weight_bytes(str(value.value)) is None and not _SMALLER.search(str(value.value)):
        return None
    brings = "smaller weights: faster decode, more room for the KV cache"
    return AlreadyRight("quantization", str(value.value), brings, value.evidence[:1])


def cache_type(run: Run, load: Load) -> AlreadyRight | None:
    """The KV cache has small elements."""
    value = run.config.get("kv_cache_dtype")
    kind = str(run.in_effect("kv_cache_dtype"))
    if value is None or not kind.startswith(("fp8", "int8", "nvfp4")) or not value.evidence:
        return None
    if _accuracy_warned(run, of_cache=True):
        return None
    brings = "twice the tokens in the same memory (measured: exactly 2.00 x for fp8)"
    if kind.startswith("nvfp4"):
        brings = "more than three times the tokens in the same memory (4 bits and their scales instead of 16)"
    return AlreadyRight("KV cache type", kind, brings, value.evidence[-1:])


def _accuracy_warned(run: Run, *, of_cache: bool) -> bool:
    """Return whether vLLM warned that the quantized cache, or the quantized weights, can make answers less accurate."""
    warned = (
        event.record.message
        for seen in run.messages.values()
        for event in seen.first
        if event.pattern.level == "warning" and event.pattern.topic in ("quantization", "kv-cache", "moe")
    )
    return any("ccura" in text and bool(_OF_CACHE.search(text)) == of_cache for text in warned)


def sampler(run: Run, load: Load) -> AlreadyRight | None:
    """FlashInfer samples."""
    lines = _lines(run, "sampler-flashinfer")
    brings = "top-p and top-k without sorting the vocabulary"
    return AlreadyRight("sampler", "FlashInfer", brings, lines) if lines else None


def parallelism_needed(run: Run, load: Load) -> AlreadyRight | None:
    """Tensor parallelism is needed: the weights do not fit one card."""
    ranks, memory = run.setting("tensor_parallel_size"), memory_of(run)
    if (
        not isinstance(ranks, int)
        or ranks < 2
        or memory is None
        or not memory.weights
        or memory.total is None
    ):
        return None
    whole = memory.weights * ranks
    if whole < 0.9 * memory.total.high:
        return None
    values = [run.measured.get("model_weights_gib"), run.config.get("tensor_parallel_size")]
    lines = tuple(value.evidence[0] for value in values if value is not None and value.evidence)
    brings = f"{whole:.1f} GiB of weights do not fit one card of {memory.total.gib:g} GiB"
    # No line tells the card's memory then.
    size = " of the size that the log adds up to" if "the next usual size" in memory.total.basis else ""
    found = f"{ranks} ranks: the weights do not fit one card{size}"
    return AlreadyRight("tensor parallelism", found, brings, lines)


CHECKS: tuple[Check, ...] = (
    graphs, torch_compile_on, prefix_caching, chunked_prefill, async_scheduling, attention, quantized, cache_type,
    sampler, parallelism_needed,
)  # fmt: skip


def _lines(run: Run, *patterns: str) -> tuple[Evidence, ...]:
    return tuple(
        run.evidence(run.messages[name].first[0].record) for name in patterns if name in run.messages
    )
