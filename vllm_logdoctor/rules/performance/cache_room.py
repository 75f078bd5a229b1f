"""How a run gets more room for its KV cache, from its own numbers: what is free, what is set, what a token
costs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct, field

from vllm_logdoctor.knowledge.flags import flag_default
from vllm_logdoctor.knowledge.versions import at_least
from vllm_logdoctor.rules.capacity.defaults import slots_in_a_line
from vllm_logdoctor.rules.capacity.fp8 import (
    ARITHMETIC,
    capability_of,
    condition_of_fp8,
    fp8_cache_breaks_answers,
)
from vllm_logdoctor.rules.capacity.laws import LAWS, ChangedSetting
from vllm_logdoctor.rules.capacity.memory import GIB, Memory, memory_of
from vllm_logdoctor.rules.context import RuleContext, action, flag
from vllm_logdoctor.rules.forecast import Forecast, Limits, forecast
from vllm_logdoctor.rules.model import Change, Effect
from vllm_logdoctor.rules.performance.published import CACHE_FP8, CACHE_RAISED, WEIGHTS_FP8
from vllm_logdoctor.rules.placement import runs_on_cpu

# Left free beside the cache: transient buffers and fragmentation took up to about 2 GiB in starts that failed
# at 0.95.
LEFT_FREE_GIB = 3.0
MOST_UTILIZATION = 0.95
LEAST_GAIN = 1.03
CLEARLY_MORE = 1.05
LEAST_OVER_RUN = 1.01
_METRIC = "generation_throughput"
_BROKEN_BY_FP8 = "--kv-cache-dtype fp8: with this model family an fp8 cache without calibrated scales is known to break answers"
_REPLICAS = "more replicas share the load, and their caches add up"


class Room(Struct, frozen=True):
    """Changes that give the cache more room, what they bring, and other ways."""

    changes: tuple[Change, ...]
    effect: Effect | None
    alternatives: tuple[str, ...] = field(default=())


_QUANTIZED = "quantized weights leave more memory for the KV cache"


def room_changes(case: RuleContext) -> Room:
    """Return how this run gets a larger cache: the first way that its log supports, or the one that removes a limit which the first
    leaves.
    """
    memory = memory_of(case.run)
    ways = (
        _drop_fixed_size, _on_cpu, _printed_advice, _raise_utilization, _smaller_elements, _smaller_weights,
    )  # fmt: skip
    found = [room for way in ways if (room := way(case, memory)) is not None]
    brief = case.is_brief("kv-cache-limited")
    rooms = [room for room in found if not (brief and _risks_answers_for_little(room))]
    if found and not rooms:
        return Room((), None, (*_other_ways(case), _REPLICAS))
    if not rooms:
        words = "give the KV cache more memory: more cards per replica, or more replicas"
        return Room((action(words),), None, (*_look_up_utilization(case), *_other_ways(case)))
    room = _enough(case, rooms)
    knobs = tuple(change.knob for change in room.changes)
    taken = (*knobs, _QUANTIZED) if "--quantization" in knobs else knobs
    others = [way for way in _other_ways(case) if not way.startswith(taken)]
    if room is not rooms[0]:
        lesser = rooms[0].changes[0]
        others.insert(
            0, f"{lesser.knob} {lesser.after}, which leaves the answers alone and the cache the limit"
        )
    return Room(room.changes, room.effect, (*room.alternatives, *others, _REPLICAS))


def no_room(case: RuleContext) -> Iterator[str]:
    """Yield what people try for a full cache and what does not make room."""
    if fp8_cache_breaks_answers(case.run):
        yield _BROKEN_BY_FP8
    length: Any = case.run.setting("max_model_len")
    if isinstance(length, int):
        yield f"a smaller --max-model-len than {length:,}: it refuses the longest requests and makes no room for shorter ones"


def _risks_answers_for_little(room: Room) -> bool:
    """Return whether a change of the answers would bring next to nothing over the run."""
    least = room.effect is not None and room.effect.over_run(room.effect.high) < LEAST_OVER_RUN
    return least and any(change.safety == "changes-results" for change in room.changes)


def _enough(case: RuleContext, rooms: Sequence[Room]) -> Room:
    """Return the first room, or one that gains clearly more where the cache stays the limit with the first."""
    first = rooms[0]
    if (
        first.effect is None
        or first.effect.next_limit != "KV cache"
        or capability_of(case.run).least < ARITHMETIC
    ):
        return first
    more = (
        room
        for room in rooms[1:]
        if room.effect is not None and room.effect.middle > CLEARLY_MORE * first.effect.middle
    )
    return next(more, first)


def can_use_fp8_cache(case: RuleContext) -> bool:
    """Return whether an fp8 cache is a sound proposal: a CUDA run of 0.10 or later whose cache has 16-bit elements, on a card that
    computes in fp8 or is not known, and no model whose answers it is known to break. A source build without a release number
    has to be a V1 engine on a card that is known.
    """
    run = case.run
    if fp8_cache_breaks_answers(run):
        return False
    plain = str(run.in_effect("kv_cache_dtype") or "auto") == "auto" and str(
        run.setting("dtype") or "bfloat16"
    ) in ("bfloat16", "float16", "auto", "half")
    card = capability_of(run)
    recent = at_least(case.version, "0.10.0")
    if recent is None and case.version:
        recent = run.engine == "V1" and card.least >= ARITHMETIC
    return run.platform == "cuda" and card.most >= ARITHMETIC and plain and bool(recent)


def _drop_fixed_size(case: RuleContext, memory: Memory | None) -> Room | None:
    value = case.run.config.get("num_gpu_blocks_override")
    if value is None or not value.value:
        return None
    changes = flag(
        case,
        "--num-gpu-blocks-override",
        value.value,
        None,
        "safe",
        "the engine then takes all the memory that it may use",
    )
    if not changes:
        return None
    answer = (
        LAWS["num_gpu_blocks_override"](memory, ChangedSetting(case.run, "num_gpu_blocks_override", None))
        if memory
        else ""
    )
    if isinstance(answer, str) or memory is None:
        return Room(changes, None)
    return Room(changes, _throughput(case, answer.tokens / memory.tokens, answer.steps[-1]))


def _on_cpu(case: RuleContext, memory: Memory | None) -> Room | None:
    if not runs_on_cpu(case.run):
        return None
    gib = memory.available if memory else None
    if gib is None or gib < 1:
        words = "set VLLM_CPU_KVCACHE_SPACE to more GiB, as far as the host has them free"
        return Room((action(words, before=gib),), None)
    note = "in GiB; take what the host has free"
    change = Change("VLLM_CPU_KVCACHE_SPACE", "env", round(gib), 2 * round(gib), "needs-test", note)
    return Room((change,), _throughput(case, 2.0, "twice the memory"))


def _printed_advice(case: RuleContext, memory: Memory | None) -> Room | None:
    """The engine prints how many bytes the cache could have: what fills the device, less a reserve."""
    seen = case.run.seen("memory-left-hint")
    full = seen.first[0].number("full_bytes") if seen else None
    if full is None or memory is None or not memory.available:
        return None
    size = int(full - LEFT_FREE_GIB / 2 * GIB)
    gain = size / GIB / memory.available
    changes = flag(
        case,
        "--kv-cache-memory-bytes",
        None,
        size,
        "needs-test",
        f"the engine prints {full / GIB:.1f} GiB as all that is left; {LEFT_FREE_GIB / 2:g} GiB stay free;"
        " holds for this device and its other users only",
    )
    return (
        Room(changes, _throughput(case, gain, f"cache {memory.available:g} -> {size / GIB:.1f} GiB"))
        if changes and gain >= LEAST_GAIN
        else None
    )


def _raise_utilization(case: RuleContext, memory: Memory | None) -> Room | None:
    if memory is None or memory.utilization is None or memory.fixed:
        return None
    target = _utilization_target(case, memory)
    if target is None:
        return None
    answer = LAWS["gpu_memory_utilization"](
        memory, ChangedSetting(case.run, "gpu_memory_utilization", target)
    )
    gain = None if isinstance(answer, str) else answer.tokens / memory.tokens
    if gain is not None and gain < LEAST_GAIN:
        return None
    basis = answer if isinstance(answer, str) else answer.steps[-1]
    changes = flag(
        case,
        "--gpu-memory-utilization",
        memory.utilization,
        target,
        "needs-test",
        "the start fails or runs out of memory if other processes use the device",
    )
    return Room(changes, _throughput(case, gain, basis) if gain else None) if changes else None


def _utilization_target(case: RuleContext, memory: Memory) -> float | None:
    """What leaves a reserve where device, graphs and free memory are known, else the version's own default.

    One step, not two: with it made, the next log asks for no more.
    """
    now = memory.utilization or 0.0
    graphs = case.run.measure("graph_capture_gib")
    if memory.total is not None and graphs is not None:
        beside = LEFT_FREE_GIB + (0.0 if memory.graphs else graphs)
        target = min(MOST_UTILIZATION, int(100 * (1 - beside / memory.total.low)) / 100)
    else:
        target = float(flag_default("--gpu-memory-utilization", case.version) or 0.9)
    if memory.free is not None and memory.total is not None:
        target = min(target, int(100 * (memory.free - 0.5) / memory.total.gib) / 100)
    return target if target > now + 0.009 else None


def _smaller_elements(case: RuleContext, memory: Memory | None) -> Room | None:
    if not can_use_fp8_cache(case):
        return None
    changes = flag(
        case,
        "--kv-cache-dtype",
        case.run.setting("kv_cache_dtype") or "auto",
        "fp8",
        "changes-results",
        "; ".join(
            [
                *filter(None, [condition_of_fp8(case.run)]),
                "answers can differ without calibrated scales",
                f"each step runs {CACHE_FP8.low:g} to {CACHE_FP8.high:g} x as fast ({CACHE_FP8.pairs} measured pairs)",
            ]
        ),
    )
    return Room(changes, _throughput(case, 2.0, "twice the tokens in the same memory")) if changes else None


def _smaller_weights(case: RuleContext, memory: Memory | None) -> Room | None:
    """Weights of 8 bits give half of their memory to the cache; not where the card is known to be without fp8."""
    run = case.run
    able = (
        run.platform == "cuda"
        and capability_of(run).most >= ARITHMETIC
        and bool(at_least(case.version, "0.10.0"))
    )
    if memory is None or memory.fixed or not able or run.setting("quantization"):
        return None
    answer = LAWS["quantization"](memory, ChangedSetting(run, "quantization", "fp8"))
    if isinstance(answer, str) or answer.tokens < LEAST_GAIN * memory.tokens:
        return None
    condition = condition_of_fp8(run)
    note = "; ".join(
        [*filter(None, [condition]), f"answers can differ slightly; steps are {WEIGHTS_FP8.words()} as fast"]
    )
    changes = flag(case, "--quantization", None, "fp8", "changes-results", note)
    return (
        Room(changes, _throughput(case, answer.tokens / memory.tokens, answer.steps[-1])) if changes else None
    )


def _throughput(case: RuleContext, gain: float, basis: str) -> Effect:
    """Return what more room brings while the cache is full: by the run's own levels up to the next limit, else its bounds."""
    slots = slots_in_a_line(case.run)
    tokens = f"{basis}: {gain:.3g} x the tokens"
    found = forecast(case.run, case.load, case.limits, Limits(slots), Limits(slots, gain))
    if found is None:
        high = round(max(1.0, min(gain, CACHE_RAISED.high)), 3)
        return Effect(
            _METRIC,
            1.0,
            high,
            "computed",
            f"{tokens}; throughput gains at most as much while the cache is full",
        )
    at = f"from {found.running[0]:.0f} to {found.running[1]:.0f} requests at once"
    if found.measured:
        basis = f"{tokens}; {at}, with this run's own throughput at that load"
        return _acting(found, found.low, found.high, basis)
    high = min(found.high, CACHE_RAISED.high)
    basis = f"{tokens}; {at}; published gains of larger caches: {CACHE_RAISED.words()}"
    return _acting(found, 1.0, max(1.0, high), basis)


def _acting(found: Forecast, low: float, high: float, basis: str) -> Effect:
    return Effect(
        _METRIC, round(low, 3), round(high, 3), "computed", basis, round(found.share, 4), found.next_limit
    )


def _look_up_utilization(case: RuleContext) -> tuple[str, ...]:
    """Return what costs no card where the log does not show the launch: a share of memory below the default."""
    if case.run.config.get("gpu_memory_utilization") is not None or case.run.arguments:
        return ()
    default = flag_default("--gpu-memory-utilization", case.version) or 0.9
    return (
        f"--gpu-memory-utilization {default}, if the launch command, which is not in this log, sets it lower",
    )


def _other_ways(case: RuleContext) -> tuple[str, ...]:
    run = case.run
    ways: list[str] = []
    if can_use_fp8_cache(case):
        condition = condition_of_fp8(run)
        needs = f"; {condition}" if condition else ""
        ways.append(f"--kv-cache-dtype fp8 holds twice the tokens; answers can differ{needs}")
    if not run.setting("quantization") and run.platform in ("cuda", "rocm"):
        ways.append(_QUANTIZED)
    return tuple(ways)
