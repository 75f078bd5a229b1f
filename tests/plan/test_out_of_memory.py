"""After a run that ran out of device memory, nothing is proposed that needs more of it."""

from __future__ import annotations

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
