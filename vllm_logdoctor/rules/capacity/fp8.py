"""What a run's card can do with fp8: by the lines that name the card or its generation."""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.rules.capacity.card import compile_targets, device_of
from vllm_logdoctor.run.model import Run

ARITHMETIC = 8.9
"""Compute capability from which cards compute with fp8 numbers."""
WEIGHT_ONLY = 8.0
"""Compute capability from which kernels unpack fp8 weights and caches, without computing in fp8."""
_AMD_WITH_FP8 = ("gfx94", "gfx95", "gfx12")
_NEWEST = 99.0

# Your Tesla V100-SXM2-32GB GPU has compute capability 7.0. You can use float16 instead ...
# Your device 'Tesla T4' (with compute capability 7.5) doesn't support torch.bfloat16.
_OF_THIS_CARD = lazy_pattern(r"\bYour [^\n]{1,80}?compute capability (?P<capability>\d{1,2}\.\d)\b")
# (words of a message, least, most): what the message says of the card's compute capability
_GENERATION = (
    ("for Volta and Turing GPUs", 0.0, 7.5),
    ("does not have native support for FP8 computation", 0.0, 8.6),
    ("Using FlashAttention version 3", 9.0, _NEWEST),
    ("Using Flash Attention version 3", 9.0, _NEWEST),
)
# Qwen2 and Qwen2.5 add a bias to their keys that makes single channels very large.
_KEYS_WITH_OUTLIERS = lazy_pattern(r"qwen-?2(?:\.5)?(?![\d.])", re.IGNORECASE)
# Take a checkpoint in AWQ, GPTQ or FP8      a quantized checkpoint (FP8, AWQ, GPTQ, NVFP4)      4 bits a weight (AWQ, GPTQ, NVFP4)
_FORMATS = lazy_pattern(r"AWQ, GPTQ or FP8|(?:FP8, )?AWQ, GPTQ, NVFP4")


class Capability(Struct, frozen=True):
    """Bounds of a card's CUDA compute capability: equal where the card is known, wide where it is not."""

    least: float = 0.0
    most: float = _NEWEST


def capability_of(run: Run) -> Capability:
    """Return what the log shows of the compute capability of the run's cards.

    Example:
        >>> capability_of(Run())
        Capability(least=0.0, most=99.0)
    """
    bounds = [*_named(run), *_generation(run)]
    least = max((one.least for one in bounds), default=0.0)
    return Capability(least, min((one.most for one in bounds), default=_NEWEST))


def refuses_fp8(run: Run) -> str:
    """Return why the run's card takes neither an fp8 cache nor fp8 weights; an empty text where nothing says so."""
    if run.platform == "rocm":
        card = device_of(run)
        target = card.capability if card else None
        old = target is not None and not target.startswith(_AMD_WITH_FP8)
        return f"the card ({target}) has no fp8; MI300 and later have" if old else ""
    most = capability_of(run).most
    if most >= WEIGHT_ONLY:
        return ""
    return f"the card has compute capability {most:g} or less, and fp8 needs 8.0, to compute with it 8.9"


def pins_attention_without_fp8(run: Run) -> bool:
    """Return whether the launch asks for FlashAttention, for the model or a drafter, and it is version 2: that has no fp8 cache."""
    pinned = (
        run.setting("attention_backend"),
        # The engine's own print of the speculative configuration leaves the backend out.
        run.setting("speculative_config"),
        run.arguments.get("speculative_config"),
        *(one.value for name, one in run.environment.items() if name == "VLLM_ATTENTION_BACKEND"),
    )
    version = run.seen("flash-attention-version")
    two = version is not None and version.first[0].text("version") == "2"
    return two and any("flash_attn" in str(one).lower() for one in pinned)


def fp8_cache_breaks_answers(run: Run) -> bool:
    """Return whether the model is of a family whose keys have outliers that an fp8 cache without calibrated scales cuts off.

    Example:
        >>> from vllm_logdoctor.run.model import Value
        >>> fp8_cache_breaks_answers(Run(model=Value("Qwen/Qwen2.5-7B-Instruct", "explicit")))
        True
    """
    return run.model is not None and _KEYS_WITH_OUTLIERS.search(str(run.model.value)) is not None


def in_formats_of_card(text: str, run: Run) -> str:
    """Return advice on quantized checkpoints with the formats that the run's card takes.

    Example:
        >>> in_formats_of_card("Take a checkpoint in AWQ, GPTQ or FP8.", Run())
        'Take a checkpoint in AWQ, GPTQ or FP8.'
    """
    listed = _FORMATS.search(text)
    if listed is None or not refuses_fp8(run):
        return text
    # The kernels of AWQ need compute capability 7.5.
    formats = "AWQ or GPTQ" if run.platform == "rocm" or capability_of(run).least >= 7.5 else "GPTQ"
    return text.replace(listed[0], formats)


def condition_of_fp8(run: Run) -> str:
    """Return what an fp8 cache or fp8 weights need where the log does not show that the card has it."""
    if run.platform == "rocm":
        return "" if device_of(run) else "for MI300 or later cards"
    known = capability_of(run)
    if known.least >= ARITHMETIC:
        return ""
    if known.most < ARITHMETIC:
        return "this card does not compute in fp8 and unpacks it first, which can cost more than it saves"
    return "for compute capability 8.9 or later; works from 8.0 on, but slower"


def _named(run: Run) -> Iterator[Capability]:
    card = device_of(run)
    if card is not None and card.vendor == "nvidia" and card.capability:
        yield Capability(float(card.capability), float(card.capability))
    elif len(targets := compile_targets(run)) == 1:
        yield Capability(*targets, *targets)


def _generation(run: Run) -> Iterator[Capability]:
    for seen in run.messages.values():
        for event in seen.first[:1]:
            message = event.record.message[:400]
            match = _OF_THIS_CARD.search(message) if "compute capability" in message else None
            if match:
                yield Capability(float(match["capability"]), float(match["capability"]))
            yield from (Capability(least, most) for words, least, most in _GENERATION if words in message)
