"""Runs beyond those that are told wait with their records: the report is that of runs that take each record at once."""

from __future__ import annotations

from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings

from tests.properties.lanes import OTHERS, Drawn, drawn_lines, line_of, records_counted, report_of, written
from vllm_logdoctor.run import segments
from vllm_logdoctor.run.builder import RunBuilder

BEGINS = "({who}) INFO 03-01 {clock} [api_server.py:1839] vLLM API server version 0.11.0"
ENDS = "({who}) INFO:     Finished server process [{n}]"
SHAPES = (
    BEGINS,
    BEGINS,
    ENDS,
    ENDS,
    "({who}) INFO 03-01 {clock} [utils.py:233] non-default args: {{'model': 'org/m', 'port': {n}}}",
    "({who}) INFO 03-01 {clock} [core.py:77] Initializing a V1 LLM engine (v0.11.0) with config: model='org/m', dtype=torch.bfloat16",
    "INFO 03-01 {clock} [__init__.py:216] Automatically detected platform cuda.",
    "({who}) ERROR 03-01 {clock} [core.py:700] Traceback (most recent call last):",
    "({who}) INFO:     Application startup complete.",
    "+ export VLLM_USE_V1={m}",
    "$ vllm serve org/m --port {n}",
    "({who}) INFO 03-01 {clock} [loggers.py:127] Engine 000: Avg prompt throughput: {a} tokens/s, Avg generation throughput: {b} tokens/s, "
    "Running: {n} reqs, Waiting: {m} reqs, GPU KV cache usage: {c}%, Prefix cache hit rate: {c}%",
)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(drawn_lines(SHAPES, 4))
def test_both_ways_give_the_same_report(drawn: Drawn) -> None:
    lines = written(drawn, 0)
    with patch.object(segments, "MOST_RUNS", 2):
        found = report_of(lines) if lines else ""
        with patch.object(segments, "SkippedRun", RunBuilder):
            assert not lines or found == report_of(lines)


@pytest.mark.parametrize("last", range(len(SHAPES)))
def test_a_brief_run_that_is_the_last_one_is_told_whole(last: int) -> None:
    brief = [line_of(shape, second, second, 0) for second in range(8) for shape in (BEGINS, ENDS)]
    lines = [
        *brief,
        line_of(BEGINS, 9, 9, 0),
        line_of(SHAPES[last], 10, 10, 0),
        line_of(OTHERS[1], 11, 11, 0),
    ]
    with patch.object(segments, "MOST_RUNS", 2):
        found = report_of(lines)
        with patch.object(segments, "SkippedRun", RunBuilder):
            assert found == report_of(lines)


def test_runs_that_only_begin_and_end_are_counted_without_their_records() -> None:
    lines = [line_of(shape, second, second, 0) for second in range(300) for shape in (BEGINS, ENDS)]
    with records_counted() as told, patch.object(segments, "MOST_RUNS", 10):
        report = report_of(lines)
    assert "290 more runs" in report
    assert len(told) == 2 * (10 + 1)
