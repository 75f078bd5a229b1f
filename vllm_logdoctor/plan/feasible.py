"""Why a plan's settings can't be taken: what would not start, not hold one request, or crowd the cache of this load."""

from __future__ import annotations

from vllm_logdoctor.knowledge.flags import field_of, flag_for_field
from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.plan.planned import PlannedRun
from vllm_logdoctor.plan.whatif import concurrency_of
from vllm_logdoctor.rules.capacity.memory import (
    AS_PRINTED,
    START_FAILS,
    Memory,
    device_total,
    utilization_of,
)
from vllm_logdoctor.rules.capacity.weights import weights_of
from vllm_logdoctor.rules.limits import KV_FULL
from vllm_logdoctor.rules.load import Load
from vllm_logdoctor.rules.model import Change
from vllm_logdoctor.run.model import Run

LEAST_SHRINK = 0.97
"""A cache that loses less than 3 % of its tokens is taken for the same: profiling anew moves it by as much."""
# Free memory on device cuda:0 (54.34/79.18 GiB) on startup     GPU 0 has a total capacity of 79.25 GiB of which
_TOTAL = lazy_pattern(
    r"on device \S{1,20} \([\d.]{1,9}/([\d.]{1,9}) GiB\)|total capacity of ([\d.]{1,9}) GiB"
)


def obstacle(planned: PlannedRun, change: Change, load: Load, repairs: bool) -> str:
    """Return why a change can't be made in a planned run, or an empty text.

    Args:
        planned: the run with this change and those before it.
        change: the change that was added last.
        load: the load of the run that the log shows.
        repairs: whether the change is the remedy of a failure: it may cost speed, but must start.
    """
    if planned.fails:
        return planned.fails
    return (
        _refused_value(planned.run, change)
        or _weights_do_not_fit(planned.run, planned.after, change)
        or _one_request_does_not_fit(planned, change)
        or ("" if repairs else _crowds_the_cache(planned, load))
        or _steps_below_sequences(planned.run, change)
    )


def _refused_value(run: Run, change: Change) -> str:
    """Return why the release does not take a value: it is none of those that the flag allows."""
    if change.kind != "flag" or change.after is None or not isinstance(change.after, str):
        return ""
    flag = flag_for_field(field_of(change.knob), run.release)
    if flag is None or not flag.choices or change.after in map(str, flag.choices):
        return ""
    return (
        f"{change.after} is none of the values that this release takes: {', '.join(map(str, flag.choices))}"
    )


def _weights_do_not_fit(run: Run, memory: Memory | None, change: Change) -> str:
    """Return why the weights of a rank leave no room in the share of the device that the engine may use.

    Where the log tells the memory of a rank, its weights are those after the change already.
    """
    if change.knob not in ("--gpu-memory-utilization", "--tensor-parallel-size", "--pipeline-parallel-size"):
        return ""
    share = run.setting("gpu_memory_utilization") or utilization_of(run)
    total, (weights, basis) = _device_gib(run), weights_of(run)
    if (
        weights is not None
        and basis == AS_PRINTED
        and memory is None
        and change.knob != "--gpu-memory-utilization"
    ):
        weights *= float(change.before or 1) / float(change.after or 1)
    if total is None or weights is None or not isinstance(share, float) or weights < share * total:
        return ""
    return (
        f"{share:g} x {total:.4g} GiB is less than the {weights:.4g} GiB of weights on each card ({basis}),"
        f" {START_FAILS}"
    )


def _device_gib(run: Run) -> float | None:
    """Return the memory of a device: of the lines of a start, or of the error that ended it."""
    total = device_total(run)
    if total is not None:
        return total.gib
    found = (_TOTAL.search(record.message) for record in run.records if "GiB" in record.message)
    return next((float(match[1] or match[2]) for match in found if match), None)


def _one_request_does_not_fit(planned: PlannedRun, change: Change) -> str:
    """Return why a request of full length does not fit the cache, where it did before or the length is new."""
    held = requests_held(planned.before, planned.after)
    if held is None or held[1] >= 1 or (held[0] < 1 and held[1] >= held[0]):
        return ""
    memory = planned.after
    assert memory is not None
    fits = context_that_fits(planned)
    shorter = f"; with it --max-model-len {fits} would fit" if fits else ""
    value = "" if change.after is None else f"with {change.after} "
    return (
        f"{value}the cache would hold {int(memory.tokens):,} tokens, {held[1]:.2g} of one request of {memory.length:,}"
        f" tokens: {START_FAILS}{shorter}"
    )


def context_that_fits(planned: PlannedRun) -> int:
    """Return the length of the longest request that the cache of a planned run holds, a little less; 0 where it is not known."""
    held = requests_held(planned.before, planned.after)
    length = planned.after.length if planned.after is not None else None
    return int(held[1] * length * 0.98) // 1024 * 1024 if held and length else 0


def requests_held(before: Memory | None, after: Memory | None) -> tuple[float, float] | None:
    """Return how many requests of full length the cache holds now and then, or None where the log does not tell."""
    if before is None or after is None or not after.length or not before.concurrency:
        return None
    then = concurrency_of(before, after)
    return None if then is None else (before.concurrency, then)


def _crowds_the_cache(planned: PlannedRun, load: Load) -> str:
    """Return why a smaller cache does not hold what this load kept in it."""
    if planned.room >= LEAST_SHRINK or not load.peak_kv:
        return ""
    needed = load.peak_kv / planned.room
    if needed < KV_FULL:
        return ""
    return (
        f"the cache would hold {planned.room:.2g} times the tokens, and this load used up to {load.peak_kv:g} %"
        " of it: requests would wait for the cache"
    )


def _steps_below_sequences(run: Run, change: Change) -> str:
    """Return why a release refuses fewer tokens a step than sequences."""
    max_num_seqs, tokens = run.setting("max_num_seqs"), run.setting("max_num_batched_tokens")
    if change.knob not in ("--max-num-seqs", "--max-num-batched-tokens"):
        return ""
    if isinstance(max_num_seqs, int) and isinstance(tokens, int) and tokens < max_num_seqs:
        return f"max_num_batched_tokens ({tokens:,}) must not be smaller than max_num_seqs ({max_num_seqs:,})"
    return ""
