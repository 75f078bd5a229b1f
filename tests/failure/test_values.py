"""The figures that pages of failures name, each computed from what a log says: below and above each bound, and none where one is missing."""

from __future__ import annotations

from typing import Any

import pytest

from tests.tables import for_each
from vllm_logdoctor.rules.failure.values import number, values_of
from vllm_logdoctor.rules.failure.wording import filled
from vllm_logdoctor.run.model import Run

NOT_FREE = "gpu-memory-not-free-at-start"
TOO_SMALL = "kv-cache-too-small-for-max-model-len"
DIVISORS = "parallel-size-indivisible"
SHAPES = "quant-shape-indivisible-by-tp"
NO_CACHE = "no-memory-left-for-kv-cache"
CAPTURE = "oom-cudagraph-capture"
DRAFT = {"platform": "cuda", "version": "0.22.0"}


@for_each(
    ("rule", "facts", "expected"),
    [
        # A desktop's share of the card, or less than 1.5 GiB of it, leaves a share of one's own; less is another server's.
        (NOT_FREE, {"free": 70.0, "total": 80.0, "utilization": 0.9}, {"fitting_utilization": 0.86, "missing": 2.0, "used": 10.0}),
        (NOT_FREE, {"free": 64.9, "total": 80.0, "utilization": 0.9}, {"fitting_utilization": 0.8, "missing": 7.1, "used": 15.1}),
        (NOT_FREE, {"free": 64.7, "total": 80.0, "utilization": 0.9}, {"shared_utilization": 0.79, "fitting_utilization": None}),
        (NOT_FREE, {"free": 4.6, "total": 6.0}, {"fitting_utilization": 0.75, "used": 1.4, "missing": None}),
        (NOT_FREE, {"free": 4.5, "total": 6.0}, {"fitting_utilization": None, "shared_utilization": 0.74}),
        (NOT_FREE, {"free": 17.0, "total": 80.0}, {"shared_utilization": 0.2}),
        (NOT_FREE, {"free": 16.5, "total": 80.0}, {"shared_utilization": None, "fitting_utilization": None, "used": 63.5}),
        (NOT_FREE, {"total": 80.0}, {"used": None, "fitting_utilization": None}),
        (NOT_FREE, {"total": 80.0, "others": "Process 7 has 8.75 GiB memory in use. Process 9 has 1024.00 MiB memory in use."}, {"others_gib": 9.75, "others_share": 0.122}),
        (NOT_FREE, {"total": 80.0, "others": "Process 7 has 8.75 GiB memory in use. Process 9 has 1024.00 MiB memory in use."}, {"largest": "7", "largest_gib": 8.75}),
        (NOT_FREE, {"total": 80.0, "others": "Process 7 has 8.75 GiB memory in use."}, {"others_gib": 8.75, "largest": None, "largest_gib": None}),
        # Inside a container other processes have no number.
        (NOT_FREE, {"total": 80.0, "others": "Another one has 8 GiB memory in use, a second has 512.00 MiB memory in use."}, {"others_gib": 8.5, "largest": None}),
        (NOT_FREE, {"total": 80.0, "others": "nobody", "free": 70.0}, {"others_gib": None, "used": None}),
        # The engine's estimate, or tokens times what is there over what is needed; in steps of 1,024 above 4,096.
        (TOO_SMALL, {"estimate": 9000}, {"estimate": 9000, "fitting_length": 8192}),
        (TOO_SMALL, {"estimate": 4096}, {"fitting_length": 4096}),
        (TOO_SMALL, {"estimate": 4097}, {"fitting_length": 4096}),
        (TOO_SMALL, {"estimate": 100}, {"fitting_length": 96}),
        (TOO_SMALL, {"estimate": 5}, {"fitting_length": 16}),
        (TOO_SMALL, {"estimate": 0, "stored": 7000}, {"estimate": 7000, "fitting_length": 6144}),
        (TOO_SMALL, {"wanted": 32768, "needed": 8.0, "available": 2.0}, {"estimate": 8192, "fitting_length": 8192}),
        (TOO_SMALL, {"wanted": 32768, "needed": 8.0, "available": -2.0}, {"estimate": None, "fitting_length": None}),
        (TOO_SMALL, {"wanted": 32768, "needed": 8.0}, {"fitting_length": None}),
        (DIVISORS, {"heads": 12, "size": 8}, {"fitting_size": 6, "fitting_sizes": "1, 2, 3, 4, 6, 12"}),
        (DIVISORS, {"heads": 12, "size": 6}, {"fitting_size": 4}),
        (DIVISORS, {"heads": 12, "size": 8, "platform": "cpu"}, {"fitting_size": 1}),
        (DIVISORS, {"heads": 128, "size": 3}, {"fitting_size": 2, "fitting_sizes": "1, 2, 4, 8, 16, 32, 64"}),
        (DIVISORS, {"heads": 12, "size": 1}, {"fitting_size": None}),
        (DIVISORS, {"heads": 12}, {"fitting_size": None, "fitting_sizes": None}),
        # 96 x 8 = 768 channels in blocks of 128 go on 2 ranks, and on 3; of the divisors of 8 only 2.
        (SHAPES, {"part": 96, "block": 128, "tensor_parallel_size": 8}, {"fitting_size": 2, "pipeline": 4}),
        (SHAPES, {"part": 64, "block": 128, "tensor_parallel_size": 8}, {"fitting_size": 4, "pipeline": 2}),
        (SHAPES, {"part": 96, "block": 768, "tensor_parallel_size": 8}, {"fitting_size": None, "pipeline": None}),
        (SHAPES, {"part": 96, "block": 128}, {"fitting_size": None}),
        ("lora-rank-exceeds-limit", {"needed": 17}, {"fitting_rank": 32}),
        ("lora-rank-exceeds-limit", {"needed": 64}, {"fitting_rank": 64}),
        ("lora-rank-exceeds-limit", {"needed": 600}, {"fitting_rank": 600}),
        ("oom-warmup", {"gpu_memory_utilization": 0.9, "max_num_batched_tokens": 8192, "tensor_parallel_size": 2, "max_num_seqs": 256},
         {"lower_utilization": 0.85, "higher_utilization": 0.95, "half_tokens": 4096, "half_seqs": 128}),
        ("oom-warmup", {"gpu_memory_utilization": 0.55, "max_num_batched_tokens": 2048, "seqs": 1, "max_num_seqs": 64},
         {"lower_utilization": None, "higher_utilization": 0.6, "half_tokens": None, "half_seqs": 1}),
        ("oom-warmup", {"gpu_memory_utilization": 0.93}, {"lower_utilization": 0.88, "higher_utilization": 0.95}),
        ("oom-warmup", {"gpu_memory_utilization": 0.94}, {"higher_utilization": None}),
        # 137 GiB on two cards of 79.25 GiB leave no room for the cache, on four they do; 0.9 is the default share.
        ("oom-weights-load", {"tensor_parallel_size": 1, "weights_each": 137.0, "total": 79.25}, {"larger_size": 4}),
        ("oom-weights-load", {"tensor_parallel_size": 2, "weights_each": 100.0, "total": 79.25}, {"larger_size": 4}),
        ("oom-weights-load", {"tensor_parallel_size": 1, "total": 79.25}, {"larger_size": 2}),
        ("oom-weights-load", {"weights_each": 137.0, "total": 79.25}, {"larger_size": None}),
        (CAPTURE, {"gpu_memory_utilization": 0.9, "available_kv_cache_gib": 1.0}, {"lower_utilization": 0.85}),
        (CAPTURE, {"gpu_memory_utilization": 0.9, "available_kv_cache_gib": 0.9}, {"lower_utilization": None}),
        (NO_CACHE, {"host_free": 9.0}, {"host_cache": 4, "device_share": None}),
        (NO_CACHE, {"host_free": 1.5}, {"host_cache": None}),
        # A step brings a GiB: it does not help where more is missing.
        (NO_CACHE, {"gpu_memory_utilization": 0.8, "available_kv_cache_gib": -1.0}, {"higher_utilization": 0.85, "device_share": 0.8}),
        (NO_CACHE, {"gpu_memory_utilization": 0.8, "available_kv_cache_gib": -1.1}, {"higher_utilization": None, "lower_utilization": 0.75}),
        ("port-in-use", {"port": 8000}, {"other_port": 8001}),
        ("port-in-use", {"port": 65535}, {"other_port": None}),
        ("port-in-use", {"port": 8000, "socket": "/tmp/rpc_0"}, {"other_port": None}),
        ("mm-item-larger-than-batch-budget", {"needed": 5000}, {"enough_tokens": 5120}),
        ("mm-item-larger-than-batch-budget", {"needed": 5120}, {"enough_tokens": 5120}),
        ("tp-sharding-bug", {"a": 4096, "b": 1024, "tensor_parallel_size": 4}, {"sizes_differ_by": "ranks"}),
        ("tp-sharding-bug", {"a": 1024, "b": 2048, "ranks": 2, "tensor_parallel_size": 1}, {"sizes_differ_by": "ranks"}),
        ("tp-sharding-bug", {"a": 4096, "b": 1024, "tensor_parallel_size": 2}, {"sizes_differ_by": None}),
        ("tp-sharding-bug", {"a": 1024, "b": 1024, "tensor_parallel_size": 1}, {"sizes_differ_by": None}),
        ("engine-code-bug", {"raised_in": "vllm/v1/spec_decode/ngram_proposer.py:propose", "phase_words": "while serving", "async_scheduling": True, "enable_prefix_caching": True},
         {"in_drafter": True, "features_on": "prefix caching, async scheduling"}),
        ("engine-code-bug", {"raised_in": "vllm/v1/core/sched.py:schedule", "phase_words": "at the start", "async_scheduling": True}, {"in_drafter": None, "features_on": None}),
        ("engine-code-bug", {"raised_in": "vllm/v1/spec_decode/base_proposer.py:prepare_inputs", "version": "0.20.0", "speculative_config": {"method": "eagle3", "num_speculative_tokens": 2, "disable_padded_drafter_batch": True}},
         {"in_drafter": None, "drafter_switches": "`disable_padded_drafter_batch`", "usual_drafter": {"method": "eagle3", "num_speculative_tokens": 2}}),
        ("engine-code-bug", {"raised_in": "vllm/v1/spec_decode/base_proposer.py:prepare_inputs", "version": "0.20.0", "speculative_config": {"method": "eagle3", "disable_padded_drafter_batch": False}},
         {"in_drafter": True, "usual_drafter": None}),
        ("engine-code-bug", {"raised_in": "vllm/v1/core/sched.py:schedule", "version": "0.20.0", "speculative_config": {"disable_padded_drafter_batch": True}}, {"in_drafter": None, "usual_drafter": None}),
        ("driver-too-old", {"driver": 12020}, {"offered": "12.2"}),
        ("driver-too-old", {"driver": "535.1"}, {"offered": None}),
        ("ray-not-enough-gpus", {"needed": '{"CPU": 1.0, "GPU": 0.1}', "offered": "{'CPU': 8.0}"}, {"lacking": "GPU (needs 0.1, has 0)"}),
        ("ray-not-enough-gpus", {"needed": '[{"GPU": 1.0}, {"GPU": 1.0}]', "offered": '{"GPU": 2.0}'}, {"lacking": None}),
        ("ray-not-enough-gpus", {"needed": '[{"GPU": 1.0}, {"GPU": 2.0}]', "offered": '{"GPU": 2.0}'}, {"lacking": "GPU (needs 3, has 2)"}),
        ("gpu-visibility-env-conflict", {"gpus": "\x01"}, {"seen": 1}),
        ("gpu-visibility-env-conflict", {"gpus": "12"}, {"seen": None}),
        ("oom-multimodal-profiling", {"limit_mm_per_prompt": {"image": 2, "video": 0}}, {"item_limit": '{"image": 1}'}),
        ("oom-multimodal-profiling", {"limit_mm_per_prompt": {"image": 1}, "engine": "V1"}, {"item_limit": None}),
        ("oom-multimodal-profiling", {"engine": "V1"}, {"item_limit": '{"image": 1}'}),
        ("oom-multimodal-profiling", {"engine": "V0"}, {"item_limit": None}),
        ("settings-refused", {"setting": "kv_cache_dtype", "wanted": "fp8", "what": "Value error, Tiered MoE requires kv_cache_dtype=fp8"}, {"feature": "Tiered MoE", "flag": "--kv-cache-dtype", "given": None}),
        ("settings-refused", {"setting": "kv_cache_dtype", "wanted": "fp8", "kv_cache_dtype": "fp8", "speculative_config": {"method": "mtp"}, "what": "This requires kv_cache_dtype=fp8"},
         {"feature": "the feature that asks for it", "flag": None, "given": "fp8"}),
        ("settings-refused", {"setting": "kv_cache_dtype", "wanted": "fp8", "kv_cache_dtype": "fp8"}, {"flag": None, "given": None}),
        ("settings-refused", {"what": "Tiered MoE requires luck"}, {"feature": None}),
        ("kernel-backend-unsupported-on-arch", {**DRAFT, "linear": "CutlassFp8Linear", "linear_backend": "cutlass"}, {"forced_linear": "cutlass", "backend_open": None, "fp8_linear": True}),
        ("kernel-backend-unsupported-on-arch", {**DRAFT, "linear": "MarlinLinear", "linear_backend": "auto"}, {"forced_linear": None, "backend_open": None, "linear_kernel": None, "fp8_linear": None}),
        ("kernel-backend-unsupported-on-arch", {"version": "0.10.0", "linear": "MarlinLinear"}, {"forced_linear": None, "backend_open": None}),
        ("kernel-backend-unsupported-on-arch", {"version": "0.10.0", "place": "vllm/_custom_ops.py:cutlass_scaled_mm"}, {"backend_open": None}),
        ("kernel-backend-unsupported-on-arch", {"version": "0.10.0", "place": "vllm/attention/layer.py:forward"}, {"attention_kernel": True, "backend_open": None}),
        ("kernel-backend-unsupported-on-arch", {"place": "vllm/model_executor/layers/fused_moe/layer.py:forward"}, {"experts_kernel": True, "backend_open": None}),
        ("kernel-backend-unsupported-on-arch", {"place": "vllm/v1/worker/worker.py:execute"}, {"linear_kernel": None, "backend_open": True}),
        ("kernel-backend-unsupported-on-arch", {**DRAFT, "engine": "V0", "linear": "MarlinLinear"}, {"backend_open": None}),
        ("any-rule", {"model_weights_gib": 15.0, "total": 24.0}, {"weights_share": 0.625}),
        ("any-rule", {"model_weights_gib": 15.0, "total": 0}, {"weights_share": None}),
        ("any-rule", {"total": 24.0}, {"weights_share": None}),
    ],
)  # fmt: skip
def test_a_figure_of_a_page(rule: str, facts: dict[str, Any], expected: dict[str, Any]) -> None:
    found = values_of(rule, {}, facts, Run())
    assert {name: found.get(name) for name in expected} == {
        name: pytest.approx(value) if isinstance(value, float) else value for name, value in expected.items()
    }


@pytest.mark.parametrize(
    ("text", "value"),
    [("32,768", 32768), ("1,234.5", 1234.5), ("0.95", 0.95), ("-7", -7), ("auto", "auto"), ("", ""), ("3,2", "3,2"), ("1.2.3", "1.2.3"), ("7B", "7B"), ("12.", "12.")],
)  # fmt: skip
def test_a_group_of_a_match_is_a_number_where_it_reads_as_one(text: str, value: object) -> None:
    found = values_of("any-rule", {"size": text}, {}, Run())["size"]
    assert (found, type(found)) == (value, type(value))
    assert number(text) == value


def test_a_group_of_the_match_goes_before_a_fact_of_the_run() -> None:
    assert values_of("port-in-use", {"port": "9000"}, {"port": 8000}, Run())["other_port"] == 9001


def test_a_number_that_names_something_has_no_thousands_separators():
    assert (
        filled("Port {port} is used by {count}.", {"port": 30000, "count": 30000})
        == "Port 30000 is used by 30,000."
    )
