"""Rules on kernels: quantization, experts, sampling."""

from __future__ import annotations

from vllm_logdoctor.knowledge.versions import at_least
from vllm_logdoctor.rules.context import (
    RuleContext,
    action,
    flag,
    message_lines,
    setting_lines,
)
from vllm_logdoctor.rules.model import Change
from vllm_logdoctor.rules.performance.published import MARLIN_FOR_AWQ, MOE_TUNED
from vllm_logdoctor.rules.rule import Advice, Rule


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
            case, "--quantization", forced, better, "safe", "or drop the flag: vLLM chooses by itself"
        ),
        effect=(
            MARLIN_FOR_AWQ.effect("generation_throughput", "spread over cards and batch sizes in one change")
            if forced == "awq"
            else None
        ),
        verify=f"`quantization={better}` in the engine's configuration and no `so forcing {forced}`.",
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
        "The checkpoint is GGUF: vLLM reads it, but its kernels for it are not made for batches. AWQ, GPTQ or"
        " FP8 checkpoints of the same model run on tuned kernels."
    )
    return Advice(
        text,
        (*message_lines(case, "quantization-not-optimized"), *setting_lines(case, "quantization")),
        confidence="high",
        changes=(action("a checkpoint of the same model in AWQ, GPTQ or FP8", safety="changes-results"),),
        verify="`quantization=` of another kind in the engine's configuration.",
    )


def quantization_without_fast_kernel(case: RuleContext) -> Advice | None:
    """A quantization without fast kernels other than GGUF. Needs the engine's warning."""
    event = case.event("quantization-not-optimized")
    method = event.text("method") if event else ""
    if not method or method.lower() == "gguf" or case.event("quantization-kernel-forced") is not None:
        return None
    text = (
        f"vLLM warns that its {method} kernels are not tuned: the checkpoint saves memory, a step may be"
        " slower than with 16-bit weights."
    )
    return Advice(
        text,
        message_lines(case, "quantization-not-optimized"),
        confidence="medium",
        changes=(
            action(
                "take a checkpoint in AWQ, GPTQ or FP8, or 16-bit weights where the card holds them",
                safety="changes-results",
            ),
        ),
        verify="no such warning at the start.",
    )


def moe_kernel_untuned(case: RuleContext) -> Advice | None:
    """No tuned block sizes for these experts on this card. Needs the engine's warning."""
    if case.event("moe-config-default") is None:
        return None
    text = (
        "No tuned block sizes are shipped for these experts on this card. The tuning script of vLLM makes"
        " them; the gain is small and sometimes none."
    )
    return Advice(
        text,
        message_lines(case, "moe-config-default"),
        confidence="medium",
        changes=_tuned_folder(case),
        effect=MOE_TUNED.effect("generation_throughput"),
        verify="`Using configuration from ... for MoE layer` instead of the warning.",
    )


def _tuned_folder(case: RuleContext) -> tuple[Change, ...]:
    words = action("tune with vLLM's benchmark_moe.py --tune for this model, card and number of ranks")
    if at_least(case.version, "0.10.2"):
        return (words, action("set VLLM_TUNED_CONFIG_FOLDER to the folder with the result"))
    return (words,)


RULES = (
    Rule(
        "slow-quantization-kernel-selected",
        slow_quantization_kernel_selected,
        needs=("quantization-kernel-forced",),
    ),
    Rule("gguf-slow-path", gguf_slow_path, removes="host-limited"),
    Rule("quantization-without-fast-kernel", quantization_without_fast_kernel),
    Rule("moe-kernel-untuned", moe_kernel_untuned, needs=("moe-config-default",)),
)
