"""Accelerators are found by any of their names, and nothing is said of what the name leaves open."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.tables import for_each
from vllm_logdoctor.knowledge.cards import card_for


@for_each(
    ("text", "name", "memory_gib", "bandwidth_gbs", "capability"),
    [
        ("NVIDIA H100 80GB HBM3", "H100 SXM", 80, 3350, "9.0"),
        ("NVIDIA H100 PCIe", "H100 PCIe", 80, 2000, "9.0"),
        ("NVIDIA_H100_NVL", "H100 NVL", 94, 3900, "9.0"),
        ("device_name=NVIDIA_H200", "H200 SXM", 141, 4800, "9.0"),
        ("NVIDIA A100-SXM4-40GB", "A100 SXM 40GB", 40, 1555, "8.0"),
        ("NVIDIA A100 80GB PCIe", "A100 PCIe 80GB", 80, 1935, "8.0"),
        ("Tesla T4", "T4", 16, 320, "7.5"),
        ("Tesla V100-SXM2-32GB", "V100 SXM2 32GB", 32, 900, "7.0"),
        ("NVIDIA GeForce RTX 4090", "RTX 4090", 24, 1008, "8.9"),
        ("NVIDIA GeForce RTX 3090 Ti", "RTX 3090 Ti", 24, 1008, "8.6"),
        ("NVIDIA RTX 6000 Ada Generation", "RTX 6000 Ada", 48, 960, "8.9"),
        ("NVIDIA L40S", "L40S", 48, 864, "8.9"),
        ("NVIDIA B200", "B200", 180, 8000, "10.0"),
        ("NVIDIA GB10", "GB10", 128, 273, "12.1"),
        ("AMD_Instinct_MI300X_OAM", "MI300X", 192, 5300, "gfx942"),
        ("AMD Radeon RX 7900 XTX", "Radeon RX 7900 XTX", 24, 960, "gfx1100"),
    ],
)
def test_names_as_they_are_printed(
    text: str, name: str, memory_gib: float, bandwidth_gbs: float, capability: str
) -> None:
    card = card_for(text)
    assert card is not None
    assert (card.name, card.memory_gib, card.bandwidth_gbs, card.capability) == (
        name,
        memory_gib,
        bandwidth_gbs,
        capability,
    )


def test_an_open_variant_leaves_figures_open() -> None:
    card = card_for("A100")
    assert card is not None
    assert (card.memory_gib, card.fp16_tflops, card.capability) == (None, 312, "8.0")
    assert card.link_gbs is None


@pytest.mark.parametrize(
    ("memory", "name", "bandwidth"),
    [(95.6, "GH200 96GB", 4000), (143.0, "GH200 144GB", 4900), (None, "GH200 (any)", None)],
)
def test_the_memory_that_a_driver_reports_tells_the_variant(
    memory: float | None, name: str, bandwidth: float | None
) -> None:
    card = card_for("NVIDIA GH200 120GB", memory)
    assert card is not None
    assert (card.name.split(" (")[0].split()[0], card.bandwidth_gbs) == (name.split()[0], bandwidth)


def test_a_memory_that_no_variant_has_is_of_another_card() -> None:
    assert card_for("NVIDIA H100 80GB HBM3", 9.8) is None


@pytest.mark.parametrize(
    "text",
    ["", "cpu", "NVIDIA A100-SXM4-80GB MIG 3g.40gb", "NVIDIA GeForce RTX 4090 Laptop GPU", "GRID A100D-80C"],
)
def test_parts_and_mobile_versions_of_a_card_are_not_the_card(text: str) -> None:
    assert card_for(text) is None


def test_siblings_are_not_mixed_up() -> None:
    names = ["RTX 4070", "RTX 4070 Ti", "RTX 4070 Super", "RTX 4070 Ti Super", "RTX 4090 D"]
    assert [card.name for name in names if (card := card_for(f"NVIDIA GeForce {name}"))] == names


@given(st.text(max_size=40))
def test_no_text_breaks_the_search(text: str) -> None:
    card = card_for(text)
    assert card is None or card.source


def test_the_fastest_variant_bounds_a_figure_that_all_of_them_have() -> None:
    one = card_for("NVIDIA H100 80GB HBM3")
    assert one is not None
    assert one.fastest("bandwidth_gbs") is one, "a card without variants is its own bound"
    slow, fast = (
        replace(one, name=name, fp16_tflops=figure, fp8_tflops=None)
        for name, figure in (("slow", 10), ("fast", 20))
    )
    several = replace(one, variants=(slow, fast))
    assert several.fastest("fp16_tflops") is fast
    assert several.fastest("fp8_tflops") is several, "a variant without the figure leaves it open"
