"""Rule on single streams: a step reads all weights for one token a request, so that bytes and bandwidth set the speed."""

from __future__ import annotations

import re

from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.rules.capacity.card import device_of
from vllm_logdoctor.rules.capacity.ceiling import has_experts
from vllm_logdoctor.rules.capacity.memory import GIB
from vllm_logdoctor.rules.context import RuleContext, action, sample_lines, setting_lines
from vllm_logdoctor.rules.load import rate_each
from vllm_logdoctor.rules.model import Confidence
from vllm_logdoctor.rules.performance.drafters import drafter_words
from vllm_logdoctor.rules.performance.graphs import switched_off
from vllm_logdoctor.rules.performance.published import QUANTIZED_SINGLE
from vllm_logdoctor.rules.placement import SLOWEST_READING, on_each_card
from vllm_logdoctor.rules.rule import Advice, Rule
from vllm_logdoctor.run.model import Run, Sample

FEW = 4
LEAST_SAMPLES = 2
LEAST_WEIGHTS_GIB = 4.0
SLOW_STREAM = 40.0
"""Tokens per second below which a reader notices the speed of one stream."""
AT_THE_LIMIT = 0.5
"""Share of the card's bandwidth that reading the weights takes, from which they set the pace."""
_QUANTIZED = lazy_pattern(r"awq|gptq|fp8|fp4|int[48]|w4a|w8a|[48]-?bit|gguf|bnb", re.IGNORECASE)


def decode_limited_by_weight_reads(case: RuleContext) -> Advice | None:
    """A handful of requests reads 16-bit weights for each token.

    Needs the size of the weights and statistics lines with one to four requests, and a stream that is slow, though not slower
    than any card, or close to the bandwidth of a card that the log names.
    """
    spans = [one for one in case.load.busy if one.steady and one.sample.running and one.sample.generation > 0]
    weights = case.run.measure("model_weights_gib")
    if not weights or weights < LEAST_WEIGHTS_GIB or len(spans) < LEAST_SAMPLES or not _applies(case):
        return None
    rate = max(rate_each(span.sample) for span in spans)
    read = rate * weights * GIB / 1e9
    share = _share_of_bandwidth(case.run, read)
    far_from_it = rate >= SLOW_STREAM or read < SLOWEST_READING if share is None else share < AT_THE_LIMIT
    if far_from_it:
        return None
    return Advice(
        _explanation(case.run, rate, weights, read, share),
        (*sample_lines(case, spans, _fastest), *setting_lines(case, "model_weights_gib", "dtype")),
        confidence=_confidence(case, rate, share),
        changes=(action("serve a quantized checkpoint of the model: fewer bytes to read for each token"),),
        effect=QUANTIZED_SINGLE.effect("generation_throughput", "per stream"),
        alternatives=drafter_words(case.run),
        avoid="--max-num-seqs, --gpu-memory-utilization and --kv-cache-dtype: none of them shortens a step.",
        verify="a smaller `Model loading took N GiB`, and more tokens/s with the same number of requests running.",
    )


def _applies(case: RuleContext) -> bool:
    run = case.run
    name = str(run.model.value) if run.model else ""
    return (
        run.platform in ("cuda", "rocm")
        and case.bottleneck.name == "client-limited"
        and 1 <= case.load.running <= FEW
        and not run.setting("quantization")
        and str(run.setting("dtype") or "bfloat16") in ("bfloat16", "float16", "half", "auto")
        and not run.setting("speculative_config")
        and not _QUANTIZED.search(name)
        and not switched_off(run)
    )


def _share_of_bandwidth(run: Run, read: float) -> float | None:
    """Return the share of the card's bandwidth that reading the weights takes; None where the log names no card."""
    card = device_of(run)
    if card is None or not card.bandwidth_gbs or has_experts(run):
        return None
    return read / card.bandwidth_gbs


def _explanation(run: Run, rate: float, weights: float, read: float, share: float | None) -> str:
    text = f"One stream makes at most {rate:.3g} tokens/s, and the weights have 16 bits"
    if has_experts(run):
        return text + (
            f" ({weights:.3g} GiB{on_each_card(run)}, of which a token reads the experts that it uses): the speed of a stream"
            " follows the bytes that a step reads, not the number of requests that the server may take."
        )
    text += f": each token reads {weights:.3g} GiB{on_each_card(run)}, {read:,.0f} GB/s."
    if share is None:
        return text + " The log does not name the card: compare this rate with its memory bandwidth."
    return text + f" That is {100 * share:.0f} % of the card's bandwidth: this is its limit for such weights."


def _confidence(case: RuleContext, rate: float, share: float | None) -> Confidence:
    if share is not None:
        return "high"
    return (
        "medium" if rate < SLOW_STREAM / 2 or case.objective == "latency" or has_experts(case.run) else "low"
    )


def _fastest(sample: Sample) -> tuple[float, ...]:
    return (sample.generation,)


RULES = (Rule("decode-limited-by-weight-reads", decode_limited_by_weight_reads, objectives=("latency",)),)
