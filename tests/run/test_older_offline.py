"""Offline engines of V0 that print no progress: their start ends with the captured graphs, their work with their workers."""

from __future__ import annotations

import pytest

from vllm_logdoctor import analyze

START = [
    "INFO 03-02 09:10:00 llm_engine.py:249] Initializing an LLM engine (v0.6.3) with config: model='org/m', tensor_parallel_size=2",
    "INFO 03-02 09:10:05 model_runner.py:1060] Starting to load model org/m...",
    "(VllmWorkerProcess pid=71) INFO 03-02 09:10:20 model_runner.py:1071] Loading model weights took 7.51 GB",
    "INFO 03-02 09:10:20 model_runner.py:1071] Loading model weights took 7.51 GB",
    "INFO 03-02 09:10:25 distributed_gpu_executor.py:57] # GPU blocks: 20000, # CPU blocks: 2000",
    "INFO 03-02 09:10:30 model_runner.py:1402] Capturing the model for CUDA graphs. This may lead to unexpected consequences if the model is not static.",
    "(VllmWorkerProcess pid=71) INFO 03-02 09:10:30 model_runner.py:1402] Capturing the model for CUDA graphs. This may lead to unexpected consequences.",
    "(VllmWorkerProcess pid=71) INFO 03-02 09:10:40 model_runner.py:1530] Graph capturing finished in 10 secs.",
]
CAPTURED = "INFO 03-02 09:10:40 model_runner.py:1530] Graph capturing finished in 10 secs."
CLOSED = "INFO 03-02 09:15:00 multiproc_worker_utils.py:133] Terminating local vLLM worker processes"
ENDED = [
    "ERROR 03-02 09:15:00 multiproc_worker_utils.py:116] Worker VllmWorkerProcess pid 71 died, exit code: -15",
    "INFO 03-02 09:15:00 multiproc_worker_utils.py:120] Killing local vLLM worker processes",
]


def test_the_start_ends_with_the_graphs_of_all_ranks_and_the_work_with_the_workers() -> None:
    (run,) = analyze([*START, CAPTURED, CLOSED]).runs
    assert (run.run.kind, run.run.startup_complete, run.outcome) == ("offline", True, "clean_shutdown")
    assert next(one.seconds for one in run.run.phases if one.name == "startup") == 40
    assert "was ready after 40 s; vLLM's lines do not show what it computed" in run.to_markdown()


def test_a_rank_that_has_not_captured_its_graphs_leaves_the_start_open() -> None:
    (run,) = analyze(START).runs
    assert not run.run.startup_complete


def test_workers_that_end_before_the_start_is_done_are_no_end_of_work() -> None:
    (run,) = analyze([*START[:4], CLOSED, "LLM init error: [Errno 122] Disk quota exceeded"]).runs
    assert run.outcome != "clean_shutdown"
    assert "Disk quota" in run.to_markdown().splitlines()[0]


@pytest.mark.parametrize("end", [[CLOSED], ENDED], ids=["closed", "with-its-program"])
def test_what_another_program_prints_behind_the_engines_end_is_no_failed_start(end: list[str]) -> None:
    (run,) = analyze([*START, CAPTURED, *end, "Error: input file not found: ./answers.json"]).runs
    assert run.run.startup_complete
    assert run.outcome == "clean_shutdown"
    assert run.to_markdown().startswith("# PROGRAM FAILED after the engine had ended: Error: input file not")


def test_an_error_of_the_card_behind_the_engines_end_may_be_what_ended_it() -> None:
    (run,) = analyze([*START, CAPTURED, CLOSED, "RuntimeError: CUDA error: unspecified launch failure"]).runs
    assert run.to_markdown().startswith("# FAILED after start-up: CUDA error")


def test_memory_that_runs_out_behind_the_start_of_an_engine_in_a_program_did_not_run_out_in_its_capture() -> (
    None
):
    start = [
        "INFO 03-02 09:10:00 [core.py:93] Initializing a V1 LLM engine (v0.18.0) with config: model='org/m', tensor_parallel_size=1",
        "INFO 03-02 09:10:50 [gpu_model_runner.py:4900] Graph capturing finished in 18 secs, took 0.85 GiB",
        "INFO 03-02 09:10:55 [core.py:280] init engine (profile, create kv cache, warmup model) took 45.00 seconds",
    ]
    failed = [
        "Traceback (most recent call last):",
        '  File "<string>", line 54, in <module>',
        '  File "/opt/env/lib/python3.12/site-packages/torch/cuda/__init__.py", line 1162, in synchronize',
        "    return torch._C._cuda_synchronize()",
        "torch.AcceleratorError: CUDA error: out of memory",
    ]
    (run,) = analyze([*start, *failed]).runs
    assert run.to_markdown().startswith("# FAILED after start-up: Out of memory\n")
