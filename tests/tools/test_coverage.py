"""Judged messages are counted by level: those that a pattern takes."""

from tools.coverage import coverage, coverage_lines
from vllm_logdoctor.catalogue.loading import load_index
from vllm_logdoctor.knowledge.messages import message_table


def test_a_release_has_judged_messages_of_every_loud_level() -> None:
    counts = coverage(message_table(), load_index().patterns, "0.33.0")
    messages, judged = counts["warning"]
    assert messages > 1000
    assert 200 < judged < messages
    assert f"| warning | {messages} | {judged} |" in list(coverage_lines(counts, "0.33.0"))


def test_without_patterns_nothing_is_judged() -> None:
    assert {judged for _, judged in coverage(message_table(), (), "0.9.0").values()} == {0}
