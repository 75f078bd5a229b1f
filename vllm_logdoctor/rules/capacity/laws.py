"""Laws of the KV cache: how one setting moves it, each with the measured facts behind it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from vllm_logdoctor.knowledge.dtypes import kv_cache_bytes, weight_bytes
from vllm_logdoctor.knowledge.versions import at_least
from vllm_logdoctor.rules.capacity.defaults import max_num_seqs_of, step_tokens_of
from vllm_logdoctor.rules.capacity.fp8 import condition_of_fp8, fp8_cache_breaks_answers, refuses_fp8
from vllm_logdoctor.rules.capacity.memory import GIB, NOT_PRINTED, START_FAILS, Memory
from vllm_logdoctor.run.model import Run


class ChangedSetting(Struct, frozen=True):
    """One change: the run it is made to, the field and its new value."""

    run: Run
    name: str
    value: Any

    @property
    def before(self) -> Any:
        """Value of the field in the run, or None."""
        return self.run.setting(self.name)

    def number(self) -> float | None:
        """Return the new value as a positive number, or None."""
        try:
            number = float(self.value)
        except (TypeError, ValueError):
            return None
        return number if math.isfinite(number) and number > 0 and not isinstance(self.value, bool) else None


Law = Callable[[Memory, ChangedSetting], "Memory | str"]

# Reserved by the communication library on each device as soon as there is more than one rank: tensor parallel
# 1 -> 2 left 0.1 to 0.3 GiB less than the weights freed (three measured pairs).
RANKS_OVERHEAD_GIB = 0.2
# The sampler is profiled with max_num_seqs rows of the vocabulary: 0.4 to 3.5 MiB a row for 32,000 to 256,000
# entries, unless the longest prefill needs more; measured between 0 and 5 MiB a row.
ROW_MIB = (0.0, 1.0, 5.0)
# Drafting layers of the checkpoint (MTP) took 6 to 16 % of the tokens (four measured pairs), middle 10 %.
DRAFT_SHARE = (0.84, 0.90, 0.945)
# Share of a 16-bit model that stays in 16 bit when the rest is quantized (embeddings, norms, output layer).
UNQUANTIZED = (0.03, 0.09, 0.20)


def utilization(memory: Memory, to: ChangedSetting) -> Memory | str:
    """gpu_memory_utilization: the cache moves by the device's memory times the difference (measured: worst
    0.3 %).
    """
    new, total = to.number(), memory.total
    if new is None or new > 1:
        return "gpu_memory_utilization is a share between 0 and 1"
    if memory.fixed:
        return memory.unmoved(f"no effect: {memory.fixed}")
    if memory.utilization is None:
        return "the log does not show the present gpu_memory_utilization"
    if memory.available is None or total is None:
        return "the log does not show the memory of the device" if memory.available else NOT_PRINTED
    if memory.free is not None and new * total.gib > memory.free + 0.005:
        return (
            f"{START_FAILS}: {new:g} x {total.gib:g} GiB is more than the {memory.free:g} GiB that were free"
        )
    delta = new - memory.utilization
    gib = memory.available + delta * total.gib
    # Profiling anew at the other size moved what was left by up to 1 %.
    slack = 0.015 * gib if delta else 0.0
    low, high = sorted((memory.available + delta * total.low, memory.available + delta * total.high))
    step = f"{memory.available:g} GiB {delta:+.3g} x {total.gib:.4g} GiB = {gib:.2f} GiB ({total.basis})"
    return memory.with_available(gib, low - slack, high + slack, step)


def cache_dtype(memory: Memory, to: ChangedSetting) -> Memory | str:
    """kv_cache_dtype: tokens go with the bytes of an element (measured: exactly 2.00 from 16 bit to fp8)."""
    override = to.run.setting("num_gpu_blocks_override")
    if override:
        return memory.unmoved(f"num_gpu_blocks_override={override} fixes the number of blocks")
    before = str(to.before or "auto")
    before = str(to.run.in_effect("kv_cache_dtype") or before) if before == "auto" else before
    to_fp8 = str(to.value).startswith("fp8") and not before.startswith("fp8")
    if to_fp8 and (reason := refuses_fp8(to.run)):
        return reason
    dtype = str(to.run.setting("dtype") or "bfloat16")
    old = kv_cache_bytes(before, dtype)
    new = kv_cache_bytes(str(to.value), dtype)
    if old is None or new is None:
        return f"bytes of an element of {to.value if new is None else to.before} are not known"
    if uses_latent_attention(to.run) and str(to.value).startswith("fp8"):
        new = kv_cache_bytes("fp8_ds_mla") or new
    ratio = 2 * (old.low + old.high) / (2 * (new.low + new.high))
    low, high = old.low / new.high, old.high / new.low
    step = f"{_middle(old.low, old.high):g} -> {_middle(new.low, new.high):g} bytes an element: {ratio:.4g} x"
    step += f" ({condition})" if to_fp8 and (condition := condition_of_fp8(to.run)) else ""
    if to_fp8 and fp8_cache_breaks_answers(to.run):
        step += "; known to break answers of this model family without calibrated scales"
    if memory.hybrid:
        step += "; layers with a state of fixed size may keep theirs"
        low, high = min(1.0, low), max(1.0, high)
    return memory.scaled(ratio, low, high, step)


def model_length(memory: Memory, to: ChangedSetting) -> Memory | str:
    """max_model_len: tokens stay with full attention; models with windows or states gain up to 6 % from a
    shorter one.
    """
    length = to.number()
    if length is None:
        return "max_model_len is a number of tokens"
    step = f"max_model_len {length:,.0f} does not change the tokens"
    changed = replace(memory, length=int(length))
    if int(length) > memory.tokens and not memory.hybrid:
        step += f"; longer than the {memory.tokens:,.0f} tokens of the cache, the start would fail"
    slack = 1.06 if memory.hybrid else 1.0
    return changed.scaled(1, 1 / slack, slack, step)


def sequences(memory: Memory, to: ChangedSetting) -> Memory | str:
    """max_num_seqs: the sampler is profiled with so many rows, 0 to 2.5 % of the tokens in nine measured
    pairs.
    """
    new, old = to.number(), max_num_seqs_of(to.run)
    if new is None:
        return "max_num_seqs is a number of requests"
    if memory.fixed:
        return memory.unmoved(f"no effect: {memory.fixed}")
    if not isinstance(old, int | float) or memory.available is None:
        return memory.scaled(1, 0.95, 1.05, "max_num_seqs moves the tokens by a few per cent at most")
    moved = [(float(old) - new) * row / 1024 for row in ROW_MIB]
    sizes = sorted(memory.available + gib for gib in moved)
    step = (
        f"{abs(moved[1]):.2f} GiB {'less' if moved[1] > 0 else 'more'} for profiling the sampler (0 to"
        f" {abs(moved[2]):.2f})"
    )
    return memory.with_available(memory.available + moved[1], sizes[0], sizes[-1], step)


def step_tokens(memory: Memory, to: ChangedSetting) -> Memory | str:
    """max_num_batched_tokens: activations grow with it; doubling cost 0.1 to 5 % of the tokens."""
    new, old = to.number(), step_tokens_of(to.run)
    if new is None:
        return "max_num_batched_tokens is a number of tokens"
    if memory.fixed:
        return memory.unmoved(f"no effect: {memory.fixed}")
    if not isinstance(old, int | float) or not old:
        return "the log does not show the present max_num_batched_tokens"
    ratio = new / float(old)
    if memory.activation is not None and memory.available is not None:
        most = memory.activation * (ratio - 1)
        sizes = sorted((memory.available, memory.available - most))
        step = f"activations of {memory.activation:g} GiB grow by 0 to {ratio:g} x"
        return memory.with_available(memory.available - most / 2, sizes[0], sizes[1], step)
    doublings = math.log2(ratio)
    low, high = sorted((1.0, 0.95**doublings))
    return memory.scaled(0.98**doublings, low, high, "2 % fewer tokens a doubling (0 to 5 % measured)")


def tensor_parallel(memory: Memory, to: ChangedSetting) -> Memory | str:
    """tensor_parallel_size: weights and heads of the cache are shared out (measured: 2.2 to 4.8 times for
    twice the ranks).
    """
    return _shared_out(memory, to, shares_cache=not uses_latent_attention(to.run))


def pipeline_parallel(memory: Memory, to: ChangedSetting) -> Memory | str:
    """pipeline_parallel_size: layers are shared out, with their weights and their part of the cache."""
    return _shared_out(memory, to, shares_cache=True)


_LEAST_OF_SHARE = 0.8
"""Of a rank's share of the checkpoint: a rank that holds less keeps a part elsewhere, or in a smaller format."""


