"""Colours, redraws, line ends and bytes that are no text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.parse.framing import record, records

PLAIN = "(APIServer pid=5) INFO 03-04 10:11:12 [core.py:93] text"


@pytest.mark.parametrize("escape", ["\x1b", "", "^[", "\u2190", "<-"])
def test_colour_in_all_its_variants(escape: str) -> None:
    coloured = "E[1;36m(APIServer pid=5)E[0;0m E[32mINFOE[0m 03-04 10:11:12 [core.py:93] text"
    found = record(coloured.replace("E[", f"{escape}["))
    assert (found.process.pid, found.level, found.message) == (5, "INFO", "text")


def test_a_bracket_that_is_no_colour_stays() -> None:
    assert (
        record("INFO 03-04 10:11:12 [core.py:93] sizes [64m, 128m] kept").message == "sizes [64m, 128m] kept"
    )


def test_a_link_escape_is_taken_off() -> None:
    assert "\x1b" not in record("\x1b]8;;http://example.org\x1b\\INFO 03-04 10:11:12 [core.py:93] text").text


def test_crlf_is_one_line_end() -> None:
    assert record(PLAIN + "\r").message == "text"


def test_a_redrawn_bar_gives_the_record_that_is_glued_behind_it() -> None:
    bar = "Processed prompts:   2%|2         | 10/499 [00:05<02:36,  3.1it/s]"
    found = records(f"{bar}\r{bar}WARNING 03-04 10:11:12 [scheduler.py:17] Sequence group 19 is preempted")
    assert found[-1].level == "WARNING"
    assert found[-1].message == "Sequence group 19 is preempted"
    assert all(one.line == 7 for one in found)


def test_a_process_prefix_behind_a_bar_is_that_of_the_record() -> None:
    bar = "Loading shards:  50% Completed | 1/2 [00:01<00:01,  1.0it/s]"
    assert records(f"{bar}\r(Worker_TP0 pid=63) INFO 03-04 10:11:12 [loader.py:1] text")[-1].process.pid == 63


def test_bytes_that_are_no_utf8_are_replaced() -> None:
    found = record(b"INFO 03-04 10:11:12 [core.py:93] caf\xe9 \xff")
    assert found.message.startswith("caf")
    found.text.encode("utf-8")


def test_a_long_record_is_cut_and_the_cut_is_counted() -> None:
    from vllm_logdoctor.parse import RecordParser
    from vllm_logdoctor.scan import WantedLine

    parser = RecordParser()
    (found,) = parser.parse(WantedLine(0, 1, PLAIN.encode() + b"x" * 100_000))
    assert len(found.message) < 100_000
    assert parser.cut_characters == len("text") + 100_000 - len(found.message)


@given(st.binary(max_size=400))
def test_any_bytes_give_records_of_valid_text(data: bytes) -> None:
    for found in records(data.replace(b"\n", b"")):
        found.text.encode("utf-8")
        found.message.encode("utf-8")
