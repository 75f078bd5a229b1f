"""Exercise 3 of CONTRIBUTING.md, followed to the letter in a copy of the checkout: a new performance rule."""

from __future__ import annotations

from pathlib import Path

from tests.contributing.exercises import checkout, exercise, run

__all__ = ["checkout"]
MODULE = "vllm_logdoctor/rules/performance/observing.py"
PAGE = "patterns/rules/web-server-at-debug.md"
TEST = "tests/rules/test_web_server.py"
RULES = "\nRULES = (\n"


def test_a_check_with_its_page_and_test_is_a_rule(checkout: Path) -> None:
    check, row, page, test, commands = exercise("3. A new performance rule")
    module = (checkout / MODULE).read_text("utf-8")
    assert module.count(RULES) == 1
    (checkout / MODULE).write_text(module.replace(RULES, f"\n{check}RULES = (\n{row}"), "utf-8")
    (checkout / PAGE).write_text(page, "utf-8")
    (checkout / TEST).write_text(test, "utf-8")

    printed = run(commands, checkout)

    assert "Web server logs at level debug" in printed
    assert all(f"`{place}" in printed for place in (PAGE, MODULE, TEST))
    assert "web-server-at-debug" in (checkout / "docs/reference/rules.md").read_text("utf-8")
