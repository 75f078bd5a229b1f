"""The what-if table of a report: the knobs that change the cache, one at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from vllm_logdoctor.knowledge.flags import flag_for_field
from vllm_logdoctor.knowledge.versions import release_number
from vllm_logdoctor.plan.model import WhatIf
from vllm_logdoctor.plan.whatif import what_if
from vllm_logdoctor.rules.capacity.card import may_share_memory
from vllm_logdoctor.rules.capacity.fp8 import pins_attention_without_fp8, refuses_fp8
from vllm_logdoctor.rules.capacity.memory import Memory, memory_of
from vllm_logdoctor.rules.release_terms import options_of_fork
from vllm_logdoctor.run.model import Run

_UTILIZATIONS = (0.80, 0.85, 0.90, 0.92, 0.95)
_MOST_LENGTHS = 3
_LEFT_FREE_GIB = 0.5


def what_if_table(run: Run) -> tuple[WhatIf, ...]:
    """Return what the cache would hold with other settings; empty where the log does not tell its size."""
    memory = memory_of(run)
    if memory is None:
        return ()
    return tuple(
        _row(run, name, before, after)
        for name, before, after in _proposals(run, memory)
        if _exists(run, name)
    )


def _proposals(run: Run, memory: Memory) -> Iterator[tuple[str, Any, Any]]:
    now = memory.utilization
    if now is not None and not memory.fixed:
        yield from (
            ("gpu_memory_utilization", now, value)
            for value in _UTILIZATIONS
            if abs(value - now) > 0.001 and (value < now or _has_memory_left(run, memory, value))
        )
    dtype = str(run.in_effect("kv_cache_dtype") or "auto")
    if dtype.startswith("fp8"):
        yield "kv_cache_dtype", dtype, "auto"
    elif _may_take_fp8(run) and not pins_attention_without_fp8(run):
        yield "kv_cache_dtype", dtype, "fp8"
    for length in _lengths(memory):
        yield "max_model_len", memory.length, length
    ranks = run.setting("tensor_parallel_size") or 1
    # Workers of other ranks than the setting has are of a launch that the log doesn't hold.
    shown = {process.rank for process in run.processes if process.rank.startswith("TP")}
    if isinstance(ranks, int) and len(shown) <= ranks:
        yield from (("tensor_parallel_size", ranks, value) for value in (ranks // 2, ranks * 2) if value)
    if not run.setting("quantization") and run.platform is not None and _may_take_fp8(run):
        yield "quantization", None, "fp8"


def _has_memory_left(run: Run, memory: Memory, share: float) -> bool:
    """Return whether a larger share of the device's memory may be had.

    Not where the host uses it too, where a modified vLLM divides it, or where the CUDA graphs need what lies beside the share.
    """
    if may_share_memory(run) or options_of_fork(run):
        return False
    graphs = 0.0 if memory.graphs else run.measure("graph_capture_gib") or 0.0
    return memory.total is None or (1 - share) * memory.total.low >= graphs + _LEFT_FREE_GIB


def _may_take_fp8(run: Run) -> bool:
    """Return whether fp8 may be offered: to graphics cards, unless the log shows one without it."""
    return run.platform in ("cuda", "rocm", None) and not refuses_fp8(run)


def _lengths(memory: Memory) -> list[int]:
    if not memory.length:
        return []
    shorter = [memory.length // 2**power for power in range(1, _MOST_LENGTHS + 1)]
    return [length for length in shorter if length >= 1024]


def _exists(run: Run, name: str) -> bool:
    version = run.release
    return release_number(version) is None or flag_for_field(name, version) is not None


def _row(run: Run, name: str, before: Any, after: Any) -> WhatIf:
    answer = what_if(run, {name: after})
    tokens, requests = answer.kv_cache_tokens, answer.max_concurrency
    return WhatIf(
        name,
        before,
        after,
        _whole(tokens.after),
        _whole(tokens.low),
        _whole(tokens.high),
        requests.after,
        tokens.basis,
    )


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)
