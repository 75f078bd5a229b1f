"""Statistics lines read in one step give what the regular way gives, whatever comes between them."""

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
from vllm_logdoctor.events import StatisticsReader

V1 = (
    "({who}) INFO 03-01 {clock} [loggers.py:127] Engine {engine:03d}: Avg prompt throughput: {a} tokens/s, Avg generation throughput: {b} tokens/s, "
    "Running: {n} reqs, Waiting: {m} reqs, GPU KV cache usage: {c}%, Prefix cache hit rate: {c}%"
)
SHAPES = (
    V1,
    V1 + ", MM cache hit rate: {a}%",
    V1 + ", External prefix cache hit rate: {a}%",
    V1 + ", Something new: {n}",
    V1[:140],
    V1.replace("{a}", "nan"),
    V1.replace("Waiting:", "Preemptions: {m}, Waiting:"),
    V1.replace(" 03-01 ", " 2025-03-01 "),
    V1.replace("{clock}", "{clock},123"),
    V1.replace("({who}) ", ""),
    V1 + "\r",
    'web-1  | "' + V1,
    (
        "INFO 03-01 {clock} [metrics.py:455] Avg prompt throughput: {a} tokens/s, Avg generation throughput: {b} tokens/s, Running: {n} reqs, "
        "Swapped: {m} reqs, Pending: {m} reqs, GPU KV cache usage: {c}%, CPU KV cache usage: 0.0%."
    ),
)


def warm(second: int) -> list[str]:
    """Return enough statistics lines for the short way."""
    return [line_of(V1, second + number, number, 0) for number in range(230)]


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(drawn_lines(SHAPES, 4))
def test_both_ways_give_the_same_report(drawn: Drawn) -> None:
    lines = [*warm(0), *written(drawn, 300)]
    assert report_of(lines) == report_the_regular_way(lines, StatisticsReader)


def test_a_line_that_is_cut_off_within_the_second_of_another_counts_alike_where_a_stamp_named_the_year() -> (
    None
):
    stamped, whole, cut = V1.replace(" 03-01 ", " 2025-03-01 "), V1, V1[:140]
    lines = [*warm(0), *(line_of(shape, 300, 0, 0) for shape in (stamped, whole, cut))]
    assert report_of(lines) == report_the_regular_way(lines, StatisticsReader)


@pytest.mark.parametrize("chunk_lines", [1, 7, 250])
def test_chunks_make_no_difference(chunk_lines: int) -> None:
    lines = [*warm(0), line_of(OTHERS[2], 240, 1, 0), *warm(300)]
    assert report_of(lines, chunk_lines) == report_the_regular_way(lines, StatisticsReader)


def test_a_long_series_is_thinned_the_same_way() -> None:
    lines = [line_of(SHAPES[number % 2], number, number, 0) for number in range(10_300)]
    assert report_of(lines) == report_the_regular_way(lines, StatisticsReader)


def test_most_lines_of_a_long_series_make_no_record() -> None:
    with records_counted() as taken:
        report_of([line_of(V1, number, number, 0) for number in range(1_000)])
    assert len(taken) < 300
