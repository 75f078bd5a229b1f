"""Platforms other than CUDA: what their runtimes print is read, and advice names their tools and settings."""

from __future__ import annotations

import pytest

from tests.failure.judging import root
from tests.failure.records import START, framed, raw, traceback

NOT_FREE = """\
INFO 05-01 10:00:00 [__init__.py:220] Automatically detected platform {platform}.
(EngineCore pid=9) INFO 05-01 10:00:20 [core.py:97] Initializing a V1 LLM engine (v0.18.0) with config: model='m', device_config={device}
(EngineCore pid=9) ERROR 05-01 10:00:30 [core.py:708] EngineCore failed to start.
(EngineCore pid=9) ERROR 05-01 10:00:30 [core.py:708] Traceback (most recent call last):
(EngineCore pid=9) ERROR 05-01 10:00:30 [core.py:708]   File "/opt/vllm/v1/worker/worker.py", line 250, in init_device
(EngineCore pid=9) ERROR 05-01 10:00:30 [core.py:708]     raise ValueError(
(EngineCore pid=9) ERROR 05-01 10:00:30 [core.py:708] ValueError: Free memory on device (23.23/60.96 GiB) on startup is less than \
desired GPU memory utilization (0.6, 36.57 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes."""


@pytest.mark.parametrize(
    ("platform", "device", "tool", "variable"),
    [
        ("cuda", "cuda", "nvidia-smi", "CUDA_VISIBLE_DEVICES"),
        ("rocm", "cuda", "rocm-smi", "HIP_VISIBLE_DEVICES"),
        ("npu", "npu", "npu-smi info", "ASCEND_RT_VISIBLE_DEVICES"),
    ],
)
def test_the_process_on_the_card_is_found_with_the_tool_of_the_card(
    platform: str, device: str, tool: str, variable: str
) -> None:
    found = root(NOT_FREE.format(platform=platform, device=device))
    assert found.id == "gpu-memory-not-free-at-start"
    words = " ".join([*found.alternatives, *(str(change.after) for change in found.changes)])
    assert tool in words
    assert variable in words
    if platform != "cuda":
        assert "nvidia" not in words
        assert "CUDA_" not in words


def test_a_call_that_a_captured_graph_can_not_hold_names_the_call_and_graph_mode() -> None:
    prefix = "(Worker_TP1 pid=9) ERROR 05-01 10:00:30 [multiproc_executor.py:880] "
    lines = [
        "[ERROR] 2026-05-01-10:00:30 (PID:9, Device:1, RankID:-1) ERR00100 PTA call acl api failed",
        "EE9999: Inner Error!",
        "EE9999[PID: 9] 2026-05-01-10:00:30.084.676 (EE9999):  rtMemcpy execution failed, reason=the current capture mode"
        " does not support this operation[FUNC:FuncErrorReason][FILE:error_message_manage.cc][LINE:61]",
    ]
    found = root("\n".join(prefix + line for line in lines))
    assert "capture" in found.title
    assert "rtMemcpy" in found.explanation
    assert "--enforce-eager" in found.alternatives[0]


def test_the_operator_that_a_worker_names_is_the_operator_that_failed() -> None:
    lines = [
        'ERROR 05-01 10:00:30 [core.py:632]   File "/opt/vllm/v1/executor/multiproc_executor.py", line 224, in get_response',
        "ERROR 05-01 10:00:30 [core.py:632]     raise RuntimeError(",
        "ERROR 05-01 10:00:30 [core.py:632] RuntimeError: Worker failed with error 'The Inner error is reported as above."
        " The process exits for this inner error, and the current working operator name is aclnnSwiGlu.",
    ]
    found = root("\n".join(lines))
    assert found.id == "accelerator-runtime-fault"
    assert "aclnnSwiGlu" in found.explanation


def test_scalar_memory_of_a_tpu_is_not_its_main_memory() -> None:
    found = root(
        "RuntimeError: Bad StatusOr access: RESOURCE_EXHAUSTED: XLA:TPU compile permanent error. Ran out of memory in"
        " memory space smem. Used 1.02M of 1.00M smem. Exceeded smem capacity by 20.3K."
    )
    assert "SMEM" in found.title
    assert "--max-model-len" in found.alternatives[0]


def test_ranks_of_the_cpu_backend_get_no_setting_of_cards() -> None:
    found = root(
        "AssertionError: Not enough allowed NUMA nodes to bind threads of 4 CPUWorkers. Allowed NUMA nodes are [0, 1]."
    )
    assert "4 ranks" in found.explanation
    assert "GPU" not in " ".join(found.alternatives)
    assert not found.changes


@pytest.mark.parametrize(("platform", "library", "unit"), [("npu", "NPU", "NPUs"), ("cuda", "CUDA", "GPUs")])
def test_devices_are_called_by_their_kind(platform: str, library: str, unit: str) -> None:
    ends = f"torch.OutOfMemoryError: {library} out of memory. Tried to allocate 3.00 GiB."
    lines = [
        f"INFO 05-01 09:59:00 [__init__.py:220] Automatically detected platform {platform}.",
        *(line.format(ranks=2) for line in START),
        *raw("EngineCore_DP0 pid=9", traceback(("load_model", "get_model()"), ends=ends)),
    ]  # fmt: skip
    notes = [change.note for change in root("\n".join(lines)).changes]
    assert any(f"needs that many {unit}" in note for note in notes)


def test_quantized_weights_that_fill_the_card_leave_only_fewer_bits() -> None:
    loading = traceback(
        ("load_model", "self.model = get_model()"), ends="torch.OutOfMemoryError: CUDA out of memory."
    )

    def ways(quantization: str) -> tuple[str, ...]:
        start = [
            line.format(ranks=1).replace("model='m'", f"model='m', quantization={quantization}")
            for line in START
        ]
        lines = framed("EngineCore_DP0 pid=9", ["EngineCore failed to start.", *loading], "core.py:708")
        return root("\n".join([*start, *lines])).alternatives

    assert any("FP8, AWQ" in way for way in ways("None"))
    assert any("4 bits" in way for way in ways("fp8"))
    assert not any("FP8" in way or "4 bits" in way for way in ways("awq_marlin"))


def test_memory_of_an_npu_that_runs_out_in_a_step_is_no_matter_of_the_weights() -> None:
    lines = [
        "EngineCore encountered a fatal error.",
        "Traceback (most recent call last):",
        '  File "/opt/vllm/v1/engine/core.py", line 728, in run_busy_loop',
        "    self._process_engine_step()",
        '  File "/opt/vllm/v1/engine/core.py", line 261, in execute_model_with_error_logging',
        "    return model_fn(scheduler_output)",
        "RuntimeError: The Inner error is reported as above.",
        "[PID: 9] 2026-05-01-10:00:00.842.173 Memory_Allocation_Failure(EL0004): Failed to allocate memory.",
    ]
    found = root("\n".join(framed("EngineCore_DP0 pid=9", lines, "core.py:710")))
    assert found.id == "oom-runtime-headroom"
    assert "--gpu-memory-utilization" in found.alternatives[0]
    assert "does not make the weights smaller" not in found.avoid
    assert "does not show whether" not in found.explanation
