"""After a run that ran out of device memory, nothing is proposed that needs more of it."""

from __future__ import annotations

import re

from vllm_logdoctor import analyze

START = """\
INFO 11-20 10:00:00 [api_server.py:1289] vLLM API server version 0.11.2
INFO 11-20 10:00:01 [utils.py:233] non-default args: {'model': 'org/model-8b', 'enforce_eager': True, 'max_num_seqs': 8, 'gpu_memory_utilization': 0.5}
INFO 11-20 10:00:05 [core.py:93] Initializing a V1 LLM engine (v0.11.2) with config: model='org/model-8b', dtype=torch.bfloat16, max_seq_len=8192, tensor_parallel_size=1, pipeline_parallel_size=1, quantization=None, enforce_eager=True, kv_cache_dtype=auto, device_config=cuda
INFO 11-20 10:00:40 [gpu_model_runner.py:2653] Model loading took 15.3 GiB and 8.2 seconds
INFO 11-20 10:00:49 [kv_cache_utils.py:1087] GPU KV cache size: 400,000 tokens
INFO:     Application startup complete.
"""
STATISTICS = (
    "INFO 11-20 10:0{}:{}0 [loggers.py:127] Engine 000: Avg prompt throughput: 120.0 tokens/s, Avg generation throughput:"
    " 240.0 tokens/s, Running: 8 reqs, Waiting: 24 reqs, GPU KV cache usage: 6.0%, Prefix cache hit rate: 0.0%\n"
)
OUT_OF_MEMORY = """\
ERROR 11-20 10:06:10 [core.py:845] EngineCore encountered a fatal error.
ERROR 11-20 10:06:10 [core.py:845] Traceback (most recent call last):
ERROR 11-20 10:06:10 [core.py:845]   File "/opt/vllm/v1/engine/core.py", line 836, in run_engine_core
ERROR 11-20 10:06:10 [core.py:845]     engine_core.run_busy_loop()
ERROR 11-20 10:06:10 [core.py:845]   File "/opt/vllm/v1/worker/gpu_model_runner.py", line 2500, in execute_model
ERROR 11-20 10:06:10 [core.py:845]     logits = self.model.compute_logits(h)
ERROR 11-20 10:06:10 [core.py:845] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.20 GiB. GPU 0 has a total capacity of 79.10 GiB of which 600.00 MiB is free. Including non-PyTorch memory, this process has 78.50 GiB memory in use.
"""
SERVED = START + "".join(STATISTICS.format(minute, tens) for minute in range(1, 6) for tens in range(6))
NEED_MEMORY = {"--max-num-seqs", "--enforce-eager"}


def knobs(log: str) -> set[str]:
    (run,) = analyze(log.encode()).runs
    return {planned.change.knob for planned in run.plan.changes}


def test_a_healthy_run_with_a_queue_gets_more_sequences_and_graphs() -> None:
    assert knobs(SERVED) >= NEED_MEMORY


def test_the_same_run_out_of_device_memory_gets_neither() -> None:
    (run,) = analyze((SERVED + OUT_OF_MEMORY).encode()).runs
    root = next(found for found in run.findings if found.role == "root")
    assert root.exhausts == "device-memory"
    assert not knobs(SERVED + OUT_OF_MEMORY) & NEED_MEMORY


AT_ITS_CONTEXT = (
    START.split("INFO 11-20 10:00:40")[0].replace(
        "'gpu_memory_utilization': 0.5", "'gpu_memory_utilization': 0.9, 'max_model_len': 400000"
    )
    + """\
INFO 11-20 10:00:40 [gpu_model_runner.py:2653] Model loading took 57.3 GiB and 8.2 seconds
INFO 11-20 10:00:49 [gpu_worker.py:298] Available KV cache memory: 13.52 GiB
INFO 11-20 10:00:49 [kv_cache_utils.py:1087] GPU KV cache size: 400,000 tokens
INFO 11-20 10:00:49 [kv_cache_utils.py:1091] Maximum concurrency for 400,000 tokens per request: 1.00x
ERROR 11-20 10:00:55 [core.py:845] EngineCore failed to start.
ERROR 11-20 10:00:55 [core.py:845] Traceback (most recent call last):
ERROR 11-20 10:00:55 [core.py:845]   File "/opt/vllm/v1/worker/gpu_worker.py", line 780, in compile_or_warm_up_model
ERROR 11-20 10:00:55 [core.py:845]     kernel_warmup(self)
ERROR 11-20 10:00:55 [core.py:845]   File "/opt/vllm/model_executor/warmup/kernel_warmup.py", line 121, in kernel_warmup
ERROR 11-20 10:00:55 [core.py:845]     flashinfer_autotune(worker.model_runner)
ERROR 11-20 10:00:55 [core.py:845] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 896.00 MiB. GPU 0 has a total capacity of 79.10 GiB of which 510.00 MiB is free. Including non-PyTorch memory, this process has 78.50 GiB memory in use.
"""
)


def test_a_share_that_holds_less_than_one_request_is_no_step_of_the_first_screen_and_has_its_reason() -> None:
    """The cache holds the context exactly: 0.85 of the card would end the next start, which nobody may be told to try."""
    result = analyze(AT_ITS_CONTEXT.encode())
    root = next(found for found in result.runs[0].findings if found.role == "root")
    assert "--gpu-memory-utilization" in {change.knob for change in root.changes}
    first, _, rest = result.to_markdown().partition("## What broke")
    assert "--gpu-memory-utilization" not in first
    assert re.search(r"Left out: `--gpu-memory-utilization` `[\d.]+` → `0\.[\d]+`: with ", rest)
