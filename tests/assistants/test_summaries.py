"""What the tools of the protocol say of a run: its first screen, and so many findings, notes and gaps."""

from __future__ import annotations

from msgspec.structs import replace

from tests.report.test_verdict import cause, line, page_of
from tests.rules.making import FILE, a_run
from vllm_logdoctor.mcp_server.tools import _FINDINGS, _coverage, _number, _summary
from vllm_logdoctor.report.first_screen import first_screen
from vllm_logdoctor.report.page import Page
from vllm_logdoctor.run.model import Coverage


def test_a_run_is_told_by_its_first_screen_and_its_first_findings() -> None:
    many = [
        replace(cause(), id=f"disk-{n}", evidence=(line(7 + n), line(9 + n))) for n in range(_FINDINGS + 1)
    ]
    judged = page_of(a_run(outcome="killed"), *many, unknowns=tuple(f"No {n}." for n in range(5)))
    found = _summary(judged.analysis, judged.diagnosis)
    assert found["state"].startswith("KILLED: Disk full")
    assert [one["id"] for one in found["findings"]] == [f"disk-{n}" for n in range(_FINDINGS)]
    assert found["findings"][0]["lines"] == [7, 9]
    assert found["not_known"] == ["No 0.", "No 1.", "No 2.", "No 3."]
    assert list(found["files"]) == [FILE]
    assert found["verdict"]


def test_actions_are_those_of_the_first_screen() -> None:
    one = page_of(a_run(outcome="killed"), replace(cause(), alternatives=("Free the disk.", "Buy a disk.")))
    assert _summary(one.analysis, one.diagnosis)["actions"] == list(first_screen(one).actions)


def test_what_was_read_is_counted_with_five_notes() -> None:
    judged: Page = page_of(a_run())
    notes = tuple(f"Note {n}." for n in range(6))
    found = _coverage(replace(judged.analysis, coverage=Coverage(9, 8, 7, 0, (), notes)))
    assert found == {"lines": 9, "vllm_lines": 8, "recognised": 7, "notes": list(notes[:5])}


def test_a_line_is_a_number_where_there_is_one_file() -> None:
    assert _number("12") == 12
    assert _number("2:12") == "2:12"
    assert _number(None) is None
