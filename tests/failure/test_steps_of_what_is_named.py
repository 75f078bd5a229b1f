"""Words and steps are those of what a log names: the layer of a kernel, the address of a rank, the platform, the code of a caller."""

from __future__ import annotations

import pytest

from tests.failure.judging import crashed, raised, root
from vllm_logdoctor.rules.model import Finding

KERNELS = "/opt/site-packages/vllm/_custom_ops.py"
START = "(APIServer pid=1) INFO 05-01 09:59:10 [api_server.py:90] vLLM API server version {}"


def steps(finding: Finding) -> str:
    """Return all steps of a finding in one text."""
    changes = [f"{one.knob} {one.after} {one.note}" for one in finding.changes]
    return "\n".join([*changes, *finding.alternatives])


def test_an_item_that_may_not_be_split_is_said_to_exceed_one_step_with_both_sizes() -> None:
    found = crashed(
        "ValueError: Chunked MM input disabled but max_tokens_per_mm_item (2496) is larger than max_num_batched_tokens"
        " (2048). Please increase max_num_batched_tokens.",
        version="0.20.0",
    )
    assert {"2,496", "2,048"} <= set(found.explanation.split())
    assert "can't be split" in found.explanation
    assert [(one.knob, one.after) for one in found.changes] == [("--max-num-batched-tokens", 3072)]


TIMED_OUT = "The client socket has timed out after 600000ms while trying to connect to (10.0.0.7, 29501)."
JOINED = "Timed out after 301 seconds waiting for clients. 3/8 clients joined."


@pytest.mark.parametrize(
    ("ends", "words", "step"),
    [
        (f"torch.distributed.DistNetworkError: {TIMED_OUT}", "10.0.0.7:29501", "nc -vz 10.0.0.7 29501"),
        (f"torch.distributed.DistStoreError: {JOINED}", "3 of 8 processes", "ranks that did not come"),
        ("torch.distributed.DistStoreError: wait timeout after 300000ms, keys: /ids", "TCP store", "every rank was started"),
    ],
)  # fmt: skip
def test_ranks_that_miss_each_other_before_nccl_exists_are_not_asked_for_its_log(
    ends: str, words: str, step: str
) -> None:
    found = crashed(ends, place="init_device")
    assert found.id == "nccl-init-hang"
    assert words in found.explanation
    assert step in steps(found)
    assert "NCCL_DEBUG" not in steps(found)


def _refused_by_cutlass(function: str, version: str, error: str = "Error Internal") -> Finding:
    frames = [
        ("/opt/site-packages/vllm/worker/worker.py", 5, "load_model", "self.model_runner.load_model()"),
        (KERNELS, 519, function, f"torch.ops._C.{function}(out, a, b)"),
    ]
    config = "Initializing a V1 LLM engine (v{}) with config: model='org/m', quantization=fp8, seed=0"
    engine = f"(EngineCore pid=9) INFO 05-01 09:59:20 [core.py:77] {config.format(version)}"
    error = raised(*frames, error=f"RuntimeError: {error}")
    return root("\n".join([START.format(version), engine, error]))


@pytest.mark.parametrize(
    ("function", "version", "step"),
    [
        ("cutlass_scaled_mm", "0.26.0", "--linear-backend marlin"),
        ("cutlass_scaled_mm", "0.11.0", "VLLM_TEST_FORCE_FP8_MARLIN 1"),
        ("cutlass_scaled_mm", "0.8.1", "Use a newer release"),
        ("cutlass_scaled_sparse_mm", "0.8.1", "2:4 sparsity"),
    ],
)
def test_a_kernel_of_cutlass_gets_the_steps_of_the_layer_that_the_traceback_names(
    function: str, version: str, step: str
) -> None:
    found = _refused_by_cutlass(function, version)
    sparse = "sparse" in function
    assert found.id == "kernel-backend-unsupported-on-arch"
    assert "linear layer" in found.title
    assert ("sparse" in found.explanation) is sparse
    assert steps(found).startswith(step) or step in found.alternatives[0]
    assert ("2:4" in steps(found)) is sparse
    assert not {"--attention-backend", "--moe-backend"} & {one.knob for one in found.changes}


def test_the_source_file_in_the_message_tells_the_layer_where_compiled_code_called_the_kernel() -> None:
    message = "cutlass_gemm_caller, /src/csrc/w8a8/cutlass/c3x/cutlass_gemm_caller.cuh:62, Error Internal"
    found = _refused_by_cutlass("call", "0.26.0", message)
    assert "linear layer" in found.title
    assert [one.knob for one in found.changes] == ["--linear-backend"]


def test_a_library_whose_source_file_the_message_names_is_switched_off() -> None:
    found = crashed(
        "RuntimeError: CUDA driver error (/src/csrc/jit/handle.hpp:141): 200 (CUDA_ERROR_INVALID_IMAGE, device kernel image is invalid)"
    )
    assert "DeepGEMM" in found.title
    assert [(one.knob, one.after) for one in found.changes] == [("VLLM_USE_DEEP_GEMM", "0")]
