"""What a model is served for."""

from __future__ import annotations

from vllm_logdoctor.run.model import Run


def pools(run: Run) -> bool:
    """Whether the model embeds or classifies instead of generating: its scheduler settings have other reasons."""
    pooler = run.setting("pooler_config")
    tasks = {str(run.setting(name)) for name in ("runner", "task", "convert")}
    return pooler not in (None, "None") or bool(
        tasks & {"pooling", "embed", "embedding", "score", "classify", "reward"}
    )
