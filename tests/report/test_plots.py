"""What matplotlib's figures of a run show: curves, bars, their names, and the time below them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.report.small_logs import START
from tests.report.synthetic import START as BEGUN
from tests.report.synthetic import make_analysis
from vllm_logdoctor.api import Report, RunView, analyze

pytest.importorskip("matplotlib")


def statistics(
    second: int, generation: float, prompt: float = 20.0, running: int = 3, waiting: int = 1
) -> str:
    """Return a statistics line so many seconds after the start."""
    clock = f"{10 + second // 3600}:{second // 60 % 60:02}:{second % 60:02}"
    return (
        f"(APIServer pid=1) INFO 05-01 {clock} [loggers.py:257] Engine 000: Avg prompt throughput: {prompt} tokens/s,"
        f" Avg generation throughput: {generation} tokens/s, Running: {running} reqs, Waiting: {waiting} reqs,"
        " GPU KV cache usage: 40.0%, Prefix cache hit rate: 0.0%"
    )


def served(*lines: str) -> RunView:
    return analyze([*START, *lines]).runs[0]


def curve(axes: Any, number: int = 0) -> list[tuple[float, float]]:
    return [
        (round(float(x), 3), round(float(y), 3)) for x, y in zip(*axes.lines[number].get_data(), strict=True)
    ]


def bars(axes: Any) -> list[tuple[float, float, float]]:
    """Return left side, width and height of each bar."""
    return [
        (round(one.get_x(), 3), round(one.get_width(), 3), round(one.get_height(), 3)) for one in axes.patches
    ]


def words(axes: Any) -> list[str]:
    """Return what stands in the axes, without the title above them."""
    return [one.get_text() for one in axes.texts[1:]]


def names(axes: Any) -> list[str]:
    legend = axes.get_legend()
    return [one.get_text() for one in legend.get_texts()] if legend else []


def test_each_statistics_line_is_a_point_of_its_curve() -> None:
    run = served(statistics(60, 100.0, 20.0), statistics(70, 300.0, 0.0), statistics(80, 200.0, 10.0))
    upper, lower = run.plot.throughput().axes
    assert curve(upper) == [(60, 100), (70, 300), (80, 200)]
    assert curve(lower) == [(60, 20), (70, 0), (80, 10)]
    assert (upper.get_ylabel(), lower.get_ylabel()) == ("generation, tokens/s", "prompt, tokens/s")
    assert names(upper) == []
    assert upper.lines[0].get_marker() == "."
    assert lower.get_xlabel() == "seconds since the start of the run, 05-01 10:00:00"
    assert lower.get_xlim() == (0, pytest.approx(80 * 1.02))


def test_requests_are_drawn_below_the_cache_and_named() -> None:
    run = served(statistics(60, 100.0), statistics(70, 300.0, waiting=7))
    upper, lower = run.plot.kv_cache().axes
    assert curve(upper) == [(60, 40), (70, 40)]
    assert [curve(lower), curve(lower, 1)] == [[(60, 3), (70, 3)], [(60, 1), (70, 7)]]
    assert names(lower) == ["running", "waiting"]
    assert upper.get_ylim() == (0, 105)
    assert (upper.get_ylabel(), lower.get_ylabel()) == ("KV cache usage, %", "requests")


def test_of_a_long_run_neighbours_are_one_point_with_their_range() -> None:
    rates = [100.0 + 10 * (number % 2) for number in range(480)]
    run = served(*(statistics(60 + 10 * number, rate) for number, rate in enumerate(rates)))
    upper, lower = run.plot.throughput().axes
    assert curve(upper)[:2] == [(1, 105), (pytest.approx(80 / 60, abs=1e-3), 105)]
    assert len(curve(upper)) == 240
    assert upper.lines[0].get_marker() in ("", "None")
    band = upper.collections[0].get_datalim(upper.transData)
    assert (band.y0, band.y1) == (100, 110)
    assert lower.get_xlabel().startswith("minutes since")


def test_a_run_of_many_hours_is_shown_in_hours() -> None:
    lower = served(statistics(60, 1.0), statistics(4 * 3600, 1.0)).plot.throughput().axes[1]
    assert lower.get_xlabel().startswith("hours since")
    assert lower.get_xlim()[1] == pytest.approx(4 * 1.02)


def test_parts_of_the_start_are_bars_with_their_process_and_length() -> None:
    (axes,) = Report(make_analysis("Worker", year_known=True)).runs[0].plot.startup().axes
    rows = dict(
        zip(
            (one.get_text() for one in axes.get_yticklabels()),
            zip(bars(axes), words(axes), strict=True),
            strict=True,
        )
    )
    assert rows == {
        "weight loading · Worker": ((5, 60, 0.7), "1 min"),
        "profiling, KV cache, warm-up · EngineCore": ((65, 25, 0.7), "25 s"),
        "torch.compile · EngineCore": ((65, 15, 0.7), "15 s"),
    }
    assert axes.get_xlim() == (0, pytest.approx(90 * 1.08))
    assert axes.get_ylim() == (2.5, -0.5)
    # What is long and ends late has its length inside.
    assert [one.get_ha() for one in axes.texts[1:]] == ["left", "right", "left"]


def test_the_timeline_has_the_parts_of_the_start_above_the_tokens() -> None:
    upper, lower = Report(make_analysis("Worker")).runs[0].plot.timeline().axes
    assert [one.get_text().partition(" · ")[0] for one in upper.get_yticklabels()] == [
        "weight loading",
        "profiling, KV cache, warm-up",
    ]
    assert upper.get_xlim() == lower.get_xlim()
    assert bars(upper)[0] == (pytest.approx(5 / 60, abs=1e-3), 1, 0.7)
    assert lower.get_ylabel() == "generation, tokens/s"


def test_answers_of_a_minute_are_stacked_by_their_status() -> None:
    (axes,) = Report(make_analysis("Worker")).runs[0].plot.requests().axes
    first = (BEGUN // 60 * 60 - BEGUN) / 60
    assert names(axes) == ["2xx", "4xx"]
    assert bars(axes) == [
        (pytest.approx(first + minute, abs=1e-3), 0.9, height)
        for minute, height in ((0, 80), (1, 10), (0, 0), (1, 10))
    ]
    assert [one.get_y() for one in axes.patches] == [0, 0, 80, 10]


def test_a_figure_without_data_says_so_and_has_no_scale() -> None:
    (axes,) = served().plot.requests().axes
    assert words(axes)[-1] == "the log holds nothing of this"
    assert list(axes.get_yticks()) == []
