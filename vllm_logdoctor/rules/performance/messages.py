"""Messages that cost performance and have no rule of their own: told together, with what they mean."""

from __future__ import annotations

from vllm_logdoctor.rules.model import Finding, Severity
from vllm_logdoctor.rules.performance.context import RuleContext, finding, message_lines

# Messages that rules of this room read themselves.
_READ_ELSEWHERE = frozenset(
    {
        "eager-mode-in-effect",
        "engine-v0-fallback",
        "preempted",
        "configuration-not-warmed-up",
        "custom-allreduce-disabled",
        "graph-memory-equivalent",
        "environment-variable-unknown",
        "using-slow-tokenizer-cause-significant-slowdown-consider",
        "hybrid-kv-cache-manager-disabled-hybrid-model",
    }
)
_TOPICS = frozenset(
    {
        "attention",
        "compile",
        "engine",
        "kv-cache",
        "kv-transfer",
        "lora",
        "memory",
        "moe",
        "multimodal",
        "parallelism",
        "platform",
        "hardware",
        "quantization",
        "sampling",
        "scheduler",
        "serving",
        "speculative-decoding",
        "tokenizer",
        "logging",
    }
)
MOST_TOLD = 5


def slower_paths_taken(case: RuleContext) -> Finding | None:
    """vLLM says that something runs in a slower way. Needs its messages, as the packs judge them."""
    ids = [
        name
        for name, seen in case.run.messages.items()
        if seen.first[0].pattern.verdict == "costs-performance"
        and seen.first[0].pattern.rule is None
        and seen.first[0].pattern.topic in _TOPICS
        and not seen.first[0].pattern.pack.startswith("advice-")
        and name not in _READ_ELSEWHERE
    ]
    if not ids:
        return None
    patterns = [case.run.messages[name].first[0].pattern for name in ids]
    told = list(dict.fromkeys(pattern.meaning for pattern in patterns if pattern.meaning))[:MOST_TOLD]
    more = f" And {len(ids) - MOST_TOLD} more." if len(ids) > MOST_TOLD else ""
    serious = any(pattern.severity in ("high", "medium") for pattern in patterns)
    severity: Severity = "low" if serious else "info"
    text = (
        "vLLM says that it takes a slower way: "
        + " ".join(told)
        + more
        + " How much each costs is not logged."
    )
    return finding(
        case,
        "slower-paths-taken",
        severity,
        "medium",
        text,
        message_lines(case, *ids, most=MOST_TOLD),
        verify="these lines are gone at the start.",
    )
