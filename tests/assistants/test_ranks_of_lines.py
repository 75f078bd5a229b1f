"""What an excerpt shows first: the rank of each line of a log, by what it proves."""

from __future__ import annotations

from itertools import chain

import pytest
from msgspec.structs import replace

from tests.assistants.test_excerpt import HEAD
from vllm_logdoctor import analyze
from vllm_logdoctor.assistants.selection import (
    _candidates,
    _height,
    decisive_place,
    last_sign_of_life,
    selected,
)
from vllm_logdoctor.report.model import Diagnosis
from vllm_logdoctor.run.lifecycle import trail_of

CORE = "(EngineCore_DP0 pid=9) "
WORDS = [
    f"INFO 03-04 10:12:00 [kernel.py:7] Loading part {word} of the kernels"
    for word in "abcdefghijklmnopqrstuvwxyz"
]
QUIET = [f"{CORE}{line}" for line in (*WORDS, *WORDS)]
ERROR = f"{CORE}ERROR 03-04 10:13:00 [core.py:708] "
CRASH = [
    f"{ERROR}EngineCore encountered a fatal error.",
    f"{ERROR}Traceback (most recent call last):",
    f'{ERROR}  File "/opt/vllm/v1/engine/core.py", line 9, in run_busy_loop',
    f"{ERROR}    self.step()",
    f"{ERROR}StrangeError: the moon is wrong",
]
SERVER = "APIServer pid=5"
WRONG = ("sun", "sky", "sea", "ice")


def _dies(process: str, word: str) -> list[str]:
    """Return the traceback of a process that goes down with the engine."""
    lines = [
        "Traceback (most recent call last):",
        f'  File "/opt/vllm/entrypoints/{word}.py", line 40, in run',
        f"    await {word}()",
        f"OtherError: the {word} is wrong",
    ]
    return [f"({process}) {line}" for line in lines]


def runs_of(*lines: str) -> list[Diagnosis]:
    return [one.diagnosis for one in analyze([*HEAD, *lines]).runs]


def ranks(*lines: str, others: list[Diagnosis] | None = None) -> dict[str, int]:
    """Return the best rank of each text that is a candidate."""
    diagnosis = runs_of(*lines)[-1]
    found: dict[str, int] = {}
    for rank, line in _candidates(diagnosis, others or (), trail_of(diagnosis.run)):
        found[line.text] = min(rank, found.get(line.text, 9))
    return found


def rank(text: str, found: dict[str, int]) -> int | None:
    return next((number for line, number in sorted(found.items()) if text in line), None)


def test_what_proves_the_cause_comes_first_then_its_traceback_then_the_exceptions_of_others() -> None:
    server = [_dies(SERVER, word) for word in WRONG]
    found = ranks(*QUIET, *CRASH, *chain.from_iterable(server))
    assert rank("StrangeError", found) == 0
    assert rank(f"{ERROR}Traceback", found) == 1
    # The exception of the server says less of the cause than one of an engine or a worker.
    assert [rank(f"the {word} is wrong", found) for word in WRONG] == [2, 3, 3, 2]  # Two prove what followed.
    assert rank("await ice()", found) == 4
    worker = [_dies("Worker_TP1 pid=12", word) for word in WRONG]
    found = ranks(*QUIET, *CRASH, *chain.from_iterable(worker))
    assert [rank(f"the {word} is wrong", found) for word in WRONG] == [2, 2, 2, 2]


def test_an_exception_that_was_shown_is_not_shown_again() -> None:
    again = [_dies(SERVER, word) for word in ("sun", "sky", "sea", "sea")]
    found = ranks(*QUIET, *CRASH, *chain.from_iterable(again), *QUIET)
    assert [rank(f"await {word}()", found) for word in ("sun", "sky", "sea")] == [4, 4, 4]
    assert sum("await sea()" in line for line in found) == 1


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("INFO 03-04 10:11:00 [a.py:1] The file was not found", 3),
        ("INFO 03-04 10:11:00 [a.py:1] The file was found", None),
        ("ERROR 03-04 10:11:00 [a.py:1] The file is here", 3),
        ("DEBUG 03-04 10:11:00 [a.py:1] The file was not found", None),
        ("a library could not do it", 3),
    ],
)
def test_lines_that_name_a_trouble_may_prove_the_cause(line: str, wanted: int | None) -> None:
    """Of the server, whose lines say nothing else of an engine that fails."""
    assert rank(line.partition("] ")[2] or line, ranks(f"(APIServer pid=5) {line}", *QUIET, *CRASH)) == wanted


def test_of_many_troubles_those_near_the_cause_are_shown_and_errors_before_remarks() -> None:
    letters = "abcdefghijklmnopqrstuvwxyz"
    far = [f"(APIServer pid=5) ERROR 03-04 10:10:00 [a.py:1] The door {one} is shut" for one in letters]
    remarks = [
        f"(APIServer pid=5) WARNING 03-04 10:11:00 [a.py:1] The window {one} is missing" for one in letters
    ]
    found = ranks(*far, *QUIET, *remarks, *CRASH)
    shown = [one for one in letters if rank(f"The door {one} is", found) == 3]
    # The announcement of the traceback is one of the sixteen.
    assert shown == list(letters[-15:])
    assert not any(rank(f"The window {one} is", found) == 3 for one in letters)


