"""The first tutorial: what it tells the reader to see is there."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from rich.console import Console

import vllm_logdoctor
from vllm_logdoctor.pipeline import analyse
from vllm_logdoctor.report.terminal import print_analysis
from vllm_logdoctor.source import inputs_from

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/tutorials/first-report.md").read_text(encoding="utf-8")
STARVED, FAILED = (
    str(ROOT / name) for name in list(dict.fromkeys(re.findall(r"fixtures/\S+\.log", PAGE)))[:2]
)


def commands() -> list[list[str]]:
    blocks = re.findall(r"^```sh\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    return [shlex.split(line) for block in blocks for line in block.splitlines()]


@pytest.fixture
def short_view(capsys: pytest.CaptureFixture[str]) -> str:
    print_analysis(analyse(inputs_from(STARVED)), Console(width=100, color_system=None))
    return capsys.readouterr().out


def test_the_short_view_has_what_the_page_names(short_view: str) -> None:
    for words in ("LIMITED: KV cache full", "num-gpu-blocks-override", "L129"):
        assert words in short_view


def test_the_line_to_look_at_is_the_one_that_the_page_describes() -> None:
    (line,) = (int(command[2][:-1]) for command in commands() if command[0] == "sed")
    text = Path(STARVED).read_bytes().split(b"\n")[line - 1]
    assert b"Running: 3 reqs, Waiting: 21 reqs" in text


def test_the_whole_report_has_the_parts_that_the_page_names() -> None:
    report = vllm_logdoctor.analyze(STARVED).to_markdown()
    parts = re.findall(r"\*(What to change|Launch command with the changed settings|Configuration)\*", PAGE)
    assert len(set(parts)) == 3
    for part in (*parts, "What was read"):
        assert re.search(rf"^## {part}$", report, re.MULTILINE), part
    assert "--max-num-seqs" in report


def test_the_failed_run_is_reported_with_its_cause_and_the_length_that_fits() -> None:
    run = vllm_logdoctor.analyze(FAILED).runs[0]
    root = run.findings[0]
    assert root.role == "root"
    assert "Engine core initialization failed" not in root.evidence[0].text
    assert [change.knob for change in root.changes] == ["--max-model-len"]
