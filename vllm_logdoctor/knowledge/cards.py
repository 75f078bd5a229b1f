"""Data sheets of accelerators, found by the name that a driver, a framework or a kernel file gives them."""

from __future__ import annotations

import re
from functools import cache
from typing import Literal

from msgspec import Struct

from vllm_logdoctor.knowledge.store import read_rows


class Card(Struct, frozen=True):
    """What the vendor publishes about one accelerator; None where not sure or where variants differ.

    Attributes:
        name: the product; with "(any)" where the text did not say which variant.
        vendor: nvidia, amd, intel, google, huawei, aws.
        memory_gib: nominal memory of one device in GiB; drivers report a few per cent less.
        bandwidth_gbs: memory bandwidth in GB/s.
        fp16_tflops, fp8_tflops, int8_tflops, fp4_tflops: dense matrix peak (fp16 and bf16 alike,
            accumulated in fp32), in TFLOP/s or TOP/s.
        capability: CUDA compute capability ("9.0") or AMD target ("gfx942").
        link_gbs: device-to-device link (NVLink, xGMI), both directions together, GB/s; 0 for none.
        link_pairs_only: the link is a bridge that joins two cards.
        pcie: PCI Express generation; None where there is none or it is not known.
        unified_memory: the memory is the host's memory too.
        source: vendor's data sheet and year, where the figures can be checked.
        variants: the cards that it may be, where the text did not say which one.
    """

    name: str
    vendor: str
    source: str
    memory_gib: int | float | None = None
    bandwidth_gbs: int | float | None = None
    fp16_tflops: int | float | None = None
    fp8_tflops: int | float | None = None
    int8_tflops: int | float | None = None
    fp4_tflops: int | float | None = None
    capability: str | None = None
    link_gbs: int | float | None = None
    link_pairs_only: bool = False
    pcie: int | None = None
    unified_memory: bool = False
    variants: tuple[Card, ...] = ()

    def fastest(self, figure: Literal["bandwidth_gbs", "fp16_tflops", "fp8_tflops"]) -> Card:
        """Return the variant with the largest figure: an upper bound where the variant is not known; else the card itself.

        >>> card_for("H100").fastest("bandwidth_gbs").name
        'H100 NVL'
        """
        if not all(getattr(card, figure) for card in self.variants):
            return self
        return max(self.variants, key=lambda card: float(getattr(card, figure)), default=self)


class CardRow(Card, frozen=True):
    """A card with the words that name it: `family` must occur, `variant` tells it from its siblings."""

    family: str = ""
    variant: str = ""


# NVIDIA H100 80GB HBM3, 81559 MiB   device_name=NVIDIA_A100-SXM4-80GB,dtype=fp8_w8a8   AMD_Instinct_MI300X
_NOISE = re.compile(r"[^a-z0-9.+]+")
# A slice, a virtual or a mobile card shares the name of the full one, not its figures.
_NOT_THE_CARD = re.compile(r"\b(?:mig|grid|vgpu|laptop|mobile|max q|[1-7]g\.\d+gb|\d{1,2}[qc])\b")


# Drivers report a few per cent less than the data sheet; a slice has half of it at most.
LEAST_OF_NOMINAL = 0.85


@cache
def card_for(name_text: str, memory_gib: float | None = None) -> Card | None:
    """The card that a text names; None when it names none that is known, or a slice or mobile version of one.

    Where the text leaves the variant open, the memory that a driver reports may tell it; else only what all variants share is given.

    >>> card_for("NVIDIA GH200 120GB").bandwidth_gbs, card_for("NVIDIA GH200 120GB", 95.6).bandwidth_gbs
    (None, 4000)
    """
    variants = variants_of(name_text)
    possible = [card for card in variants if not (memory_gib and card.memory_gib) or _holds(card, memory_gib)]
    return _shared(possible) if possible else None


@cache
def most_bandwidth(memory_gib: float) -> float | None:
    """The bandwidth in GB/s that no known card of this memory exceeds, as a driver reports it; None for memory that none has.

    >>> most_bandwidth(23.7), most_bandwidth(3.0) is None
    (1008.0, True)
    """
    found = (card.bandwidth_gbs for card in _rows() if _holds(card, memory_gib))
    return max(map(float, filter(None, found)), default=None)


def _holds(card: Card, memory_gib: float) -> bool:
    """Return whether a card has the memory that a driver reports."""
    nominal = card.memory_gib or 0
    return LEAST_OF_NOMINAL * nominal <= memory_gib <= 1.01 * nominal


@cache
def variants_of(name_text: str) -> tuple[Card, ...]:
    """The cards that a text may mean: one, or all variants of a family where it leaves the variant open.

    >>> [card.name for card in variants_of("NVIDIA GH200 120GB")]
    ['GH200 144GB', 'GH200 96GB']
    """
    words = _NOISE.sub(" ", name_text.lower()).strip()
    if _NOT_THE_CARD.search(words):
        return ()
    siblings = [row for row in _rows() if re.search(rf"\b(?:{row.family})\b", words)]
    for row in siblings:
        if row.variant and re.search(rf"\b(?:{row.variant})\b", words):
            return (row,)
    plain = [row for row in siblings if not row.variant]
    if plain:
        return (plain[0],)
    return tuple(row for row in siblings if row.family == siblings[0].family)


@cache
def _rows() -> list[CardRow]:
    return read_rows("cards", CardRow)


def _shared(cards: list[Card]) -> Card:
    if len(cards) == 1:
        return cards[0]
    shared = {
        name: getattr(cards[0], name)
        for name in Card.__struct_fields__
        if all(getattr(card, name) == getattr(cards[0], name) for card in cards)
    }
    if "link_pairs_only" not in shared:
        shared.pop("link_gbs", None)
    name = f"{cards[0].name.split()[0]} (any)" if "name" not in shared else cards[0].name
    sources = "; ".join(dict.fromkeys(card.source for card in cards))
    return Card(**{**shared, "name": name, "source": sources, "variants": tuple(cards)})
