"""Rules on what of a start the next one can save: downloads, reading the weights, compilation."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from msgspec.structs import replace

from vllm_logdoctor.knowledge.flags import flag_for_field
from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.rules.capacity.card import device_of
from vllm_logdoctor.rules.context import (
    RuleContext,
    action,
    last_line,
    message_lines,
    whole,
)
from vllm_logdoctor.rules.model import Change, Effect
from vllm_logdoctor.rules.performance.published import COMPILE_CACHE_WARM, PAGE_CACHE_WARM
from vllm_logdoctor.rules.placement import ranks_of
from vllm_logdoctor.rules.rule import Advice, Rule
from vllm_logdoctor.run.model import Evidence, Phase, Run

# A start within a minute is a usual one: nobody waits for what a tenth of it could save.
LONG = 60.0
MOST_OF_IT = 0.5
# One fast local disk reads more than 1 GiB/s; network file systems and cold objects read less than half of
# that.
SLOW_GIB_PER_SECOND = 0.5
SLOW_FOR_MINUTES = 0.75
MANY_MINUTES = 300.0
"""A loading of so many seconds is slow at a rate that is clearly below that of a local disk, or without a size."""
EXTREME = 600.0
"""A start from which its longest phase is named, whichever it is, and no small one."""
# What is a smaller part of a start is not what makes it slow.
LEAST_PART = 0.2
# /scratch/me/vllm-cache-1045456      /tmp/tmp4k2x/vllm
_OF_ONE_JOB = lazy_pattern(r"\d{5,}|^/tmp/")
_OF_LOCAL_DISKS = frozenset({"EXT4", "EXT3", "XFS", "BTRFS", "ZFS"})


def slow_startup_model_download(case: RuleContext) -> Advice | None:
    """Weights were downloaded at the start. Needs vLLM's line with the seconds."""
    seconds = longest(case, "download")
    if seconds is None or seconds < LONG:
        return None
    text = f"Downloading the weights took {seconds:,.0f} s; a second start on the same disk skips it."
    return Advice(
        text,
        message_lines(case, "weights-downloaded"),
        confidence="high",
        changes=(
            action("download the model before the job (hf download), on a disk that the next start sees too"),
        ),
        verify="no `Time spent downloading weights`, or a few seconds.",
    )


def slow_weight_loading_storage(case: RuleContext) -> Advice | None:
    """Weights came slowly from storage. Needs seconds of loading, and their size for the rate."""
    seconds, gib = load_seconds(case), read_gib(case)
    if seconds is None or seconds < LONG or case.run.setting("quantization") == "bitsandbytes":
        return None  # bitsandbytes quantizes while it loads, so that the time is not the storage's alone.
    downloaded = longest(case, "download") or 0.0
    if downloaded > MOST_OF_IT * seconds:
        return None
    if longest(case, "read-weights") is None:
        seconds -= downloaded
    rate = gib / seconds if gib else None
    slow = SLOW_FOR_MINUTES if seconds >= MANY_MINUTES else SLOW_GIB_PER_SECOND
    if (rate is not None and rate > slow) or (rate is None and seconds < MANY_MINUTES):
        return None
    part = shards_so_far(case)
    text = (
        f"{part} were loaded after {seconds:,.0f} s" if part else f"Loading the weights took {seconds:,.0f} s"
    )
    text += _against_a_disk(seconds, gib)
    checkpoint = case.event("checkpoint-size")
    file_system = checkpoint.text("filesystem") if checkpoint is not None else ""
    if file_system:
        text += f" The checkpoint is on {file_system}."
    slow_reading = _reading_is_the_limit(case)
    if slow_reading:
        text += f" {slow_reading}"
        change = _faster_reader(case)
    elif device_of(case.run) is None and file_system.upper() in ("", *_OF_LOCAL_DISKS):
        change = _WHICH_IS_SLOW
    else:
        change = _faster_storage(file_system, _fits_host(case))
    return Advice(
        text,
        (
            *_slowest_reading(case),
            *message_lines(case, "model-loaded", "model-weights-loaded", "checkpoint-size"),
        ),
        confidence="high" if rate is not None and rate < SLOW_GIB_PER_SECOND / 2 else "medium",
        changes=(change,),
        effect=None if slow_reading or change == _WHICH_IS_SLOW else _loading_effect(case, seconds, gib),
        alternatives=tuple(_other_loaders(case, file_system, reader_changed=bool(slow_reading))),
        verify="fewer seconds in `Loading weights took`.",
    )


