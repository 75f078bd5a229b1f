"""Request lines read in one step give what the regular way gives, whatever comes between them."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings

from tests.properties.fast_lines import (
    OTHERS,
    Drawn,
    drawn_lines,
    line_of,
    records_counted,
    report_of,
    report_the_regular_way,
    written,
)
from vllm_logdoctor.events import RequestReader

RECEIVED = "({who}) INFO 03-01 {clock} [logger.py:41] Received request cmpl-{n}: prompt: 'hello', params: SamplingParams(n=1)."
SHAPES = (
    RECEIVED,
    RECEIVED.replace("hello", "see engine.py:12] and \\x1b[0m"),
    RECEIVED.replace("hello", 'say ""yes""'),
    RECEIVED.replace("hello", "x" * 70_000),
    RECEIVED.replace(" 03-01 ", " 2025-03-01 "),
    RECEIVED.replace("{clock}", "{clock},123"),
    RECEIVED.replace("({who}) ", ""),
    RECEIVED.replace("cmpl-{n}:", ":"),
    RECEIVED + "\r",
    "({who}) INFO 03-01 {clock} [async_llm.py:271] Added request cmpl-{n}.",
    "INFO 03-01 {clock} [async_llm_engine.py:211] Finished request cmpl-{n}.",
    "web-1  | " + RECEIVED,
)


def warm() -> list[str]:
    """Return enough request lines for the short way, in stretches."""
    return [line_of(RECEIVED if number % 8 else OTHERS[2], number, number, 0) for number in range(300)]


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(drawn_lines(SHAPES, 400))
def test_both_ways_give_the_same_report(drawn: Drawn) -> None:
    lines = [*warm(), *written(drawn, 300)]
    assert report_of(lines) == report_the_regular_way(lines, RequestReader)


@pytest.mark.parametrize("chunk_lines", [1, 7, 250])
def test_chunks_make_no_difference(chunk_lines: int) -> None:
    lines = [*warm(), line_of(OTHERS[3], 340, 1, 0), *warm()]
    assert report_of(lines, chunk_lines) == report_the_regular_way(lines, RequestReader)


def test_most_stretches_of_requests_make_no_record() -> None:
    lines = [
        line_of(OTHERS[0] if number % 5 == 0 else RECEIVED, number, number, 0) for number in range(4_000)
    ]
    with records_counted() as taken:
        report_of(lines)
    assert len(taken) < 1_500
