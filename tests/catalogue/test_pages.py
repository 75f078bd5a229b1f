"""Rule pages: front matter, sections, signatures, and what is wrong with a page."""

from __future__ import annotations

from pathlib import Path

import pytest

from vllm_logdoctor.catalogue.errors import PackError
from vllm_logdoctor.catalogue.pages import HEADINGS, page_gates, parse_page

FRONT = """+++
id = "queue-without-seats"
kind = "performance"
title = "requests that wait while seats are free"
severity = "medium"
topic = "scheduler"
aliases = ["waiting-without-reason"]
knobs = ["--max-num-seqs"]
[[signature]]
gate = ["Waiting: "]
regex = 'Running: 0 reqs, Waiting: [1-9]'
where = "message"
priority = 3
+++
"""
BODY = "".join(f"## {heading}\n\nText of {heading}.\n\n" for heading in HEADINGS)
PATH = Path("queue-without-seats.md")


def test_a_page_has_its_parts() -> None:
    page = parse_page(PATH, FRONT + BODY)
    assert page.title == "requests that wait while seats are free"
    assert page.aliases == ("waiting-without-reason",)
    assert page.remedy == "Text of What to do."
    (signature,) = page.signatures
    assert (signature.where, signature.options) == ("message", {"priority": 3})


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        ('kind = "performance"', 'kind = "speed"', "kind"),
        ('severity = "medium"', 'severity = "bad"', "severity"),
        ('id = "queue-without-seats"', 'id = "queue"', "id"),
        ('title = "requests that wait while seats are free"\n', "", "title"),
        ('knobs = ["--max-num-seqs"]', 'knob = "--max-num-seqs"', "knob"),
        ('gate = ["Waiting: "]\n', "", "signature.0"),
        ("## What to do", "## Remedy", "## What to do"),
    ],
)
def test_an_error_names_its_key(old: str, new: str, key: str) -> None:
    text = FRONT + BODY
    assert old in text
    with pytest.raises(PackError) as caught:
        parse_page(PATH, text.replace(old, new))
    assert key in [problem.key for problem in caught.value.problems]


def test_a_page_without_front_matter_is_refused() -> None:
    with pytest.raises(PackError, match="two lines"):
        parse_page(PATH, BODY)


def test_gates_of_signatures_are_read_from_a_page_with_errors(tmp_path: Path) -> None:
    path = tmp_path / "x.md"
    path.write_text(FRONT, encoding="utf-8")
    assert page_gates(path) == ["Waiting: "]
    path.write_text("no page", encoding="utf-8")
    assert page_gates(path) == []
