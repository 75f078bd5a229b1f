"""Which lines an excerpt of a crash holds, by their numbers: the traceback, what is around it, and what was said before."""

from __future__ import annotations

from itertools import pairwise

import pytest

from tests.assistants.test_excerpt import HEAD
from tests.failure.records import records_of
from vllm_logdoctor import analyze
from vllm_logdoctor.assistants.selection import _each_kind_once, _lines_of, selected
from vllm_logdoctor.run.blocks import blocks_of

QUESTION = "(APIServer pid=5) INFO 03-04 10:12:00 [kernel.py:7] "
QUIET = [f"{QUESTION}Loading part {word} of the kernels" for word in "abcdefghijklmnopqrstuvwxyz"] * 4


def lines_of(*text: str) -> list[int]:
    (block,) = blocks_of(records_of("\n".join(text)))
    return sorted({one.line for one in _lines_of(block)})


def test_of_a_traceback_the_ends_are_shown_with_their_code() -> None:
    """Its first line, the five innermost places with their code, and the exception with the statement above it."""
    frames = [
        line
        for number in range(9)
        for line in (
            f'  File "/opt/vllm/part{number}.py", line {number}, in step',
            f"    return step_{number}()",
        )
    ]
    text = ["Traceback (most recent call last):", *frames, "ValueError: the shape differs"]
    assert lines_of(*text) == [1, *range(10, 20), 20]
    # A mark below a statement says nothing: the statement is the line above it.
    assert lines_of(*text[:-1], "    ^^^^^^^^", text[-1]) == [1, *range(10, 20), 21]
    without_code = [line for line in text if "return" not in line]
    assert lines_of(*without_code) == [1, *range(6, 12)]


def test_of_a_long_text_of_an_exception_the_first_six_lines_are_shown() -> None:
    text = [
        "Traceback (most recent call last):",
        '  File "/opt/vllm/part.py", line 1, in step',
        "    step()",
        "ValueError: the shapes differ:",
        *(f"  of part {word}" for word in "abcdefghi"),
    ]
    assert lines_of(*text) == list(range(1, 11))


def shown(*lines: str, most: int = 60) -> list[int]:
    (found,) = analyze([*HEAD, *lines]).runs
    return [one.line for one in selected(found.diagnosis, (), most)]


CRASH = [
    "(EngineCore_DP0 pid=9) ERROR 03-04 10:13:00 [core.py:708] EngineCore encountered a fatal error.",
    "(EngineCore_DP0 pid=9) ERROR 03-04 10:13:00 [core.py:708] Traceback (most recent call last):",
    '(EngineCore_DP0 pid=9) ERROR 03-04 10:13:00 [core.py:708]   File "/opt/vllm/v1/engine/core.py", line 9, in run_busy_loop',
    "(EngineCore_DP0 pid=9) ERROR 03-04 10:13:00 [core.py:708]     self.step()",
    "(EngineCore_DP0 pid=9) ERROR 03-04 10:13:00 [core.py:708] StrangeError: the moon is wrong",
]


def test_lines_around_a_crash_are_six_before_and_three_behind_it() -> None:
    before = [f"{QUESTION}Before number {word}" for word in "abcdefghij"]
    after = [f"{QUESTION}Behind number {word}" for word in "abcdefghij"]
    numbers = shown(*QUIET, *before, *CRASH, *after, *QUIET)
    # What announces the traceback is a line before it.
    begins = 3 + len(QUIET) + len(before) + 2
    block = range(begins, begins + len(CRASH) - 1)
    around = [number for number in numbers if begins - 10 <= number < block.stop + 10]
    assert around == [*range(begins - 6, begins), *block, *range(block.stop, block.stop + 3)]


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("WARNING 03-04 10:11:50 [x.py:1] The cache of the kernels is cold", True),
        ("INFO 03-04 10:11:50 [x.py:1] Triton is not available, falling back to the kernels of torch", True),
        ("INFO 03-04 10:11:50 [x.py:1] The kernels are there", False),
    ],
)
def test_what_the_failed_process_said_to_go_without_is_shown_however_far_above(said: str, kept: bool) -> None:
    own, other = (f"({process}) {said}" for process in ("EngineCore_DP0 pid=9", "Worker_TP1 pid=12"))
    assert (4 in shown(own, *QUIET, *CRASH)) is kept
    assert 4 not in shown(other.replace("not available", "off").replace("WARNING", "INFO"), *QUIET, *CRASH)


def test_of_lines_of_one_kind_the_last_one_is_kept_and_none_that_says_nothing() -> None:
    records = records_of("step 1\nother\nstep 2\n-----\nstep 3\n 50%|####\nlast")
    assert [one.message for one in _each_kind_once(records)] == ["other", "step 3", "last"]


def test_the_bound_counts_a_mark_for_each_gap() -> None:
    numbers = shown(*QUIET, *CRASH, *QUIET, most=8)
    gaps = sum(b > a + 1 for a, b in pairwise(numbers))
    assert len(numbers) + gaps <= 8
    first = 3 + len(QUIET) + 1
    assert first + 4 in numbers