def _share_of_checkpoint(run: Run) -> float:
    """Return the size of the checkpoint over all ranks in GiB; 0 where the log does not print it."""
    seen = run.messages.get("checkpoint-size")
    size = seen.first[0].fields.get("gib") if seen is not None else None
    ranks = math.prod(
        int(run.setting(f"{kind}_parallel_size") or 1) for kind in ("tensor", "pipeline", "data")
    )
    return float(size) / ranks if isinstance(size, float) else 0.0


def _shared_out(memory: Memory, to: ChangedSetting, shares_cache: bool) -> Memory | str:
    new, old = to.number(), to.before or 1
    if new is None or new != int(new):
        return f"{to.name} is a number of ranks"
    if memory.fixed:
        return memory.unmoved(f"{memory.fixed} on every rank")
    if memory.weights is None or memory.available is None:
        return "the log does not print weights and cache of a rank in GiB"
    if memory.weights < _LEAST_OF_SHARE * _share_of_checkpoint(to.run):
        return "a rank holds less than its share of the checkpoint: what more ranks free is not known"
    ratio = new / float(old)
    freed = memory.weights * (1 - 1 / ratio)
    overhead = RANKS_OVERHEAD_GIB * ((new > 1) - (float(old) > 1))
    gib = memory.available + freed - overhead
    step = (
        f"{memory.available:g} GiB {freed:+.2f} GiB of weights"
        f"{f' {-overhead:+.1f} GiB of buffers' if overhead else ''} = {gib:.2f} GiB a rank"
    )
    moved = memory.with_available(gib, gib - 0.3, gib + 0.3, step)
    if isinstance(moved, str):
        return moved
    if shares_cache:
        # With fewer KV heads than ranks the heads are copied: then nothing is gained per token.
        moved = moved.scaled(ratio, min(1.0, ratio), max(1.0, ratio), _heads(ratio))
    return replace(moved, weights=memory.weights / ratio)


