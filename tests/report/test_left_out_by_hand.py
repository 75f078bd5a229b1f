"""Copies of logs in which a mark, as a line of dots, says that lines are left out."""

from __future__ import annotations

import pytest

import vllm_logdoctor
from tests.report.test_true_sentences import FAILED_LOAD, START

BEGUN = START[:3]
MARKS = ("...", ".......", "[...]", "<snip>", "… (rest omitted) …", "[120 lines truncated]")


@pytest.mark.parametrize("mark", MARKS)
def test_a_start_whose_rest_was_left_out_is_not_cut_off_and_gets_no_step_for_a_hang(mark: str) -> None:
    cut = vllm_logdoctor.analyze(BEGUN).to_markdown()
    assert "CUT OFF" in cut
    assert "py-spy" in cut
    text = vllm_logdoctor.analyze([*BEGUN, mark]).to_markdown()
    assert text.startswith("# EXCERPT: its writer left the rest out\n")
    assert f"left out what follows [L{len(BEGUN) + 1}]" in text
    assert "py-spy" not in text
    assert "dmesg" not in text
    assert "log ends" not in text


@pytest.mark.parametrize("mark", MARKS)
def test_a_mark_in_the_middle_is_named_with_its_line(mark: str) -> None:
    text = vllm_logdoctor.analyze([*FAILED_LOAD[:3], mark, *FAILED_LOAD[3:]]).to_markdown()
    assert "left lines out at L4" in text


@pytest.mark.parametrize(
    ("marks", "places"), [(5, "at L3, L5, L7, L9, L11\n"), (7, "at L3, L5, L7, L9, L11 and 2 more places")]
)
def test_of_many_marks_five_are_named_and_the_others_counted(marks: int, places: str) -> None:
    steps = [
        one
        for number in range(marks)
        for one in ("...", f"INFO 05-01 10:00:4{number} [loader.py:1] step {number}")
    ]
    text = vllm_logdoctor.analyze([*BEGUN[:2], *steps]).to_markdown()
    assert f"left lines out {places}" in text


@pytest.mark.parametrize(
    "lines",
    [
        ["   (...)"],  # IPython leaves out code of a traceback.
        ["              ..."],  # An empty body in code.
        ["Using a cached neff at /var/tmp/neuron-compile-cache/a1", "......."],
        ["....................", "......"],  # A tool that waits.
        [">>> for one in out:", "... "],
    ],
)
def test_dots_of_programs_leave_nothing_out(lines: list[str]) -> None:
    text = vllm_logdoctor.analyze([*BEGUN, *lines]).to_markdown()
    assert "left" not in text.replace("left to", "")
    assert "CUT OFF" in text
