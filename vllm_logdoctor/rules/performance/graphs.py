"""Rules on CUDA graphs and compilation: what runs kernel by kernel although it could be replayed."""

from __future__ import annotations

import math
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from vllm_logdoctor.catalogue.topics import Severity
from vllm_logdoctor.knowledge.cards import most_bandwidth
from vllm_logdoctor.rules.bottleneck import posted
from vllm_logdoctor.rules.capacity.card import device_of
from vllm_logdoctor.rules.capacity.ceiling import active_share, has_experts
from vllm_logdoctor.rules.capacity.memory import GIB, arguments_are_whole, device_total
from vllm_logdoctor.rules.context import (
    RuleContext,
    action,
    flag,
    lines_of,
    message_lines,
    plural,
    setting_lines,
)
from vllm_logdoctor.rules.load import rate_each
from vllm_logdoctor.rules.model import Change, Confidence, Effect
from vllm_logdoctor.rules.performance.published import (
    COMPILE_CACHE_WARM,
    EAGER_OFF_BETWEEN,
    EAGER_OFF_EXPERTS,
    EAGER_OFF_LOADED,
    EAGER_OFF_SINGLE,
)
from vllm_logdoctor.rules.performance.serving import computes_prompts_alone
from vllm_logdoctor.rules.placement import runs_on_cpu
from vllm_logdoctor.rules.release_terms import options_of_fork
from vllm_logdoctor.rules.rule import Advice, Rule
from vllm_logdoctor.rules.steps import step_seconds
from vllm_logdoctor.run.model import Run

# Graphs save launches: with this many requests a step is long enough to hide them on a fast host.
LOADED = 32
FEW = 4
# A median of less load than this is that of a burst.
LEAST_SECONDS = 60.0
# Seconds of compilation from which a start is worth a change.
LONG_COMPILATION = 30.0
# Eager mode that vLLM itself takes: no argument to drop.
FORCED_BY_VLLM = (
    "data-parallel-forcing-enforce-eager-true-since",
    "data-parallel-forcing-enforce-eager-true-since-2",
)
# Settings that hold the sizes of captured batches, of which the largest counts.
GRAPH_SIZES = (
    "cudagraph_capture_sizes", "max_cudagraph_capture_size", "max_capture_size", "cuda_graph_sizes",
)  # fmt: skip


def eager_mode(case: RuleContext) -> Advice | None:
    """CUDA graphs are off by --enforce-eager, by optimization level 0 or by the compilation configuration.

    Needs one of these settings in the arguments or the engine's configuration, or its words that eager mode is on.
    """
    run, off = case.run, switched_off(case.run)
    if not (_is_eager(case) or off) or case.event("graphs-captured") is not None:
        return None
    if case.event("tensor-parallel-across-nodes") is not None:
        # Measured on ranks joined by a network: graphs were 5 to 20 % slower than eager.
        return None
    if case.event(*FORCED_BY_VLLM) is not None or _taken_by_vllm(run):
        return None
    if run.platform is None and case.event("platform-plugin-activated") is not None:
        # A platform of its own: nobody here knows whether it has graphs.
        return None
    if runs_on_cpu(run) or run.platform == "xpu":
        # The V0 engine does not compile, and without graphs alone a platform that lacks them loses nothing.
        return None if run.engine == "V0" or compiles(run) else _eager_without_graphs(case, off)
    if case.objective == "startup":
        return _eager_for_the_start(case)
    severity, confidence, effect = _eager_effect(case)
    text = (
        f"{_named(off)}: every kernel of every step is launched by Python"
        + ("." if run.engine == "V0" or compiles(run) else ", and torch.compile is off.")
        + (f" {_usual_requests(case)}." if _shows_load(case) else "")
        + _cost(case)
    )
    return Advice(
        text,
        (
            *setting_lines(case, "enforce_eager", most=2),
            *setting_lines(case, *(one.flag[2:].replace("-", "_") for one in off)),
            *message_lines(case, "eager-mode-in-effect"),
        ),
        confidence=confidence,
        severity=severity,
        changes=()
        if _slow_step(case)
        else _graphs_on(case, off, "graphs need memory and make the start longer"),
        effect=effect,
        verify="`Graph capturing finished` at the start.",
        title="CUDA graphs off (--enforce-eager)" if run.engine == "V0" else "",
    )


