"""Words of a comparison that both of its pages use."""

from __future__ import annotations

from vllm_logdoctor.comparison.comparison import FigureDifference, RoomUsed, SettingDifference
from vllm_logdoctor.comparison.snapshot import Setting
from vllm_logdoctor.report.escape import code, inline
from vllm_logdoctor.report.figures import number, setting
from vllm_logdoctor.report.naming import PHASES
from vllm_logdoctor.rules.equal_load import EqualLoad
from vllm_logdoctor.texts import shared_start

FIGURES: dict[str, tuple[str, str]] = {
    "startup_seconds": ("start-up in all", "s"),
    "model_load_seconds": ("loading the model", "s"),
    "torch_compile_seconds": ("torch.compile", "s"),
    "graph_capture_seconds": ("CUDA graph capture", "s"),
    "init_engine_seconds": ("profile, KV cache, warm-up (engine core)", "s"),
    "model_weights_gib": ("weights on a rank", "GiB"),
    "graph_capture_gib": ("CUDA graphs", "GiB"),
    "available_kv_cache_gib": ("memory for the KV cache on a rank", "GiB"),
    "kv_cache_tokens": ("KV cache", "tokens"),
    "max_concurrency": ("requests of full length at once", ""),
    "generation_throughput_busy_mean": ("generation throughput, busy mean", "tokens/s"),
    "generation_throughput_p95": ("generation throughput, 95th percentile", "tokens/s"),
    "prompt_throughput_busy_mean": ("prompt throughput, busy mean", "tokens/s"),
    "prompt_throughput_p95": ("prompt throughput, 95th percentile", "tokens/s"),
    "kv_cache_usage_max": ("highest KV cache usage", "%"),
    "prefix_cache_hit_rate": ("prefix cache hit rate at the end", "%"),
    "preemptions": ("preemptions", ""),
    "ttft_mean_ms": ("time to first token, mean", "ms"),
    "itl_mean_ms": ("inter-token latency, mean", "ms"),
    "tpot_mean_ms": ("time per output token, mean", "ms"),
    "e2e_latency_mean_ms": ("end-to-end latency, mean", "ms"),
    "queue_time_mean_ms": ("time in the queue, mean", "ms"),
    "prefill_time_mean_ms": ("prefill time, mean", "ms"),
    "decode_time_mean_ms": ("decode time, mean", "ms"),
}
"""Figure -> its name for people and its unit."""

_SIDE_NAMES = ("vLLM version", "model", "platform", "engine", "kind")


def figure_name(name: str) -> str:
    """Return the name of a figure for people, escaped.

    Example:
        >>> figure_name("kv_cache_tokens"), figure_name("startup.api-server_seconds")
        ('KV cache', 'start-up: API server')
    """
    if name in FIGURES:
        return FIGURES[name][0]
    if name.startswith("startup."):
        phase = name.removeprefix("startup.").removesuffix("_seconds")
        return f"start-up: {PHASES.get(phase, inline(phase, 60))}"
    return inline(name.replace("_", " "), 80)


def figure_value(name: str, value: float) -> str:
    """Return a figure with its unit.

    Example:
        >>> figure_value("kv_cache_tokens", 85760.0), figure_value("startup_seconds", 102.0)
        ('85,760 tokens', '102 s')
    """
    unit = FIGURES.get(name, ("", "s" if name.endswith("_seconds") else ""))[1]
    return f"{number(value)} {unit}".rstrip()


def times(ratio: float | None) -> str:
    """Return a ratio.

    Example:
        >>> times(1.2345), times(0.5), times(None)
        ('× 1.23', '× 0.5', '')
    """
    return "" if ratio is None else f"× {number(float(f'{ratio:.3g}'))}"


def both_names(before: str, after: str) -> str:
    """Return the names of both sides without the directories that they share, escaped.

    Example:
        >>> both_names("/logs/may/a.log", "/logs/june/a.log"), both_names("/logs/a.log, run 1", "/logs/a.log, run 2")
        ('may/a.log → june/a.log', 'a.log, run 1 → a.log, run 2')
    """
    shared = before.rfind("/", 0, shared_start(before, after)) + 1
    return f"{inline(before[shared:], 200)} → {inline(after[shared:], 200)}"


def setting_name(name: str) -> str:
    """Return the name of a setting, escaped."""
    return name if name in _SIDE_NAMES else code(name, 120)


def side(value: Setting | None) -> str:
    """Return the value of a setting on one side, escaped."""
    return "the log does not say" if value is None else setting(value.value, 80)


def setting_words(change: SettingDifference) -> str:
    """Return a changed setting in words, escaped."""
    before, after = ("not given" if value is None else side(value) for value in (change.before, change.after))
    return f"{setting_name(change.name)} {before} → {after}"


def moved_words(figure: FigureDifference) -> str:
    """Return a figure that moved in words."""
    values = f"{figure_value(figure.name, figure.before)} → {figure_value(figure.name, figure.after)}"
    return f"{figure_name(figure.name)} {values}{f' ({times(figure.ratio)})' if figure.ratio else ''}"


def load_words(load: EqualLoad) -> str:
    """Return what equal load says of the speed, in one sentence."""
    if load.ratio is None or load.low is None or load.high is None:
        return "Speed can't be compared: " + inline("; ".join(load.warnings)) + "."
    low, high = number(_three(load.low)), number(_three(load.high))
    spread = f"{times(load.ratio)}, {low} to {high} by the spread of the samples"
    if load.verdict == "same":
        return f"At equal load the speed shows no clear difference ({spread})."
    return f"At equal load generation is {load.verdict}: {spread}."


def room_words(room: RoomUsed) -> str:
    """Return what more running requests brought, in words."""
    rates = f"{number(room.before)} → {number(room.after)} tokens/s ({times(room.ratio)})"
    return (
        f"requests waited before; now {room.running_after} run at once, not {room.running_before}: "
        f"generation throughput, busy mean, {rates}"
    )


def _three(value: float) -> float:
    return float(f"{value:.3g}")
