"""Settings that the log does not print and that the memory of the device decides."""

from __future__ import annotations

from typing import Any

from vllm_logdoctor.knowledge.context import Context
from vllm_logdoctor.knowledge.defaults import default_of
from vllm_logdoctor.rules.capacity.card import device_name
from vllm_logdoctor.rules.capacity.memory import arguments_are_whole, device_total, whole
from vllm_logdoctor.run.model import Run

SMALLEST_DEFAULT = 256
"""The max_num_seqs that every release sets on cards at least."""


def max_num_seqs_of(run: Run) -> int | None:
    """Return max_num_seqs: as printed, else the default for this version and device where the arguments leave
    it open.
    """
    return whole(run.setting("max_num_seqs")) or _within_graphs(run, _default(run, "max_num_seqs"))


def _within_graphs(run: Run, default: int | None) -> int | None:
    """Return a default no larger than the batches for which the engine captures full graphs, where mixed ones are larger.

    A driver that does not tell the memory of the card (GB10) leaves it the default of small cards.
    """
    seen = run.seen("graph-sizes-profiled")
    mixed, full = (seen.first[0].number(name) for name in ("piecewise", "full")) if seen else (None, None)
    drafts = run.setting("speculative_config")
    return min(default, int(full)) if default and full and mixed and full < mixed and not drafts else default


def engines_in_a_line(run: Run) -> int:
    """Return how many engines a statistics line adds up: all data-parallel ranks where only their aggregate is printed."""
    # 8 Engines Aggregated: Avg prompt throughput: 100.0 tokens/s, Avg generation throughput: 800.0 tokens/s, Running: 26 reqs
    aggregated = bool(run.samples) and all(sample.engine < 0 for sample in run.samples)
    return whole(run.setting("data_parallel_size")) or 1 if aggregated else 1


def slots_in_a_line(run: Run) -> int | None:
    """Return the requests that can run in the engines of a statistics line: max_num_seqs holds for each of them."""
    each = max_num_seqs_of(run)
    return each * engines_in_a_line(run) if each else None


def least_max_num_seqs(run: Run) -> int:
    """Return the number that max_num_seqs can't be below: 1, or the smallest default on cards where the arguments leave
    it open.
    """
    on_cards = run.platform in ("cuda", "rocm")
    if not on_cards or not arguments_are_whole(run) or run.setting("max_num_seqs") is not None:
        return 1
    # vLLM's default max_num_seqs is at most the tokens of a step.
    return min(SMALLEST_DEFAULT, whole(run.setting("max_num_batched_tokens")) or SMALLEST_DEFAULT)


def step_tokens_of(run: Run) -> int | None:
    """Return max_num_batched_tokens: as printed, else the default for this version and device."""
    return whole(run.setting("max_num_batched_tokens")) or _default(run, "max_num_batched_tokens")


def _default(run: Run, name: str) -> int | None:
    if run.version is None or not arguments_are_whole(run):
        return None
    found = default_of(name, str(run.version.value), context_of_defaults(run))
    return whole(found.value) if found else None


def context_of_defaults(run: Run) -> Context:
    """Return what is known of a run for asking defaults, with the memory of its device."""
    total, named = device_total(run), device_name(run)

    def size(name: str) -> int | None:
        return whole(run.setting(name))

    return Context(
        engine=run.engine if run.engine in ("V0", "V1") else None,  # type: ignore[arg-type]
        platform=run.platform,  # type: ignore[arg-type]
        kind=run.kind if run.kind in ("server", "offline") else None,
        gpu_memory_gib=total.gib if total else None,
        device_name=named[0] if named else None,
        world_size=(size("tensor_parallel_size") or 1) * (size("pipeline_parallel_size") or 1),
        pipeline_parallel_size=size("pipeline_parallel_size"),
        data_parallel_size=size("data_parallel_size"),
        max_model_len=size("max_model_len"),
        enforce_eager=_switch(run.setting("enforce_eager")),
        enable_prefix_caching=_switch(run.setting("enable_prefix_caching")),
        enable_chunked_prefill=_switch(run.setting("enable_chunked_prefill")),
    )


def _switch(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None
