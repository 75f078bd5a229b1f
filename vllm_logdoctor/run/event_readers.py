"""What a run keeps of its events beyond their count: settings, samples, figures of benchmarks, how far it came."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Literal

from vllm_logdoctor.events import Event
from vllm_logdoctor.run.configuration import arguments_of, engine_config_of, is_cut
from vllm_logdoctor.run.metrics import added, progress_of, speculation_of, transfer_of
from vllm_logdoctor.run.model import Evidence, Value
from vllm_logdoctor.run.series import sample_of

if TYPE_CHECKING:
    from vllm_logdoctor.run.builder import RunBuilder

Reader = Callable[["RunBuilder", Event], None]
"""Folds an event into a run."""
_STATISTICS = frozenset({"speculation", "transfers"})
"""Series that only an engine at work prints."""


def _read_throughput(run: RunBuilder, event: Event) -> None:
    if not run.counts_as_sample(event.record.process):
        return
    sample = sample_of(event, run.now)
    if sample is not None:
        run.series.add(sample)
        run.note_statistics()
        run.ready = True


def _read_running(run: RunBuilder, event: Event) -> None:
    """Read the first statistics of V1 (0.7.0), which hold no rates: gauges without a sample."""
    seen = run.series.extremes
    running, waiting = event.number("running"), event.number("waiting")
    if running is not None and waiting is not None:
        seen.running = max(seen.running or 0, int(running))
        seen.waiting = max(seen.waiting or 0, int(waiting))
        run.ready = True


def _adds(series: str, figure_of: Callable[[Event, float | None, Evidence], object]) -> Reader:
    """Return what adds the figure of an event to a series of the run."""

    def read(run: RunBuilder, event: Event) -> None:
        found = figure_of(event, run.now, run.evidence(event.record))
        if found is not None:
            setattr(run, series, added(getattr(run, series), found))
            run.ready = run.ready or series in _STATISTICS

    return read


def _read_benchmark(run: RunBuilder, event: Event) -> None:
    run.benchmarks.add(event, run.evidence(event.record))


def _read_hit_rate(run: RunBuilder, event: Event) -> None:
    rate = event.number("gpu")
    if rate is not None:
        run.series.note_hit_rate(rate)


def _read_preemption(run: RunBuilder, event: Event) -> None:
    total = event.number("total")
    if total is not None:
        run.series.extremes.preemptions = max(run.series.extremes.preemptions, int(total))


def _read_arguments(run: RunBuilder, event: Event) -> None:
    if run.stated.arguments:
        return
    run.stated.arguments, run.stated.arguments_complete = arguments_of(event)
    run.stated.arguments_cut = is_cut(event)
    run.stated.arguments_evidence = (run.evidence(event.record),)
    run.stated.arguments_text = event.record.message


def _read_engine_config(run: RunBuilder, event: Event) -> None:
    if run.stated.engine:
        return
    run.stated.engine = engine_config_of(event)
    run.stated.engine_evidence = (run.evidence(event.record),)
    run.stated.engine_text = event.record.message


def _read_config_dump(run: RunBuilder, event: Event) -> None:
    if "engine-config" not in run.messages:
        _read_engine_config(run, event)


def _notes(place: Literal["adjusted", "forced"], setting: str, field_name: str) -> Reader:
    def read(run: RunBuilder, event: Event) -> None:
        value = event.fields.get(field_name)
        if value is not None:
            noted: dict[str, Value] = getattr(run.stated, place)
            noted[setting] = Value(value, "reported", (run.evidence(event.record),))

    return read


_adjusts, _forces = partial(_notes, "adjusted"), partial(_notes, "forced")


def _read_batched_tokens(run: RunBuilder, event: Event) -> None:
    """Read the tokens of a step; those of a default configuration, made in passing where none is set yet, are not the run's."""
    unset = run.messages.get("current-vllm-config-not-set-2")
    before = unset.last.record if unset is not None and unset.last is not None else None
    place = (event.record.file, event.record.line, event.record.process)
    if before is None or (before.file, before.line + 1, before.process) != place:
        _adjusts("max_num_batched_tokens", "tokens")(run, event)


