"""What the KV cache of a run can give up: advice that takes memory from it is checked against what one request needs."""

from __future__ import annotations

from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.run.model import Run

LITTLE_GIB = 0.5
"""Less than that makes room for nothing."""
_GRAPHS_COUNTED = "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS"
# Lower `--gpu-memory-utilization` a little: it limits weights, activations and KV cache.
_TAKES = lazy_pattern(rf"[Ll]ower `--gpu-memory-utilization`|{_GRAPHS_COUNTED}=1")


def spare(cache_gib: float, tokens: float, longest: float) -> float:
    """Return the GiB of a cache beyond what one request of full length needs.

    >>> spare(0.85, 6144, 4096)
    0.28
    """
    return round(cache_gib * (1 - longest / tokens), 2)


def takes_too_much(advice: str, run: Run) -> bool:
    """Return whether advice takes memory from a cache that the log shows to have none to give.

    >>> from vllm_logdoctor.run.model import Value
    >>> measured = {"available_kv_cache_gib": Value(0.85, "reported"), "kv_cache_tokens": Value(6144, "reported")}
    >>> run = Run(measured=measured, config={"max_model_len": Value(4096, "explicit")})
    >>> takes_too_much("Lower `--gpu-memory-utilization` a little.", run), takes_too_much("Capture fewer sizes.", run)
    (True, False)
    """
    if not _TAKES.search(advice):
        return False
    cache, tokens = run.measure("available_kv_cache_gib"), run.measure("kv_cache_tokens")
    longest = run.setting("max_model_len")
    if not cache or not tokens or not isinstance(longest, int):
        return False
    wanted = LITTLE_GIB
    if _GRAPHS_COUNTED in advice and (seen := run.seen("graph-memory-estimated")) is not None:
        wanted = seen.first[0].number("gib") or wanted
    return spare(cache, tokens, longest) < wanted
