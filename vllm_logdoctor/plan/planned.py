"""The planned run: the log's run with the settings of a plan, what vLLM would print then, and the load under the same demand."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from vllm_logdoctor.events import Event
from vllm_logdoctor.knowledge.flags import field_of, flag_for_field
from vllm_logdoctor.plan.whatif import concurrency_of, memory_with
from vllm_logdoctor.rules.capacity.defaults import slots_in_a_line
from vllm_logdoctor.rules.capacity.memory import Memory, memory_of
from vllm_logdoctor.rules.forecast import Limits, under
from vllm_logdoctor.rules.model import Change
from vllm_logdoctor.rules.performance.graphs import GRAPH_SIZES, largest_captured, largest_size
from vllm_logdoctor.run.model import Evidence, Occurrences, Run, Value

# Lines that vLLM prints because of a setting: with the setting changed they are gone.
PRINTED_FOR: dict[str, tuple[str, ...]] = {
    "--enforce-eager": ("eager-mode-in-effect", "cudagraph-capture-skipped"),
    "--optimization-level": ("eager-mode-in-effect", "cudagraph-capture-skipped"),
    "--compilation-config": ("eager-mode-in-effect", "cudagraph-capture-skipped"),
    "--quantization": ("quantization-kernel-forced", "quantization-not-optimized"),
    "--tensor-parallel-size": ("custom-allreduce-disabled", "tensor-parallel-across-nodes"),
    "--kv-cache-memory-bytes": ("memory-left-hint",),
    "--gpu-memory-utilization": ("memory-left-hint",),
    "--max-num-batched-tokens": ("speculative-token-budget",),
    "--speculative-config": ("speculative-token-budget",),
    "--mm-processor-kwargs": ("slow-image-processor",),
    "--block-size": (
        "block-size-precluded-higher-priority-backend-s",
        "cpu-backend-prefers-block-size-multiples-32",
    ),
    "--kv-cache-dtype": ("engine-v0-fallback", "fp8-kv-cache-wants-flashinfer"),
    "--mm-processor-cache-gb": ("skipping-multi-modal-processor-cache-insert-item",),
    "--disable-log-requests": ("request-received",),
    "--enable-log-requests": ("request-received",),
    "VLLM_ATTENTION_BACKEND": ("fp8-kv-cache-wants-flashinfer",),
    "VLLM_CPU_OMP_THREADS_BIND": ("cpu-thread-binding",),
    "VLLM_TRACE_FUNCTION": ("vllm-trace-function-enabled-record-every-function",),
    "VLLM_DISABLE_COMPILE_CACHE": ("compile-cache-disabled",),
}
ANSWERED_WITHOUT = frozenset({"num_gpu_blocks_override"})
"""Settings whose law answers what is without them."""
LARGEST_CAPTURED = 512
"""The largest batch that vLLM captures by default, or twice max_num_seqs where that is less."""
_LINE = Evidence("", 0, "as the plan sets it")
_CPU_CACHE = "VLLM_CPU_KVCACHE_SPACE"


class PlannedRun(Struct, frozen=True):
    """A run with a plan's settings.

    Attributes:
        run: the run as its log would read then.
        before, after: memory of a rank now and then; None where the log does not tell it.
        fails: why the start would fail, or "".
    """

    run: Run
    before: Memory | None
    after: Memory | None
    fails: str

    @property
    def room(self) -> float:
        """Return how many times the tokens the cache holds then."""
        return self.after.tokens / self.before.tokens if self.before and self.after else 1.0


def planned_run(run: Run, changes: Iterable[Change]) -> PlannedRun:
    """Return the run that has the flags and variables of a plan, under the same demand."""
    made = [change for change in changes if change.kind in ("flag", "env")]
    settings = {field_of(change.knob): _wanted(run, change) for change in made if change.kind == "flag"}
    before = memory_of(run)
    known = {name: value for name, value in settings.items() if value is not None or name in ANSWERED_WITHOUT}
    after = memory_with(run, known)
    fails = after if isinstance(after, str) else ""
    memory = _on_cpu(before if isinstance(after, str) else after, made)
    changed = copy(run)
    # Where the log shows no arguments, those of the plan alone would say that nothing else was asked for.
    given = {**run.arguments, **settings} if run.arguments else {}
    changed.arguments = {name: value for name, value in given.items() if value is not None}
    changed.config = {**run.config, **{name: _value(value) for name, value in settings.items()}}
    changed.config = {name: value for name, value in changed.config.items() if value.value is not None}
    changed.environment = {**run.environment, **_variables(made)}
    gone = {name for change in made for name in PRINTED_FOR.get(change.knob, ())}
    changed.messages = {name: seen for name, seen in run.messages.items() if name not in gone}
    if "gpu_memory_utilization" in settings:
        _print_equivalent_again(changed, settings["gpu_memory_utilization"])
    if "max_num_seqs" in settings:
        _capture_sizes_again(changed, settings["max_num_seqs"])
    planned = PlannedRun(changed, before, memory, fails)
    changed.measured = {**run.measured, **_measured(run, before, memory)}
    _set_load(
        run,
        planned,
        next((change.before for change in made if field_of(change.knob) == "max_num_seqs"), None),
    )
    return planned


def _wanted(run: Run, change: Change) -> Any:
    """Return the new value of a flag; one that is dropped takes the default of the version, None where it is computed."""
    if change.knob.startswith("--no-") and change.after:
        return False
    if change.after is not None:
        return change.after
    known = flag_for_field(field_of(change.knob), run.release)
    return known.default if known is not None and not known.default_is_source else None


def _value(wanted: Any) -> Value:
    return Value(wanted, "explicit", (_LINE,)) if wanted is not None else Value(None, "default")


def _variables(changes: list[Change]) -> dict[str, Value]:
    return {
        change.knob: Value(str(change.after), "explicit", (_LINE,))
        for change in changes
        if change.kind == "env" and change.after is not None
    }


def _on_cpu(memory: Memory | None, changes: list[Change]) -> Memory | None:
    """Return the memory with the cache that VLLM_CPU_KVCACHE_SPACE sets, where a plan sets it."""
    size = next((change for change in changes if change.knob == _CPU_CACHE), None)
    if memory is None or size is None or not size.before or not size.after:
        return memory
    ratio = float(size.after) / float(size.before)
    grown = memory.scaled(ratio, ratio, ratio, f"{_CPU_CACHE} {size.before} -> {size.after}")
    return replace(grown, available=memory.available * ratio if memory.available else None)


def _measured(run: Run, before: Memory | None, after: Memory | None) -> dict[str, Value]:
    """Return the figures that the engine would print of its memory."""
    if before is None or after is None:
        return {}
    figures = {
        "kv_cache_tokens": int(after.tokens),
        "max_concurrency": concurrency_of(before, after),
        "available_kv_cache_gib": after.available,
        "model_weights_gib": after.weights,
    }
    return {
        name: replace(run.measured[name], value=figure)
        for name, figure in figures.items()
        if name in run.measured and figure is not None
    }


def _print_equivalent_again(run: Run, utilization: float) -> None:
    """The line about graphs inside the budget names the new share, and one that is as much smaller as before."""
    seen = run.messages.get("graph-memory-equivalent")
    if seen is None:
        return
    event = seen.first[0]
    now, before = event.number("utilization"), event.number("equivalent")
    if now is None or before is None:
        return
    fields = {
        **event.fields,
        "utilization": utilization,
        "equivalent": round(utilization - (now - before), 4),
    }
    again = Event(event.name, fields, event.pattern, event.record)
    run.messages["graph-memory-equivalent"] = Occurrences([again], again, 1, set(seen.processes))


def _capture_sizes_again(run: Run, max_num_seqs: Any) -> None:
    """Set the capture sizes that vLLM derives from max_num_seqs and from what the user asked for."""
    value = run.config.get("compilation_config")
    if value is None or not isinstance(value.value, dict) or not isinstance(max_num_seqs, int):
        return
    asked = asked_capture_size(run)
    largest = min(asked or LARGEST_CAPTURED, 2 * max_num_seqs)
    sizes = {
        name: max(largest, largest_size(value.value[name])) for name in GRAPH_SIZES if value.value.get(name)
    }
    if sizes:
        run.config["compilation_config"] = replace(value, value={**value.value, **sizes})


def asked_capture_size(run: Run) -> int | None:
    """Return the largest capture size that the user fixed, or None."""
    asked = map(largest_captured, (run.arguments, run.arguments.get("compilation_config")))
    return max((size for size in asked if size), default=None)


def _set_load(run: Run, planned: PlannedRun, max_num_seqs: int | None) -> None:
    """Put the statistics lines in place that the planned run would print under the same demand.

    `max_num_seqs` is the value that a change starts from, which the load shows where the log does not print it.
    """
    before = Limits(slots_in_a_line(run) or max_num_seqs)
    after = Limits(slots_in_a_line(planned.run) or max_num_seqs, planned.room)
    if before == after:
        return
    planned.run.samples = [under(sample, before, after) for sample in run.samples]
    planned.run.extremes = replace(run.extremes, waiting=None, running=None, kv_usage=None)
