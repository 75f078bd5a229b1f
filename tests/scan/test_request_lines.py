"""Request lines are taken out of the bytes, and nothing else is."""

from __future__ import annotations

import pytest

from vllm_logdoctor.scan.prefilter import build_prefilter
from vllm_logdoctor.scan.request_lines import RequestLines, Residue, marks_in

HEAD = b"(APIServer pid=41) INFO 01-01 00:01:01 [logger.py:41] "
RECEIVED = HEAD + b"Received request cmpl-1: prompt: 'hello', params: None"
ADDED = HEAD + b"Added request cmpl-1."


def split(data: bytes) -> Residue:
    found = RequestLines(marks_in).split(data)
    assert found == RequestLines(build_prefilter(["x"]).request_marks).split(data)
    return found


@pytest.mark.parametrize("line", [RECEIVED, ADDED, RECEIVED.replace(b"hello", b"Added request " * 900)])
@pytest.mark.parametrize("end", [b"", b"\n", b"\nmore\n"])
def test_of_a_request_line_its_end_is_left(line: bytes, end: bytes) -> None:
    found = split(b"before\n" + line + end)
    assert found.rest == b"before\n" + end
    assert found.line(0, 1 << 20) == (1, line)
    assert found.offsets == [7]


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
    assert split(data).rest == data


def test_request_lines_are_counted_by_kind() -> None:
    found = split(b"\n".join([RECEIVED, ADDED, RECEIVED, RECEIVED, b""]))
    assert list(found.by_kind(0, 4)) == [(3, 0, 3), (1, 1, 1)]
