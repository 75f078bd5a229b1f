"""CPU, ROCm, Ascend, TPU: what the logs of these platforms prove, and where they prove nothing."""

from __future__ import annotations

import pytest

from tests.rules.making import a_run, advice, knobs, load

BUSY = load((12, {"running": 16, "kv": 20.0, "prompt": 300.0}))
TRITON = "Using Triton Attention backend on V1 engine."
UNTUNED = (
    "Using default MoE config. Performance might be sub-optimal! Config file not found at"
    " ['/opt/configs/E=64,N=896,device_name={}.json']"
)
SAMPLER = "Using aiter sampler on ROCm (lazy import, sampling-only)."
NOT_BOUND = (
    "Auto thread-binding is not supported due to the lack of package numa and psutil,fallback to no thread-binding."
    " To get better performance,please try to manually bind threads."
)
TORCH_THREADS = (
    "OMP_NUM_THREADS={} is set; leaving Torch threads at {} for serving. Multi-threaded torch CPU ops during serving can"
    " degrade performance through spin-wait contention and cgroup CPU-quota throttling."
)
BLOCKS = "CPU backend prefers block_size is multiples of 32, otherwise the performance is not optimized."
SPACE = "Environment variable VLLM_CPU_KVCACHE_SPACE (GiB) for CPU backend is not set, using 4 by default."
ASCEND = "Failed to import vllm_ascend_C:No module named 'vllm_ascend.vllm_ascend_C'"
LENGTH = (
    "The max_model_len (131072) is too large. This may degrade the performance due to the insufficient smem size."
    " Consider setting --max-model-len to a smaller value, like 65536."
)


def binding(value: str, skipped: bool) -> str:
    return f"\tVLLM_CPU_OMP_THREADS_BIND='{value}', auto_setup={not skipped}, skip_setup={skipped}"


def rocm(*messages: str, **more: object) -> dict[str, object]:
    run = a_run(messages=messages, samples=BUSY, platform="rocm", version="0.10.2", **more)  # type: ignore[arg-type]
    return dict(advice(run))


def test_aiter_is_proposed_on_a_card_that_it_is_made_for() -> None:
    run = a_run(
        messages=(TRITON, UNTUNED.format("AMD_Instinct_MI300X")),
        samples=BUSY,
        platform="rocm",
        version="0.10.2",
    )
    assert knobs(advice(run)["aiter-off"]) == {"VLLM_ROCM_USE_AITER": 1}


@pytest.mark.parametrize(
    "messages",
    [
        (TRITON,),
        (UNTUNED.format("AMD_Instinct_MI300X"),),
        (TRITON, UNTUNED.format("AMD_Radeon_RX7900XTX")),
        (TRITON, UNTUNED.format("AMD_Instinct_MI300X"), SAMPLER),
    ],
    ids=["card-not-named", "backend-not-named", "another-card", "aiter-in-use"],
)
def test_aiter_is_not_proposed_where_the_log_does_not_prove_it_off(messages: tuple[str, ...]) -> None:
    assert "aiter-off" not in rocm(*messages)


@pytest.mark.parametrize(
    ("message", "speaks"),
    [(binding("auto", False), False), (binding("nobind", True), True), (NOT_BOUND, True)],
)
def test_threads_that_are_bound_are_no_finding(message: str, speaks: bool) -> None:
    run = a_run(messages=(message,), samples=BUSY, platform="cpu", version="0.32.0")
    assert ("cpu-threads-not-bound" in advice(run)) is speaks


def test_binding_that_was_switched_off_is_switched_on() -> None:
    run = a_run(messages=(binding("nobind", True),), samples=BUSY, platform="cpu", version="0.32.0")
    assert knobs(advice(run)["cpu-threads-not-bound"]) == {"VLLM_CPU_OMP_THREADS_BIND": "auto"}


def test_threads_of_torch_spin_beside_a_card_only() -> None:
    message = TORCH_THREADS.format(8, 8)
    card = a_run(messages=(message,), samples=BUSY, version="0.30.0")
    host = a_run(messages=(message,), samples=BUSY, version="0.30.0", platform="cpu")
    one = a_run(messages=(TORCH_THREADS.format(1, 1),), samples=BUSY, version="0.30.0")
    assert "torch-threads-while-serving" in advice(card)
    assert "torch-threads-while-serving" not in advice(host)
    assert "torch-threads-while-serving" not in advice(one)


def test_a_block_size_that_the_cpu_kernel_does_not_want_is_dropped() -> None:
    run = a_run(set={"block_size": 16}, messages=(BLOCKS,), samples=BUSY, platform="cpu", version="0.16.0")
    assert knobs(advice(run)["cpu-block-size-unsuited"]) == {"--block-size": None}


def test_a_cache_of_default_size_matters_only_when_it_is_full() -> None:
    full = load((12, {"running": 4, "waiting": 12, "kv": 99.0}))
    held = {"available_kv_cache_gib": 4.0, "kv_cache_tokens": 30_000.0}
    quiet = advice(a_run(messages=(SPACE,), samples=BUSY, platform="cpu", version="0.10.2", measured=held))
    found = advice(a_run(messages=(SPACE,), samples=full, platform="cpu", version="0.10.2", measured=held))
    assert not {"kv-cache-preemption", "slower-paths-taken"} & quiet.keys()
    assert knobs(found["kv-cache-preemption"]) == {"VLLM_CPU_KVCACHE_SPACE": 8}
    assert any("VLLM_CPU_KVCACHE_SPACE" in line.text for line in found["kv-cache-preemption"].evidence)


def test_missing_parts_of_the_ascend_plugin_are_named() -> None:
    run = a_run(messages=(ASCEND,), samples=BUSY, platform="npu", version="0.18.0")
    found = advice(run)
    assert found["ascend-parts-missing"].severity == "medium"
    assert "slower-paths-taken" not in found, "it is reported once"


def test_the_length_that_a_tpu_takes_is_the_one_that_vllm_names() -> None:
    run = a_run(set={"max_model_len": 131072}, messages=(LENGTH,), platform="tpu", version="0.9.1")
    assert knobs(advice(run)["context-too-long-for-tpu-kernel"]) == {"--max-model-len": 65536}


def test_slower_code_paths_are_named_without_words_on_a_cost_that_is_not_known() -> None:
    slow = (
        "Triton is not installed. triton-cpu is expected on x86 CPUs.",
        "To make v1/embeddings API fast, please install orjson by `pip install orjson`",
    )
    one, both = (
        advice(a_run(messages=slow[:count], samples=BUSY, platform="cpu"))["slower-paths-taken"]
        for count in (1, 2)
    )
    assert both.explanation.startswith(f"{one.explanation} ")
    assert "does not show" not in both.explanation
