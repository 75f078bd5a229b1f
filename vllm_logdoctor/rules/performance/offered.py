"""Rules on what vLLM itself offers: a faster backend that an argument excludes, a kernel that a variable switches on."""

from __future__ import annotations

from vllm_logdoctor.catalogue.topics import Safety
from vllm_logdoctor.knowledge.variables import variable_known
from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.rules.context import (
    RuleContext,
    action,
    message_lines,
    setting_lines,
)
from vllm_logdoctor.rules.model import Change
from vllm_logdoctor.rules.rule import Advice, Rule

OFFERS = (
    "flashinfer-trtllm-moe-available-but-not-enabled",
    "using-flashinfer-mxfp4-bf16-backend-sm100-faster",
    "enabling-flashinfer-mxfp4-bf16-backend-default-blackwell",
)
# FlashInfer TRTLLM MoE is available but not enabled, consider setting VLLM_FLASHINFER_MOE_BACKEND=latency to enable it
_ASSIGNMENT = lazy_pattern(r"\b(?P<name>VLLM_[A-Z0-9_]{3,80})=(?P<value>\w{1,40})")
FLASHINFER_FOR_FP8 = "fp8-kv-cache-wants-flashinfer"
ATTENTION = "VLLM_ATTENTION_BACKEND"


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
        "The KV cache has fp8 elements, and the attention backend in use is not the one that is fast with them: vLLM names"
        " FlashInfer. On releases of that time an fp8 cache without it cost up to 22 % of the speed on H100 and up to 80 %"
        " on A100."
    )
    return Advice(
        text,
        (*message_lines(case, FLASHINFER_FOR_FP8), *setting_lines(case, "kv_cache_dtype")),
        confidence="medium",
        changes=(Change(ATTENTION, "env", None, "FLASHINFER", "needs-test", "FlashInfer must be installed"),)
        if known
        else (action("FlashInfer as the attention backend, in the words of your release"),),
        alternatives=("a 16-bit cache, where its room is enough",),
        verify="`Using Flashinfer backend` at the start and no such warning.",
    )


RULES = (
    Rule("fp8-cache-without-flashinfer", fp8_cache_without_flashinfer),
    Rule("faster-expert-kernel-offered", faster_expert_kernel_offered),
)