def _heads(ratio: float) -> str:
    share = f"1/{ratio:g}" if ratio > 1 else f"{1 / ratio:g} times as much"
    return f"a rank keeps {share} of each token's cache, if the model has as many KV heads as ranks"


def blocks(memory: Memory, to: ChangedSetting) -> Memory | str:
    """num_gpu_blocks_override: blocks times the tokens of a block; without it the blocks that the engine had counted."""
    if to.value is None:
        return _blocks_of_the_engine(memory, to.run)
    number = to.number()
    if number is None:
        return "num_gpu_blocks_override is a number of blocks"
    if memory.block is None:
        return "the log does not show how many tokens a block holds"
    if memory.hybrid:
        return "layers of several kinds share the blocks"
    tokens = number * memory.block
    step = f"{number:,.0f} blocks of {memory.block} tokens"
    return memory.scaled(tokens / memory.tokens, tokens / memory.low, tokens / memory.high, step)


def _blocks_of_the_engine(memory: Memory, run: Run) -> Memory | str:
    """Return the memory with as many blocks as the engine would take: it prints both numbers where one is overridden."""
    seen = run.seen("kv-cache-blocks-overridden")
    counted = seen.first[0].number("before") if seen else None
    fixed = seen.first[0].number("blocks") if seen else None
    if not counted or not fixed:
        return "the log does not print how many blocks the engine would take by itself"
    ratio = counted / fixed
    step = f"{counted:,.0f} blocks, as the engine had counted, instead of {fixed:,.0f}"
    return replace(memory.scaled(ratio, ratio, ratio, step), fixed="")


