"""The exercises of CONTRIBUTING.md, and a copy of the checkout to follow them in."""

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
FENCE = re.compile(r"^(?P<fence>````?)(?P<kind>\w+)\n(?P<text>.*?)^(?P=fence)$", re.MULTILINE | re.DOTALL)
COPIED = (
    "vllm_logdoctor",
    "patterns",
    "docs",
    "tools",
    "tests",
    "pyproject.toml",
    "fixtures/vllm-0.11.2-kv-starved.log",
)


def exercise(title: str) -> list[str]:
    """Return the text of each block of an exercise."""
    path = ROOT / "CONTRIBUTING.md"
    if not path.is_file():
        pytest.skip(f"no {path}")
    section = path.read_text("utf-8").partition(f"## {title}\n")[2]
    blocks = FENCE.finditer(re.split(r"^## \d", section, maxsplit=1, flags=re.MULTILINE)[0])
    return [found["text"] for found in blocks]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for name in COPIED:
        source, target = ROOT / name, tmp_path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target)
        else:
            shutil.copy(source, target)
    return tmp_path


def run(commands: str, folder: Path) -> str:
    """Run the commands of a block with this Python in the copy; return what they print."""
    return "".join(_printed(command, folder) for command in commands.strip().splitlines())


def _printed(command: str, folder: Path) -> str:
    words = command.split()
    assert words[0] == "python"
    # Each command but the first finds the copy compiled.
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(
        [sys.executable, *words[1:]],
        cwd=folder,
        env={**kept, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
