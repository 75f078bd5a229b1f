"""Reference pages and tutorial: what they show is what the packs and commands give."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest
from typer.testing import CliRunner

import vllm_logdoctor
from tools.reference import reference_pages
from vllm_logdoctor.catalogue.locate import builtin_root
from vllm_logdoctor.catalogue.model import Level, PatternEntry
from vllm_logdoctor.catalogue.packs import parse_pack
from vllm_logdoctor.catalogue.topics import Topic, Verdict
from vllm_logdoctor.catalogue.validation import check_files

from .test_patterns_commands import app

DOCS = builtin_root().parent / "docs"
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def document(name: str) -> str:
    path = DOCS / name
    if not path.is_file():
        pytest.skip(f"no {path}")
    return path.read_text(encoding="utf-8")


def blocks(text: str, kind: str) -> list[str]:
    return [body for language, body in FENCE.findall(text) if language == kind]


def test_the_pages_of_topics_are_fresh() -> None:
    document("reference/patterns.md")
    stale = [
        name
        for name, text in reference_pages().items()
        if not (DOCS / "reference" / name).is_file()
        or (DOCS / "reference" / name).read_text(encoding="utf-8") != text
    ]
    assert stale == [], "run: python docs/generate.py"


def test_the_reference_names_every_key_and_every_word_of_the_closed_lists() -> None:
    page = document("reference/patterns.md")
    words = [*get_args(Topic), *get_args(Verdict), *get_args(Level), *PatternEntry.model_fields]
    assert [word for word in words if f"`{word}`" not in page] == []


def test_the_pack_of_the_reference_passes_the_checks(tmp_path: Path) -> None:
    path = tmp_path / "shown.toml"
    path.write_text(blocks(document("reference/patterns.md"), "toml")[0], encoding="utf-8")
    assert check_files([path]) == []


def test_the_draft_of_the_tutorial_is_what_the_command_gives(tmp_path: Path) -> None:
    page = document("tutorials/own-pack.md")
    log = tmp_path / "job.log"
    log.write_text(blocks(page, "log")[0], encoding="utf-8")
    result = CliRunner().invoke(app, ["patterns", "new", "--from", f"{log}:2", "--pack", "our-wrapper"])
    shown = blocks(page, "console")[0].partition("$ cat our-wrapper.toml\n")[2]
    assert result.stdout == shown


def test_the_pack_of_the_tutorial_passes_and_its_mistake_is_named(tmp_path: Path) -> None:
    page = document("tutorials/own-pack.md")
    text = blocks(page, "toml")[0]
    path = tmp_path / "our-wrapper.toml"
    path.write_text(text, encoding="utf-8")
    assert check_files([path]) == []
    path.write_text(text.replace("times = 3 }", "times = 4 }"), encoding="utf-8")
    (problem,) = check_files([path])
    assert str(problem).replace(f"{tmp_path}/", "") == blocks(page, "console")[2].splitlines()[1]


def test_the_pack_of_the_tutorial_reads_the_log_of_the_tutorial() -> None:
    page = document("tutorials/own-pack.md")
    pack = parse_pack(Path("our-wrapper.toml"), blocks(page, "toml")[0])
    lines = blocks(page, "log")[0].splitlines()
    assert all(any(sample.text in lines for sample in entry.samples) for entry in pack.pattern)


def test_the_report_of_the_tutorial_says_what_the_pack_says(tmp_path: Path) -> None:
    page = document("tutorials/own-pack.md")
    (log, pack) = (tmp_path / "job.log", tmp_path / "our-wrapper.toml")
    log.write_text(blocks(page, "log")[0], encoding="utf-8")
    pack.write_text(blocks(page, "toml")[0], encoding="utf-8")
    report = vllm_logdoctor.analyze(log, patterns=[pack]).to_markdown()
    assert [shown for shown in blocks(page, "text") if shown not in report] == []