def cache_bytes(memory: Memory, to: ChangedSetting) -> Memory | str:
    """kv_cache_memory_bytes: so many bytes over the bytes of a token."""
    size = bytes_of(to.value)
    if size is None:
        return f"{to.name} is a number of bytes"
    gib = size / GIB
    return memory.with_available(gib, gib, gib, f"{gib:.2f} GiB set for the cache")


def eager(memory: Memory, to: ChangedSetting) -> Memory | str:
    """enforce_eager: from 0.21 graphs are counted inside the budget; before, they came out of what was left."""
    if memory.fixed:
        return memory.unmoved(f"no effect: {memory.fixed}")
    if bool(to.value) == bool(to.before):
        return memory.unmoved("nothing changes")
    if memory.graphs and memory.available is not None and to.value:
        gib = memory.available + memory.graphs
        step = f"{memory.graphs:g} GiB are no longer set aside for CUDA graphs"
        return memory.with_available(gib, memory.available, gib, step)
    if at_least(to.run.release, "0.21.0"):
        return "graphs count inside the budget in this version, and this run captured none: their size is not known"
    return memory.scaled(1, 0.95, 1.05, "graphs lie outside the budget in this version (0 to 5 % measured)")


def quantization(memory: Memory, to: ChangedSetting) -> Memory | str:
    """quantization: the weights shrink, the cache gets what they free; another checkpoint may differ."""
    to_fp8 = str(to.value).startswith("fp8")
    if to_fp8 and (reason := refuses_fp8(to.run)):
        return reason
    dtype = str(to.run.setting("dtype") or "")
    old, new = weight_bytes(None, dtype), weight_bytes(str(to.value) if to.value else None, dtype)
    if to.before:
        return f"the weights are quantized already ({to.before}); their size in another format is not known"
    if old is None or new is None or memory.weights is None or memory.available is None:
        return "the log does not show weights in GiB and their type, or the format is not known"
    kept = [
        memory.weights * (share + (1 - share) * bytes_ / old.low)
        for share, bytes_ in zip(UNQUANTIZED, (new.low, _middle(new.low, new.high), new.high), strict=True)
    ]
    sizes = [memory.available + memory.weights - gib for gib in kept]
    step = f"weights {memory.weights:.2f} -> {kept[1]:.2f} GiB ({kept[0]:.2f} to {kept[2]:.2f})"
    step += f" ({condition})" if to_fp8 and (condition := condition_of_fp8(to.run)) else ""
    return memory.with_available(sizes[1], sizes[2], sizes[0], step)


def speculation(memory: Memory, to: ChangedSetting) -> Memory | str:
    """speculative_config: n-gram drafting needs no memory, layers of the checkpoint took 6 to 16 % of the
    tokens.
    """
    method = _method(to.value)
    if not to.value and not to.before:
        return memory.unmoved("nothing changes")
    if method in ("ngram", "suffix"):
        return memory.scaled(1, 0.98, 1.0, f"{method} drafting has no weights")
    if to.before and to.value:
        return "the memory of the present draft is not known"
    if to.before:
        low, middle, high = (1 / share for share in reversed(DRAFT_SHARE))
        step = "without drafting layers (6 to 16 % of the tokens in four measured pairs)"
        return memory.scaled(middle, low, high, step)
    if method in ("mtp", "deepseek_mtp", "qwen3_next_mtp"):
        low, middle, high = DRAFT_SHARE
        return memory.scaled(middle, low, high, "drafting layers took 6 to 16 % in four measured pairs")
    return "the size of the draft model is not known"


