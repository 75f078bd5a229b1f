"""What is said of messages that nobody judged."""

from __future__ import annotations

import pytest

from vllm_logdoctor.catalogue.defaults import default_meaning, default_severity


@pytest.mark.parametrize(
    ("level", "severity", "words"),
    [
        ("debug", "info", "Debug detail about the KV cache."),
        ("info", "info", "Note about the KV cache."),
        ("warning", "low", "Warning about the KV cache, not classified; vLLM continued."),
        ("error", "medium", "Error about the KV cache, not classified; the lines after it show"),
        (
            "raise",
            "medium",
            "Exception about the KV cache, not classified; the operation that raised it did not",
        ),
    ],
)
def test_a_message_says_no_more_than_its_level_and_topic(level: str, severity: str, words: str) -> None:
    assert default_severity(level) == severity
    assert default_meaning(level, "kv-cache").startswith(words)
    assert default_meaning(level, "deprecation").startswith("Deprecated: this release accepts or ignores it")
