"""DEBUG lines of a kind that was met often are only counted: nothing that a report says depends on it."""

from __future__ import annotations

from functools import partial
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings

from tests.properties.lanes import (
    OTHERS,
    Drawn,
    drawn_lines,
    line_of,
    records_counted,
    report_of,
    report_the_long_way,
    written,
)
from vllm_logdoctor.events import DebugReader
from vllm_logdoctor.scan import Scanner

LOOP = "({who}) DEBUG 03-01 {clock} [v1/engine/core.py:700] EngineCore loop active."
SLICES = "(Worker pid=6{m}) DEBUG 03-01 {clock} [v1/worker/gpu_model_runner.py:4064] ubatch_slices: {n}, ubatch_slices_padded: None"
SHAPES = (
    LOOP,
    SLICES,
    SLICES.replace("{n}", "{a}"),
    LOOP.replace("active", "{n} active"),
    LOOP.replace("core.py:700", "core.py:7{m}0"),
    LOOP.replace(" 03-01 ", " 2025-03-01 "),
    LOOP.replace("{clock}", "{clock},123"),
    LOOP.replace("({who}) ", ""),
    LOOP.replace("03-01", "13-41"),
    LOOP.replace("DEBUG", "INFO"),
    LOOP + "\r",
    "web-1  | " + LOOP,
    "({who}) DEBUG 03-01 {clock} [v1/engine/core.py:700] Traceback (most recent call last):",
    "({who}) DEBUG 03-01 {clock} [v1/engine/core.py:700] nothing that is known",
)


def warm() -> list[str]:
    """Return enough DEBUG lines for three kinds to be learned, with other lines between them."""
    return [
        line_of((LOOP, SLICES, SLICES, OTHERS[2])[number % 4 if number % 9 else 3], number // 3, number, 0)
        for number in range(1_050)
    ]


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(drawn_lines(SHAPES, 400))
def test_both_ways_give_the_same_report(drawn: Drawn) -> None:
    lines = [*warm(), *written(drawn, 400)]
    assert report_of(lines) == report_the_long_way(lines, DebugReader)


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(drawn_lines(SHAPES, 400))
def test_columns_make_no_difference(drawn: Drawn) -> None:
    pytest.importorskip(
        "hyperscan", reason="no hyperscan wheel for this platform: columns are left alone there"
    )
    lines = [*warm(), *written(drawn, 400), *warm()]
    with patch("vllm_logdoctor.streams.Scanner", partial(Scanner, long_log=1)):
        by_columns = report_of(lines, 400)
    assert by_columns == report_of(lines)


@pytest.mark.parametrize("chunk_lines", [1, 7, 250])
def test_chunks_make_no_difference(chunk_lines: int) -> None:
    lines = [*warm(), line_of(OTHERS[3], 440, 1, 0), *warm()]
    assert report_of(lines, chunk_lines) == report_of(lines)


def test_most_of_them_make_no_record() -> None:
    lines = [line_of(OTHERS[3] if number % 50 == 0 else LOOP, number, number, 0) for number in range(8_000)]
    with records_counted() as told:
        report_of(lines)
    assert len(told) < 1_200


@pytest.mark.parametrize(
    "shape",
    [
        pytest.param("({who}) DEBUG 03-01 {clock} [v1/engine/core.py:700] nothing that is known", id="no pattern"),
        pytest.param(LOOP.replace("DEBUG", "INFO"), id="another level"),
        pytest.param(LOOP.replace("active", "active \x1b[0m"), id="colours"),
        pytest.param("web-1  | " + LOOP, id="a wrapper"),
    ],
)  # fmt: skip
def test_other_lines_are_not_learned(shape: str) -> None:
    lines = [line_of(shape, number // 60, number, 0) for number in range(900)]
    assert report_of(lines) == report_the_long_way(lines, DebugReader)
