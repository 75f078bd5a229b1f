"""What pages state of known logs: figures, citations, code and tables, as they were read and found right."""

from __future__ import annotations

import difflib

from tests.corpus.skeleton import EXAMPLES, LOGS, PAGES, WAYS, of_examples, of_report, of_ways, report_of
from tests.tables import for_each


def differences(name: str, states: str) -> list[str]:
    """Return what a page states and did not, and the other way round."""
    known = (PAGES / f"{name}.txt").read_text().splitlines()
    return list(difflib.unified_diff(known, states.splitlines(), "known", "now", lineterm="", n=1))


def test_every_known_page_is_of_a_log() -> None:
    ways = {f"ways-{room}" for room in WAYS}
    assert {path.stem for path in PAGES.glob("*.txt")} == {*LOGS, *ways, EXAMPLES}


@for_each("name", LOGS)
def test_a_page_states_what_is_known_of_its_log(name: str) -> None:
    assert differences(name, of_report(report_of(name))) == []


@for_each("room", WAYS)
def test_the_small_logs_of_a_room_are_read_as_known(room: str) -> None:
    assert differences(f"ways-{room}", of_ways(room)) == []


def test_the_examples_of_rule_pages_are_read_as_known() -> None:
    assert differences(EXAMPLES, of_examples()) == []