def _read_length(run: RunBuilder, event: Event) -> None:
    """Read the first line on the length: a draft model of speculative decoding prints it again, with its own value."""
    if "max_model_len" not in run.stated.adjusted:
        _adjusts("max_model_len", "tokens")(run, event)


def _read_cache_elements(run: RunBuilder, event: Event) -> None:
    # float8_e4m3fn is fp8_e4m3 as a setting.
    elements = event.text("elements").removeprefix("float8_").removesuffix("uz").removesuffix("fn")
    evidence = (run.evidence(event.record),)
    run.stated.resolved.setdefault("kv_cache_dtype", Value(f"fp8_{elements}", "reported", evidence))


def _mentions(setting: str, field_name: str) -> Reader:
    def read(run: RunBuilder, event: Event) -> None:
        value = event.fields.get(field_name)
        if value is not None:
            run.stated.mentioned.setdefault(setting, Value(value, "reported", (run.evidence(event.record),)))

    return read


def _read_async(run: RunBuilder, event: Event) -> None:
    enabled = event.text("state") == "enabled"
    run.stated.adjusted["async_scheduling"] = Value(enabled, "reported", (run.evidence(event.record),))


def _read_ready(run: RunBuilder, event: Event) -> None:
    run.ready = True


def _read_end(run: RunBuilder, event: Event) -> None:
    run.ended = True


READERS: dict[str, Reader] = {
    "throughput": _read_throughput,
    "running-waiting": _read_running,
    "speculation": _adds("speculation", speculation_of),
    "speculation-v0": _adds("speculation", speculation_of),
    "kv-transfer": _adds("transfers", transfer_of),
    "offline-progress": _adds("progress", progress_of),
    "benchmark-arguments": _read_benchmark,
    "benchmark-serving-begins": _read_benchmark,
    "benchmark-figure": _read_benchmark,
    "benchmark-throughput": _read_benchmark,
    "benchmark-latency": _read_benchmark,
    "prefix-hit-rate": _read_hit_rate,
    "preempted": _read_preemption,
    "arguments-namespace": _read_arguments,
    "arguments-non-default": _read_arguments,
    "engine-config": _read_engine_config,
    "engine-config-dump": _read_config_dump,
    "chunked-prefill-enabled": _read_batched_tokens,
    "max-model-len-used": _read_length,
    "max-model-len-fitted": _adjusts("max_model_len", "tokens"),
    "kv-cache-elements": _read_cache_elements,
    "block-size-set": _adjusts("block_size", "tokens"),
    "block-size-forced": _forces("block_size", "tokens"),
    "dtype-forced": _forces("dtype", "dtype"),
    "float16-not-supported-cpu-casting-bfloat16": _forces("dtype", "dtype"),
    "memory-profile-budget": _mentions("gpu_memory_utilization", "utilization"),
    "memory-profile-results": _mentions("gpu_memory_utilization", "utilization"),
    "memory-initial-debug": _mentions("gpu_memory_utilization", "utilization"),
    "memory-left-hint": _mentions("gpu_memory_utilization", "utilization"),
    "graph-memory-equivalent": _mentions("gpu_memory_utilization", "utilization"),
    "graph-memory-profiling-announced": _mentions("gpu_memory_utilization", "utilization"),
    "kv-cache-size": _mentions("max_model_len", "length"),
    "kv-cache-concurrency": _mentions("max_model_len", "length"),
    "async-scheduling": _read_async,
    "startup-complete": _read_ready,
    "uvicorn-running": _read_ready,
    "server-process-finished": _read_end,
    "shutdown-complete": _read_end,
}
"""What is read of an event when it is folded into a run, by its name."""