def _cost(case: RuleContext) -> str:
    if not (seconds := _slow_step(case)):
        return ""
    return f" A decode step takes {seconds:.2g} s here, more than kernel launches usually take: find the cause before you turn on CUDA graphs."


def _slow_step(case: RuleContext) -> float | None:
    """Return the seconds of a decode step that is far longer than the launches of its kernels take."""
    seconds = step_seconds(case.run, case.load)
    return seconds if seconds is not None and seconds > _LONG_STEP else None


def _shows_load(case: RuleContext) -> bool:
    """Return whether the statistics show how many requests usually ran: a burst within a few lines does not."""
    load = case.load
    return load.busy_seconds >= LEAST_SECONDS or 0 < load.peak_running <= FEW


def _usual_requests(case: RuleContext) -> str:
    usual = round(case.load.running)
    if usual < 1:
        return f"At least half of the statistics lines show no running request, the others at most {case.load.peak_running:,}"
    return f"{plural(usual, 'request')} ran at once in the median"


def _named(off: tuple[SwitchedOff, ...]) -> str:
    return " and ".join(f"`{_field(one)}`" for one in off) or "`enforce_eager=True`"


def _field(one: SwitchedOff) -> str:
    """Return a flag with its value as a configuration prints it; of a long object only its name."""
    value = "..." if isinstance(one.before, dict) else one.before
    return f"{one.flag[2:].replace('-', '_')}={value}"


def _graphs_on(case: RuleContext, off: tuple[SwitchedOff, ...], note: str) -> tuple[Change, ...]:
    """Return one step that takes graphs and compilation back: all the flags that keep them off."""
    flags = off or (SwitchedOff("--enforce-eager", True, None),)
    return tuple(
        change
        for number, one in enumerate(flags)
        for change in flag(case, one.flag, one.before, one.after, "needs-test", "" if number else note)
    )


def _is_eager(case: RuleContext) -> bool:
    """Return whether eager mode is on: by the setting, or by the engine's own words where the log tells no setting."""
    setting = case.run.setting("enforce_eager")
    return setting is True or (setting is None and case.event("eager-mode-in-effect") is not None)


def _taken_by_vllm(run: Run) -> bool:
    """Return whether all arguments are in the log and none asks for eager mode: there is nothing to drop."""
    asked = [one for one in switched_off(run) if one.flag[2:].replace("-", "_") in run.arguments]
    return arguments_are_whole(run) and not asked


def _eager_effect(case: RuleContext) -> tuple[Severity, Confidence, Effect | None]:
    if case.run.outcome == "crashed_while_serving" or options_of_fork(case.run):
        # Steps that failed, or that a fork computes in its own way, are not those of the measured pairs.
        return "medium", "medium", None
    severity, confidence, effect = _eager_effect_at_load(case)
    effect = _beside_prompts(case, effect)
    if effect is not None and effect.high < _LEAST_GAIN:
        return "medium", confidence, None
    return severity, confidence, effect


def _beside_prompts(case: RuleContext, effect: Effect | None) -> Effect | None:
    """Return an effect that leaves the time as it is in which steps computed prompts alone."""
    busy = case.load.busy_seconds
    if case.load.is_short:
        return effect  # Of a few lines it is no share of the time.
    prompts = sum(
        span.seconds for span in case.load.busy if span.sample.prompt and computes_prompts_alone(span)
    )
    most = busy / prompts if prompts else math.inf
    if effect is None or effect.high <= most:
        return effect
    why = f"steps that computed prompts alone in {100 / most:.0f} % of the time"
    return _at_most(effect, round(most, 2), why)


