"""Errors that only come later: one with a cause of its own is reported with its step, and not as a consequence of the first."""

from __future__ import annotations

import pytest

from tests.failure.records import framed, traceback
from vllm_logdoctor import analyze

FORKED = "RuntimeError: Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must use the 'spawn' start method"
REFUSED = "RuntimeError: NCCL error: invalid usage (run with NCCL_DEBUG=WARN for details)"
STARTED = [
    "Traceback (most recent call last):",
    '  File "/job/train.py", line 70, in run',
    "    source = LLM(model=path, tensor_parallel_size=world)",
    '  File "/opt/site-packages/vllm/executor/multiproc_gpu_executor.py", line 110, in _init_executor',
    '    self._run_workers("init_device")',
    '  File "/opt/site-packages/vllm/distributed/device_communicators/pynccl_wrapper.py", line 223, in NCCL_CHECK',
    '    raise RuntimeError(f"NCCL error: {error_str}")',
]


def _report(*ranks: str, error: str = REFUSED) -> str:
    worker = framed(
        "VllmWorkerProcess pid=7", traceback(("init_device", "torch.cuda.set_device(d)"), ends=FORKED)
    )
    launched = [f"[rank{rank}]: {line}" for rank in ranks for line in (*STARTED, error)]
    return analyze("\n".join([*worker, *launched]).encode()).to_markdown()


def test_engines_of_several_ranks_of_a_launcher_are_a_cause_of_their_own() -> None:
    report = _report("0", "1")
    assert "forked subprocess" in report.splitlines()[0]
    assert "Also: **Each rank of the launcher starts an engine of its own**" in report
    assert "Start one engine" in report
    assert "Follow-up" not in report


def test_workers_that_were_forked_by_each_rank_of_a_launcher_need_both_changes() -> None:
    """With the process group of several ranks one rank that alone creates an engine waits for the others."""
    first_steps = _report("0", "1").partition("## ")[0]
    assert "VLLM_WORKER_MULTIPROC_METHOD` to `spawn`" in first_steps
    assert "without the launcher" in first_steps
    assert "the number of cards as `tensor_parallel_size`" in first_steps
    assert "one rank only" not in _report("0", "1")
    assert "launcher" not in _report("0")


@pytest.mark.parametrize("error", [REFUSED, "ConnectionResetError: [Errno 104] Connection reset by peer"])
def test_the_engine_of_one_program_fails_after_its_worker(error: str) -> None:
    report = _report("0", error=error)
    assert "Each rank" not in report
    assert "Follow-up errors, not the cause" in report
