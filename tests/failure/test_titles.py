"""A rule that knows several errors gives each the title that people search for, and the action that belongs to it."""

import pytest

from tests.failure.judging import root

START = """\
INFO 05-01 10:00:00 [__init__.py:239] Automatically detected platform cuda.
(APIServer pid=11) INFO 05-01 10:00:01 [api_server.py:1289] vLLM API server version 0.14.1
(EngineCore_DP0 pid=12) ERROR 05-01 10:00:31 [core.py:780] EngineCore failed to start.
"""
FRAMES = """\
Traceback (most recent call last):
  File "/opt/site-packages/vllm/v1/worker/gpu_worker.py", line 200, in init_device
    self._init(local_rank)
  File "/opt/site-packages/{file}", line 31, in {function}
    return call(*args)
{exception}
"""


def title(exception: str, file: str = "torch/cuda/__init__.py", function: str = "_lazy_init") -> str:
    text = FRAMES.format(file=file, function=function, exception=exception)
    framed = "".join(
        f"(EngineCore_DP0 pid=12) ERROR 05-01 10:00:31 [core.py:780] {line}\n" for line in text.splitlines()
    )
    return root(START + framed).title


@pytest.mark.parametrize(
    ("exception", "expected"),
    [
        (
            "OSError: [Errno 98] error while attempting to bind on address ('0.0.0.0', 8000): address already in use",
            "Address already in use",
        ),
        (
            "PermissionError: [Errno 13] error while attempting to bind on address ('0.0.0.0', 443): permission denied",
            "No permission for the port",
        ),
        (
            "OSError: [Errno 99] error while attempting to bind on address ('10.8.0.7', 8000): cannot assign requested address",
            "No such address on this host",
        ),
        (
            "ConnectionError: Ray is trying to start at 10.8.0.7:6379, but is already running at 10.8.0.7:6379.",
            "Ray is already running on this node",
        ),
        (
            "RuntimeError: Unexpected error from cudaGetDeviceCount(). Error 304: OS call failed or operation not supported on this OS",
            "CUDA driver does not work in this environment",
        ),
        (
            "vllm.third_party.pynvml.NVMLError_NotSupported: Not Supported",
            "NVML refused a query about the GPU",
        ),
        (
            "vllm.third_party.pynvml.NVMLError_LibRmVersionMismatch: RM has detected an NVML/RM version mismatch.",
            "NVML driver/library version mismatch",
        ),
        (
            "TimeoutError: Timed out waiting for engines to send initial message on input socket.",
            "Engine not ready in time",
        ),
        (
            "RuntimeError: could not create a primitive descriptor for a matmul primitive",
            "oneDNN has no kernel for this operation on this CPU",
        ),
        (
            "ValueError: Converting from SentencePiece and Tiktoken failed, if a converter is available, provide a path",
            "Tokenizer could not be converted",
        ),
        (
            "torch._inductor.exc.InductorError: TypeError: cannot pickle 'torch._C.Stream' object",
            "torch.compile failed: TypeError: cannot pickle 'torch._C.Stream' object",
        ),
        (
            "torch._dynamo.exc.BackendCompilerFailed: backend='<vllm.compilation.backends.VllmBackend object>' raised:\nKeyError: 'rows'",
            "torch.compile failed: KeyError: 'rows'",
        ),
        ("torch.AcceleratorError: CUDA error: misaligned address", "CUDA error: misaligned address"),
        (
            "RuntimeError: PassManager::run failed",
            "Triton kernel compilation failed: PassManager::run failed",
        ),
        (
            'RuntimeError: device >= 0 && device < num_gpus INTERNAL ASSERT FAILED at "CUDAContext.cpp":49',
            "device >= 0 && device < num_gpus (GPU not visible to this process)",
        ),
    ],
)
def test_each_error_of_a_rule_has_the_title_of_its_own(exception: str, expected: str) -> None:
    assert title(exception) == expected


def test_a_workspace_of_flashinfer_that_is_too_small_is_no_unsupported_card() -> None:
    exception = (
        "RuntimeError: Error in function 'aligned_alloc' at /opt/flashinfer/allocator.h:49: Buffer overflow when allocating"
        " memory for batch_prefill_tmp_v with size 4697620 and alignment 16, but only 0 bytes available in AlignedAllocator."
    )
    assert title(exception, "flashinfer/prefill.py", "plan") == "FlashInfer workspace buffer too small"


def test_the_completion_that_failed_in_an_exception_of_nccl_is_a_fault_of_the_network() -> None:
    exception = (
        "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:3690, remote process exited or there was a network error\n"
        "Last error:\nNET/IB: Got completion from peer 10.8.0.3<41223> with status=12 opcode=0 len=0 vendor err 129"
    )
    assert (
        title(exception, "torch/distributed/distributed_c10d.py", "all_reduce")
        == "InfiniBand or RoCE network fault between ranks"
    )


def test_a_compiler_that_fails_on_the_helper_of_triton_is_named() -> None:
    exception = "subprocess.CalledProcessError: Command '['/usr/bin/gcc', '/tmp/a/main.c', '-O3', '-lcuda']' returned non-zero exit status 1."
    assert (
        title(exception, "triton/runtime/build.py", "_build")
        == "Triton could not compile its helper for the driver"
    )
