"""What reports state of known logs: figures, citations, code and tables, as they were read and found right."""

from __future__ import annotations

import difflib

from tests.corpus.snapshot import (
    DOCUMENTS,
    EXAMPLES,
    LOGS,
    SMALL_LOGS,
    SNAPSHOTS,
    of_documents,
    of_examples,
    of_report,
    of_small_logs,
    report_of,
)
from tests.tables import for_each


def differences(name: str, now: str) -> list[str]:
    """Return the lines in which a report differs from its snapshot."""
    known = (SNAPSHOTS / f"{name}.txt").read_text().splitlines()
    return list(difflib.unified_diff(known, now.splitlines(), "snapshot", "now", lineterm="", n=1))


def test_every_snapshot_has_its_log() -> None:
    small_logs = {f"small-logs-{area}" for area in SMALL_LOGS}
    assert {path.stem for path in SNAPSHOTS.glob("*.txt")} == {*LOGS, *small_logs, EXAMPLES, DOCUMENTS}


@for_each("name", LOGS)
def test_the_report_of_a_fixture_is_that_of_its_snapshot(name: str) -> None:
    assert differences(name, of_report(report_of(name))) == []


@for_each("area", SMALL_LOGS)
def test_the_reports_of_small_logs_are_those_of_their_snapshot(area: str) -> None:
    assert differences(f"small-logs-{area}", of_small_logs(area)) == []


def test_the_examples_of_rule_pages_are_judged_as_in_their_snapshot() -> None:
    assert differences(EXAMPLES, of_examples()) == []


def test_comparisons_and_other_formats_are_those_of_their_snapshot() -> None:
    assert differences(DOCUMENTS, of_documents()) == []