def _at_most(effect: Effect, most: float, why: str) -> Effect:
    """Return an effect up to a bound, which is printed beside what was measured: of a range that lies above it only the bound is known."""
    low = effect.low if effect.low < most else min(1.0, most)
    basis = f"{effect.basis}, cut to {most:.3g} x by {why}"
    return replace(effect, low=low, high=most, median=None, basis=basis)


def _eager_effect_at_load(case: RuleContext) -> tuple[Severity, Confidence, Effect | None]:
    running = case.load.running
    metric = "generation_throughput"
    if case.run.platform not in (None, "cuda", "rocm", "npu"):
        # Measured on none of them.
        return "medium", "medium", None
    if _slow_step(case):
        return "low", "medium", None
    if not _shows_load(case):
        return "medium", "medium", None
    if running >= LOADED:
        return "medium", "high", EAGER_OFF_LOADED.effect(metric)
    if running <= FEW:
        if has_experts(case.run):
            return "high", "medium", _within_bandwidth(case, EAGER_OFF_EXPERTS.effect(metric))
        return "medium", "medium", _within_bandwidth(case, EAGER_OFF_SINGLE.effect(metric))
    return "medium", "medium", EAGER_OFF_BETWEEN.effect(metric)


def _within_bandwidth(case: RuleContext, effect: Effect) -> Effect:
    """Return an effect on single streams that reads the weights no faster than the card can, or any card of its memory."""
    run, total = case.run, device_total(case.run)
    card, weights = device_of(run), run.measure("model_weights_gib")
    allowed = (card.bandwidth_gbs if card else None) or (most_bandwidth(total.gib) if total else None)
    rates = [rate_each(span.sample) for span in case.load.busy if span.sample.running]
    read = max(rates, default=0.0) * (weights or 0.0) * (active_share(run) or 0.0) * GIB / 1e9
    if not allowed or not read or run.setting("speculative_config"):
        return effect
    most = max(1.0, round(allowed / read, 2))
    if most >= effect.high:
        return effect
    return _at_most(
        effect, most, f"the memory bandwidth of {'the card' if card else 'any card of this size'}"
    )


def _eager_for_the_start(case: RuleContext) -> Advice:
    text = (
        "`enforce_eager=True` makes the start shorter by what compiling and capturing takes, and every step slower. For the"
        " objective of a short start it stays."
    )
    return Advice(
        text,
        setting_lines(case, "enforce_eager", most=2),
        confidence="high",
        severity="info",
        alternatives=("without --enforce-eager, where the server runs longer than a few minutes",),
        verify="seconds of the start beside the throughput, with and without it.",
    )


def _eager_without_graphs(case: RuleContext, off: tuple[SwitchedOff, ...]) -> Advice:
    on_cpu = runs_on_cpu(case.run)
    known = "the CPU backend has no CUDA graphs anyway" if on_cpu else "its gain on an XPU is not measured"
    flags = ", ".join(one.flag for one in off) or "--enforce-eager"
    return Advice(
        f"With {_named(off)}, torch.compile is off; {known}.",
        (
            *setting_lines(case, *(one.flag[2:].replace("-", "_") for one in off), most=2),
            *message_lines(case, "eager-mode-in-effect"),
        ),
        confidence="medium",
        severity="low",
        changes=_graphs_on(case, off, "the first start then compiles and takes longer"),
        verify="`torch.compile takes N s` at the start.",
        title=f"torch.compile off ({flags})",
    )


