"""Memory of one rank as the log tells it: what the cache has, what a token costs, how much the device holds."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from vllm_logdoctor.knowledge.versions import at_least
from vllm_logdoctor.run.model import Run

GIB = 1024**3

# What drivers report as usable on common devices of a platform, in GiB: nominal size less ECC and firmware.
USABLE_GIB = {
    "cuda": (
        7.7, 9.6, 10.9, 11.7, 14.6, 15.8, 19.6, 22.1, 23.7, 31.4, 39.4, 44.4, 47.5, 60.9, 79.2, 93.1, 95.0, 119.6, 139.8, 178.4,
    ),
    "rocm": (15.9, 19.9, 23.9, 31.9, 47.9, 63.9, 191.9, 255.9, 287.9),
    "npu": (31.9, 60.9, 63.9),
}  # fmt: skip
# Activations, communication buffers and the context need at least this much beside weights and cache.
LEAST_OVERHEAD_GIB = 0.1
# Of what nvidia-smi prints the driver keeps up to so much: 15,360 MiB of a T4 are 14.58 GiB to a process.
LEAST_USABLE = 0.97
CARD_LISTS = ("gpu-listed", "gpu-named", "gpu-named-by-program")
"""Patterns of the lines of nvidia-smi that name a card."""
AS_PRINTED = "as printed"
NOT_PRINTED = "the log does not print the memory of the KV cache"
START_FAILS = "the start would fail"
"""Words in every answer that says that an engine with these settings would not come up."""


class Size(Struct, frozen=True):
    """A size in GiB with its bounds and where it is from."""

    gib: float
    low: float
    high: float
    basis: str


class Memory(Struct, frozen=True):
    """Memory of one rank; sizes in GiB, None where the log does not show.

    Attributes:
        tokens, low, high: tokens that the cache holds, with bounds.
        available: memory of the cache.
        weights: memory of the weights.
        utilization: share of the device that the engine may use.
        total: memory of the device.
        free: free at the start, before this process took any.
        activation: peak of activations while profiling.
        graphs: CUDA graphs that the engine counted inside its budget.
        fixed: why the cache does not depend on gpu_memory_utilization, or "".
        length: longest request in tokens.
        concurrency: requests of that length at once, as printed or computed.
        hybrid: whether layers of several kinds (windows, states) share the cache.
        block: tokens of a block.
        steps: what was done to come here, in words.
    """

    tokens: float
    low: float
    high: float
    available: float | None
    weights: float | None
    utilization: float | None
    total: Size | None
    free: float | None
    activation: float | None
    graphs: float | None
    fixed: str
    length: int | None
    concurrency: float | None
    hybrid: bool
    block: int | None
    steps: tuple[str, ...] = ()

    @property
    def held(self) -> float:
        """Return the tokens of full-length requests that the cache holds at once.

        Where layers of several kinds share the cache the printed tokens count the blocks of all kinds, and windows keep the
        last tokens only: the printed number of requests is the figure that holds.
        """
        if self.hybrid and self.concurrency and self.length:
            return self.concurrency * self.length
        return self.tokens

    def unmoved(self, step: str) -> Memory:
        """Return the memory as it is, with the reason why a setting does not move it."""
        return replace(self, steps=(*self.steps, step))

    def scaled(self, ratio: float, low: float, high: float, step: str) -> Memory:
        """Return the memory with the cache grown by a ratio that lies between two others."""
        return replace(
            self,
            tokens=self.tokens * ratio,
            low=self.low * low,
            high=self.high * high,
            steps=(*self.steps, step),
        )

    def with_available(self, gib: float, low: float, high: float, step: str) -> Memory | str:
        """Return the memory with another size of the cache, or why it can't be."""
        if self.available is None or self.available <= 0:
            return NOT_PRINTED
        if gib <= 0:
            return f"{step}: nothing is left for the KV cache ({gib:.2f} GiB), {START_FAILS}"
        grown = self.scaled(gib / self.available, max(low, 0.0) / self.available, high / self.available, step)
        return replace(grown, available=gib)


def memory_of(run: Run) -> Memory | None:
    """Return the memory of a rank, or None where the log does not print the size of its KV cache."""
    tokens = run.measure("kv_cache_tokens")
    if not tokens:
        return None
    length = whole(run.setting("max_model_len"))
    return Memory(
        tokens,
        tokens,
        tokens,
        available=run.measure("available_kv_cache_gib"),
        weights=run.measure("model_weights_gib"),
        utilization=utilization_of(run),
        total=device_total(run),
        free=free_at_start(run),
        activation=_figure(
            run,
            ("memory-left-hint", "activation"),
            ("memory-on-device", "activation"),
            ("memory-profile-parts", "activation"),
            ("memory-profile-debug", "activation"),
        ),
        graphs=counted_graphs(run),
        fixed=_fixed(run),
        length=length,
        concurrency=run.measure("max_concurrency") or (tokens / length if length else None),
        hybrid=_shared_by_kinds(tokens, length, run.measure("max_concurrency")),
        block=whole(run.setting("block_size")),
    )


def _shared_by_kinds(tokens: float, length: int | None, concurrency: float | None) -> bool:
    # With one kind of layer the printed concurrency is tokens over length; with several it is not.
    return bool(length and concurrency) and abs((concurrency or 0) * (length or 0) / tokens - 1) > 0.03


def counted_graphs(run: Run) -> float | None:
    """Return what the engine set aside for CUDA graphs within its budget; None where it counts none."""
    estimated = _figure(run, ("graph-memory-estimated", "gib"))
    counts = at_least(run.release, "0.21.0")
    return estimated if counts or run.seen("graph-memory-equivalent") else None


