"""Rule on models whose layers need caches of different size."""

from __future__ import annotations

from vllm_logdoctor.rules.context import (
    RuleContext,
    action,
    flag,
    message_lines,
    setting_lines,
)
from vllm_logdoctor.rules.rule import Advice, Rule

_DISABLED = "hybrid-kv-cache-manager-disabled-hybrid-model"
_CONNECTOR = (
    "turning-off-hybrid-kv-cache-manager-because",
    "turning-off-hybrid-kv-cache-manager-because-2",
    "turning-off-hybrid-kv-cache-manager-because-3",
)


def window_layers_keep_whole_cache(case: RuleContext) -> Advice | None:
    """Layers with a sliding window keep the cache of full attention.

    Needs vLLM's warning that its hybrid cache manager is off for this model.
    """
    if case.event(_DISABLED) is None:
        return None
    field = "disable_hybrid_kv_cache_manager"
    asked = case.run.arguments.get(field) is True
    connector = case.event(*_CONNECTOR) is not None
    text = (
        "The model has layers with a sliding window (or with state), and vLLM keeps as much cache for them as for full"
        " attention: far fewer tokens fit than the memory could hold."
    )
    if asked:
        text += " --disable-hybrid-kv-cache-manager asked for it."
    elif connector:
        text += " The KV connector does not support the other way."
    changes = (
        flag(
            case,
            "--disable-hybrid-kv-cache-manager",
            True,
            None,
            "needs-test",
            "unless a KV connector needs it",
        )
        if asked
        else ()
    )
    return Advice(
        text,
        (*message_lines(case, _DISABLED, *_CONNECTOR), *setting_lines(case, field, "kv_cache_tokens")),
        confidence="high",
        severity=None if case.load.peak_kv < 90 else "medium",
        changes=changes
        or ((action("a KV connector that supports the hybrid cache manager, or none"),) if connector else ()),
        verify="no such warning at the start, and a larger `Maximum concurrency`.",
    )


RULES = (Rule("window-layers-keep-whole-cache", window_layers_keep_whole_cache),)