def cuda_graphs_not_captured(case: RuleContext) -> Advice | None:
    """Graph capture was skipped without being asked to. Needs the engine's line that says so."""
    event = case.event("cudagraph-capture-skipped")
    if event is None or switched_off(case.run) or case.event("graphs-captured") is not None:
        return None
    reason = event.text("reason")
    text = "The engine skipped the capture of CUDA graphs" + (
        f" because {reason}." if reason else "; `cudagraph_mode` was set to NONE or compilation is off."
    )
    severity, _, effect = _eager_effect(case)
    return Advice(
        text,
        message_lines(case, "cudagraph-capture-skipped"),
        confidence="medium",
        severity=severity,
        changes=() if reason else (action("leave cudagraph_mode at its default in --compilation-config"),),
        effect=None if reason else effect,
        verify="`Graph capturing finished in N secs` at the start.",
    )


def cuda_graphs_smaller_than_batch(case: RuleContext) -> Advice | None:
    """Batches are larger than any captured graph.

    Needs the capture sizes in the configuration and the load.
    """
    largest = largest_captured(case.run.setting("compilation_config"))
    load = case.load
    if (
        largest is None
        or not load.busy_seconds
        or load.running <= largest
        or case.run.setting("enforce_eager") is True
    ):
        return None
    text = (
        f"The largest captured batch has {largest:,} requests, {load.running:.0f} ran in the median: most"
        " decode steps were replayed from no graph. vLLM captures up to twice max_num_seqs, 512 at most,"
        " by default."
    )
    return Advice(
        text,
        setting_lines(case, "compilation_config"),
        confidence="low",
        changes=flag(
            case,
            "--max-cudagraph-capture-size",
            largest,
            _next_size(int(load.running)),
            "needs-test",
            "larger graphs need more memory and time at the start",
        ),
        effect=EAGER_OFF_LOADED.effect("generation_throughput") if load.running >= LOADED else None,
        verify="the larger size in `cudagraph_capture_sizes` of the engine's configuration.",
    )


_FIRST_OF_THEIR_SHAPES = 3
"""Requests that are no traffic: each may be the one of its kind after the start."""


def jit_compilation_while_serving(case: RuleContext) -> Advice | None:
    """Kernels were compiled while requests ran. Needs the monitor's lines, or those on buckets that were not warmed up."""
    if not case.load.busy_seconds:
        return None
    seen = case.run.seen("configuration-not-warmed-up")
    if seen is not None:
        shapes = ", ".join([event.text("value") for event in seen.first][:3])
        text = (
            f"{seen.count} times a batch had a shape that the warm-up had not compiled ({shapes}): its graph was"
            " built while requests ran, once for each shape."
        )
        wider = "let the warm-up cover these shapes: wider prompt and decode buckets"
        return _compiled_while_serving(case, "configuration-not-warmed-up", text, wider)
    seen = case.run.seen("jit-during-inference")
    if seen is None:
        return None
    names = sorted({event.text("kernel") for event in seen.first})
    text = (
        f"{plural(seen.count, 'kernel')} compiled while requests ran ({'among them ' if seen.count > 3 else ''}{', '.join(names[:3])}): the"
        " first request of each shape is slow, later ones are not."
    )
    first = "send one request of each kind after the start, before real traffic"
    return _compiled_while_serving(case, "jit-during-inference", text, first)


def _compiled_while_serving(case: RuleContext, message: str, text: str, change: str) -> Advice:
    answered = sum(count for status, count in posted(case.run).items() if status < 400)
    return Advice(
        text,
        lines_of(case, message),
        confidence="high",
        changes=() if 0 < answered <= _FIRST_OF_THEIR_SHAPES else (action(change),),
        verify="no such line after the first minute of traffic.",
    )


def compile_cache_disabled(case: RuleContext) -> Advice | None:
    """Compiled graphs are thrown away. Needs the engine's line that says so."""
    if case.event("compile-cache-disabled") is None:
        return None
    seconds = case.run.measure("torch_compile_seconds")
    text = "The cache of torch.compile is switched off, so that every start compiles anew" + (
        f" ({seconds:g} s here)." if seconds else "."
    )
    long = seconds is not None and seconds >= LONG_COMPILATION
    return Advice(
        text,
        message_lines(case, "compile-cache-disabled", "compile-total"),
        confidence="high",
        severity="medium" if long else None,
        changes=(
            action("unset VLLM_DISABLE_COMPILE_CACHE, and keep the folder VLLM_CACHE_ROOT between starts"),
        ),
        effect=COMPILE_CACHE_WARM.effect("init_engine_seconds") if long else None,
        verify="`Directly load the compiled graph` at the second start.",
    )


