"""A line into which a progress bar was drawn again and again, or that holds lines of an old system."""

from __future__ import annotations

import pytest

from vllm_logdoctor.parse import RecordParser
from vllm_logdoctor.parse.record_parser import _FEW_REDRAWS
from vllm_logdoctor.scan import WantedLine


def messages(text: str) -> list[str]:
    """The messages of one line of a log."""
    return [record.message for record in RecordParser().parse(WantedLine(0, 1, text.encode(), ()))]


def test_what_was_drawn_over_each_other_are_records_of_their_own() -> None:
    assert messages("Loading: 10%\rLoading: 90%") == ["Loading: 10%", "Loading: 90%"]
    assert messages("Loading: 10%") == ["Loading: 10%"]
    assert messages("Loading: 10%\r") == ["Loading: 10%"]
    assert messages("  \r\r ") == []


def test_a_line_of_the_server_behind_a_bar_has_its_header() -> None:
    (bar, server) = RecordParser().parse(
        WantedLine(0, 1, b"Loading: 10%\rINFO 03-02 10:00:05 [core.py:93] ready", ())
    )
    assert (bar.level, bar.message) == ("", "Loading: 10%")
    assert (server.level, server.message, server.call_site) == ("INFO", "ready", ("core.py", 93))


@pytest.mark.parametrize(("drawn", "kept"), [(_FEW_REDRAWS, _FEW_REDRAWS), (_FEW_REDRAWS + 1, 2), (200, 2)])
def test_of_many_redraws_that_differ_in_figures_the_first_and_the_last_one_are_kept(
    drawn: int, kept: int
) -> None:
    found = messages("\r".join(f"Loading: {number} of {drawn}" for number in range(drawn)))
    assert len(found) == kept
    assert (found[0], found[-1]) == (f"Loading: 0 of {drawn}", f"Loading: {drawn - 1} of {drawn}")


def test_another_text_among_many_redraws_is_kept_with_those_beside_it() -> None:
    parts = [f"Loading: {number}" for number in range(40)]
    parts[20] = "an error between"
    found = messages("\r".join(parts))
    assert found == ["Loading: 0", "Loading: 19", "an error between", "Loading: 21", "Loading: 39"]
