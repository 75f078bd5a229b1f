"""Runs that show which kernel failed: what one sets and may conclude follows from the device, the phase and what can be switched off."""

from __future__ import annotations

import pytest

from tests.failure.judging import root
from vllm_logdoctor import analyze

ASSERTION = '/pytorch/Indexing.cu:94: operator(): block: [1,0,0], thread: [8,0,0] Assertion `index < sizes[i] && "index out of bounds"` failed.'
COMPILED = "(VllmWorker rank=1 pid=7) INFO 05-01 10:00:{second} [backends.py:{line}] {what}"
TESTED = [
    "============================= test session starts ==============================",
    "collected 1 item",
    "tests/test_load.py::test_load FAILED",
    "RuntimeError: CUDA error: an illegal memory access was encountered",
    "FAILED tests/test_load.py::test_load - RuntimeError: CUDA error: an illegal memory access was encountered",
    "======================= 1 failed in 9.31s =======================",
]
SERVED = [
    "(APIServer pid=1) INFO 05-01 09:59:01 [api_server.py:1300] vLLM API server version 0.11.0",
    "(EngineCore_DP0 pid=9) INFO 05-01 09:59:20 [core.py:77] Initializing a V1 LLM engine (v0.11.0) with config: model='m', enforce_eager={eager}",
    "(APIServer pid=1) INFO:     Application startup complete.",
    "(EngineCore_DP0 pid=9) ERROR 05-01 10:00:00 [core.py:710] EngineCore encountered a fatal error.",
    "(EngineCore_DP0 pid=9) ERROR 05-01 10:00:00 [core.py:710] Traceback (most recent call last):",
    '(EngineCore_DP0 pid=9) ERROR 05-01 10:00:00 [core.py:710]   File "/opt/vllm/v1/engine/core.py", line 50, in run_busy_loop',
    "(EngineCore_DP0 pid=9) ERROR 05-01 10:00:00 [core.py:710]     self.step()",
    "(EngineCore_DP0 pid=9) ERROR 05-01 10:00:00 [core.py:710] RuntimeError: CUDA error: an illegal memory access was encountered",
]


def _steps(lines: list[str]) -> str:
    return " ".join(root("\n".join(lines)).alternatives)


@pytest.mark.parametrize("eager", ["False", "True"])
def test_graphs_are_suspects_only_where_the_trial_switches_them_off(eager: str) -> None:
    served = _steps([line.format(eager=eager) for line in SERVED])
    assert "CUDA_LAUNCH_BLOCKING=1" in served
    assert ("graphs" in served) is ("--enforce-eager" in served) is (eager == "False")
    tested = _steps(TESTED)
    assert "CUDA_LAUNCH_BLOCKING=1" in tested
    assert "graphs" not in tested


def test_an_index_out_of_range_is_looked_for_without_graphs() -> None:
    served = [line.format(eager="False") for line in SERVED]
    ended = served[-1].replace("an illegal memory access was encountered", "device-side assert triggered")
    found = _steps([*served[:3], ASSERTION, *served[3:-1], ended])
    assert "`CUDA_LAUNCH_BLOCKING=1` and `--enforce-eager`" in found
    assert "tokenizer" in found


def test_a_start_ran_on_dummy_inputs_which_no_tokenizer_made() -> None:
    lines = [
        COMPILED.format(second="01", line=430, what="Dynamo bytecode transform time: 9.12 s"),
        COMPILED.format(second="41", line=148, what="Compiling a graph for general shape takes 38.50 s"),
        ASSERTION,
    ]
    found = _steps(lines)
    assert "dummy inputs" in found
    assert "tokenizer" not in found
    assert "--max-model-len" not in found


def test_rocm_aborts_without_a_traceback_so_that_its_own_log_shows_the_kernel() -> None:
    lines = [
        "(RayWorkerVllm pid=71) /pytorch/hip/IndexKernel.hip:94: operator(): Device-side assertion `index < sizes[i]' failed.",
        "(RayWorkerVllm pid=71) :0:rocdevice.cpp :2778: 814: 71: [tid:0x7e] Callback: Queue 0x7d aborting with error : HSA_STATUS_ERROR_EXCEPTION: An HSAIL operation resulted in a hardware exception. code: 0x1016",
        "(RayWorkerVllm pid=72) /pytorch/hip/IndexKernel.hip:94: operator(): Device-side assertion `index < sizes[i]' failed. [repeated 31x across cluster]",
        "Traceback (most recent call last):",
        '  File "/opt/site-packages/vllm/engine/llm_engine.py", line 740, in _run_workers_in_batch',
        "    all_outputs = ray.get(all_outputs)",
        "ray.exceptions.RayActorError: The actor died unexpectedly before finishing this task.",
    ]
    steps = _steps(lines)
    assert "`AMD_SERIALIZE_KERNEL=3`, `AMD_LOG_LEVEL=3` and `--enforce-eager`" in steps
    assert "traceback" not in steps
    assert "The same error from other processes: [L3]" in analyze("\n".join(lines).encode()).to_markdown()
