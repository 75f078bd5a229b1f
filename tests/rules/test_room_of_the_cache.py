"""Where a full cache gets more room from: the way that a run's own figures support, the value it proposes, and what it brings."""

from __future__ import annotations

from typing import Any

import pytest

from tests.rules.making import a_run, load
from tests.tables import for_each
from vllm_logdoctor.rules.bottleneck import bottleneck_of
from vllm_logdoctor.rules.capacity.memory import GIB, device_total, memory_of
from vllm_logdoctor.rules.context import rule_context
from vllm_logdoctor.rules.load import load_of
from vllm_logdoctor.rules.performance.cache_room import Room, can_use_fp8_cache, no_room, room_changes
from vllm_logdoctor.run.model import Run, Value

H100 = "0, NVIDIA H100 80GB HBM3, 81559 MiB, 550.54"
A100 = "0, NVIDIA A100-SXM4-80GB, 81920 MiB, 550.54"
QWEN = Value("Qwen/Qwen2.5-14B-Instruct", "explicit")


def hint(utilization: float, free: float = 78.6, full: float = 20.0) -> str:
    """The line on memory of a card of 80 GiB; `full` GiB are what the engine says the cache could have."""
    return (
        f"Free memory on device ({free}/80.0 GiB) on startup. Desired GPU memory utilization is ({utilization}, 68.0 GiB). Actual usage is "
        "16.0 GiB for weight, 1.0 GiB for peak activation, 0.3 GiB for non-torch memory, and 1.0 GiB for CUDAGraph memory. Replace "
        f"gpu_memory_utilization config with `--kv-cache-memory={int(10 * GIB)}` (10.0 GiB) to fit into requested memory, or "
        f"`--kv-cache-memory={int(full * GIB)}` ({full} GiB) to fully utilize gpu memory. Current kv cache memory in use is 12.0 GiB."
    )


def full(share: float = 0.85, seats: int = 512, times: int = 20, **more: Any) -> Run:
    """A run whose cache of 48 GiB is full."""
    given = {
        "set": {"max_num_seqs": seats, "gpu_memory_utilization": share, **more.pop("set", {})},
        "default": {"kv_cache_dtype": "auto", "dtype": "bfloat16"},
        "measured": {"kv_cache_tokens": 400_000, "available_kv_cache_gib": 48.0, "model_weights_gib": 16.0, **more.pop("measured", {})},
        "samples": load((times, {"running": 200, "waiting": 200, "kv": 99.0})),
        "version": "0.16.0",
    }  # fmt: skip
    return a_run(**{**given, **more})


def room(run: Run) -> Room:
    """Return where the run gets room from."""
    found = load_of(run)
    return room_changes(rule_context(run, found, bottleneck_of(run, found), "balanced"))


@for_each(
    ("run", "knob", "after"),
    [
        (full(), "--gpu-memory-utilization", 0.9),
        # Of 72.0 GiB that were free a half stays free on a card of 80.
        (full(messages=(hint(0.85, free=72.0, full=10.0),)), "--gpu-memory-utilization", 0.89),
        # What holds 3 GiB and the graphs free, at most 0.95.
        (full(measured={"graph_capture_gib": 2.0}, messages=(hint(0.85, full=10.0),)), "--gpu-memory-utilization", 0.93),
        (full(measured={"graph_capture_gib": 0.2}, messages=(hint(0.85, full=10.0),)), "--gpu-memory-utilization", 0.95),
        # Graphs that the engine counts inside its budget need nothing beside it.
        (full(measured={"graph_capture_gib": 2.0}, messages=(hint(0.85, full=10.0), "Estimated CUDA graph memory: 2.00 GiB total"), version="0.21.0"), "--gpu-memory-utilization", 0.95),
        # The engine's own figure less 1.5 GiB, where it is more than 3 % above what the cache has.
        (full(messages=(hint(0.85, full=60.0),)), "--kv-cache-memory-bytes", int(58.5 * GIB)),
        (full(0.95, messages=(H100,)), "--kv-cache-dtype", "fp8"),
        (full(0.95, messages=(A100,)), "give the KV cache more memory: more cards per replica, or more replicas", None),
        (full(set={"num_gpu_blocks_override": 500}), "--num-gpu-blocks-override", None),
        (full(0.95, model=QWEN, measured={"available_kv_cache_gib": 40.0}), "--quantization", "fp8"),
        (full(0.95, model=QWEN, version="0.9.2"), "give the KV cache more memory: more cards per replica, or more replicas", None),
        (full(platform="cpu"), "VLLM_CPU_KVCACHE_SPACE", 96),
        (full(platform="cpu", measured={"available_kv_cache_gib": 1.0}), "VLLM_CPU_KVCACHE_SPACE", 2),
        (full(platform="cpu", measured={"available_kv_cache_gib": 0.9}), "set VLLM_CPU_KVCACHE_SPACE to more GiB, as far as the host has them free", None),
    ],
)  # fmt: skip
def test_the_first_way_that_the_log_supports_is_taken(run: Run, knob: str, after: Any) -> None:
    assert [(change.knob, change.after) for change in room(run).changes] == [(knob, after)]


