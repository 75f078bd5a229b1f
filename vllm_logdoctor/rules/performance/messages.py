"""Messages that cost performance and have no rule of their own: told together, with what they mean."""

from __future__ import annotations

from vllm_logdoctor.catalogue.topics import Severity
from vllm_logdoctor.rules.context import RuleContext, message_lines
from vllm_logdoctor.rules.rule import Advice, Rule

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


def slower_paths_taken(case: RuleContext) -> Advice | None:
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
    return Advice(
        text,
        message_lines(case, *ids, most=MOST_TOLD),
        confidence="medium",
        severity=severity,
        verify="these lines are gone at the start.",
    )


RULES = (Rule("slower-paths-taken", slower_paths_taken),)
