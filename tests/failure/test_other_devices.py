"""Errors of Ascend NPUs and ROCm, and memory at a wake-up, in words that their logs support."""

from __future__ import annotations

import pytest

from tests.failure.judging import diagnosis, root
from tests.failure.records import framed, traceback
from tests.failure.two_ranks import text


def _of_npu(*behind: str) -> str:
    ends = "\n".join(
        (
            "RuntimeError: matmul:torch_npu/csrc/x.cpp:7 NPU function error: call aclnnMatmul failed, error code is 77",
            *behind,
        )
    )
    return text(
        framed(
            "EngineCore pid=9",
            ["EngineCore failed to start.", *traceback(("forward", "torch.matmul(a, b)"), ends=ends)],
            "core.py:868",
        )
    )


def test_arguments_that_an_operator_of_cann_refuses_are_a_matter_of_the_model_s_code() -> None:
    refused = root(
        _of_npu(
            "[PID: 9] 2026-05-01-10:00:00 AclNN_Parameter_Error(EZ1002): The n-axis of both inputs differs."
        )
    )
    assert refused.title == "NPU operator refused its arguments"
    assert "The n-axis of both inputs differs." in refused.explanation
    assert not any("river" in way for way in refused.alternatives)
    assert root(_of_npu()).title == "Runtime fault on the accelerator"


def test_a_rank_that_waits_in_hccl_is_not_said_to_wait_in_nccl_or_at_the_start() -> None:
    waits = root(
        "RuntimeError: HCCL function error: HcclAllreduce, error code is 6\n"
        "EI0006: [PID: 7] 2026-05-01-10:00:00 Getting socket times out. Reason: a remote rank sent nothing.\n"
    )
    assert waits.id == "nccl-init-hang"
    assert "NCCL" not in waits.title + waits.explanation
    assert "At start" not in waits.explanation


def test_a_missing_kernel_is_shown_by_its_exception_and_not_by_the_hint_below_it() -> None:
    found = root(
        "torch.AcceleratorError: HIP error: no kernel image is available for execution on the device\n"
        "Search for `hipErrorNoBinaryForGpu' in https://docs.example.com/errors.html for more information.\n"
    )
    assert (found.id, found.evidence[0].line) == ("gpu-arch-not-in-build", 1)


def test_who_holds_the_memory_at_a_wake_up_is_not_stated_as_a_fact() -> None:
    found = root("CUDA Error: out of memory at /src/csrc/cumem_allocator.cpp:77\n")
    assert (found.id, found.confidence) == ("sleep-mode-wake-up-oom", "medium")
    assert "at the start or at wake-up" in found.explanation
    assert "hold" not in found.explanation


def test_the_tokens_of_a_default_configuration_are_not_those_of_the_run() -> None:
    head = "INFO 05-01 10:00:00 [scheduler.py:230] Chunked prefill is enabled with max_num_batched_tokens="
    unset = "WARNING 05-01 10:00:00 [vllm.py:1406] Current vLLM config is not set."
    engine = (
        "INFO 05-01 10:00:02 [core.py:95] Initializing a V1 LLM engine (v0.14.0) with config: model='org/m'"
    )
    passing = diagnosis("\n".join((unset, f"{head}2048.", f"{head}6144.", unset, f"{head}2048.", engine)))
    assert passing.run.setting("max_num_batched_tokens") == 6144
    plain = diagnosis("\n".join((f"{head}6144.", f"{head}2048.", engine)))
    assert plain.run.setting("max_num_batched_tokens") == 2048


def test_the_port_that_a_server_names_at_its_end_is_no_port_in_use() -> None:
    ended = diagnosis(
        "INFO 05-01 10:00:00 [api_server.py:1300] vLLM API server version 0.11.0\n"
        "INFO:     Application startup complete.\n"
        "WARNING 05-01 10:09:00 [launcher.py:98] port 8000 is used by process psutil.Process(pid=77, name='python') launched with command:\n"
        "WARNING 05-01 10:09:00 [launcher.py:98] python -m vllm.entrypoints.openai.api_server --model org/m\n"
        "INFO 05-01 10:09:00 [launcher.py:101] Shutting down FastAPI HTTP server.\n"
    )
    (said,) = (
        seen.first[0].pattern for name, seen in ended.run.messages.items() if name.startswith("port-used")
    )
    assert said.verdict == "harmless"
    assert "shuts down" in said.meaning


@pytest.mark.parametrize(
    ("device", "step"), [("cuda", "Install the torch build"), ("jax", "Where a plug-in computes")]
)
def test_a_torch_without_code_for_a_device_is_named(device, step):
    block = framed(
        "EngineCore pid=9",
        [
            "EngineCore encountered a fatal error.",
            *traceback(
                ("_process_image_input", "torch.accelerator.get_memory_info()"),
                ends=f"RuntimeError: PyTorch is not linked with support for {device} devices",
            ),
        ],
        "core.py:1108",
    )
    found = root("\n".join(block))
    assert (found.id, found.title) == (
        "platform-not-detected",
        "PyTorch is built without support for this device",
    )
    assert found.alternatives[0].startswith(step)


def _watchdog(error: str) -> str:
    return (
        "Capturing CUDA graphs (mixed prefill-decode, PIECEWISE):   0%|          | 0/9 [00:00<?, ?it/s]\n"
        "[rank3]:[E501 10:00:00.123456789 ProcessGroupNCCL.cpp:2119] [PG ID 2 PG GUID 3 Rank 3] Process group watchdog thread "
        f"terminated with exception: CUDA error: {error}\n"
    )


def test_the_error_that_a_watchdog_states_is_the_cause_and_no_echo() -> None:
    captured = root(_watchdog("operation not permitted on an event last recorded in a capturing stream"))
    assert captured.id == "cudagraph-capture-error"
    assert "--enforce-eager" in captured.alternatives[0]
    unknown = root(_watchdog("frobnication overflow"))
    assert (unknown.id, unknown.evidence[0].line) == ("unclassified-failure", 2)


def test_a_kernel_file_that_hip_refuses_has_no_code_for_the_card() -> None:
    assert root("torch.AcceleratorError: HIP error: invalid kernel file\n" * 2).id == "gpu-arch-not-in-build"


def test_a_card_that_ray_hides_on_rocm_is_shown_by_the_variables_of_rocm() -> None:
    log = "\n".join(
        [
            "INFO 05-01 10:00:00 pynccl.py:58] Loading nccl from library librccl.so.1",
            "2024-05-01 10:00:00,704 INFO worker.py:1724 -- Started a local Ray instance.",
            "INFO 05-01 10:00:01 llm_engine.py:87] Initializing an LLM engine (v0.4.0.post1) with config: model='org/m', device_config=cuda, seed=0)",
            *framed(
                "RayWorkerVllm pid=9",
                [
                    "Error executing method init_device.",
                    "Traceback (most recent call last):",
                    '  File "/opt/vllm/worker/worker.py", line 97, in init_device',
                    "    torch.cuda.set_device(self.device)",
                    '  File "/opt/lib/python3.10/site-packages/torch/cuda/__init__.py", line 399, in set_device',
                    "    torch._C._cuda_setDevice(device)",
                    "RuntimeError: HIP error: invalid device ordinal",
                ],
                "ray_utils.py:50",
            ),
        ]
    )
    found = root(log)
    assert diagnosis(log).run.platform == "rocm"
    assert "RAY_EXPERIMENTAL_NOSET_HIP_VISIBLE_DEVICES=1" in found.alternatives[0]
    assert not any("CUDA_VISIBLE_DEVICES" in one or "Ray sets it" in one for one in found.alternatives)
