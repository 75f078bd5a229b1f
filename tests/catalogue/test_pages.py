"""Rule pages: front matter, sections, signatures, and what is wrong with a page."""

from __future__ import annotations

from pathlib import Path

import pytest

from vllm_logdoctor.catalogue.errors import PackError
from vllm_logdoctor.catalogue.locate import PACKAGE, builtin_root, page_files
from vllm_logdoctor.catalogue.pages import HEADINGS, page_literals, parse_page, read_pages
from vllm_logdoctor.catalogue.validation import check_files

FRONT = """+++
id = "queue-without-seats"
kind = "performance"
title = "requests that wait while seats are free"
severity = "medium"
topic = "scheduler"
aliases = ["waiting-without-reason"]
knobs = ["--max-num-seqs"]
[[signature]]
literal = ["Waiting: "]
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
    assert (signature.where, signature.priority) == ("message", 3)


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        ('kind = "performance"', 'kind = "speed"', "kind"),
        ('severity = "medium"', 'severity = "bad"', "severity"),
        ('id = "queue-without-seats"', 'id = "queue"', "id"),
        ('title = "requests that wait while seats are free"\n', "", "title"),
        ('knobs = ["--max-num-seqs"]', 'knob = "--max-num-seqs"', "knob"),
        ('literal = ["Waiting: "]\n', "", "signature.0"),
        ("## What to do", "## Remedy", "## What to do"),
    ],
)
def test_an_error_names_its_key(old: str, new: str, key: str) -> None:
    text = FRONT + BODY
    assert old in text
    with pytest.raises(PackError) as caught:
        parse_page(PATH, text.replace(old, new))
    assert key in [problem.key for problem in caught.value.problems]


@pytest.mark.parametrize(
    ("old", "new", "choices"),
    [
        ('severity = "medium"', 'severity = "bad"', "critical, high, medium, low, info"),
        ('topic = "scheduler"', 'topic = "schedule"', "attention, bench, compile"),
        ('where = "message"', 'where = "text"', "exception, message, native, frames, any"),
        ('topic = "scheduler"', 'topic = "scheduler"\nexhausts = "ram"', "device-memory, disk, host-memory"),
    ],
)
def test_a_value_that_is_none_of_a_list_is_answered_with_the_list(old: str, new: str, choices: str) -> None:
    with pytest.raises(PackError) as caught:
        parse_page(PATH, FRONT.replace(old, new) + BODY)
    assert all(choice in str(caught.value) for choice in choices.split(", "))


def test_an_error_of_the_front_matter_has_its_line_in_the_file() -> None:
    with pytest.raises(PackError) as caught:
        parse_page(PATH, FRONT.replace('where = "message"', "where = message") + BODY)
    (problem,) = caught.value.problems
    assert (problem.line, problem.key) == (12, "TOML")
    assert "at line" not in problem.message


def test_a_page_without_front_matter_is_refused() -> None:
    with pytest.raises(PackError, match="two lines"):
        parse_page(PATH, BODY)


def test_a_problem_is_named_with_its_line() -> None:
    with pytest.raises(PackError) as caught:
        parse_page(PATH, FRONT.replace("priority = 3", "priorty = 3") + BODY)
    (problem,) = caught.value.problems
    assert (problem.key, problem.line) == ("signature.0.priorty", 13)
    assert "unknown field `priorty`" in problem.message


def test_the_prefilter_wants_the_literals_of_signatures(tmp_path: Path) -> None:
    path = tmp_path / "queue-without-seats.md"
    path.write_text(FRONT.replace("aliases", 'watch = ["Pending: "]\naliases') + BODY, encoding="utf-8")
    assert page_literals(path) == ["Waiting: ", "Pending: "]


def test_a_broken_page_costs_its_own_rule_and_no_other(tmp_path: Path) -> None:
    good, broken = tmp_path / "queue-without-seats.md", tmp_path / "broken.md"
    good.write_text(FRONT + BODY, encoding="utf-8")
    broken.write_text(FRONT.replace("priority", "priorty") + BODY, encoding="utf-8")
    pages, problems = read_pages([broken, good])
    assert [page.id for page in pages] == ["queue-without-seats"]
    assert [(problem.file, problem.line) for problem in problems] == [(broken, 13)]
    assert page_literals(broken) == []


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ('literal = ["Waiting: "]', 'gate = ["Waiting for"]', "signature.0.literal: does not cover"),
        (
            "regex = 'Running: 0 reqs, Waiting: [1-9]'",
            "regex = 'Waiting: (a+)+b'",
            "signature.0.regex: can take",
        ),
        (
            "regex = 'Running: 0 reqs, Waiting: [1-9]'",
            "regex = 'Waiting: ('",
            "signature.0.regex: is no regular",
        ),
        ("priority = 3", "near = '(x+x+)+y'", "signature.0.near: can take"),
    ],
)
def test_the_checks_prove_literals_and_time(tmp_path: Path, old: str, new: str, problem: str) -> None:
    path = tmp_path / "queue-without-seats.md"
    path.write_text((FRONT + BODY).replace(old, new), encoding="utf-8")
    (found,) = check_files([path])
    assert problem in str(found)


def test_a_signature_that_only_quotes_names_what_must_be_mentioned(tmp_path: Path) -> None:
    path = tmp_path / "queue-without-seats.md"
    text = FRONT.replace('literal = ["Waiting: "]', 'mentions = ["scheduler.py"]') + BODY
    path.write_text(text, encoding="utf-8")
    assert check_files([path]) == []
    assert page_literals(path) == ["scheduler.py"]


def test_pages_of_earlier_releases_call_literals_gate(tmp_path: Path) -> None:
    path = tmp_path / "queue-without-seats.md"
    path.write_text(FRONT.replace("literal = ", "gate = ") + BODY, encoding="utf-8")
    assert check_files([path]) == []
    assert page_literals(path) == ["Waiting: "]


@pytest.mark.parametrize(
    ("line", "key"),
    [
        ('explain = "{count} wait for {path}."', "signature.0.explain: {path} is no group"),
        ('title = "{count} requests wait for {path}"', "signature.0.title: {path} is no group"),
        ('explain = "{count wait."', "signature.0.explain: can't be filled in"),
        ('explain = "{count:,} wait."', "signature.0.explain: can't be filled in"),
        ('remedy = ["Restart {node_name}."]', "signature.0.remedy: {node_name} is no group"),
        ('facts = { waiting_share = ">1" }', "signature.0.facts: {waiting_share} is no group"),
        ('[[change]]\nknob = "x"\nkind = "action"\nto = "{path}"', "change.0.to: {path} is no group"),
        ('[[change]]\nknob = "x"\nkind = "action"\nneeds = ["path"]', "change.0.needs: {path} is no group"),
    ],
)
def test_each_name_in_a_template_is_a_group_or_a_setting(tmp_path: Path, line: str, key: str) -> None:
    path = tmp_path / "queue-without-seats.md"
    front = FRONT.replace("Waiting: [1-9]'", "Waiting: (?P<count>[1-9])'")
    path.write_text(front.replace("priority = 3", line) + BODY, encoding="utf-8")
    (found,) = check_files([path])
    assert key in str(found)


def test_groups_settings_and_what_code_computes_fill_templates(tmp_path: Path) -> None:
    path = tmp_path / "queue-without-seats.md"
    front = FRONT.replace("Waiting: [1-9]'", "Waiting: (?P<count>[1-9])'")
    front = front.replace("aliases", 'computed = ["half"]\naliases')
    words = 'explain = "{count} wait with {max_num_seqs} of {version}, {half} {{of all}}."'
    path.write_text(front.replace("priority = 3", words) + BODY, encoding="utf-8")
    assert check_files([path]) == []


def test_names_that_code_computes_are_in_the_code() -> None:
    code = "".join(path.read_text("utf-8") for path in sorted((PACKAGE / "rules").rglob("*.py")))
    patterns = "".join(path.read_text("utf-8") for path in builtin_root().rglob("*.toml"))
    run = (PACKAGE / "run" / "measured.py").read_text("utf-8")
    pages, _ = read_pages(page_files(builtin_root()))
    names = {(page.id, name) for page in pages for name in page.computed}
    assert {
        (page, name)
        for page, name in names
        if f'"{name}"' not in code + run and f"?P<{name}>" not in patterns
    } == set()


def test_a_signature_with_a_title_of_its_own_explains_itself() -> None:
    pages, _ = read_pages(page_files(builtin_root()))
    silent = [
        (page.id, one.title) for page in pages for one in page.signatures if one.title and not one.explain
    ]
    assert silent == []