def offload(memory: Memory, to: ChangedSetting) -> Memory | str:
    """cpu_offload_gb: so much of the weights goes to the host."""
    new, old = to.number() or 0.0, float(to.before or 0.0)
    if memory.available is None:
        return NOT_PRINTED
    gib = memory.available + new - old
    return memory.with_available(gib, gib - 0.5, gib + 0.5, f"{new - old:+g} GiB of weights on the host")


def block_size(memory: Memory, to: ChangedSetting) -> Memory | str:
    """block_size: the bytes stay, the last block of each request is larger."""
    size = to.number()
    if size is None:
        return "block_size is a number of tokens"
    return replace(memory, block=int(size)).scaled(1, 0.98, 1.0, "the same bytes in other blocks")


def replicas(memory: Memory, to: ChangedSetting) -> Memory | str:
    """data_parallel_size: each engine keeps its own cache."""
    return memory.unmoved("each engine has a cache of its own; this is the one of one engine")


def uses_latent_attention(run: Run) -> bool:
    """Return whether the attention backend is one of latent attention (MLA), whose cache is not shared out over
    ranks.
    """
    seen = run.seen("attention-backend")
    names = " ".join(event.text("backend") for event in seen.first) if seen else ""
    return "MLA" in names.upper()


def bytes_of(value: object) -> float | None:
    """Read a size in bytes; k, M, G mean powers of 1000, Ki, Mi, Gi (and upper-case K, M, G of vLLM) of 1024.

    Example:
        >>> bytes_of("2G"), bytes_of(1000)
        (2147483648.0, 1000.0)
    """
    units = {"k": 1e3, "m": 1e6, "g": 1e9, "K": 1024.0, "M": 1024.0**2, "G": 1024.0**3}
    text = str(value).strip().removesuffix("B").removesuffix("i")
    try:
        size = float(text[:-1]) * units[text[-1]] if text and text[-1] in units else float(text)
    except ValueError:
        return None
    return size if math.isfinite(size) and size > 0 else None


def _method(value: Any) -> str:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return str(value).strip("[]").lower()
    return str(value.get("method", "")).lower() if isinstance(value, dict) else ""


def _middle(low: float, high: float) -> float:
    return (low + high) / 2


LAWS: dict[str, Law] = {
    "gpu_memory_utilization": utilization,
    "kv_cache_dtype": cache_dtype,
    "max_model_len": model_length,
    "max_num_seqs": sequences,
    "max_num_batched_tokens": step_tokens,
    "tensor_parallel_size": tensor_parallel,
    "pipeline_parallel_size": pipeline_parallel,
    "data_parallel_size": replicas,
    "num_gpu_blocks_override": blocks,
    "kv_cache_memory": cache_bytes,
    "kv_cache_memory_bytes": cache_bytes,
    "enforce_eager": eager,
    "quantization": quantization,
    "speculative_config": speculation,
    "cpu_offload_gb": offload,
    "block_size": block_size,
}

UNRELATED = frozenset(
    {
        "enable_prefix_caching", "enable_chunked_prefill", "async_scheduling", "scheduling_policy", "seed",
        "api_server_count", "disable_custom_all_reduce", "served_model_name", "host", "port", "load_format",
        "trust_remote_code", "tokenizer", "tokenizer_mode", "generation_config", "enable_log_requests",
        "disable_log_requests", "disable_log_stats", "reasoning_parser", "tool_call_parser", "chat_template",
        "enable_auto_tool_choice", "api_key", "download_dir", "distributed_executor_backend", "swap_space",
        "uvicorn_log_level", "max_parallel_loading_workers", "long_prefill_token_threshold",
        "prefix_caching_hash_algo", "disable_cascade_attn", "stream_interval",
    }
)  # fmt: skip
"""Settings that do not enter the size of the cache (none, as measured for prefix caching and chunks)."""
