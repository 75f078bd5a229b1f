"""Charts and figures: no curve leads across a time without lines; what is drawn is named, with its unit."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from tests.report.synthetic import START
from vllm_logdoctor.report.charts import serving_charts, startup_charts
from vllm_logdoctor.report.model import Analysis
from vllm_logdoctor.report.series import points_of, unbroken_parts
from vllm_logdoctor.run.model import Phase, Run


def silent_between(run: Run, seconds: float) -> Run:
    """The run with its samples in two halves, so many seconds apart."""
    half = len(run.samples) // 2
    later = [replace(sample, time=(sample.time or 0.0) + seconds) for sample in run.samples[half:]]
    run.samples = run.samples[:half] + later
    run.ended = (run.ended or 0.0) + seconds
    return run


@pytest.mark.parametrize(("silence", "pieces"), [(0.0, 1), (15.0, 1), (40.0, 2), (600.0, 2)])
def test_a_series_is_split_where_lines_are_missing(analysis: Analysis, silence: float, pieces: int) -> None:
    points = points_of(silent_between(analysis.runs[0].run, silence))
    assert len(unbroken_parts(points)) == pieces


def test_points_without_a_time_stay_together(analysis: Analysis) -> None:
    points = [replace(point, time=None) for point in points_of(analysis.runs[0].run)]
    assert [len(stretch) for stretch in unbroken_parts(points)] == [30]


def test_a_chart_has_a_place_without_values_in_the_silence_and_no_row_for_it(analysis: Analysis) -> None:
    chart = serving_charts(silent_between(analysis.runs[0].run, 600.0))[0]
    times, values = chart.data["data"]
    assert values.count(None) == 1
    assert times == sorted(times)
    assert len(chart.rows) == 30
    assert chart.note.startswith("tokens/s, 30 points")


def test_what_nothing_explains_is_no_chart() -> None:
    assert startup_charts(Run(phases=[Phase("unexplained", "", 0.0, 4.0, 4.0)])) == []


def test_a_figure_breaks_its_curve_in_the_silence(analysis: Analysis) -> None:
    pytest.importorskip("matplotlib")
    from vllm_logdoctor.report.plots import Plots

    upper, lower = Plots(silent_between(analysis.runs[0].run, 600.0)).throughput().axes
    assert [len(line.get_xdata()) for line in upper.lines] == [15, 15]
    assert (upper.get_ylabel(), lower.get_ylabel()) == ("generation, tokens/s", "prompt, tokens/s")


def test_a_figure_shows_the_whole_run_and_when_it_began(analysis_of: Callable[..., Analysis]) -> None:
    pytest.importorskip("matplotlib")
    from vllm_logdoctor.report.plots import Plots

    run = analysis_of(year_known=True).runs[0].run
    for figure in (Plots(run).throughput(), Plots(run).requests(), Plots(run).timeline()):
        axes = figure.axes[-1]
        assert axes.get_xlim()[0] == 0
        assert axes.get_xlim()[1] == pytest.approx(400 / 60 * 1.02)
        assert axes.get_xlabel() == "minutes since the start of the run, 2000-10-27 22:13:20"


def test_curves_are_named_where_there_are_several(analysis: Analysis) -> None:
    pytest.importorskip("matplotlib")
    from vllm_logdoctor.report.plots import Plots

    upper, lower = Plots(analysis.runs[0].run).kv_cache().axes
    assert upper.get_legend() is None
    assert [text.get_text() for text in lower.get_legend().get_texts()] == ["running", "waiting"]


def test_one_sample_is_drawn_at_its_place_on_a_readable_scale(analysis: Analysis) -> None:
    pytest.importorskip("matplotlib")
    from vllm_logdoctor.report.plots import Plots

    run = analysis.runs[0].run
    run.samples = [replace(run.samples[0], time=START, generation=0.0)]
    (axes, _) = Plots(run).throughput().axes
    assert axes.get_ylim() == (0, 1)


@pytest.mark.parametrize(
    ("title", "note"),
    [
        ("Generation throughput", "tokens/s, 3,000 points, each the mean of 2"),
        ("KV cache", "%, 3,000 points, each the highest of 2"),
    ],
)
def test_of_lines_in_one_point_rates_are_averaged_and_levels_keep_their_highest(
    analysis: Analysis, title: str, note: str
) -> None:
    run = analysis.runs[0].run
    run.samples = [replace(run.samples[n % 30], time=START + 10.0 * n) for n in range(6000)]
    (chart,) = [chart for chart in serving_charts(run) if chart.title.startswith(title)]
    assert chart.note.startswith(note)
