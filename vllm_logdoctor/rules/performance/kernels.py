"""Rules on kernels: quantization, experts, and what vLLM itself offers."""

from __future__ import annotations

from vllm_logdoctor.catalogue.topics import Safety
from vllm_logdoctor.knowledge.variables import variable_known
from vllm_logdoctor.knowledge.versions import at_least
from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.rules.capacity.fp8 import in_formats_of_card
from vllm_logdoctor.rules.capacity.memory import memory_of
from vllm_logdoctor.rules.context import RuleContext, action, flag, message_lines, setting_lines
from vllm_logdoctor.rules.model import Change
from vllm_logdoctor.rules.performance.published import MARLIN_FOR_AWQ, MOE_TUNED
from vllm_logdoctor.rules.rule import Advice, Rule
from vllm_logdoctor.rules.tasks import has_vision_tower

OFFERS = (
    "flashinfer-trtllm-moe-available-but-not-enabled",
    "using-flashinfer-mxfp4-bf16-backend-sm100-faster",
    "enabling-flashinfer-mxfp4-bf16-backend-default-blackwell",
)
_OWN_FORMAT = ("mxfp4",)
"""Formats in which a model is published: there are no larger weights of it to take instead."""
_MOST_SMALLER = 4.0
"""Weights of 16 bits take at most this many times the memory of those that a log loads in 4 bits."""
_OF_CARD = 0.7
"""Share of a card that weights may take and leave room for the cache."""
# FlashInfer TRTLLM MoE is available but not enabled, consider setting VLLM_FLASHINFER_MOE_BACKEND=latency to enable it
_ASSIGNMENT = lazy_pattern(r"\b(?P<name>VLLM_[A-Z0-9_]{3,80})=(?P<value>\w{1,40})")
FLASHINFER_FOR_FP8 = "fp8-kv-cache-wants-flashinfer"
ATTENTION = "VLLM_ATTENTION_BACKEND"
_CACHE_OF_16_BITS = "a 16-bit KV cache (`--kv-cache-dtype auto`), if half the capacity is enough"


def slow_quantization_kernel_selected(case: RuleContext) -> Advice | None:
    """--quantization forces an old kernel. Needs the engine's line that says so."""
    event = case.event("quantization-kernel-forced")
    if event is None:
        return None
    forced, better = event.text("forced"), event.text("better")
    text = (
        f"`--quantization {forced}` forces the old {forced} kernel, although {better} runs this checkpoint as"
        " it is."
    )
    return Advice(
        text,
        message_lines(case, "quantization-kernel-forced", "quantization-not-optimized"),
        confidence="high",
        changes=flag(
            case, "--quantization", forced, better, "safe", "or drop the flag, and vLLM chooses by itself"
        ),
        effect=(
            MARLIN_FOR_AWQ.effect("generation_throughput", "spread over cards and batch sizes in one change")
            if forced == "awq"
            else None
        ),
        verify=f"`quantization={better}` in the engine's configuration, and no warning `so forcing {forced}`.",
    )


def gguf_slow_path(case: RuleContext) -> Advice | None:
    """A GGUF checkpoint, for which vLLM has no fast kernels.

    Needs quantization=gguf or the engine's warning.
    """
    event = case.event("quantization-not-optimized")
    warned = event is not None and event.text("method").lower() == "gguf"
    if not warned and str(case.run.setting("quantization") or "").lower() != "gguf":
        return None
    text = (
        "The checkpoint is GGUF: vLLM reads it, but its kernels for it are not made for batches. AWQ, GPTQ or FP8"
        " checkpoints of the same model run on tuned kernels."
    )
    better = in_formats_of_card("serve a checkpoint of the same model in AWQ, GPTQ or FP8", case.run)
    return Advice(
        in_formats_of_card(text, case.run),
        (*message_lines(case, "quantization-not-optimized"), *setting_lines(case, "quantization")),
        confidence="high",
        changes=(action(better, safety="changes-results"),),
        verify="`quantization=` of another kind in the engine's configuration.",
    )


def _quantized_while_loading(case: RuleContext, method: str) -> str:
    """Return what to leave out where the loader itself quantizes: the checkpoint may hold 16-bit weights."""
    if method.lower() not in str(case.run.setting("load_format")).lower():
        return ""
    return " (leave out quantization and load_format, if the checkpoint holds them)"


def quantization_without_fast_kernel(case: RuleContext) -> Advice | None:
    """A quantization without fast kernels other than GGUF. Needs the engine's warning."""
    event = case.event("quantization-not-optimized")
    method = event.text("method") if event else ""
    if (
        not method
        or method.lower() in ("gguf", *_OWN_FORMAT)
        or case.event("quantization-kernel-forced") is not None
    ):
        return None
    text = (
        f"vLLM warns that its {method} kernels are not tuned: the format saves memory, a step may be"
        " slower than with 16-bit weights."
    )
    memory = memory_of(case.run)
    formats = " or ".join(name for name in ("AWQ", "GPTQ", "FP8") if name.lower() != method.lower())
    other = f"take a checkpoint in {formats.replace(' or ', ', ', formats.count(' or ') - 1)}"
    if memory is None or not memory.weights or memory.total is None:
        other += ", or 16-bit weights if they fit on the card"
    elif _MOST_SMALLER * memory.weights < _OF_CARD * memory.total.low:
        most = _MOST_SMALLER * memory.weights
        other = (
            f"use the 16-bit weights{_quantized_while_loading(case, method)}: they take at most {most:.0f} of the"
            f" {memory.total.gib:.0f} GiB of a card, and the KV cache loses up to {most - memory.weights:.0f} GiB"
        )
    return Advice(
        text,
        message_lines(case, "quantization-not-optimized"),
        confidence="medium",
        changes=(action(in_formats_of_card(other, case.run), safety="changes-results"),),
        verify="no such warning at the start.",
    )


