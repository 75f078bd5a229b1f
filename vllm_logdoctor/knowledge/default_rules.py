"""Defaults that vLLM computes, as rules per range of releases; the first whose condition holds decides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from msgspec import Struct

from vllm_logdoctor.knowledge.context import (
    Condition,
    Context,
    above,
    all_of,
    any_of,
    device_named,
    engine_is,
    kind_is,
    known_platform,
    memory_at_least,
    negated,
    platform_is,
    setting,
)

UNSET: Final = object()
"""What a rule gives where the context lacks a number that the value is computed from."""


def always(context: Context) -> bool:
    """Condition of a rule without one."""
    return True


class Rule(Struct, frozen=True):
    """Where `when` holds in releases `since` to `until` (None: the newest known), `value(context)` is it."""

    since: str
    until: str | None
    when: Condition
    value: Callable[[Context], Any]
    sentence: str

    @property
    def basis(self) -> str:
        """The rule in words, with the releases for which it was written down."""
        reach = f"{self.since} to {self.until}" if self.until else f"since {self.since}"
        return f"{self.sentence} ({reach})"


def fixed(value: Any) -> Callable[[Context], Any]:
    """A value that needs nothing of the context."""
    return lambda context: value


def undecided(context: Context) -> Any:
    """A value that is not known."""
    return UNSET


_V0 = engine_is("V0")
_V1 = engine_is("V1")
_SERVER = kind_is("server")
_OFFLINE = kind_is("offline")
_CPU = platform_is("cpu")
_TPU = platform_is("tpu")
_H100 = device_named("h100", "h200")
_A100 = device_named("a100")
_POOLING = setting("pooling")
_HYBRID = setting("hybrid")

ENGINE_RULES = (
    Rule("0.4.1", "0.6.3.post1", always, fixed("V0"), "V0 is the only engine"),
    Rule("0.6.4", "0.7.3", always, fixed("V0"), "V1 is a preview that VLLM_USE_V1=1 turns on"),
    Rule(
        "0.8.0",
        "0.10.2",
        platform_is("cuda"),
        fixed("V1"),
        "V1 unless a setting or GPU needs V0, which the log then says",
    ),
    Rule("0.8.0", "0.10.2", always, undecided, "the platform decides between V0 and V1"),
    Rule("0.11.0", None, always, fixed("V1"), "V1 is the only engine"),
)

# A100 aside: large batches were measured to lower its throughput.
_LARGE_GPU = all_of(memory_at_least(70), negated(_A100))
_VERY_LARGE_GPU = memory_at_least(160)
_GB10 = device_named("gb10")
_TPU_KINDS = (
    (("v6e", "v6 lite"), 2048, 1024),
    (("v5e", "v5 lite", "v5litepod"), 1024, 512),
    (("v5p",), 512, 256),
)


def _per_worker(tokens: int) -> Callable[[Context], Any]:
    return lambda context: UNSET if context.world_size is None else tokens * context.world_size


def _capped_sequences(number: int) -> Callable[[Context], Any]:
    def value(context: Context) -> int:
        count = number * 2 if context.throughput_mode else number
        tokens = context.max_num_batched_tokens
        return count if tokens is None else min(count, tokens)

    return value


MAX_NUM_SEQS_RULES = (
    Rule("0.4.1", "0.10.2", _V0, fixed(256), "V0 runs at most 256 sequences"),
    Rule("0.6.4", "0.8.3", _V1, fixed(1024), "V1 runs at most 1024 sequences on every device"),
    Rule("0.8.4", "0.8.4", all_of(_V1, _H100), fixed(1024), "V1 on an H100 or H200 by name"),
    Rule("0.8.4", "0.8.4", _V1, fixed(256), "V1 on other devices"),
    Rule(
        "0.8.5",
        "0.8.5.post1",
        all_of(_V1, memory_at_least(70)),
        fixed(1024),
        "V1 on a device of 70 GiB or more",
    ),
    Rule("0.8.5", "0.8.5.post1", _V1, fixed(256), "V1 on a device under 70 GiB"),
    Rule("0.9.2", "0.9.2", all_of(_CPU, _OFFLINE), fixed(128), "LLM class on CPU"),
    Rule("0.9.2", "0.9.2", all_of(_CPU, _SERVER), fixed(32), "API server on CPU"),
    Rule("0.10.0", None, all_of(_CPU, _OFFLINE), _per_worker(256), "LLM class on CPU, 256 per worker"),
    Rule("0.10.0", None, all_of(_CPU, _SERVER), _per_worker(128), "API server on CPU, 128 per worker"),
    Rule("0.28.0", None, all_of(_V1, _VERY_LARGE_GPU), _capped_sequences(1024), "device of 160 GiB or more"),
    Rule("0.33.0", None, all_of(_V1, _GB10), _capped_sequences(256), "GB10 counts as a small device"),
    Rule("0.9.0", "0.10.0", all_of(_V1, _LARGE_GPU), fixed(1024), "70 GiB or more and no A100"),
    Rule("0.9.0", "0.10.0", _V1, fixed(256), "device under 70 GiB, or an A100"),
    Rule("0.10.1", None, all_of(_V1, _LARGE_GPU), _capped_sequences(1024), "70 GiB or more and no A100"),
    Rule("0.10.1", None, _V1, _capped_sequences(256), "device under 70 GiB, or an A100"),
)


def _v0_whole_prompts(pooling: int, multimodal: int) -> Callable[[Context], Any]:
    def value(context: Context) -> Any:
        if context.max_model_len is None or (pooling and context.pooling is None):
            return UNSET
        if multimodal and context.multimodal is None:
            return UNSET
        floors = (pooling if context.pooling else 0, multimodal if context.multimodal else 0)
        return max(context.max_model_len, 2048, *floors)

    return value


def _v0_chunks(tokens: int, pooling: int, multimodal: int) -> Callable[[Context], Any]:
    def value(context: Context) -> Any:
        floors = [(context.pooling, pooling), (context.multimodal, multimodal)]
        if any(floor > tokens and known is None for known, floor in floors):
            return UNSET
        return max([tokens, *(floor for known, floor in floors if known)])

    return value


_V0_CHUNKED = all_of(_V0, setting("enable_chunked_prefill"))
# since, until, tokens of a chunk, least for pooling models, least for multimodal models
_V0_TOKENS = (
    ("0.4.1", "0.4.1", 768, 0, 0),
    ("0.4.2", "0.4.2", 512, 0, 0),
    ("0.4.3", "0.5.5", 512, 32768, 0),
    ("0.6.0", "0.6.2", 512, 32768, 4096),
    ("0.6.3", "0.6.4.post1", 512, 32768, 5120),
    ("0.6.5", "0.10.2", 2048, 32768, 5120),
)
_V0_TOKEN_RULES = tuple(
    rule
    for since, until, chunk, pooling, multimodal in _V0_TOKENS
    for rule in (
        Rule(
            since,
            until,
            _V0_CHUNKED,
            _v0_chunks(chunk, pooling, multimodal),
            f"V0 with chunked prefill takes {chunk} tokens a step, more for pooling and multimodal models",
        ),
        Rule(
            since,
            until,
            _V0,
            _v0_whole_prompts(pooling, multimodal),
            "V0 without chunked prefill takes the longest prompt, at least 2048 tokens",
        ),
    )
)


def _v1_tokens(tokens: int) -> Callable[[Context], Any]:
    def value(context: Context) -> Any:
        wanted = tokens * 2 if context.throughput_mode else tokens
        if context.enable_chunked_prefill:
            return _at_most_all_sequences(wanted, context)
        if context.max_model_len is None:
            return UNSET
        longest = max(wanted, context.max_model_len)
        return longest if context.enable_chunked_prefill is False or longest == wanted else UNSET

    return value


def _at_most_all_sequences(wanted: int, context: Context) -> Any:
    if context.max_num_seqs is None or context.max_num_seqs >= wanted:
        return wanted
    if context.max_model_len is None:
        return UNSET
    return min(wanted, context.max_num_seqs * context.max_model_len)


_UNCHUNKED = negated(setting("enable_chunked_prefill"))


def _by_kind(
    since: str, until: str | None, when: Condition, offline: int, server: int, sentence: str
) -> tuple[Rule, Rule]:
    # Open-ended rules belong to the releases that also adjust the value to model length and sequences.
    value = _v1_tokens if until is None else fixed
    return (
        Rule(since, until, all_of(_V1, _OFFLINE, when), value(offline), f"LLM class, {sentence}"),
        Rule(since, until, all_of(_V1, _SERVER, when), value(server), f"API server, {sentence}"),
    )


def _whole_model(context: Context) -> Any:
    return UNSET if context.max_model_len is None else context.max_model_len


_TWO_ERAS = (("0.9.0", "0.11.0"), ("0.11.1", None))

MAX_NUM_BATCHED_TOKENS_RULES = (
    *_V0_TOKEN_RULES,
    *_by_kind("0.6.4", "0.6.6.post1", always, 8192, 2048, "any device"),
    *_by_kind("0.7.0", "0.8.4", _H100, 16384, 8192, "H100 or H200 by name"),
    *_by_kind("0.7.0", "0.8.4", always, 8192, 2048, "other devices"),
    *_by_kind("0.8.5", "0.8.5.post1", memory_at_least(70), 16384, 8192, "device of 70 GiB or more"),
    *_by_kind("0.8.5", "0.8.5.post1", always, 8192, 2048, "device under 70 GiB"),
    Rule(
        "0.9.2",
        "0.11.0",
        all_of(_V1, _UNCHUNKED),
        _whole_model,
        "without chunked prefill, the model's length",
    ),
    Rule("0.9.2", "0.9.2", all_of(_CPU, _OFFLINE), fixed(4096), "LLM class on CPU"),
    Rule("0.9.2", "0.9.2", all_of(_CPU, _SERVER), fixed(2048), "API server on CPU"),
    Rule("0.10.0", None, all_of(_CPU, _OFFLINE), _per_worker(4096), "LLM class on CPU, 4096 per worker"),
    Rule("0.10.0", None, all_of(_CPU, _SERVER), _per_worker(2048), "API server on CPU, 2048 per worker"),
    *(
        rule
        for since, until in _TWO_ERAS
        for names, offline, server in _TPU_KINDS
        for rule in _by_kind(
            since, until, all_of(_TPU, device_named(*names)), offline, server, f"TPU {names[0]}"
        )
    ),
    Rule("0.9.0", None, _TPU, undecided, "the kind of TPU decides"),
    *_by_kind("0.28.0", None, _VERY_LARGE_GPU, 16384, 16384, "device of 160 GiB or more"),
    *_by_kind("0.33.0", None, _GB10, 8192, 2048, "GB10 counts as a small device"),
    *(
        rule
        for since, until in _TWO_ERAS
        for when, offline, server, sentence in (
            (_LARGE_GPU, 16384, 8192, "device of 70 GiB or more that is no A100"),
            (always, 8192, 2048, "device under 70 GiB, or an A100"),
        )
        for rule in _by_kind(since, until, when, offline, server, sentence)
    ),
)

# These come with plugins of their own, which change defaults of the scheduler.
_PLUGIN_PLATFORM = known_platform("neuron", "npu", "hpu")

PREFIX_CACHING_RULES = (
    Rule("0.6.4", None, all_of(_V1, _PLUGIN_PLATFORM), undecided, "the platform's plugin decides"),
    Rule("0.4.1", "0.10.2", _V0, fixed(False), "V0 caches prefixes only when asked to"),
    Rule(
        "0.6.4",
        "0.6.4.post1",
        all_of(_V1, negated(setting("multimodal"))),
        fixed(True),
        "V1 preview, text only",
    ),
    Rule("0.6.4", "0.6.4.post1", _V1, undecided, "V1 preview"),
    Rule("0.6.5", "0.9.1", all_of(_V1, _POOLING), undecided, "pooling models differ"),
    Rule("0.6.5", "0.10.1.1", all_of(_V1, _HYBRID), undecided, "hybrid models differ"),
    Rule("0.6.5", "0.9.1", _V1, fixed(True), "V1 caches prefixes"),
    Rule("0.9.2", None, _POOLING, undecided, "on only for pooling of the last token of a causal model"),
    Rule(
        "0.10.2", "0.27.1", _HYBRID, fixed(False), "off for models that mix attention and state space layers"
    ),
    Rule("0.12.0", None, setting("encoder_decoder"), fixed(False), "off for encoder-decoder models"),
    Rule("0.9.2", None, _V1, fixed(True), "V1 caches prefixes of decoder models"),
)

_V0_CHUNKED_NEVER = any_of(
    setting("speculative"),
    setting("lora"),
    negated(above("max_model_len", 32768)),
    negated(platform_is("cuda")),
)
CHUNKED_PREFILL_RULES = (
    Rule("0.4.1", "0.5.2", always, fixed(False), "V0 chunks prefill only when asked to"),
    Rule(
        "0.5.3",
        "0.10.2",
        all_of(_V0, _V0_CHUNKED_NEVER),
        fixed(False),
        "V0 chunks only models over 32768 tokens",
    ),
    Rule("0.5.3", "0.10.2", _V0, undecided, "V0 decides by model, length and other settings"),
    Rule("0.6.4", None, _PLUGIN_PLATFORM, undecided, "the platform's plugin decides"),
    Rule("0.6.4", "0.11.0", all_of(_V1, _POOLING), undecided, "pooling models differ"),
    Rule("0.6.4", "0.11.0", _V1, fixed(True), "V1 always chunks prefill of models that generate"),
    Rule("0.11.1", None, _POOLING, undecided, "by attention and pooling type of the model"),
    Rule("0.11.1", None, setting("encoder_decoder"), fixed(False), "off for encoder-decoder models"),
    Rule("0.11.1", None, always, fixed(True), "on for decoder models that generate"),
)

_PIPELINED = above("pipeline_parallel_size", 1)
ASYNC_SCHEDULING_RULES = (
    Rule("0.10.0", "0.13.0", always, fixed(False), "off unless asked for"),
    Rule("0.14.0", "0.14.1", _PIPELINED, fixed(False), "off with pipeline parallelism"),
    Rule("0.31.0", None, _PIPELINED, undecided, "with pipeline parallelism the model runner decides"),
    Rule("0.14.0", None, setting("ray"), undecided, "not every executor supports it"),
    Rule("0.14.0", None, setting("speculative"), undecided, "the speculative method decides"),
    Rule("0.20.0", None, _POOLING, fixed(False), "off for pooling models"),
    Rule("0.14.0", None, always, fixed(True), "on where supported"),
)

_GPU = platform_is("cuda", "rocm")
_MLA = setting("mla")
BLOCK_SIZE_RULES = (
    Rule("0.4.1", "0.8.5.post1", _CPU, fixed(16), "16 tokens on CPUs without Intel's extension"),
    Rule("0.9.0", None, _CPU, fixed(128), "128 tokens on CPUs"),
    Rule("0.4.1", None, negated(_GPU), undecided, "the platform decides"),
    Rule("0.4.1", "0.6.4.post1", always, fixed(16), "16 tokens on GPUs"),
    Rule(
        "0.6.5",
        None,
        all_of(_V1, any_of(_MLA, _HYBRID)),
        undecided,
        "attention backend or hybrid model decide",
    ),
    Rule(
        "0.6.5", None, always, fixed(16), "16 tokens on GPUs unless the attention backend needs another size"
    ),
)

EXECUTOR_RULES = (
    Rule(
        "0.7.0", None, all_of(_V1, negated(above("world_size", 1))), fixed("uni"), "one worker needs no other"
    ),
    Rule(
        "0.11.1",
        None,
        negated(setting("ray")),
        fixed("mp"),
        "processes on the node when Ray is not in charge",
    ),
    Rule("0.4.3", None, always, undecided, "Ray or mp, by the GPUs of the node"),
)


def _data_parallel_size(context: Context) -> Any:
    return UNSET if context.data_parallel_size is None else context.data_parallel_size


_NO_GRAPHS = setting("enforce_eager")
CUDAGRAPH_MODE_RULES = (
    Rule("0.10.1", None, negated(platform_is("cuda")), undecided, "the platform decides"),
    Rule("0.10.1", None, _NO_GRAPHS, fixed("NONE"), "enforce_eager leaves no graphs"),
    Rule("0.10.1", "0.10.2", _V1, fixed("PIECEWISE"), "V1 with compilation level 3"),
    Rule("0.11.0", None, _V1, fixed("FULL_AND_PIECEWISE"), "where the attention backend allows it"),
)

RULES: dict[str, tuple[Rule, ...]] = {
    "engine": ENGINE_RULES,
    "max_num_seqs": MAX_NUM_SEQS_RULES,
    "max_num_batched_tokens": MAX_NUM_BATCHED_TOKENS_RULES,
    "enable_prefix_caching": PREFIX_CACHING_RULES,
    "enable_chunked_prefill": CHUNKED_PREFILL_RULES,
    "async_scheduling": ASYNC_SCHEDULING_RULES,
    "block_size": BLOCK_SIZE_RULES,
    "distributed_executor_backend": EXECUTOR_RULES,
    "cudagraph_mode": CUDAGRAPH_MODE_RULES,
    "enforce_eager": (Rule("0.4.1", None, _GPU, fixed(False), "graphs are captured unless switched off"),),
    "load_format": (Rule("0.4.1", None, always, fixed("auto"), "weights format by what is there"),),
    "api_server_count": (
        Rule("0.9.1", "0.14.1", always, fixed(1), "one API server"),
        Rule("0.15.0", None, always, _data_parallel_size, "one API server per data parallel rank"),
    ),
}
