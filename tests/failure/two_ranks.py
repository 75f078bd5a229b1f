"""Composes the log of a server with two ranks that breaks: start, errors of workers, engine and API server."""

from __future__ import annotations

from collections.abc import Iterable

from tests.failure.records import framed, raw, traceback

START = [
    "(APIServer pid=1) INFO 05-01 09:59:01 [api_server.py:1300] vLLM API server version 0.11.0",
    "(EngineCore_DP0 pid=9) INFO 05-01 09:59:20 [core.py:77] Initializing a V1 LLM engine (v0.11.0) with config: model='m', tensor_parallel_size=2",
]  # fmt: skip
READY = ["(APIServer pid=1) INFO:     Application startup complete."]
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.19 GiB of which 1.10 GiB is free."
RESET = "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.4]:5213"
WRAPPED = "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}"


def text(*parts: Iterable[str]) -> str:
    """Return the lines of all parts as one log."""
    return "\n".join(line for part in parts for line in part)


def worker(rank: int, ends: str, clock: str = "10:00:00") -> list[str]:
    """Return the traceback of a worker that fails to start."""
    lines = ["WorkerProc failed to start.", *traceback(("load_model", "self.model = get_model()"), ends=ends)]
    return framed(f"Worker_TP{rank} pid={90 + rank}", lines, "multiproc_executor.py:571", clock)


def engine(ends: str, clock: str = "10:00:02") -> list[str]:
    """Return the traceback of the engine core that waits for its workers."""
    lines = ["EngineCore failed to start.", *traceback(("_init_executor", "wait()"), ends=ends)]
    return framed("EngineCore_DP0 pid=9", lines, "core.py:708", clock)


def server(ends: str = WRAPPED) -> list[str]:
    """Return the traceback of the API server that waits for the engine core."""
    return raw("APIServer pid=1", traceback(("wait_for_engine_startup", "raise RuntimeError("), ends=ends))
