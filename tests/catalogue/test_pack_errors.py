"""A pack with an error is refused with one line: file, line, key and what to write instead."""

from __future__ import annotations

from pathlib import Path

import pytest

from vllm_logdoctor.catalogue.errors import Problem
from vllm_logdoctor.catalogue.validation import check_files

from .packfiles import GOOD, changed, line_of


def problems_of(folder: Path, *texts: str) -> list[Problem]:
    files = []
    for number, text in enumerate(texts):
        path = folder / f"pack{number}.toml"
        path.write_text(text, encoding="utf-8")
        files.append(path)
    return check_files(files)


def test_a_good_pack_has_no_problem(tmp_path: Path) -> None:
    assert problems_of(tmp_path, GOOD) == []


LITERAL = 'literal = ["wrapper: starting vllm"]'
START = "'wrapper: starting vllm on"
END = "(?P<host>\\S+)'"
SLOW = "can take more than linear time"
REFUSED = {
    "a topic outside the list": (
        'topic = "lifecycle"',
        'topic = "wrappers"',
        "topic",
        "write one of 'attention', ",
    ),
    "a level outside the list": ('level = "foreign"', 'level = "loud"', "level", "write one of 'debug', "),
    "an unknown key": ('seen = "any"', 'sean = "any"', "sean", "no key of the pack format"),
    "an id with capitals": ('id = "site-wrapper-started"', 'id = "Site Wrapper"', "id", "small letters"),
    "no literal": (LITERAL, "literal = []", "literal", "at least one"),
    "a short literal": (LITERAL, 'literal = ["wrap"]', "literal", "too short"),
    "a literal that is not implied": (LITERAL, 'literal = ["wrapper: stopped"]', "literal", "does not cover"),
    "a literal missing in a branch": (
        START,
        "'(?:wrapper|launcher): starting vllm on",
        "literal",
        "'launcher: ",
    ),
    "a case that is ignored": ("'wrapper: starting", "'(?i)wrapper: starting", "regex", "ignores case"),
    "nested quantifiers": (END, "(?P<host>(?:\\w+\\.?)+) end'", "regex", SLOW),
    "an unbounded middle": (END, "(?P<host>.*) and (?P<rest>.*) end'", "regex", SLOW),
    "overlapping neighbors": (END, "(?P<host>\\w+\\S+) end'", "regex", SLOW),
    "no regex": (END, "(?P<host>\\S+'", "regex", "is no regular expression"),
    "a sample without match": ('on 8 GPUs of node7"', 'on some GPUs"', "samples.0.text", "does not match"),
    "another value": ("gpus = 8 }", "gpus = 9 }", "samples.0.values", "comes out as 8, not 9"),
    "a value of no group": ("gpus = 8 }", "cards = 8 }", "samples.0.values", "no named group"),
    "a counter-sample that matches": (
        'text = "wrapper: stopping vllm"',
        'text = "wrapper: starting vllm on 2 GPUs of a"',
        "counter_samples.0.text",
        "must not",
    ),
    "a field of no group": ("gpus = { type", "cards = { type", "fields.cards", "no group"),
    "a range backwards": ('seen = "any"', 'seen = "0.9.2-0.8.0"', "seen", "older release first"),
    "no release": ('seen = "any"', 'seen = "latest"', "seen", "is no release"),
    "an unknown flag": ('seen = "any"', 'seen = "any"\nknobs = ["--no-such"]', "knobs", "exists in none"),
    "a flag of other releases": (
        'seen = "any"',
        'seen = "0.30.0-0.33.0"\nknobs = ["--swap-space"]',
        "knobs",
        "exists in none",
    ),
    "an unknown variable": ('seen = "any"', 'seen = "any"\nknobs = ["VLLM_NO"]', "knobs", "exists in none"),
}


@pytest.mark.parametrize("error", REFUSED)
def test_an_error_is_one_line_with_its_place(tmp_path: Path, error: str) -> None:
    old, new, key, advice = REFUSED[error]
    text = changed(old, new)
    problems = problems_of(tmp_path, text)
    assert all("\n" not in str(problem) for problem in problems)
    (problem,) = [each for each in problems if each.key.endswith(key) and advice in each.message]
    assert problem.file == tmp_path / "pack0.toml"
    shown = text.split("\n")[problem.line - 1]
    assert shown.startswith((key.rpartition(".")[2], key.partition(".")[0], "["))


def test_a_warning_without_meaning_is_refused(tmp_path: Path) -> None:
    text = changed('level = "foreign"', 'level = "warning"')
    text = text.replace('meaning = "Our wrapper starts the server."\n', "")
    (problem,) = problems_of(tmp_path, text)
    assert problem.key == "site-wrapper-started: meaning"
    assert "one sentence" in problem.message


def test_toml_that_can_not_be_read_names_its_line(tmp_path: Path) -> None:
    text = GOOD.replace('severity = "info"', "severity = info")
    (problem,) = problems_of(tmp_path, text)
    assert problem.line == line_of(text, "severity")


def test_two_patterns_for_one_line_are_refused(tmp_path: Path) -> None:
    other = GOOD.replace('name = "site"', 'name = "other"')
    other = other.replace("site-wrapper-started", "any-wrapper-started")
    other = other.replace(" on (?P<gpus>\\d+) GPUs of (?P<host>\\S+)", " on (?P<gpus>\\d+)")
    other = other.replace("8 GPUs of node7", "8")
    (problem,) = problems_of(tmp_path, GOOD, other)
    assert problem.file.name == "pack0.toml"
    assert "taken by any-wrapper-started too" in problem.message


def test_an_id_that_is_taken_is_refused(tmp_path: Path) -> None:
    other = GOOD.replace('name = "site"', 'name = "other"').replace("wrapper:", "launcher:")
    (problem,) = problems_of(tmp_path, GOOD, other)
    assert problem.file.name == "pack1.toml"
    assert problem.key == "site-wrapper-started: id"


def test_files_of_earlier_releases_call_the_literals_gate(tmp_path: Path) -> None:
    assert problems_of(tmp_path, GOOD.replace("literal = [", "gate = [")) == []
