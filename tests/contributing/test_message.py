"""Exercise 1 of CONTRIBUTING.md, followed to the letter in a copy of the checkout: a new message with a meaning."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from vllm_logdoctor.catalogue.locate import PACKAGE

ROOT = PACKAGE.parent
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PATTERN = "patterns/scheduler/token-budget.toml"
PAGE = "patterns/rules/token-budget-halved-by-draft.md"
COPIED = (
    "vllm_logdoctor",
    "patterns",
    "docs",
    "tools",
    "pyproject.toml",
    "fixtures/vllm-0.11.2-kv-starved.log",
)


def exercise(title: str) -> list[tuple[str, str]]:
    """Return (kind, text) of each block of an exercise."""
    path = ROOT / "CONTRIBUTING.md"
    if not path.is_file():
        pytest.skip(f"no {path}")
    section = path.read_text("utf-8").partition(f"## {title}\n")[2]
    return FENCE.findall(re.split(r"^## \d", section, maxsplit=1, flags=re.MULTILINE)[0])


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for name in COPIED:
        source, target = ROOT / name, tmp_path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(
                source, target, ignore=shutil.ignore_patterns("__pycache__", ".index*", ".failures*")
            )
        else:
            shutil.copy(source, target)
    return tmp_path


def run(command: str, folder: Path) -> str:
    """Run one command of a block with this Python in the copy."""
    words = command.split()
    assert words[0] == "python"
    done = subprocess.run(
        [sys.executable, *words[1:]],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_new_message_becomes_a_finding(checkout: Path) -> None:
    (_, log), (_, new), (_, pattern), (_, page), (_, commands) = exercise("1. A new message with a meaning")
    (checkout / "job.log").write_text(log, "utf-8")

    assert "Token budget of a step was halved" in run(new.strip(), checkout)

    (checkout / PATTERN).write_text(pattern, "utf-8")
    (checkout / PAGE).write_text(page, "utf-8")
    for command in commands.strip().splitlines():
        run(command, checkout)

    report = (checkout / "report.md").read_text("utf-8")
    assert "Token budget halved by the draft model" in report
    assert "prompts are read at half the speed" in report
    assert "Raise `--max-num-batched-tokens`" in report
    assert "token-budget-halved-by-draft" in (checkout / "docs/reference/rules.md").read_text("utf-8")
    assert "token-budget-halved" in (checkout / "docs/reference/patterns-scheduler.md").read_text("utf-8")
