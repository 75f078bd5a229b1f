"""Drafters for speculative decoding: which models come with layers that predict further tokens (MTP), and since which release."""

from __future__ import annotations

import re
from typing import Any

from msgspec import Struct

from vllm_logdoctor.knowledge.versions import at_least
from vllm_logdoctor.rules.performance.published import MTP_OFF_MIDDLE, MTP_SINGLE
from vllm_logdoctor.run.model import Run


class Family(Struct, frozen=True):
    """Models by a part of their names, vLLM's name of the method, and the first release that is known to have it."""

    names: str
    method: str
    since: str
    apart: bool = False
    """Whether the drafter is a checkpoint of its own, published beside the model."""


# First releases: of the model's MTP file in the table of vLLM's messages, of a message that names the method, or of
# --spec-method among the flags (0.22.0), whichever is the earliest. A release before may have it too.
FAMILIES = (
    # Distilled ones are Qwen and Llama models without these layers.
    Family(r"deepseek-(?:v3|r1)(?!.*distill|-\d+b)", "deepseek_mtp", "0.10.0"),
    Family(r"qwen-?3-next", "qwen3_next_mtp", "0.10.2"),
    Family(r"qwen-?3\.[5-9]", "qwen3_5_mtp", "0.17.0"),
    Family(r"qwen-?4", "qwen4_exp_mtp", "0.29.0"),
    Family(r"glm-4\.7-flash", "glm4_moe_lite_mtp", "0.15.0"),
    Family(r"glm-4\.[5-7]", "glm4_moe_mtp", "0.22.0"),
    Family(r"mimo-v2", "mimo_v2_mtp", "0.22.0"),
    Family(r"mimo-7b", "mimo_mtp", "0.9.0"),
    Family(r"ernie-?4\.5.*-a\d+b", "ernie_mtp", "0.10.2"),
    Family(r"gemma-?4", "gemma4_mtp", "0.21.0", apart=True),
    Family(r"nemotron-(?:h|3)", "nemotron_h_mtp", "0.17.0"),
    Family(r"k-exaone|exaone-moe", "exaone_moe_mtp", "0.14.0"),
    Family(r"exaone-?4\.5", "exaone4_5_mtp", "0.22.0"),
    Family(r"step-?3\.5", "step3p5_mtp", "0.15.1"),
    Family(r"longcat-flash", "longcat_flash_mtp", "0.22.0"),
    Family(r"minimax-m3", "minimax_m3_mtp", "0.24.0"),
    Family(r"kimi-k3", "kimi_k3_mtp", "0.27.0"),
)


def family_of(run: Run) -> Family | None:
    """Return the family of a model that has a drafter, by its name.

    Example:
        >>> from vllm_logdoctor.run.model import Value
        >>> family_of(Run(model=Value("Qwen/Qwen3.5-27B", "explicit"))).method
        'qwen3_5_mtp'
        >>> family_of(Run(model=Value("deepseek-ai/DeepSeek-R1-Distill-Qwen-14B", "explicit"))) is None
        True
    """
    name = str(run.model.value) if run.model else ""
    return next((one for one in FAMILIES if re.search(one.names, name, re.IGNORECASE)), None)


def drafter_words(run: Run) -> tuple[str, ...]:
    """Return what to draft with, its measured range and the release that it needs; nothing for a run that drafts already."""
    given: Any = run.setting("speculative_config")
    if given:
        return ()
    family, version = family_of(run), run.release
    if family is None:
        return (
            "a drafter that is published for this model; measured 0.52 to 1.37 x with one request, so compare",
        )
    what = (
        "the MTP drafter published beside the model"
        if family.apart
        else "the checkpoint's own MTP layers, if it has them,"
    )
    method = "mtp" if at_least(version, "0.11.0") is not False else family.method
    low, high = 1 / MTP_OFF_MIDDLE.high, 1 / MTP_OFF_MIDDLE.low
    # Members of a family that need a checkpoint of their own have come in different releases.
    known = (
        "if the release supports this model's" if family.apart else f"known to work since vLLM {family.since}"
    )
    release = "" if at_least(version, family.since) else f", {known}"
    return (
        f"{what} as the draft model (--speculative-config, method {method}{release}): {MTP_SINGLE.words()} with one request at once;"
        f" {low:.2f} to {high:.2f} x with 2 to 16",
    )
