"""What a model is served for."""

from __future__ import annotations

from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.run.model import Run

# Models with an encoder whose output each token of the answer attends to: prompts can't share a cache.
_WITH_ENCODER = ("Whisper", "Bart", "Mllama", "T5", "Florence2", "Donut", "NemotronParse", "CohereAsr")

# Qwen/Qwen2-VL-7B-Instruct      Qwen2_5_VLForConditionalGeneration      THUDM/GLM-4.1V-9B-Thinking      allenai/Molmo-7B-D
_VISION_TOWER = lazy_pattern(r"VL(?![a-z])|[-_.]vl(?![a-z])|(?i:glm-?4(?:\.\d)?v|keye|molmo)")
_IN_VISION_PART = "current-vllm-flash-attn-bug-inside-vision"


def pools(run: Run) -> bool:
    """Return whether the model embeds or classifies instead of generating: its scheduler settings have other reasons."""
    pooler = run.setting("pooler_config")
    tasks = {str(run.setting(name)) for name in ("runner", "task", "convert")}
    return pooler not in (None, "None") or bool(
        tasks & {"pooling", "embed", "embedding", "score", "classify", "reward"}
    )


def computes_for_others(run: Run) -> bool:
    """Return whether the engine computes prompts that another one goes on with: it makes one token of each request."""
    return "kv_producer" in str(run.setting("kv_transfer_config"))


def has_encoder(run: Run) -> bool:
    """Return whether the model is one of encoder and decoder, as those for speech are."""
    seen = run.seen("resolved-architecture")
    return seen is not None and seen.first[0].text("architecture").startswith(_WITH_ENCODER)


def has_vision_tower(run: Run) -> bool:
    """Return whether the model is one whose vision encoder takes the attention backend that is set for the whole engine."""
    seen = run.seen("resolved-architecture")
    named = seen.first[0].text("architecture") if seen is not None else ""
    known = _VISION_TOWER.search(f"{named} {run.setting('model') or ''}")
    return known is not None or run.seen(_IN_VISION_PART) is not None