def test_an_effect_is_the_growth_of_the_cache_and_names_its_arithmetic() -> None:
    """0.05 x 79.2 GiB more in 48 GiB; 207 requests then fill 95 % of it in place of 200."""
    found = room(full()).effect
    assert found is not None
    assert (found.low, found.high) == (1.0, 207 / 200)
    assert "48 GiB +0.05 x 79.2 GiB = 51.96 GiB" in found.basis
    assert "1.08 x the tokens" in found.basis


@pytest.mark.parametrize(
    ("run", "names"),
    [
        (full(set={"max_model_len": 4096}), ["a smaller --max-model-len than 4,096"]),
        (full(model=QWEN), ["--kv-cache-dtype fp8"]),
        (full(), []),
    ],
)
def test_what_makes_no_room_is_to_be_avoided(run: Run, names: list[str]) -> None:
    found = load_of(run)
    texts = list(no_room(rule_context(run, found, bottleneck_of(run, found), "balanced")))
    assert [text.partition(":")[0] for text in texts] == names


@pytest.mark.parametrize(
    ("run", "ways"),
    [
        (full(set={"max_model_len": 4096}), ["--kv-cache-dtype fp8 holds", "quantized weights", "more replicas"]),
        (full(version="0.9.2"), ["quantized weights", "more replicas"]),
        (full(model=QWEN), ["quantized weights", "more replicas"]),
        (full(set={"quantization": "awq"}), ["--kv-cache-dtype fp8 holds", "more replicas"]),
        (full(platform="rocm"), ["quantized weights", "more replicas"]),
        # The way that is taken is no alternative to itself.
        (full(0.95, messages=(H100,)), ["quantized weights", "more replicas"]),
        # What leaves the answers alone is named beside what doubles the cache.
        (full(messages=(H100,)), ["--gpu-memory-utilization 0.9, which leaves the answers alone", "quantized weights", "more replicas"]),
    ],
)  # fmt: skip
def test_other_ways_are_listed_beside_it(run: Run, ways: list[str]) -> None:
    found = room(run).alternatives
    assert [way.startswith(start) for way, start in zip(found, ways, strict=True)] == [True] * len(ways)


@pytest.mark.parametrize(
    ("more", "able"),
    [
        ({}, True),
        ({"messages": (H100,)}, True),
        ({"messages": (A100,)}, False),
        ({"version": "0.9.2"}, False),
        ({"version": "0.10.0"}, True),
        # A source build without a release number.
        ({"version": "0.1.dev900+g1234567", "engine": "V1"}, False),
        ({"version": "0.1.dev900+g1234567", "engine": "V1", "messages": (H100,)}, True),
        ({"version": "0.1.dev900+g1234567", "engine": "V0", "messages": (H100,)}, False),
        ({"platform": "rocm"}, False),
        ({"model": QWEN}, False),
        ({"set": {"dtype": "float32"}}, False),
        ({"set": {"dtype": "float16"}}, True),
        ({"set": {"kv_cache_dtype": "fp8"}}, False),
    ],
)
def test_an_fp8_cache_is_proposed_to_16_bit_caches_of_cards_that_compute_in_fp8(
    more: dict[str, Any], able: bool
) -> None:
    run = full(**more)
    found = load_of(run)
    assert can_use_fp8_cache(rule_context(run, found, bottleneck_of(run, found), "balanced")) is able