def moe_kernel_untuned(case: RuleContext) -> Advice | None:
    """No tuned block sizes for these experts on this card.

    Needs the engine's warning; silent where the served model's experts have kernels without block sizes: the warning is the draft's.
    """
    if case.event("moe-config-default") is None:
        return None
    chosen = case.event("moe-backend-selected")
    if chosen is not None and "triton" not in chosen.text("backend").lower():
        return None
    text = (
        "No tuned block sizes are shipped for these experts on this card; the gain from them is small. vLLM's tuning"
        " script makes them for the architectures that it knows, and fails on most others."
    )
    return Advice(
        text,
        message_lines(case, "moe-config-default", "resolved-architecture"),
        confidence="medium",
        changes=_tuned_folder(case),
        effect=MOE_TUNED.effect("generation_throughput"),
        verify="`Using configuration from ... for MoE layer` instead of the warning.",
    )


def _tuned_folder(case: RuleContext) -> tuple[Change, ...]:
    seen = case.run.seen("resolved-architecture")
    model = seen.first[0].text("architecture") if seen is not None else "the model's architecture"
    words = action(
        f"tune with vLLM's benchmark_moe.py --tune if the script of this release knows {model} (see its source):"
        " once for this model, card and number of ranks"
    )
    if at_least(case.version, "0.10.2"):
        return (words, action("set VLLM_TUNED_CONFIG_FOLDER to the folder with the result"))
    return (words,)


def faster_expert_kernel_offered(case: RuleContext) -> Advice | None:
    """vLLM names a faster expert kernel and the variable that switches it on. Needs that line."""
    event = case.event(*OFFERS)
    if event is None:
        return None
    message = event.record.message
    accuracy = "accuracy" in message
    safety: Safety = "changes-results" if accuracy else "needs-test"
    changes = [
        Change(found["name"], "env", None, found["value"], safety)
        for found in _ASSIGNMENT.finditer(message)
        if variable_known(found["name"], case.version) is not False
    ]
    text = (
        "vLLM says that a faster kernel for the experts is there and not used."
        + (" It computes with fewer bits: answers can differ." if accuracy else "")
        + " How much it brings is not logged."
    )
    return Advice(
        text,
        message_lines(case, *OFFERS),
        confidence="low" if accuracy else "medium",
        changes=changes,
        verify="a line that names the other kernel at the start, and a higher throughput at the same load.",
    )


def fp8_cache_without_flashinfer(case: RuleContext) -> Advice | None:
    """An fp8 cache on an attention backend that is slow with it.

    Needs the engine's warning; silent where the fp8 cache made vLLM take the V0 engine, which costs more.
    """
    if case.event(FLASHINFER_FOR_FP8) is None or case.event("engine-v0-fallback") is not None:
        return None
    known = variable_known(ATTENTION, case.version) is not False
    text = (
        "The KV cache is fp8, and the attention backend in use is slow with it: vLLM recommends FlashInfer."
    )
    if has_vision_tower(case.run):
        changes = (action(_CACHE_OF_16_BITS, safety="needs-test"),)
        text += f" Do not set `{ATTENTION}`: the vision encoder of the model takes the same backend, and most refuse FlashInfer at the start."
    elif known:
        changes = (
            Change(ATTENTION, "env", None, "FLASHINFER", "needs-test", "FlashInfer must be installed"),
        )
    else:
        changes = (action("FlashInfer as the attention backend, in the words of your release"),)
    return Advice(
        text,
        (*message_lines(case, FLASHINFER_FOR_FP8), *setting_lines(case, "kv_cache_dtype")),
        confidence="medium",
        changes=changes,
        alternatives=() if has_vision_tower(case.run) else (_CACHE_OF_16_BITS,),
        verify="no such warning, and a higher throughput at the same load.",
    )


RULES = (
    Rule(
        "slow-quantization-kernel-selected",
        slow_quantization_kernel_selected,
        needs=("quantization-kernel-forced",),
    ),
    Rule("gguf-slow-path", gguf_slow_path, removes="host-limited"),
    Rule("quantization-without-fast-kernel", quantization_without_fast_kernel),
    Rule("moe-kernel-untuned", moe_kernel_untuned, needs=("moe-config-default",)),
    Rule("fp8-cache-without-flashinfer", fp8_cache_without_flashinfer),
    Rule("faster-expert-kernel-offered", faster_expert_kernel_offered),
)
