"""Each law of the cache on one memory of round figures: the answer, its bounds, and the reason where there is none."""

from __future__ import annotations

from typing import Any

import pytest

from tests.rules.making import a_run
from tests.tables import for_each
from vllm_logdoctor.rules.capacity.laws import LAWS, ChangedSetting, bytes_of
from vllm_logdoctor.rules.capacity.memory import GIB, Memory, Size

ON_DISK_16 = {"dtype": "bfloat16"}
ON_TURING = "Cannot use FlashAttention-2 backend for Volta and Turing GPUs."
OVERRIDDEN = "Overriding num_gpu_blocks=600 with num_gpu_blocks_override=200"


def memory(**known: Any) -> Memory:
    """10 GiB of cache for 100,000 tokens and 20 GiB of weights, on a card of 40 GiB of which the engine may use 80 %."""
    figures: dict[str, Any] = {
        "tokens": 100_000.0, "low": 100_000.0, "high": 100_000.0, "available": 10.0, "weights": 20.0, "utilization": 0.8,
        "total": Size(40.0, 39.0, 42.0, "a card of 40 GiB"), "free": None, "activation": None, "graphs": None, "fixed": "",
        "length": 4000, "concurrency": 25.0, "hybrid": False, "block": 16,
    }  # fmt: skip
    return Memory(**{**figures, **known})


def after(name: str, value: object, known: dict[str, Any] | None = None, **run: Any) -> Memory | str:
    """Return what a law makes of that memory."""
    return LAWS[name](memory(**known or {}), ChangedSetting(a_run(**run), name, value))


def bounds(found: Memory | str) -> list[float]:
    """Return least, expected and most tokens, in thousands."""
    assert not isinstance(found, str), found
    return [pytest.approx(number / 1000, abs=0.01) for number in (found.low, found.tokens, found.high)]


# What the weights give to the cache: 97, 91 or 80 % of them shrink to half at fp8.
@for_each(
    ("name", "value", "known", "run", "expected"),
    [
        ("gpu_memory_utilization", 0.9, {}, {}, [136.9, 140, 144.1]),
        ("gpu_memory_utilization", 0.7, {}, {}, [57.1, 60, 61.9]),
        ("gpu_memory_utilization", 0.8, {}, {}, [100, 100, 100]),
        ("gpu_memory_utilization", 0.9, {"free": 36.0}, {}, [136.9, 140, 144.1]),
        ("kv_cache_dtype", "fp8", {}, {"set": ON_DISK_16}, [200, 200, 200]),
        ("kv_cache_dtype", "fp8", {"hybrid": True}, {"set": ON_DISK_16}, [100, 200, 200]),
        ("kv_cache_dtype", "auto", {}, {"set": {**ON_DISK_16, "kv_cache_dtype": "fp8"}}, [50, 50, 50]),
        ("kv_cache_dtype", "auto", {"hybrid": True}, {"set": {**ON_DISK_16, "kv_cache_dtype": "fp8"}}, [50, 50, 100]),
        ("kv_cache_dtype", "fp8", {}, {"set": {**ON_DISK_16, "num_gpu_blocks_override": 900}}, [100, 100, 100]),
        ("max_model_len", 2000, {}, {}, [100, 100, 100]),
        ("max_model_len", 2000, {"hybrid": True}, {}, [94.34, 100, 106]),
        ("max_num_seqs", 1280, {}, {"set": {"max_num_seqs": 256}}, [50, 90, 100]),
        ("max_num_seqs", 256, {}, {"set": {"max_num_seqs": 1280}}, [100, 110, 150]),
        ("max_num_seqs", 1280, {"available": None}, {"set": {"max_num_seqs": 256}}, [95, 100, 105]),
        ("max_num_batched_tokens", 16384, {}, {"set": {"max_num_batched_tokens": 4096}}, [90.25, 96.04, 100]),
        ("max_num_batched_tokens", 4096, {}, {"set": {"max_num_batched_tokens": 8192}}, [100, 102.04, 105.26]),
        ("max_num_batched_tokens", 16384, {"activation": 1.0}, {"set": {"max_num_batched_tokens": 4096}}, [70, 85, 100]),
        ("max_num_batched_tokens", 2048, {"activation": 1.0}, {"set": {"max_num_batched_tokens": 4096}}, [100, 102.5, 105]),
        ("tensor_parallel_size", 2, {}, {}, [195, 396, 402]),
        ("tensor_parallel_size", 4, {"weights": 8.0}, {"set": {"tensor_parallel_size": 2}}, [137, 280, 286]),
        ("tensor_parallel_size", 1, {"weights": 4.0}, {"set": {"tensor_parallel_size": 2}}, [29.5, 31, 65]),
        ("pipeline_parallel_size", 2, {"fixed": "the cache is fixed"}, {}, [100, 100, 100]),
        ("data_parallel_size", 4, {}, {}, [100, 100, 100]),
        ("num_gpu_blocks_override", 5000, {}, {}, [80, 80, 80]),
        ("num_gpu_blocks_override", None, {}, {"messages": (OVERRIDDEN,)}, [300, 300, 300]),
        ("kv_cache_memory_bytes", "5G", {}, {}, [50, 50, 50]),
        ("enforce_eager", True, {"graphs": 2.0}, {"version": "0.21.0"}, [100, 120, 120]),
        ("enforce_eager", True, {}, {"version": "0.16.0"}, [95, 100, 105]),
        ("enforce_eager", True, {"graphs": 2.0}, {"set": {"enforce_eager": True}}, [100, 100, 100]),
        ("quantization", "fp8", {}, {"set": ON_DISK_16}, [179.2, 190.55, 197]),
        ("speculative_config", None, {}, {}, [100, 100, 100]),
        ("speculative_config", {"method": "ngram"}, {}, {}, [98, 100, 100]),
        ("speculative_config", '{"method": "suffix"}', {}, {}, [98, 100, 100]),
        ("speculative_config", "[ngram]", {}, {}, [98, 100, 100]),
        ("speculative_config", {"method": "mtp"}, {}, {}, [84, 90, 94.5]),
        ("speculative_config", None, {}, {"set": {"speculative_config": {"method": "mtp"}}}, [105.82, 111.11, 119.05]),
        ("cpu_offload_gb", 4, {}, {"set": {"cpu_offload_gb": 1}}, [125, 130, 135]),
        ("cpu_offload_gb", 0, {}, {"set": {"cpu_offload_gb": 1}}, [85, 90, 95]),
        ("block_size", 32, {}, {}, [98, 100, 100]),
    ],
)  # fmt: skip
def test_tokens_of_the_cache_after_one_change(
    name: str, value: object, known: dict[str, Any], run: dict[str, Any], expected: list[float]
) -> None:
    assert bounds(after(name, value, known, **run)) == expected


