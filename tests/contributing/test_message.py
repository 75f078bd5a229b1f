"""Exercise 1 of CONTRIBUTING.md, followed to the letter in a copy of the checkout: a new message with a meaning."""

from __future__ import annotations

from pathlib import Path

from tests.contributing.exercises import checkout, exercise, run

__all__ = ["checkout"]
PATTERN = "patterns/scheduler/token-budget.toml"
PAGE = "patterns/rules/token-budget-halved-by-draft.md"


def test_a_new_message_becomes_a_finding(checkout: Path) -> None:
    log, new, pattern, page, commands = exercise("1. A new message with a meaning")
    (checkout / "job.log").write_text(log, "utf-8")

    assert "Token budget of a step was halved" in run(new, checkout)

    (checkout / PATTERN).write_text(pattern, "utf-8")
    (checkout / PAGE).write_text(page, "utf-8")
    run(commands, checkout)

    report = (checkout / "report.md").read_text("utf-8")
    assert "Token budget halved by the draft model" in report
    assert "prompts are read at half the speed" in report
    assert "Raise `--max-num-batched-tokens`" in report
    assert "token-budget-halved-by-draft" in (checkout / "docs/reference/rules.md").read_text("utf-8")
    assert "token-budget-halved" in (checkout / "docs/reference/patterns-scheduler.md").read_text("utf-8")
