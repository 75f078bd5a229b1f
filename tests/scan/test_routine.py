"""Request lines are taken out of the bytes, and nothing else is."""

from __future__ import annotations

import pytest

from vllm_logdoctor.scan.prefilter import build_prefilter
from vllm_logdoctor.scan.request_lines import RequestLines, RequestResidue, marks_in

HEAD = b"(APIServer pid=41) INFO 01-01 00:01:01 [logger.py:41] "
RECEIVED = HEAD + b"Received request cmpl-1: prompt: 'hello', params: None"
ADDED = HEAD + b"Added request cmpl-1."


def taken_out(data: bytes) -> RequestResidue:
    found = RequestLines(marks_in).taken_out(data)
    assert found == RequestLines(build_prefilter(["x"]).request_marks).taken_out(data)
    return found


@pytest.mark.parametrize("line", [RECEIVED, ADDED, RECEIVED.replace(b"hello", b"Added request " * 900)])
@pytest.mark.parametrize("end", [b"", b"\n", b"\nmore\n"])
def test_of_a_request_line_its_end_is_left(line: bytes, end: bytes) -> None:
    found = taken_out(b"before\n" + line + end)
    assert found.rest == b"before\n" + end
    assert found.line(0, 1 << 20) == (1, line)
    assert found.places == [7]


@pytest.mark.parametrize(
    "line",
    [
        b"what a Received request is: text",
        b"x" * 400 + RECEIVED,
        b"web-1  | " + RECEIVED,
        HEAD + b"Received request cmpl-1 without a prompt",
        HEAD + b"Received request " + b"n" * 300 + b": prompt: 'hello'",
        HEAD + b"Received request : prompt: 'hello'",
        HEAD + b"Added request one and another",
        HEAD.replace(b"INFO", b"ERROR") + b"Received request cmpl-1: prompt: 'hello'",
    ],
)
def test_what_is_no_plain_request_line_stays(line: bytes) -> None:
    data = b"before\n" + line + b"\nbehind: it\n"
    assert taken_out(data).rest == data


def test_a_stretch_says_how_many_of_each_kind_stand_in_it() -> None:
    found = taken_out(b"\n".join([RECEIVED, ADDED, RECEIVED, RECEIVED, b""]))
    assert [(s.kind[1], s.count, s.first, s.last) for s in found.stretches(0, 4)] == [
        (b"Received", 3, 0, 3),
        (b"Added", 1, 1, 1),
    ]
