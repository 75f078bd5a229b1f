"""The closed lists that patterns, rule pages, findings and messages share."""

from __future__ import annotations

from typing import Literal, get_args

Topic = Literal[
    "attention",
    "bench",
    "compile",
    "configuration",
    "deprecation",
    "engine",
    "environment",
    "foreign",
    "hardware",
    "host",
    "kernels",
    "kv-cache",
    "kv-transfer",
    "lifecycle",
    "logging",
    "lora",
    "memory",
    "model-loading",
    "moe",
    "multimodal",
    "other",
    "parallelism",
    "platform",
    "quantization",
    "sampling",
    "scheduler",
    "security",
    "serving",
    "speculative-decoding",
    "statistics",
    "tokenizer",
]
"""What a message or a rule is about."""

Resource = Literal["device-memory", "disk", "host-memory", "kv-cache", "shared-memory", "threads"]
"""What a run can use up."""

RuleKind = Literal["failure", "performance", "configuration", "security"]
Safety = Literal["safe", "needs-test", "changes-results"]
Verdict = Literal[
    "information", "harmless", "needs-attention", "costs-performance", "will-break", "cause-of-failure"
]
Severity = Literal["critical", "high", "medium", "low", "info"]

MessageVerdict = Literal[Verdict, "not-fatal", "unknown"]
"""A verdict on a message of one run: one that can end a run did not end one that went on; no pattern knows some."""

SEVERITIES: tuple[Severity, ...] = get_args(Severity)
