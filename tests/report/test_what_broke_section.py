"""The section on what broke: what it adds to the first screen, and whose errors it tells apart."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from tests.report.test_verdict import line, page_of
from tests.rules.making import a_run, record
from tests.tables import for_each
from vllm_logdoctor.report.sections.broke import beside_failure, broke, reported, verification_line
from vllm_logdoctor.rules.model import Finding
from vllm_logdoctor.run.model import Evidence, Run


def finding(id: str = "disk-full", role: Any = "root", *evidence: Evidence, **more: Any) -> Finding:
    given = {
        "title": "Disk full",
        "explanation": "The disk is full.",
        "kind": "failure",
        "severity": "high",
        "confidence": "high",
        **more,
    }
    return Finding(id=id, role=role, evidence=evidence or (line(7, "OSError: no space"),), **given)


def crash(**more: Any) -> Run:
    return a_run(**{"outcome": "crashed_at_startup", **more})


def text(*findings: Finding, run: Run | None = None) -> str:
    return "\n".join(broke(page_of(run or crash(), *findings)))


def beside(*findings: Finding, run: Run | None = None) -> str:
    return "\n".join(beside_failure(page_of(run or crash(), *findings)))


def test_nothing_is_said_again_where_the_first_screen_has_all() -> None:
    assert text(finding()) == ""
    assert beside(finding()) == ""
    assert text(run=a_run()) == ""


def test_further_lines_that_show_what_broke_are_listed_with_their_places() -> None:
    more = finding(
        "disk-full",
        "root",
        line(7, "OSError: no space"),
        line(8, "wrote 4 of 9 GB"),
        line(9, "wrote 4 of 9 GB"),
        line(12, "the disk has 4 GB"),
    )
    assert "L8, L9: wrote 4 of 9 GB\nL12: the disk has 4 GB" in text(more)
    assert beside(more) == ""


@for_each(
    ("said", "shown"),
    [
        ('  File "/opt/env/lib/python3.12/site-packages/vllm/v1/core.py", line 9, in step', "core.py:9 in step"),
        ('  File "/opt/env/lib/python3.12/site-packages/ray/_private/worker.py", line 9, in step', None),
        ("│ ❱ 290 │   spent = time.time() - begun   │", "spent = time.time() - begun"),
        # Python prints the first line of a statement.
        ("wrote(4 of 9 GB", "wrote(4 of 9 GB…"),
        ("wrote(4 of 9 GB)", "wrote(4 of 9 GB)"),
    ],
)  # fmt: skip
def test_a_line_is_shown_as_what_it_says(said: str, shown: str | None) -> None:
    found = text(finding("disk-full", "root", line(7, "OSError: no space"), line(8, said)))
    assert f"L8: {shown}\n" in found if shown else "L8" not in found


def test_what_a_compiler_says_of_many_lines_of_a_file_is_quoted_once_and_each_line_is_named() -> None:
    said = [f"csrc/cache.cu({number}): error: no such type" for number in (96, 97, 96)]
    lines = [line(8 + number, one) for number, one in enumerate(said)]
    found = text(finding("disk-full", "root", line(7, "ninja: build stopped"), *lines))
    assert f"L8, L10: {said[0]}" in found
    assert "L9: the same error at line 97" in found


def test_a_repeated_error_with_other_numbers_is_not_said_to_be_the_one_that_is_quoted() -> None:
    def repeated(size: int) -> str:
        first, second = (f"ValueError: no room for {rows} rows" for rows in (64, size))
        return text(finding("disk-full", "root", line(7, first), line(8, "in a call"), line(9, second)))

    assert "again: [L9]" in repeated(64)
    assert "again, with other numbers: [L9]" in repeated(32)


def test_an_error_that_the_device_reports_late_has_a_section_of_its_own() -> None:
    late = finding("cuda-illegal-memory-access", "root", line(7, "CUDA error: x"), line(8, "in a call"))
    page = page_of(crash(), late)
    assert broke(page) == []
    assert "L8: in a call" in "\n".join(reported(page))
    assert (
        reported(page_of(crash(), finding("disk-full", "root", line(7, "x y"), line(8, "in a call")))) == []
    )
    assert reported(page_of(crash(), replace(late, evidence=late.evidence[:1]))) == []


def test_another_failure_is_named_and_what_followed_is_only_cited() -> None:
    other = finding("port-in-use", "contributing", line(20, "OSError: address in use"), title="Port in use")
    found = text(finding(), other)
    assert "Also: **Port in use**: `OSError: address in use` [L20]" in found
    followed = finding("errors-that-followed", "cascade", line(30, "RuntimeError: engine died"))
    found = text(finding(), other, followed)
    assert "errors-that" not in found
    assert "Follow-up errors, not the cause: [L30]." in found
    # What only followed adds nothing to what broke.
    assert text(finding(), followed) == ""
    assert "Follow-up errors, not the cause: [L30]." in beside(finding(), followed)


def test_how_to_check_the_fix_is_said_with_what_broke_or_alone() -> None:
    checked = finding(verify="the disk has room.")
    alone = page_of(crash(), checked)
    assert verification_line(alone) == ["the disk has room.", ""]
    assert text(checked) == ""
    two = page_of(
        crash(), checked, finding("errors-that-followed", "cascade", line(30, "RuntimeError: engine died"))
    )
    assert verification_line(two) == []
    assert "To check after the fix: the disk has room." in "\n".join(beside_failure(two))
    assert verification_line(page_of(crash(), finding())) == []


def rank(number: int, at: int, said: str = "ValueError: odd") -> Evidence:
    return line(at, f"(Worker_TP{number} pid={90 + number}) ERROR 05-01 10:00:00 [a.py:1] {said}")


@for_each(
    ("followed", "said"),
    [
        ((rank(1, 20), rank(2, 30)), "The same error from other processes: [L20, L30]."),
        ((rank(1, 20), rank(1, 30)), "The same error from other processes: [L20]."),
        # The own error, printed twice, is no further one.
        ((rank(0, 20),), None),
        ((rank(1, 20, "KeyError: x"),), "Follow-up errors, not the cause: [L20]."),
        ((rank(1, 20), rank(2, 30, "KeyError: x")), "The same error from other processes: [L20]."),
    ],
)
def test_the_same_error_of_other_processes_is_told_apart(
    followed: tuple[Evidence, ...], said: str | None
) -> None:
    root = finding("disk-full", "root", rank(0, 7))
    found = beside(root, finding("errors-that-followed", "cascade", *followed))
    if said is None:
        assert "[L20]" not in found
    else:
        assert said in found


TAIL = [record("the very last word", 90), record("12 %", 91)]


@for_each(
    ("id", "run", "followed", "told"),
    [
        ("cause-not-in-log", {}, None, True),
        ("disk-full", {}, None, False),
        ("cause-not-in-log", {"last_of_file": False}, None, False),
        ("cause-not-in-log", {"kind": "test"}, None, False),
        ("cause-not-in-log", {"tail": TAIL[1:]}, None, False),
        # What followed is the end already.
        ("cause-not-in-log", {}, line(90, "RuntimeError: engine died"), False),
        ("cause-not-in-log", {}, line(89, "RuntimeError: engine died"), True),
    ],
)
def test_the_last_line_is_told_where_the_cause_is_missing(
    id: str, run: dict[str, Any], followed: Evidence | None, told: bool
) -> None:
    given = {"last_of_file": True, "tail": TAIL, **run}
    more = [finding("errors-that-followed", "cascade", followed)] if followed else []
    shown = text(finding(id), *more, run=crash(**given)) + beside(finding(id), *more, run=crash(**given))
    other = finding("port-in-use", "contributing", line(20, "OSError: address in use"), title="Port in use")
    shown += text(finding(id), other, *more, run=crash(**given))
    assert ("Last line: `the very last word` [L90]" in shown) is told


def test_without_a_cause_the_last_lines_are_shown() -> None:
    lines = [record("loading it", 8), record("  ],", 9), record("the very last word", 10)]
    shown = text(run=crash(tail=lines))
    assert "the very last word" in shown
    assert "]," not in shown
    assert text(run=a_run(outcome="running", tail=lines)) == ""


def test_further_steps_are_those_that_the_first_screen_has_not() -> None:
    steps = finding(
        "disk-full",
        "root",
        line(7, "OSError: no space"),
        line(8, "wrote 4 of 9 GB"),
        alternatives=("free the disk", "buy a disk", "wait", "pray", "sleep"),
    )
    shown = text(steps)
    assert "Further steps:" in shown
    assert "- Sleep" in shown
