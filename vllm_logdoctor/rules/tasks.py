"""What a model is served for."""

from __future__ import annotations

from vllm_logdoctor.run.model import Run

# Models with an encoder whose output each token of the answer attends to: prompts can't share a cache.
_WITH_ENCODER = ("Whisper", "Bart", "Mllama", "T5", "Florence2", "Donut", "NemotronParse", "CohereAsr")


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
