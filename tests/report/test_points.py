"""Points of a chart: what a series that is thinned keeps of its lines, and what lines without a figure make of it."""

from __future__ import annotations

from tests.rules.making import a_run, sample
from vllm_logdoctor.report.series import Point, points_of, usual_step
from vllm_logdoctor.run.model import Sample


def silent(number: int) -> Sample:
    """A statistics line of rates alone."""
    return Sample(10.0 * number, number, 0, 4.0, 8.0)


def test_rates_of_a_thinned_series_are_means_and_the_rest_is_the_highest() -> None:
    lines = [sample(running=n, waiting=2 * n, kv=10.0 * n, prompt=n, number=n) for n in (1, 3)]
    (point,) = points_of(a_run(samples=lines), most=1)
    assert point == Point(10.0, prompt=2.0, generation=60.0, running=3, waiting=6, kv_usage=30.0, lines=2)


def test_what_no_line_prints_is_not_known_in_a_thinned_series_either() -> None:
    (point,) = points_of(a_run(samples=[silent(0), silent(1)]), most=1)
    assert (point.running, point.waiting, point.kv_usage) == (None, None, None)


def test_a_series_as_long_as_is_shown_is_not_thinned() -> None:
    run = a_run(samples=[silent(number) for number in range(4)])
    assert [len(points_of(run, most)) for most in (4, 3)] == [4, 2]


def test_the_usual_step_is_the_median_and_one_line_has_none() -> None:
    assert usual_step([0.0, 10.0, 11.0, 31.0]) == 10.0
    assert usual_step([5.0]) == 0.0
