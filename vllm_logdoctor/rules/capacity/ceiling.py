"""Distance to the limit of the card: memory bandwidth bounds decode, which reads weights and cache once a step; arithmetic
bounds prefill, which takes two operations for each weight and token.
"""

from __future__ import annotations

import re

from msgspec import Struct
from msgspec.structs import replace

from vllm_logdoctor.knowledge.cards import Card
from vllm_logdoctor.knowledge.dtypes import weight_bytes
from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.rules.capacity.card import device_of
from vllm_logdoctor.rules.capacity.memory import GIB, Memory, memory_of
from vllm_logdoctor.rules.load import Load, Span, decode_spans, evidence_of_sample, load_of, weighted_median
from vllm_logdoctor.run.model import Evidence, Run

LEAST_SAMPLES = 3
# A load of few prompts says nothing about how fast they could be computed.
MEASURABLE = 0.05
# Experts that a step does not use are not read: the weights of such models are no bound.
_EXPERTS = lazy_pattern(
    r"moe|mixtral|experts|-a\d+b\b|gpt-oss|deepseek-(?:v[2-9]|r\d)|kimi-k|glm-4\.[5-9]", re.IGNORECASE
)

# org/model-26B-A4B-FP8: 4 of 26 billion parameters are active for a token.
_ACTIVE = lazy_pattern(r"\b(\d+(?:\.\d+)?)B-A(\d+(?:\.\d+)?)B\b", re.IGNORECASE)


class Ceiling(Struct, frozen=True):
    """Decode speed that memory bandwidth allows, beside the measured one.

    Attributes:
        ceiling: tokens per second of all requests together at most.
        measured: tokens per second, median of samples without prompts.
        share: measured over ceiling; at least this much where the card may be a slower variant.
        formula: how the ceiling was computed, with its inputs.
        evidence: lines that hold the inputs.
        variant_open: whether the log leaves open which variant the card is: the ceiling is that of the fastest one.
    """

    ceiling: float
    measured: float
    share: float
    formula: str
    evidence: tuple[Evidence, ...]
    variant_open: bool = False

    @property
    def of_limit(self) -> str:
        """Return the share of the limit in words."""
        share = f"{100 * self.share:.0f} %"
        open_ = " or more, as the log leaves open which variant the card is" if self.variant_open else ""
        return share + open_


def ceiling_of(run: Run, load: Load | None = None) -> Ceiling | None:
    """Return the decode ceiling of a run, whose load may be known already.

    None where the log does not show card, weights or a steady decode load, for models of which a step reads
    only a part, with drafts, which make several tokens a step, and with pipeline stages, which work on different
    requests at a time. A measured rate above the bound shows that not all weights are read: then there is none.
    """
    device, memory = device_of(run), memory_of(run)
    card = device.fastest("bandwidth_gbs") if device is not None else None
    if card is None or not card.bandwidth_gbs or memory is None or not memory.weights or not memory.available:
        return None
    stages = run.setting("pipeline_parallel_size")
    if run.setting("speculative_config") or has_experts(run) or stages not in (None, 1):
        return None
    spans = decode_spans((load or load_of(run)).busy)
    if len(spans) < LEAST_SAMPLES:
        return None
    found = _ceiling(run, card, memory, memory.weights, memory.available, spans)
    return replace(found, variant_open=card is not device) if found.share <= 1 else None


def has_experts(run: Run) -> bool:
    """Return whether the model is a mixture of experts: by its name, or because its expert kernels are spoken of."""
    named = run.model is not None and _EXPERTS.search(str(run.model.value)) is not None
    return named or any("moe" in pattern for pattern in run.messages)


def active_share(run: Run) -> float | None:
    """Return the share of its parameters that a token uses, by the name of the model; None for a mixture whose name has none."""
    named = _ACTIVE.search(str(run.model.value)) if run.model is not None else None
    if named is not None:
        return min(1.0, float(named[2]) / float(named[1]))
    return None if has_experts(run) else 1.0


def distance(run: Run, load: Load) -> str:
    """Return in words how far decode and prefill are from what the card allows; an empty text where it is not known."""
    decode, prefill = ceiling_of(run, load), prefill_ceiling_of(run, load)
    words = ""
    if decode is not None:
        words += (
            f" Decode makes {decode.measured:,.0f} of at most {decode.ceiling:,.0f} tokens/s that the memory of the card"
            f" allows at this number of requests ({decode.of_limit}): {decode.formula}."
        )
    if prefill is not None:
        words += (
            f" Prefill made up to {prefill.measured:,.0f} of at most {prefill.ceiling:,.0f} prompt tokens/s that its"
            f" arithmetic allows ({prefill.of_limit}): {prefill.formula}."
        )
    return words


def prefill_ceiling_of(run: Run, load: Load) -> Ceiling | None:
    """Return the prompt tokens per second that the arithmetic of the card allows, attention left out.

    None where card, weights or prompts are not known, and for models of which a token uses only a part.
    """
    device, weights = device_of(run), run.measure("model_weights_gib")
    each = weight_bytes(run.setting("quantization"), str(run.setting("dtype") or "bfloat16"))
    if device is None or not weights or each is None or has_experts(run):
        return None
    card = device.fastest("fp8_tflops") if each.high <= 1.1 else device
    peak = card.fp8_tflops if each.high <= 1.1 else None
    if not peak:
        card = device.fastest("fp16_tflops")
        peak = card.fp16_tflops
    fastest = max(load.busy, key=lambda span: span.sample.prompt, default=None)
    stages = run.setting("pipeline_parallel_size")
    if not peak or fastest is None or not fastest.sample.prompt or stages not in (None, 1):
        return None
    parameters = weights * GIB / each.low
    ceiling, measured = peak * 1e12 / (2 * parameters), fastest.sample.prompt
    if not MEASURABLE <= measured / ceiling <= 1:
        return None
    formula = (
        f"{peak:,.0f} TFLOP/s ({card.name}, {card.source}) / (2 x {parameters / 1e9:.3g} billion weights on a card)"
        f" = {ceiling:,.0f} tokens/s"
    )
    lines = (evidence_of_sample(run, fastest.sample),)
    return Ceiling(ceiling, measured, measured / ceiling, formula, lines, card is not device)


def _ceiling(
    run: Run, card: Card, memory: Memory, weights: float, available: float, spans: list[Span]
) -> Ceiling:
    running = weighted_median(spans, lambda sample: float(sample.running or 0))
    cache = available * weighted_median(spans, lambda sample: sample.kv_usage or 0.0) / 100
    measured = weighted_median(spans, lambda sample: sample.generation)
    bandwidth = card.bandwidth_gbs or 0.0
    ceiling = bandwidth * 1e9 / ((weights + cache) * GIB) * running
    formula = (
        f"{bandwidth:,.0f} GB/s ({card.name}, {card.source}) / ({weights:g} GiB weights + {cache:.2f} GiB"
        f" cache) x {running:.0f} requests = {ceiling:,.0f} tokens/s"
    )
    sizes = run.measured.get("model_weights_gib"), run.measured.get("available_kv_cache_gib")
    lines = [value.evidence[0] for value in sizes if value and value.evidence]
    lines.append(evidence_of_sample(run, spans[-1].sample))
    return Ceiling(ceiling, measured, measured / ceiling, formula, tuple(lines))
