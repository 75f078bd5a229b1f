"""Request lines read in one step say what the long way says, whatever stands between them."""

from __future__ import annotations

from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.properties.test_statistics_lane import OTHERS, line_of, report_of
from vllm_logdoctor.events import RequestReader
from vllm_logdoctor.run.builder import RunBuilder

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


def report_the_long_way(lines: list[str]) -> str:
    with patch.object(RequestReader, "read", lambda self, line, count: None):
        return report_of(lines)


log_lines = st.lists(
    st.tuples(st.sampled_from(SHAPES * 3 + OTHERS), st.integers(0, 400), st.integers(0, 10_000), st.integers(0, 2)),
    max_size=120,
)  # fmt: skip


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(log_lines)
def test_both_ways_give_the_same_report(drawn: list[tuple[str, int, int, int]]) -> None:
    lines, second = warm(), 300
    for shape, step, seed, who in drawn:
        second += step
        lines.append(line_of(shape, second % 50_000, seed, who))
    assert report_of(lines) == report_the_long_way(lines)


@pytest.mark.parametrize("chunk_lines", [1, 7, 250])
def test_chunks_make_no_difference(chunk_lines: int) -> None:
    lines = [*warm(), line_of(OTHERS[3], 340, 1, 0), *warm()]
    assert report_of(lines, chunk_lines) == report_the_long_way(lines)


def test_most_stretches_of_requests_make_no_record() -> None:
    told: list[int] = []
    long_way = RunBuilder.add

    def counted(self: RunBuilder, record: object, event: object, count: int = 1) -> None:
        told.append(1)
        long_way(self, record, event, count)  # type: ignore[arg-type]

    lines = [
        line_of(OTHERS[0] if number % 5 == 0 else RECEIVED, number, number, 0) for number in range(4_000)
    ]
    with patch.object(RunBuilder, "add", counted):
        report_of(lines)
    assert len(told) < 1_500