@pytest.mark.parametrize(
    ("platform", "weights", "cache", "share", "size"),
    [
        ("cuda", 15.0, 54.5, 0.9, (79.2, 77.33, 93.1)),
        ("cuda", 15.0, 5.0, 0.9, (23.7, 22.33, 31.4)),
        ("cuda", 100.0, 78.0, 1.0, (178.4, 178.1, 178.4)),
        ("rocm", 15.0, 40.0, 0.9, (63.9, 61.22, 191.9)),
        ("cuda", 160.0, 40.0, 0.9, None),
    ],
)
def test_a_card_is_the_next_usual_size_above_what_was_placed_on_it(
    platform: str, weights: float, cache: float, share: float, size: tuple[float, float, float] | None
) -> None:
    run = a_run(
        set={"gpu_memory_utilization": share},
        measured={"kv_cache_tokens": 1000, "available_kv_cache_gib": cache, "model_weights_gib": weights},
        platform=platform,
    )
    found = device_total(run)
    expected = size and pytest.approx(size, abs=0.01)
    assert (found and (found.gib, found.low, found.high)) == expected


@pytest.mark.parametrize(
    ("listed", "size"),
    [
        # 3 % of what nvidia-smi prints may be the driver's; a usual size within that is the size.
        (("0, NVIDIA H100 80GB HBM3, 81559 MiB, 550.54",), (79.2, 77.26, 79.65)),
        (("0, NVIDIA A100 80GB PCIe, 65536 MiB, 550.54",), (63.04, 62.08, 64.0)),
        # Less than what the engine placed on it: the list is not of this card.
        (("0, NVIDIA H100 80GB HBM3, 20480 MiB, 550.54",), (39.4, 33.44, 44.4)),
        (("0, NVIDIA H100 80GB HBM3, 81559 MiB, 550.54", "1, NVIDIA L4, 23034 MiB, 550.54"), (39.4, 33.44, 44.4)),
    ],
)  # fmt: skip
def test_the_memory_that_nvidia_smi_lists_bounds_the_card(
    listed: tuple[str, ...], size: tuple[float, float, float]
) -> None:
    run = a_run(
        set={"gpu_memory_utilization": 0.9},
        measured={"kv_cache_tokens": 1000, "available_kv_cache_gib": 10.0, "model_weights_gib": 20.0},
        messages=listed,
    )
    found = device_total(run)
    assert found is not None
    assert (found.gib, found.low, found.high) == pytest.approx(size, abs=0.01)


@pytest.mark.parametrize(
    ("length", "concurrency", "hybrid", "held"),
    [(4000, 25.0, False, 100_000), (4000, 25.7, False, 100_000), (4000, 26.0, True, 104_000), (4000, 24.2, True, 96_800), (None, 30.0, False, 100_000)],
)  # fmt: skip
def test_a_printed_concurrency_that_is_not_tokens_over_length_shows_layers_of_several_kinds(
    length: int | None, concurrency: float, hybrid: bool, held: float
) -> None:
    given = {"max_model_len": length} if length else {}
    found = memory_of(a_run(set=given, measured={"kv_cache_tokens": 100_000, "max_concurrency": concurrency}))
    assert found is not None
    assert (found.hybrid, found.held) == (hybrid, pytest.approx(held))


def test_a_launch_that_is_not_in_the_log_may_set_the_share_of_memory_below_the_default() -> None:
    ran = load((5, {"running": 200, "waiting": 200, "kv": 99.0}))
    unknown = a_run(samples=ran, version="0.16.0", platform=None)
    assert (
        "--gpu-memory-utilization 0.9, if the launch command, which is not in this log, sets it lower"
        in room(unknown).alternatives
    )
    shown = a_run(set={"max_num_seqs": 512}, samples=ran, version="0.16.0", platform=None)
    assert not any("gpu-memory-utilization" in way for way in room(shown).alternatives)