def _against_a_disk(seconds: float, gib: float | None) -> str:
    """Return what a loading is beside that from a local disk."""
    if not gib:
        return f"; a local disk at 1 GiB/s reads {seconds:,.0f} GiB in that time. The log does not show the size of the weights."
    rate = gib / seconds
    far = "far " if rate < SLOW_GIB_PER_SECOND else ""
    return f" for {gib:.1f} GiB, {1024 * rate:,.0f} MiB/s, {far}below what a fast local disk reads."


def _slowest_reading(case: RuleContext) -> tuple[Evidence, ...]:
    """Return the line of the longest reading: a draft model has one of its own; without one, where the bar of the shards ended."""
    read = [phase for phase in case.run.phases if phase.name == "read-weights" and phase.seconds is not None]
    if not read:
        return last_line(case, "weights-progress")
    return max(read, key=lambda phase: phase.seconds or 0.0).evidence


def _faster_storage(file_system: str, fits_host: bool) -> Change:
    cached = ", or keep them in the page cache from one start to the next" if fits_host else ""
    if file_system.upper() in _OF_LOCAL_DISKS:
        return action(f"put the weights on a faster local disk (NVMe){cached}")
    return action(f"copy the weights to a local disk{cached}")


def _faster_reader(case: RuleContext) -> Change:
    """Return a way to read without mapping: `eager` holds a file twice in memory, and one file can be nearly the whole checkpoint."""
    eager = ", or `--safetensors-load-strategy eager`" if _fits_host(case, 2, unknown=False) else ""
    return action(
        "read the weights without mapping the files: `--load-format fastsafetensors` (package fastsafetensors)"
        + eager
    )


_WHICH_IS_SLOW = action(
    "time `cat` of the weight files while they are not in the page cache: if that takes much less time than this loading,"
    " the disk is not the limit"
)


def _reading_is_the_limit(case: RuleContext) -> str:
    """Return why the way of reading, not the disk, is probably the limit; "" where nothing speaks for that.

    Mapped files come in at some 130 MiB/s on cards that share the host's memory (three logs of GB10), whatever the disk.
    """
    card = device_of(case.run)
    if card is None or not card.unified_memory:
        return ""
    return f"{card.name} shares the host's memory: mapped files are read slowly there, and the disk is probably not the limit."


def _fits_host(case: RuleContext, times: float = 1, *, unknown: bool = True) -> bool:
    """Return whether the checkpoint fits the host's free memory as often as given; `unknown` where the log does not print it."""
    event = case.event("checkpoint-size")
    size, free = (event.number(name) for name in ("gib", "ram")) if event else (None, None)
    return unknown if size is None or free is None else times * size < free


def slow_startup_torch_compile(case: RuleContext) -> Advice | None:
    """Compilation dominates the start. Needs the engine's seconds of compilation."""
    run, seconds = case.run, compile_seconds(case.run)
    inductor = sum(
        phase.seconds or 0.0
        for phase in run.phases
        if phase.name == "inductor" and _rank(phase) == _first_process(run.phases, "inductor")
    )
    seconds = seconds or inductor
    whole_start = run.measure("init_engine_seconds")
    if seconds < LONG or is_small_part(run, seconds):
        return None
    if case.event("compile-cache-disabled") is not None:
        # With the cache switched off there is nothing to keep: the rule on the switch says what to do.
        return None
    cold = case.event("graph-compiled") is not None
    start = run.startup_seconds
    of_start = f" of {start:,.0f} s from launch to ready" if start and run.startup_complete else ""
    text = f"torch.compile took {seconds:,.0f} s{of_start}" + (
        " with a cold cache: a second start with the same model, settings and cache folder loads the result."
        if cold
        else "; the log does not show whether its cache was used."
    )
    return Advice(
        text,
        message_lines(case, "graph-compiled", "engine-initialised", "compile-total"),
        confidence="high" if cold else "medium",
        changes=(action(_kept_cache(case)),),
        effect=_cache_effect(seconds, whole_start) if cold else None,
        alternatives=()
        if case.asked_for("compilation_config")
        else ("-O0 while developing: faster start, slower steps",),
        verify="`Directly load the compiled graph` or `Directly load AOT compilation` at the second start.",
    )


