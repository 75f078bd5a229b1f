"""Exercise 4 of CONTRIBUTING.md, followed to the letter in a copy of the checkout: a new output format."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.contributing.exercises import ROOT, checkout, exercise, run
from vllm_logdoctor.report.writers import FORMATS

__all__ = ["checkout"]
LOG = "fixtures/vllm-0.11.2-kv-starved.log"


@pytest.fixture
def extended(checkout: Path) -> Path:
    module, line, _ = exercise("4. A new output format")
    (checkout / "vllm_logdoctor/report/ndjson.py").write_text(module)
    writers = checkout / "vllm_logdoctor/report/writers.py"
    text = writers.read_text()
    rows, end, rest = text.partition("\n}\n\n_OF_ANALYSIS")
    assert end
    writers.write_text(f"{rows}\n{line.rstrip()}{end}{rest}")
    return checkout


def test_the_format_is_written_by_its_ending_and_passes_the_tests_of_formats(extended: Path) -> None:
    *_, commands = exercise("4. A new output format")
    assert "passed" in run(commands, extended)
    lines = (extended / "report.ndjson").read_text().splitlines()
    assert [json.loads(line)["number"] for line in lines] == [1]


def test_the_help_and_the_other_commands_have_it(extended: Path) -> None:
    assert "ndjson" in run("python -m vllm_logdoctor analyze --help", extended)
    text = run(f"python -m vllm_logdoctor compare {LOG} {LOG} --format ndjson", extended)
    assert json.loads(text)["schema"] == "logdoctor-comparison/1"
    text = run(f"python -m vllm_logdoctor verify {LOG} --against {LOG} --format ndjson", extended)
    assert json.loads(text)["schema"] == "logdoctor-verification/1"


def test_the_readme_names_every_format() -> None:
    section = (ROOT / "README.md").read_text("utf-8").partition("## Formats\n")[2].partition("\n## ")[0]
    assert all(f"`{name}`" in section or f"--format {name}`" in section for name in FORMATS)
