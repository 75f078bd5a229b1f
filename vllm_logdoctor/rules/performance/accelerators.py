"""Rules on accelerators beside those of NVIDIA: what their logs say that they leave unused."""

from __future__ import annotations

from vllm_logdoctor.knowledge.variables import variable_known
from vllm_logdoctor.rules.context import RuleContext, action, message_lines
from vllm_logdoctor.rules.model import Change
from vllm_logdoctor.rules.rule import Advice, Rule

# AITER's kernels are made for Instinct cards from MI300 on (AMD's guide to vLLM). Names of tuned files tell the card:
# E=64,N=896,device_name=AMD_Instinct_MI300X.json
_CARDS = ("AMD_Instinct_MI3",)
_PLAIN_ATTENTION = ("Triton Attention backend", "ROCmFlashAttention backend", "Rocm Attention backend")
CARD_LINES = ("moe-config-default", "block-quantization-config-default")
SWITCH = "VLLM_ROCM_USE_AITER"

ASCEND_PARTS = ("ascend-c-import-failed", "ascend-fusion-skipped", "ascend-custom-op-disabled")


def aiter_off(case: RuleContext) -> Advice | None:
    """AMD's kernels are off on a card that they are made for.

    Needs a line that names an Instinct card from MI300 on, one that names another attention backend, and no line of AITER:
    an engine that uses it says so.
    """
    run = case.run
    card = next((name for name in CARD_LINES if _names(case, name, _CARDS)), None)
    if run.platform != "rocm" or card is None or not _names(case, "attention-backend", _PLAIN_ATTENTION):
        return None
    if _mentions_aiter(case) or SWITCH in run.environment or variable_known(SWITCH, case.version) is False:
        return None
    text = (
        "The card is an AMD Instinct for which AITER's kernels are made, and nothing in the log is theirs: attention runs"
        " on another backend. vLLM leaves AITER off unless VLLM_ROCM_USE_AITER=1 is set. What it brings differs by model;"
        " no measured range is known here."
    )
    return Advice(
        text,
        (*message_lines(case, "attention-backend", most=1), *message_lines(case, card, most=1)),
        confidence="medium",
        changes=(
            Change(
                SWITCH, "env", None, 1, "needs-test", "the first start builds kernels; compare some answers"
            ),
        ),
        verify="lines that name AITER at the start, and a higher generation throughput at the same load.",
    )


def ascend_parts_missing(case: RuleContext) -> Advice | None:
    """Parts of the Ascend plugin are missing in the installation. Needs the plugin's lines that say so."""
    if case.event(*ASCEND_PARTS) is None:
        return None
    missing = case.event("ascend-c-import-failed") is not None
    text = (
        "The Ascend plugin runs without its compiled part: its own kernels are missing."
        if missing
        else "Some kernels of the Ascend plugin are not used, because the installation lacks what they need."
    ) + " How much each costs is not logged."
    return Advice(
        text,
        message_lines(case, *ASCEND_PARTS),
        confidence="medium",
        severity="medium" if missing else None,
        changes=(
            action(
                "install the plugin's own wheel or image for this CANN and vLLM release"
                if missing
                else "install the CANN and torch_npu that the plugin's release names"
            ),
        ),
        verify="no such lines at the start.",
    )


def _names(case: RuleContext, pattern: str, words: tuple[str, ...]) -> bool:
    seen = case.run.seen(pattern)
    return seen is not None and any(word in event.record.message for event in seen.first for word in words)


def _mentions_aiter(case: RuleContext) -> bool:
    return any(
        "aiter" in event.record.message.lower() for seen in case.run.messages.values() for event in seen.first
    )


RULES = (Rule("aiter-off", aiter_off), Rule("ascend-parts-missing", ascend_parts_missing))