def utilization_of(run: Run) -> float | None:
    """Return the share of the device that the engine may use; None where the log leaves it open.

    A default counts only where the log prints all arguments: what was not printed may have been set.
    """
    printed = _figure(
        run,
        ("memory-left-hint", "utilization"),
        ("memory-on-device", "utilization"),
        ("memory-profile-budget", "utilization"),
        ("memory-profile-results", "utilization"),
        ("memory-initial-debug", "utilization"),
    )
    if printed:
        return printed
    value = run.config.get("gpu_memory_utilization")
    if value is not None and (value.provenance != "default" or arguments_are_whole(run)):
        return _number(value.value)
    requested, free = _figure(run, ("memory-requested-debug", "requested")), free_at_start(run)
    if requested is None or free is None:
        return None
    size = next((size for size in _usable_sizes(run) if size >= free), None)
    return round(requested / size, 2) if size else None


def arguments_are_whole(run: Run) -> bool:
    """Return whether the log prints the arguments, and all of them: a wrapped or cut line does not end as it should.

    The command that started the server holds them all.
    """
    if run.launched_by:
        return True
    for pattern in ("arguments-non-default", "arguments-namespace"):
        seen = run.seen(pattern)
        if seen is not None:
            line = seen.first[0]
            closed = line.text("arguments").rstrip().endswith(("}", ")"))
            return closed or (pattern == "arguments-namespace" and line.record.message.rstrip().endswith(")"))
    return False


def free_at_start(run: Run) -> float | None:
    """Return the memory of the device that was free before the engine took any, in GiB."""
    return _figure(
        run,
        ("memory-left-hint", "free"),
        ("memory-on-device", "free"),
        ("memory-initial-debug", "free"),
        ("memory-requested-debug", "free"),
    )


def device_total(run: Run) -> Size | None:
    """Return the memory of a device: as printed, computed from what was printed, or the usual size that fits."""
    printed = _figure(
        run,
        ("memory-left-hint", "total"),
        ("memory-on-device", "total"),
        ("memory-profile-budget", "total"),
        ("memory-profile-results", "total"),
    )
    if printed:
        return Size(printed, printed - 0.01, printed + 0.01, f"{printed:g} GiB on the device, {AS_PRINTED}")
    utilization = utilization_of(run)
    if not utilization:
        return None
    requested = _figure(run, ("memory-initial-debug", "requested"), ("memory-requested-debug", "requested"))
    if requested:
        gib = requested / utilization
        return Size(gib, gib * 0.998, gib * 1.002, f"{requested:g} GiB requested / {utilization:g}")
    return _listed_size(run, utilization) or _usual_size(run, utilization)


def _usable_sizes(run: Run) -> tuple[float, ...]:
    return USABLE_GIB.get(run.platform or "cuda", ())


def _least_size(run: Run, utilization: float) -> float | None:
    """Return what the device holds at least, by what the engine placed on it."""
    available, weights = run.measure("available_kv_cache_gib"), run.measure("model_weights_gib")
    if available is None or weights is None:
        return None
    return (available + weights + (counted_graphs(run) or 0.0) + LEAST_OVERHEAD_GIB) / utilization


def _listed_size(run: Run, utilization: float) -> Size | None:
    """Return the usable part of the memory that nvidia-smi prints of the cards, where all have the same."""
    cards = [event for name in CARD_LISTS if (seen := run.seen(name)) for event in seen.first]
    listed = {event.number("mib") for event in cards} - {None}
    floor = _least_size(run, utilization)
    if len(listed) != 1 or floor is None:
        return None
    gib = (listed.pop() or 0.0) / 1024
    if not floor <= gib:
        return None
    low = max(LEAST_USABLE * gib, floor)
    usual = next((size for size in _usable_sizes(run) if low <= size <= gib), (low + gib) / 2)
    basis = f"about {usual:.1f} GiB usable, estimated from the {gib:.1f} GiB that nvidia-smi prints"
    return Size(usual, low, gib, basis)


def _usual_size(run: Run, utilization: float) -> Size | None:
    available, weights = run.measure("available_kv_cache_gib"), run.measure("model_weights_gib")
    floor = _least_size(run, utilization)
    if available is None or weights is None or floor is None:
        return None
    sizes = [size for size in _usable_sizes(run) if size >= floor]
    if not sizes:
        return None
    high = sizes[1] if len(sizes) > 1 else sizes[0]
    basis = (
        f"a device of {sizes[0]:g} GiB: the next usual size above the {floor:.1f} GiB that the log adds up to"
    )
    return Size(sizes[0], floor, high, basis)


def _fixed(run: Run) -> str:
    if run.platform == "cpu":
        return "on CPU the cache is as large as VLLM_CPU_KVCACHE_SPACE says"
    for name in ("num_gpu_blocks_override", "kv_cache_memory_bytes", "kv_cache_memory"):
        value = run.config.get(name)
        if value is not None and value.value:
            return f"{name}={value.value} fixes the cache"
    return ""


def _figure(run: Run, *places: tuple[str, str]) -> float | None:
    for pattern, field in places:
        seen = run.seen(pattern)
        for event in seen.first if seen else ():
            number = event.number(field)
            if number is not None:
                return number
    return None


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def whole(value: object) -> int | None:
    """Return a positive number as a whole one, or None."""
    number = _number(value)
    return int(number) if number and number > 0 else None
