"""Which engine a log is of: lines by which SGLang, llama.cpp, ollama, TGI, TensorRT-LLM and others are recognized.

The patterns of patterns/engines find the lines. A line counts where its record begins with it, so that a prompt that quotes one
changes nothing.
"""

from __future__ import annotations

from collections.abc import Container, Iterable

from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.parse import Record

VLLM = "vllm"
NAMES = {
    "sglang": "SGLang",
    "llama.cpp": "llama.cpp",
    "ollama": "ollama",
    "tgi": "Text Generation Inference",
    "tensorrt-llm": "TensorRT-LLM",
    "lmdeploy": "LMDeploy",
    "mlc-llm": "MLC LLM",
    "deepspeed-mii": "DeepSpeed-MII",
}

_LINES = (
    ("sglang", "sglang", "arguments batch capacity ready weights kv-cache crash frame launch"),
    (
        "llama-cpp",
        "llama.cpp",
        "loader model context backend timings eval-time slot server-json server-text build launch bench",
    ),
    ("ollama", "ollama", "request log"),
    ("tgi", "tgi", "log frame"),
    ("tensorrt-llm", "tensorrt-llm", "log triton frame"),
    ("lmdeploy", "lmdeploy", "log frame"),
    ("mlc", "mlc-llm", "log frame"),
    ("mii", "deepspeed-mii", "log"),
)
SIGNATURES = {f"{pack}-{line}": engine for pack, engine, lines in _LINES for line in lines.split()}
"""Pattern id -> engine."""

WEAK = frozenset(
    {
        "sglang-frame", "tgi-frame", "tensorrt-llm-frame", "lmdeploy-frame", "mlc-frame",
        "sglang-launch", "llama-cpp-launch", "llama-cpp-backend", "llama-cpp-eval-time",
    }
)  # fmt: skip
"""Lines that another program may print too: they name the engine of a log without any other sign, and never begin a run."""

# ollama runs llama.cpp inside and passes its lines on.
_INSIDE = {("ollama", "llama.cpp")}

_OWN_SERVER = frozenset(
    f"llama-cpp-{line}" for line in ("slot", "server-json", "server-text", "build", "launch")
)


def is_inside(before: str, now: str, seen: Container[str]) -> bool:
    """Return whether the lines so far are of an engine inside the one that is named now: a log of ollama may begin with llama.cpp's.

    Args:
        before: engine of the run so far.
        now: the engine of a line.
        seen: ids of the patterns of the run so far; a server of llama.cpp's own is another run.

    Example:
        >>> is_inside("llama.cpp", "ollama", {"llama-cpp-context"}), is_inside("llama.cpp", "ollama", {"llama-cpp-slot"})
        (True, False)
    """
    return (now, before) in _INSIDE and not any(line in seen for line in _OWN_SERVER)


def server_after(server: str, pattern: str, vllm_began: bool) -> str | None:
    """Return the engine that a line changes a run to, or None where it changes nothing.

    Args:
        server: the run's engine so far.
        pattern: id of the pattern that knows the line.
        vllm_began: whether vLLM itself has printed its version, arguments or engine configuration.

    Example:
        >>> server_after("vllm", "sglang-batch", False), server_after("ollama", "llama-cpp-loader", False)
        ('sglang', None)
    """
    named = SIGNATURES.get(pattern)
    if named is None or named == server or (server, named) in _INSIDE:
        return None
    if pattern in WEAK and (vllm_began or server != VLLM):
        return None
    return named


# [2026-05-01 10:00:00,000] INFO: httpx AsyncClient closed (httpx_client.py:43:vllm_router.httpx_client)
# 2026-05-01 10:00:00  INFO vllm_router_rs::server: src/server.rs:77: Starting router
_OF_ROUTER = lazy_pattern(r"\(\w{1,60}\.py:\d+:vllm_router[\w.]{0,80}\)\s*$|\bvllm_router_rs::\w")


def is_of_router(records: Iterable[Record]) -> bool:
    """Return whether a router wrote records: what distributes requests among servers of vLLM and runs no engine."""
    return any("vllm_router" in one.text and _OF_ROUTER.search(one.text[:2000]) for one in records)
