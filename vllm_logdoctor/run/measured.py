"""Figures that the engine printed of itself."""

from __future__ import annotations

import re

from vllm_logdoctor.events import Event
from vllm_logdoctor.run.builder import RunBuilder
from vllm_logdoctor.run.model import Run, Value

# figure -> (pattern, field) in order of preference
_FIGURES: dict[str, tuple[tuple[str, str], ...]] = {
    "model_weights_gib": (
        ("model-loaded", "gib"),
        ("model-weights-loaded", "gib"),
        ("memory-profile-parts", "weights"),
    ),
    "model_load_seconds": (("model-loaded", "seconds"), ("model-weights-loaded", "seconds")),
    "available_kv_cache_gib": (
        ("kv-cache-memory-available", "gib"),
        ("memory-profile-parts", "gib"),
        ("memory-profile-results", "gib"),
    ),
    "max_concurrency": (("kv-cache-concurrency", "concurrency"), ("kv-cache-size", "concurrency")),
    "torch_compile_seconds": (("compile-total", "seconds"), ("engine-initialised", "compilation")),
    "graph_capture_seconds": (("graphs-captured", "seconds"),),
    "graph_capture_gib": (("graphs-captured", "gib"),),
    "init_engine_seconds": (("engine-initialised", "seconds"),),
}


_BLOCK_SIZES = frozenset({8, 16, 32, 64, 128, 256, 512})
_ROUNDED = 0.0051
"""Concurrency is printed with two digits."""


def measured_of(run: Run, builder: RunBuilder) -> dict[str, Value]:
    """Return the figures of the JSON contract that the log holds; the first rank's where all agree."""
    found: dict[str, Value] = {}
    for figure, sources in _FIGURES.items():
        for pattern, field_name in sources:
            event = _first_with(builder, pattern, field_name)
            if event is not None:
                found[figure] = Value(event.fields[field_name], "reported", (builder.evidence(event.record),))
                break
    tokens = _kv_tokens(run, builder)
    if tokens is not None:
        found["kv_cache_tokens"] = tokens
    return found


def block_size_of(run: Run, builder: RunBuilder) -> Value | None:
    """Return tokens per block where the log holds both the cache's tokens and its blocks, or how many requests they hold."""
    if run.may_have_several_engines:
        return None  # Lines of one engine and sums of all stand side by side.
    return _size_by_tokens(builder) or _size_by_concurrency(builder)


def _size_by_concurrency(builder: RunBuilder) -> Value | None:
    """Return the block size of V0 from its blocks and the requests of full length that they hold, where only one fits."""
    blocks = _first_with(builder, "kv-cache-blocks", "blocks")
    held = _first_with(builder, "kv-cache-concurrency", "concurrency")
    if blocks is None or held is None:
        return None
    count, length = int(blocks.fields["blocks"]), int(held.fields["length"])
    requests = float(held.fields["concurrency"])
    sizes = sorted(_BLOCK_SIZES) if length else ()
    fitting = [size for size in sizes if abs(count * size / length - requests) <= _ROUNDED]
    if len(fitting) != 1:
        return None
    evidence = (builder.evidence(blocks.record), builder.evidence(held.record))
    return Value(fitting[0], "derived", evidence, "from cache blocks and maximum concurrency")


def _size_by_tokens(builder: RunBuilder) -> Value | None:
    tokens = _first_with(builder, "kv-cache-size", "tokens")
    blocks = _first_with(builder, "kv-cache-config-info", "blocks")
    if tokens is None or blocks is None or not int(blocks.fields["blocks"]):
        return None
    size, rest = divmod(int(tokens.fields["tokens"]), int(blocks.fields["blocks"]))
    if rest or size not in _BLOCK_SIZES:
        return None
    evidence = (builder.evidence(tokens.record), builder.evidence(blocks.record))
    return Value(size, "derived", evidence, "cache tokens / cache blocks")


def _first_with(builder: RunBuilder, pattern: str, field_name: str) -> Event | None:
    seen = builder.messages.get(pattern)
    found = [event for event in seen.first if field_name in event.fields] if seen else []
    return min(found, key=lambda event: not _is_first_rank(event), default=None)


def _is_first_rank(event: Event) -> bool:
    """The first rank says its rank, or is the driver without a name beside named workers."""
    process = event.record.process
    if process.rank:
        return all(int(number) == 0 for number in re.findall(r"\d+", process.rank))
    return process.role != "worker"


def _kv_tokens(run: Run, builder: RunBuilder) -> Value | None:
    event = _first_with(builder, "kv-cache-size", "tokens")
    if event is not None:
        return Value(event.fields["tokens"], "reported", (builder.evidence(event.record),))
    overridden = _first_with(builder, "kv-cache-blocks-overridden", "blocks")
    event = overridden or _first_with(builder, "kv-cache-blocks", "blocks")
    size = run.config.get("block_size")
    if event is None or size is None or not isinstance(size.value, int):
        return None
    evidence = (builder.evidence(event.record), *size.evidence)
    note = f"{event.fields['blocks']} blocks of {size.value} tokens"
    return Value(int(event.fields["blocks"]) * size.value, "derived", evidence, note)