def largest_captured(config: Any) -> int | None:
    """Return the largest captured batch of a compilation configuration, or None where the log does not show it."""
    sizes = [largest_size(config.get(name)) for name in GRAPH_SIZES] if isinstance(config, dict) else []
    return max(sizes, default=0) or None


def largest_size(value: Any) -> int:
    """Return the largest of one or several sizes; 0 where there is none.

    Example:
        >>> largest_size([1, 2, 4]), largest_size(8), largest_size(None)
        (4, 8, 0)
    """
    sizes = value if isinstance(value, list | tuple) else [value]
    return max((size for size in sizes if isinstance(size, int) and not isinstance(size, bool)), default=0)


def _next_size(number: int) -> int:
    size = 1
    while size < number:
        size *= 2
    return size


_LEAST_GAIN = 1.05
_LONG_STEP = 0.2
"""Seconds of a step: launching its kernels takes about ten milliseconds of it."""
"""Gain below which none is to be expected."""
_NONE = ("none", "0")
_MODES = ("mode", "level", "cudagraph_mode")
"""Keys of a compilation configuration that switch compilation or graphs off; "level" is the name before 0.11.1."""


class SwitchedOff(Struct, frozen=True):
    """A flag that keeps graphs or compilation off, its value, and the value that takes them back (None: drop it)."""

    flag: str
    before: Any
    after: Any


def switched_off(run: Run) -> tuple[SwitchedOff, ...]:
    """Return every flag of a launch that keeps CUDA graphs off: to drop one of them alone changes nothing.

    Example:
        >>> run = Run(arguments={"optimization_level": "0", "compilation_config": {"mode": 0, "backend": "eager"}})
        >>> [one.flag for one in switched_off(run)]
        ['--optimization-level', '--compilation-config']
    """
    found = []
    if run.arguments.get("enforce_eager") is True or run.setting("enforce_eager") is True:
        found.append(SwitchedOff("--enforce-eager", True, None))
    level = run.arguments.get("optimization_level")
    if level is not None and _is_none(level):
        found.append(SwitchedOff("--optimization-level", level, None))
    config = run.arguments.get("compilation_config")
    if isinstance(config, dict):
        off = {
            name for name in _MODES if name in config and config[name] is not None and _is_none(config[name])
        }
        rest = {name: value for name, value in config.items() if name not in off and value is not None}
        if off:
            found.append(SwitchedOff("--compilation-config", config, rest or None))
    return tuple(found)


def compiles(run: Run) -> bool:
    """Return whether only the graphs are switched off: the compilation configuration says so and leaves its mode alone."""
    off = switched_off(run)
    asked = run.arguments.get("compilation_config")
    mode = asked.get("mode", asked.get("level")) if isinstance(asked, dict) else None
    return [one.flag for one in off] == ["--compilation-config"] and (mode is None or not _is_none(mode))


def _is_none(value: Any) -> bool:
    return str(value).rpartition(".")[2].lower() in _NONE


RULES = (
    Rule("eager-mode", eager_mode, objectives=("latency",)),
    Rule(
        "cuda-graphs-not-captured",
        cuda_graphs_not_captured,
        needs=("cudagraph-capture-skipped",),
        objectives=("latency",),
    ),
    Rule("cuda-graphs-smaller-than-batch", cuda_graphs_smaller_than_batch),
    Rule("jit-compilation-while-serving", jit_compilation_while_serving, objectives=("latency",)),
    Rule(
        "compile-cache-disabled",
        compile_cache_disabled,
        needs=("compile-cache-disabled",),
        objectives=("startup",),
    ),
)
