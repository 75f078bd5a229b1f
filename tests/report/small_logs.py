"""Small logs of a server, line by line, and their reports."""

from __future__ import annotations

import vllm_logdoctor

ARGUMENTS = "(APIServer pid=1) INFO 05-01 10:00:01 [utils.py:233] non-default args: {'model': 'org/model', 'max_num_seqs': 256}"
START = [
    "(APIServer pid=1) INFO 05-01 10:00:00 [api_server.py:1043] vLLM API server version 0.15.1",
    ARGUMENTS,
    "(EngineCore_DP0 pid=9) INFO 05-01 10:00:10 [core.py:77] Initializing a V1 LLM engine (v0.15.1) with config:"
    " model='org/model', dtype=torch.bfloat16, max_seq_len=4096, tensor_parallel_size=1, device_config=cuda",
    "(EngineCore_DP0 pid=9) INFO 05-01 10:00:40 [gpu_model_runner.py:4130] Model loading took 27.57 GiB memory and 27.4 seconds",
    "(EngineCore_DP0 pid=9) INFO 05-01 10:00:50 [gpu_worker.py:356] Available KV cache memory: 27.95 GiB",
    "(EngineCore_DP0 pid=9) INFO 05-01 10:00:50 [kv_cache_utils.py:1307] GPU KV cache size: 152,624 tokens",
    "(APIServer pid=1) INFO:     Application startup complete.",
]
ANSWER = '(APIServer pid=1) INFO:     127.0.0.1:40004 - "POST /v1/completions HTTP/1.1" 200 OK'


def statistics(second: int, running: int, waiting: int, kv: float) -> str:
    return (
        f"(APIServer pid=1) INFO 05-01 10:{second // 60:02}:{second % 60:02} [loggers.py:257] Engine 000: Avg prompt throughput:"
        f" 13000.0 tokens/s, Avg generation throughput: 6000.0 tokens/s, Running: {running} reqs, Waiting: {waiting} reqs,"
        f" GPU KV cache usage: {kv}%, Prefix cache hit rate: 0.0%"
    )


def report(lines: list[str]) -> str:
    return vllm_logdoctor.analyze(lines).to_markdown()


def decoding(second: int, kv: float) -> str:
    return (
        f"INFO 01-23 06:33:{second:02} metrics.py:396] Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 16.7 tokens/s,"
        f" Running: 16 reqs, Swapped: 0 reqs, Pending: 0 reqs, GPU KV cache usage: {kv}%, CPU KV cache usage: 0.0%."
    )
