"""A small log of a server, and commands that stand in for logdoctor."""

from __future__ import annotations

from pathlib import Path

# A server that started and answered: written for these tests.
SERVER_LOG = """\
INFO 03-02 10:00:00 [__init__.py:216] Automatically detected platform cuda.
(APIServer pid=11) INFO 03-02 10:00:05 [api_server.py:1839] vLLM API server version 0.11.2
(APIServer pid=11) INFO 03-02 10:00:05 [utils.py:233] non-default args: \
{'model': 'org/tiny', 'max_num_seqs': 4}
(EngineCore_DP0 pid=21) INFO 03-02 10:00:20 [gpu_worker.py:298] Available KV cache memory: 10.00 GiB
(EngineCore_DP0 pid=21) INFO 03-02 10:00:20 [kv_cache_utils.py:1087] GPU KV cache size: 100,000 tokens
(APIServer pid=11) INFO:     Application startup complete.
(APIServer pid=11) INFO 03-02 10:00:40 [loggers.py:127] Engine 000: Avg prompt throughput: 10.0 tokens/s, \
Avg generation throughput: 50.0 tokens/s, Running: 2 reqs, Waiting: 0 reqs, GPU KV cache usage: 1.0%, \
Prefix cache hit rate: 0.0%
"""
# The same server stopped from outside, and one whose engine failed a minute before.
STOPPED_LOG = (
    SERVER_LOG
    + """\
(APIServer pid=11) INFO:     Shutting down
(APIServer pid=11) INFO:     Application shutdown complete.
(APIServer pid=11) INFO:     Finished server process [11]
"""
)
CRASHED_LOG = (
    SERVER_LOG
    + """\
(EngineCore_DP0 pid=21) ERROR 03-02 10:00:45 [core.py:710] EngineCore encountered a fatal error.
(EngineCore_DP0 pid=21) ERROR 03-02 10:00:45 [core.py:710] Traceback (most recent call last):
(EngineCore_DP0 pid=21) ERROR 03-02 10:00:45 [core.py:710]   File "/opt/vllm/v1/engine/core.py", line 701, in run_engine_core
(EngineCore_DP0 pid=21) ERROR 03-02 10:00:45 [core.py:710] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.
"""
)


def command(path: Path, body: str) -> str:
    """Write an executable shell script and return its path."""
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return str(path)


def told(text: str) -> list[str]:
    """Return what the tool said in the output of a job."""
    return [line for line in text.splitlines() if line.startswith("logdoctor: ")]
