"""Exercise 2 of CONTRIBUTING.md, followed to the letter in a copy of the checkout: a new failure cause."""

from __future__ import annotations

from pathlib import Path

import vllm_logdoctor
from tests.contributing.exercises import checkout, exercise, run

__all__ = ["checkout"]
PAGE = "patterns/rules/license-server-unreachable.md"


def test_a_page_names_a_new_cause(checkout: Path) -> None:
    page, commands = exercise("2. A new failure cause")
    log = page.partition("```log\n")[2].partition("```")[0]
    (before,) = vllm_logdoctor.analyze(log.encode()).runs
    assert "license-server-unreachable" not in [found.id for found in before.findings]
    (checkout / PAGE).write_text(page, "utf-8")

    assert "passed" in run(commands, checkout)

    (checkout / "job.log").write_text(log, "utf-8")
    report = run("python -m vllm_logdoctor analyze job.log", checkout)
    assert "License server unreachable" in report
    assert "asked the license server license7:27000 for a lease" in report
    assert "license-server-unreachable" in (checkout / "docs/reference/rules.md").read_text("utf-8")