@for_each(
    ("name", "value", "known", "run", "reason"),
    [
        ("gpu_memory_utilization", 1.5, {}, {}, "a share between 0 and 1"),
        ("gpu_memory_utilization", True, {}, {}, "a share between 0 and 1"),
        ("gpu_memory_utilization", 0.9, {"utilization": None}, {}, "does not show the present gpu_memory_utilization"),
        ("gpu_memory_utilization", 0.9, {"available": None}, {}, "does not print the memory of the KV cache"),
        ("gpu_memory_utilization", 0.9, {"total": None}, {}, "does not show the memory of the device"),
        ("gpu_memory_utilization", 0.9, {"free": 35.9}, {}, "0.9 x 40 GiB is more than the 35.9 GiB that were free"),
        ("gpu_memory_utilization", 0.5, {}, {}, "nothing is left for the KV cache"),
        ("kv_cache_dtype", "fp8", {}, {"messages": (ON_TURING,)}, "compute capability 7"),
        ("kv_cache_dtype", "made-up", {}, {}, "of made-up are not known"),
        ("max_model_len", "long", {}, {}, "a number of tokens"),
        ("max_num_seqs", 0, {}, {}, "a number of requests"),
        ("max_num_batched_tokens", None, {}, {}, "a number of tokens"),
        ("tensor_parallel_size", 1.5, {}, {}, "a number of ranks"),
        ("tensor_parallel_size", 2, {"weights": None}, {}, "does not print weights and cache"),
        ("tensor_parallel_size", 1, {}, {"set": {"tensor_parallel_size": 2}}, "the start would fail"),
        ("num_gpu_blocks_override", 5000, {"block": None}, {}, "how many tokens a block holds"),
        ("num_gpu_blocks_override", 5000, {"hybrid": True}, {}, "layers of several kinds"),
        ("num_gpu_blocks_override", None, {}, {}, "how many blocks the engine would take"),
        ("kv_cache_memory_bytes", "all", {}, {}, "a number of bytes"),
        ("enforce_eager", True, {}, {"version": "0.21.0"}, "captured none"),
        ("quantization", "fp8", {}, {"set": {**ON_DISK_16, "quantization": "awq"}}, "quantized already (awq)"),
        ("quantization", None, {}, {"set": {**ON_DISK_16, "quantization": "awq"}}, "quantized already (awq)"),
        ("quantization", "made-up", {}, {"set": ON_DISK_16}, "the format is not known"),
        ("quantization", "fp8", {}, {}, "the format is not known"),
        ("quantization", "fp8", {"weights": None}, {"set": ON_DISK_16}, "does not show weights"),
        ("speculative_config", {"method": "ngrams"}, {}, {"set": {"speculative_config": {"method": "mtp"}}}, "the present draft"),
        ("speculative_config", {"method": "eagle"}, {}, {}, "size of the draft model is not known"),
        ("cpu_offload_gb", 4, {"available": None}, {}, "does not print the memory"),
        ("block_size", -16, {}, {}, "a number of tokens"),
    ],
)  # fmt: skip
def test_where_a_law_has_no_answer_it_says_why(
    name: str, value: object, known: dict[str, Any], run: dict[str, Any], reason: str
) -> None:
    found = after(name, value, known, **run)
    assert isinstance(found, str)
    assert reason in found


