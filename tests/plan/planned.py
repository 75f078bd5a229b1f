"""The run that a plan leads to: the same log with the changes made, and with what vLLM would print then."""

from __future__ import annotations

from copy import copy
from typing import Any

from msgspec.structs import replace

from vllm_logdoctor.events import Event
from vllm_logdoctor.knowledge.flags import flag_for_field
from vllm_logdoctor.plan.model import Plan
from vllm_logdoctor.plan.whatif import what_if
from vllm_logdoctor.rules.bottleneck import cache_is_full
from vllm_logdoctor.rules.model import Change
from vllm_logdoctor.run.model import Evidence, Occurrences, Run, Sample, Value

# Lines that vLLM prints because of a setting: with the setting changed they are gone.
PRINTED_FOR: dict[str, tuple[str, ...]] = {
    "--enforce-eager": ("eager-mode-in-effect", "cudagraph-capture-skipped"),
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
LINE = Evidence("planned.log", 1, "as the plan sets it")
CACHE_SETTINGS = frozenset(
    {
        "gpu_memory_utilization", "kv_cache_dtype", "max_model_len", "tensor_parallel_size", "num_gpu_blocks_override",
        "kv_cache_memory_bytes", "max_num_seqs", "max_num_batched_tokens",
    }
)  # fmt: skip


def planned(run: Run, plan: Plan) -> Run:
    """Return the run that has the plan's flags and variables, under the same demand."""
    changes = [item.change for item in plan.changes if item.change.kind in ("flag", "env")]
    settings = {field_of(change): _wanted(change) for change in changes if change.kind == "flag"}
    after = copy(run)
    after.arguments = _without_none({**run.arguments, **settings})
    after.config = {**run.config, **{name: _value(run, name, wanted) for name, wanted in settings.items()}}
    after.config = {name: value for name, value in after.config.items() if value.value is not None}
    after.environment = {**run.environment, **_variables(changes)}
    after.measured, room = _capacity(run, settings, changes)
    gone = {name for change in changes for name in PRINTED_FOR.get(change.knob, ())}
    after.messages = {name: seen for name, seen in run.messages.items() if name not in gone}
    if "gpu_memory_utilization" in settings:
        _print_equivalent_again(after, settings["gpu_memory_utilization"])
    after.samples = [_under(sample, run, settings, room) for sample in run.samples]
    after.extremes = replace(run.extremes, waiting=None, running=None, kv_usage=None)
    return after


def field_of(change: Change) -> str:
    """Return the EngineArgs field of a flag."""
    return change.knob.removeprefix("--").removeprefix("no-").replace("-", "_")


def _wanted(change: Change) -> Any:
    return False if change.knob.startswith("--no-") and change.after else change.after


def _without_none(settings: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if value is not None}


def _value(run: Run, name: str, wanted: Any) -> Value:
    """Return what the run would have: the new value, or the default of the version where the flag is dropped."""
    if wanted is not None:
        return Value(wanted, "explicit", (LINE,))
    known = flag_for_field(name, str(run.version.value) if run.version else None)
    default = known.default if known is not None and not known.default_is_source else None
    return Value(default, "default")


def _variables(changes: list[Change]) -> dict[str, Value]:
    return {
        change.knob: Value(str(change.after), "explicit", (LINE,))
        for change in changes
        if change.kind == "env" and change.after is not None
    }


def _capacity(run: Run, settings: dict[str, Any], changes: list[Change]) -> tuple[dict[str, Value], float]:
    """Return the figures of the cache after the changes, and how many times the tokens it holds."""
    wanted = {name: value for name, value in settings.items() if name in CACHE_SETTINGS and value is not None}
    room = next((2.0 for change in changes if change.knob == "VLLM_CPU_KVCACHE_SPACE"), 1.0)
    answer = what_if(run, wanted) if wanted else None
    figure = answer.kv_cache_tokens if answer else None
    if figure and figure.after and figure.before:
        room *= figure.after / figure.before
    elements = 2.0 if wanted.get("kv_cache_dtype") else 1.0
    scale = {"kv_cache_tokens": room, "max_concurrency": room, "available_kv_cache_gib": room / elements}
    if "num_gpu_blocks_override" in settings:
        scale = {}
    measured = {
        name: replace(value, value=value.value * scale[name]) if name in scale else value
        for name, value in run.measured.items()
    }
    return measured, room


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


def _under(sample: Sample, run: Run, settings: dict[str, Any], room: float) -> Sample:
    """Return a statistics line under the same demand: more requests run where seats and cache now allow it."""
    running, waiting, usage = sample.running or 0, sample.waiting or 0, sample.kv_usage or 0.0
    if not running:
        return sample
    each = usage / running / room
    before = run.setting("max_num_seqs")
    limited_by_seats = isinstance(before, int) and running >= 0.95 * before
    limited_by_cache = cache_is_full(running, usage)
    demand = running + waiting
    now = running
    if (limited_by_seats and "max_num_seqs" in settings) or (limited_by_cache and room > 1):
        seats = settings.get("max_num_seqs") or before or demand
        fits = int(95 / each) if each > 0 else demand
        now = max(min(demand, seats, fits), running)
    return replace(sample, running=now, waiting=demand - now, kv_usage=round(min(100.0, each * now), 1))
