"""Lines of a server's life, for tests."""

from __future__ import annotations


def start(
    version: str = "0.11.2", pid: int = 1, clock: str = "03-04 10:00", model: str = "org/m", extra: str = ""
) -> list[str]:
    """Return the lines of a start-up that succeeds, within one minute."""
    api, core = f"(APIServer pid={pid}) ", f"(EngineCore_DP0 pid={pid + 1}) "
    config = (
        f"model='{model}', speculative_config=None, tokenizer='{model}', dtype=torch.bfloat16, max_seq_len=4096, "
        "tensor_parallel_size=1, pipeline_parallel_size=1, data_parallel_size=1, enforce_eager=False, kv_cache_dtype=auto, "
        "device_config=cuda, seed=0, enable_prefix_caching=True"
    )
    return [
        f"{api}INFO {clock}:00 [api_server.py:1977] vLLM API server version {version}",
        f"{api}INFO {clock}:00 [utils.py:253] non-default args: {{'model': '{model}'{extra}}}",
        f"{core}INFO {clock}:10 [core.py:93] Initializing a V1 LLM engine (v{version}) with config: {config}",
        f"{core}INFO {clock}:30 [kv_cache_utils.py:1229] GPU KV cache size: 65,536 tokens",
        f"{api}INFO:     Application startup complete.",
    ]


def statistics(pid: int = 1, clock: str = "03-04 10:01:00", running: int = 3, engine: int = 0) -> str:
    """Return a statistics line."""
    return (
        f"(APIServer pid={pid}) INFO {clock} [loggers.py:236] Engine {engine:03}: Avg prompt throughput: 10.0 tokens/s, "
        f"Avg generation throughput: 100.0 tokens/s, Running: {running} reqs, Waiting: 0 reqs, GPU KV cache usage: 1.0%, "
        "Prefix cache hit rate: 0.0%"
    )


def stop(pid: int = 1) -> list[str]:
    """Return the lines of a normal stop."""
    return [
        f"(APIServer pid={pid}) INFO:     Shutting down",
        f"(APIServer pid={pid}) INFO:     Waiting for application shutdown.",
        f"(APIServer pid={pid}) INFO:     Application shutdown complete.",
    ]


def answers(count: int, pid: int = 1) -> list[str]:
    """Return access lines."""
    return [
        f'(APIServer pid={pid}) INFO:     127.0.0.1:{40000 + n} - "POST /v1/completions HTTP/1.1" 200 OK'
        for n in range(count)
    ]