@pytest.mark.parametrize(
    "name", ["gpu_memory_utilization", "max_num_seqs", "max_num_batched_tokens", "enforce_eager"]
)
def test_a_cache_of_fixed_size_stays_and_the_answer_says_what_fixes_it(name: str) -> None:
    value = {"gpu_memory_utilization": 0.9, "enforce_eager": True}.get(name, 512)
    found = after(
        name, value, {"fixed": "kv_cache_memory_bytes=5 fixes the cache", "graphs": 2.0}, version="0.21.0"
    )
    assert bounds(found) == [100, 100, 100]
    assert not isinstance(found, str)
    assert found.steps == ("no effect: kv_cache_memory_bytes=5 fixes the cache",)


def test_steps_say_how_an_answer_was_computed() -> None:
    """The figures of a step are those of the answer: memory before and after, with the sign of the move."""
    steps = {
        (name, value): found.steps[-1] if not isinstance(found := after(name, value, **run), str) else found
        for name, value, run in (
            ("gpu_memory_utilization", 0.9, {}),
            ("max_num_seqs", 1280, {"set": {"max_num_seqs": 256}}),
            ("max_num_seqs", 256, {"set": {"max_num_seqs": 1280}}),
            ("tensor_parallel_size", 2, {}),
            ("tensor_parallel_size", 4, {"set": {"tensor_parallel_size": 2}}),
            ("max_model_len", 100_000, {}),
            ("max_model_len", 100_001, {}),
            ("num_gpu_blocks_override", 5000, {}),
            ("num_gpu_blocks_override", None, {"messages": (OVERRIDDEN,)}),
            ("cpu_offload_gb", 4, {"set": {"cpu_offload_gb": 1}}),
        )
    }  # fmt: skip
    assert steps == {
        ("gpu_memory_utilization", 0.9): "10 GiB +0.1 x 40 GiB = 14.00 GiB (a card of 40 GiB)",
        ("max_num_seqs", 1280): "1.00 GiB more for profiling the sampler (0 to 5.00)",
        ("max_num_seqs", 256): "1.00 GiB less for profiling the sampler (0 to 5.00)",
        ("tensor_parallel_size", 2): "a rank keeps 1/2 of each token's cache, if the model has as many KV heads as ranks",
        ("tensor_parallel_size", 4): "a rank keeps 1/2 of each token's cache, if the model has as many KV heads as ranks",
        ("max_model_len", 100_000): "max_model_len 100,000 does not change the tokens",
        ("max_model_len", 100_001): "max_model_len 100,001 does not change the tokens; longer than the 100,000 tokens of the cache, the start would fail",
        ("num_gpu_blocks_override", 5000): "5,000 blocks of 16 tokens",
        ("num_gpu_blocks_override", None): "600 blocks, as the engine had counted, instead of 200",
        ("cpu_offload_gb", 4): "+3 GiB of weights on the host",
    }  # fmt: skip


def test_what_a_change_does_beside_the_tokens_is_kept_for_the_next_one() -> None:
    shorter, halved, freed = (
        after("max_model_len", 2000),
        after("tensor_parallel_size", 2),
        after("block_size", 32),
    )
    assert not isinstance(shorter, str)
    assert not isinstance(halved, str)
    assert not isinstance(freed, str)
    assert (shorter.length, halved.weights, halved.available, freed.block) == (
        2000,
        10.0,
        pytest.approx(19.8),
        32,
    )


@for_each(
    ("value", "size"),
    [
        ("2G", 2 * GIB), ("2Gi", 2 * GIB), ("2GB", 2 * GIB), ("2g", 2e9), ("3k", 3000.0), ("3K", 3072.0), ("5M", 5 * 1024**2), ("5m", 5e6),
        ("1.5G", 1.5 * GIB), (" 7 ", 7.0), (12, 12.0), ("", None), ("G", None), ("two", None), ("nan", None), ("-1", None), (0, None),
    ],
)  # fmt: skip
def test_sizes_in_bytes(value: object, size: float | None) -> None:
    assert bytes_of(value) == size