def test_the_lines_around_a_crash_and_the_end_are_of_rank_four() -> None:
    found = ranks(*QUIET, *CRASH, *[line.replace("Loading", "Leaving") for line in QUIET])
    assert [rank(f"Loading part {one} ", found) for one in "uvwxyz"] == [None, 4, 4, 4, 4, 3]
    assert [rank(f"Leaving part {one} ", found) for one in "abcduvwxyz"] == [
        4,
        4,
        4,
        None,
        None,
        None,
        4,
        4,
        4,
        4,
    ]


def test_the_last_sign_of_life_is_the_last_ordinary_line_before_the_first_failure() -> None:
    (diagnosis,) = runs_of(*QUIET, f"{CORE}WARNING 03-04 10:12:50 [a.py:1] It is late", *CRASH, *QUIET)
    alive = last_sign_of_life(diagnosis)
    assert alive is not None
    assert "Loading part z" in alive.text
    assert decisive_place(diagnosis) == (0, len(HEAD) + len(QUIET) + 1 + len(CRASH))
    (fine,) = runs_of(*QUIET)
    assert last_sign_of_life(fine) is None
    assert decisive_place(fine) is None


STATISTICS = (
    "(APIServer pid=5) INFO 03-04 10:20:{:02} [loggers.py:257] Engine 000: Avg prompt throughput: 0.0 tokens/s, Avg generation"
    " throughput: {:.1f} tokens/s, Running: 4 reqs, Waiting: {} reqs, GPU KV cache usage: 1.0%, Prefix cache hit rate: 0.0%"
)


def test_of_the_load_the_busiest_and_the_last_line_are_shown() -> None:
    load = [(10, 85.0, 0), (20, 90.0, 0), (30, 80.0, 0), (40, 10.0, 0)]
    lines = [STATISTICS.format(*one) for one in load]
    ready = "(APIServer pid=5) INFO:     Application startup complete."
    found = ranks(ready, *QUIET, *lines, *QUIET)
    assert [rank(f"10:20:{second} ", found) for second, *_ in load] == [0, 5, None, 0]


def test_a_short_log_is_shown_as_a_whole_and_a_long_one_is_not() -> None:
    forty = ranks(*QUIET[: 40 - len(HEAD)])
    assert rank("Loading part a ", forty) == 7
    assert rank("Loading part a ", ranks(*QUIET[: 41 - len(HEAD)])) is None


def test_a_run_that_works_shows_no_lines_of_trouble() -> None:
    trouble = "(APIServer pid=5) INFO 03-04 10:11:00 [a.py:1] The file was not found"
    ready = "(APIServer pid=5) INFO:     Application startup complete."
    assert rank("The file was not found", ranks(trouble, ready, *QUIET)) is None
    assert rank("The file was not found", ranks(trouble, *QUIET, *CRASH)) == 3


def test_of_other_runs_that_failed_the_first_proof_is_shown() -> None:
    (other,) = runs_of(*QUIET, *[line.replace("moon", "star") for line in CRASH])
    (fine,) = runs_of(*QUIET)
    found = ranks(*QUIET, *CRASH, others=[other])
    assert rank("the star is wrong", found) == 2
    # A run that did not fail proves nothing; of many that failed the first six are shown.
    many = [replace(other, findings=(replace(other.findings[0], evidence=(replace(other.findings[0].evidence[0], text=f"star {n} is wrong"),)),)) for n in range(8)]  # fmt: skip
    found = ranks(*QUIET, *CRASH, others=[fine, *many])
    assert [n for n in range(8) if rank(f"star {n} is wrong", found) == 2] == [0, 1, 2, 3, 4, 5]


def test_gaps_count_within_and_between_files() -> None:
    assert _height([]) == 0
    assert _height([("a", 1), ("a", 2), ("a", 3)]) == 3
    assert _height([("a", 3), ("a", 1)]) == 3
    assert _height([("a", 1), ("b", 2)]) == 3


def test_lines_are_kept_by_rank_and_shown_in_order() -> None:
    (diagnosis,) = runs_of(*QUIET, *CRASH, *QUIET)
    first = len(HEAD) + len(QUIET) + 1
    few = [one.line for one in selected(diagnosis, (), 7)]
    assert few == sorted(few)
    assert set(range(first, first + 5)) <= set(few)
    assert len(selected(diagnosis, (), 60)) > len(few)
    # What is no proof takes no more than a comfortable number of lines.
    wide = selected(diagnosis, (), 400)
    places = [(one.file, one.line) for one in wide]
    assert _height(places) <= 52