def _kept_cache(case: RuleContext) -> str:
    """Return the step that keeps the compile cache: under one name where the folder of this start looks like one of a single job."""
    event = case.event("compile-cache-directory")
    root = event.text("path").partition("/torch_compile_cache")[0] if event else ""
    if _OF_ONE_JOB.search(root):
        return f"use one folder for all jobs as VLLM_CACHE_ROOT: this run used {root}"
    shown = f": {root}" if root and not root.endswith("/.cache/vllm") else " (default ~/.cache/vllm)"
    return f"keep the folder VLLM_CACHE_ROOT between starts{shown}; copy it into images and to other nodes"


def is_small_part(run: Run, seconds: float) -> bool:
    """Return whether some seconds are a small part of the engine's start, or of a whole start of many minutes."""
    start = run.startup_seconds or 0.0
    longest_start = max(run.measure("init_engine_seconds") or 0.0, start if start >= EXTREME else 0.0)
    return seconds < LEAST_PART * longest_start


def compile_seconds(run: Run) -> float | None:
    """Return the seconds of torch.compile: of all models of the engine, with a drafter's, where it adds them up."""
    ready = run.seen("engine-initialised")
    return (ready.first[0].number("compilation") if ready else None) or run.measure("torch_compile_seconds")


def _cache_effect(seconds: float, whole_start: float | None) -> Effect:
    """Return what a warm cache gains: as measured, or no more than the compilation where the rest of the start is longer."""
    measured = COMPILE_CACHE_WARM.effect("init_engine_seconds")
    least = 1 - seconds / whole_start if whole_start else 0.0
    if least <= measured.low or not whole_start:
        return measured
    if least <= measured.high:
        bound = f"here at most {1 / least:.3g} x: torch.compile is {seconds:,.0f} of {whole_start:,.0f} s"
        return replace(measured, low=least, basis=f"{measured.basis}; {bound}")
    basis = f"torch.compile is {seconds:,.0f} of {whole_start:,.0f} s; loading the cached result takes up to half of that"
    return Effect("init_engine_seconds", least, 1 - seconds / whole_start / 2, "computed", basis)


def longest(case: RuleContext, phase: str) -> float | None:
    """Return the longest seconds of a phase over processes, or None."""
    return max(
        (item.seconds for item in case.run.phases if item.name == phase and item.seconds is not None),
        default=None,
    )


def load_seconds(case: RuleContext) -> float | None:
    """Return the seconds of loading the weights: reading them, or loading as a whole, or the bar of the
    shards.
    """
    found = longest(case, "read-weights") or longest(case, "load-weights")
    if found is not None:
        return found
    bar = case.run.seen("weights-progress")
    return clock_seconds(bar.last.text("elapsed")) if bar and bar.last else None


def shards_so_far(case: RuleContext) -> str:
    """Return how many shards were loaded where the log ends within the loading, or an empty text."""
    bar = case.run.seen("weights-progress")
    if bar is None or bar.last is None or longest(case, "read-weights") or longest(case, "load-weights"):
        return ""
    done, total = bar.last.number("done"), bar.last.number("total")
    return f"{done:g} of {total:g} shards" if done and total and done < total else ""


def read_gib(case: RuleContext) -> float | None:
    """Return the size of what was read in GiB: the checkpoint as printed, else the weights of all ranks and stages; once for
    each data parallel replica, which reads its own.
    """
    event = case.event("checkpoint-size")
    size = event.number("gib") if event else None
    weights = case.run.measure("model_weights_gib")
    if not size and weights:
        size = weights * ranks_of(case.run)
    return size * (whole(case.run.setting("data_parallel_size")) or 1) if size else None


def clock_seconds(text: str) -> float | None:
    """Read the time of a progress bar.

    Example:
        >>> clock_seconds("12:22"), clock_seconds("1:02:03")
        (742.0, 3723.0)
    """
    if not re.fullmatch(r"\d+(?::\d\d){1,2}", text):
        return None
    seconds = 0.0
    for part in text.split(":"):
        seconds = 60 * seconds + int(part)
    return seconds


def _first_process(phases: list[Phase], name: str) -> str:
    return next((_rank(phase) for phase in phases if phase.name == name), "")


def _rank(phase: Phase) -> str:
    """Return the process of a phase, without the note that it was the slowest, or worked on the draft model."""
    return phase.process.partition(" (")[0]


def _loading_effect(case: RuleContext, seconds: float, gib: float | None) -> Effect | None:
    if gib is None:
        return PAGE_CACHE_WARM.effect("load_seconds")
    low, high = (_rounded(max(speed * seconds / gib, 1.0)) for speed in _DISK_SPEEDS)
    return Effect(
        "load_seconds",
        1 / high,
        1 / low,
        "computed",
        f"{gib:.1f} GiB at 1 to 3 GiB/s of a local disk instead of {seconds:,.0f} s",
    )


_DISK_SPEEDS = (1.0, 3.0)


def _rounded(ratio: float) -> float:
    """Return a ratio that rests on the speed of an unknown disk: one digit where that changes it by little."""
    return float(f"{ratio:.1g}" if 3 <= ratio < 9.5 else f"{ratio:.2g}")


_PREFETCH = (
    "--safetensors-load-strategy prefetch: the files are read in order first, into free memory of the host"
)


_VLLMS_SHARE_FOR_PREFETCH = 0.9
"""Above this share of the free memory vLLM itself warns that reading ahead can run out of memory."""


def _other_loaders(case: RuleContext, file_system: str, *, reader_changed: bool) -> Iterator[str]:
    """Yield other ways to read weights that the release has, the run did not take and the change is not."""
    loader = str(case.run.setting("load_format"))
    if case.version and file_system.upper() not in _OF_LOCAL_DISKS and "runai" not in loader:
        yield "--load-format runai_streamer for object storage and parallel file systems"
    strategy = flag_for_field("safetensors_load_strategy", case.version)
    prefetch = _PREFETCH + ("" if _fits_host(case, unknown=False) else ", which must hold the checkpoint")
    named = case.event("weights-prefetch-off") is not None
    may_read_ahead = not reader_changed and _fits_host(case, 1 / _VLLMS_SHARE_FOR_PREFETCH)
    if named and strategy is None and may_read_ahead:
        yield prefetch  # A build without a release number, whose own line names it.
    offered = strategy is not None and "prefetch" in strategy.choices
    if offered and not case.asked_for("safetensors_load_strategy") and may_read_ahead:
        yield prefetch
    if case.run.setting("enable_ep_weight_filter"):
        return  # Each rank reads its own experts only already.
    if case.run.setting("enable_expert_parallel") and flag_for_field("enable_ep_weight_filter", case.version):
        yield "--enable-ep-weight-filter: each rank reads only its own experts, where the checkpoint has a tensor for each expert"
    elif (
        (whole(case.run.setting("tensor_parallel_size")) or 1) > 1
        and case.version
        and "sharded" not in loader
    ):
        yield "weights saved once per rank (--load-format sharded_state), so that each rank reads only its own part"


def _longer_first(seconds: Callable[[RuleContext], float | None]) -> Callable[[RuleContext, float], float]:
    """Return a worth that grows with the share of the start that a part of it takes: up to twice."""

    def worth(case: RuleContext, usual: float) -> float:
        whole = case.run.startup_seconds
        return usual * (1 + min(1.0, (seconds(case) or 0.0) / whole)) if whole else usual

    return worth


def of_start(
    rule: str, check: Callable[[RuleContext], Advice | None], seconds: Callable[[RuleContext], float | None]
) -> Rule:
    return Rule(rule, check, objectives=("startup",), worth=_longer_first(seconds))


RULES = (
    of_start(
        "slow-startup-model-download", slow_startup_model_download, lambda case: longest(case, "download")
    ),
    of_start("slow-weight-loading-storage", slow_weight_loading_storage, load_seconds),
    of_start(
        "slow-startup-torch-compile", slow_startup_torch_compile, lambda case: compile_seconds(case.run)
    ),
)
