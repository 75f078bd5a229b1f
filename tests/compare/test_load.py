"""Speed is compared where as many requests were running, and not at all where the load was another."""

from __future__ import annotations

import pytest
from compare_samples import samples
from hypothesis import given
from hypothesis import strategies as st

from vllm_logdoctor.rules.equal_load import band, equal_load, load_levels
from vllm_logdoctor.run.model import Sample


def test_twice_the_speed_at_the_same_load_is_faster() -> None:
    result = equal_load(load_levels(samples(4, 100, 20)), load_levels(samples(4, 200, 20)))
    assert result.verdict == "faster"
    assert result.ratio == pytest.approx(2.0, rel=0.01)
    assert result.low is not None
    assert result.low > 1.8


def test_half_the_speed_is_slower() -> None:
    result = equal_load(load_levels(samples(4, 100, 20)), load_levels(samples(4, 50, 20)))
    assert result.verdict == "slower"


def test_one_percent_is_no_clear_difference() -> None:
    result = equal_load(load_levels(samples(4, 100, 200)), load_levels(samples(4, 101, 200)))
    assert result.verdict == "same"


def test_more_requests_with_more_throughput_are_not_faster() -> None:
    before = [*samples(1, 100, 20), *samples(4, 390, 20)]
    after = [*samples(4, 390, 20), *samples(8, 700, 20)]
    result = equal_load(load_levels(before), load_levels(after))
    assert result.verdict == "same"
    assert [pair.before.low for pair in result.pairs] == [4]


def test_a_small_difference_within_a_level_is_taken_out() -> None:
    result = equal_load(
        load_levels(samples(36, 1000, 20)), load_levels(samples(40, 1000 * (40 / 36) ** 0.7, 20))
    )
    assert result.verdict == "same"


def test_loads_that_never_meet_are_not_compared() -> None:
    result = equal_load(load_levels(samples(1, 50, 50)), load_levels(samples(64, 2000, 50)))
    assert (result.verdict, result.ratio) == ("unknown", None)
    assert "the load differs too much: 1 requests running before, 64 after" in result.warnings[0]


def test_too_few_samples_at_one_load_are_not_called_another_load() -> None:
    result = equal_load(
        load_levels([*samples(8, 300, 6), *samples(2, 90, 6)]), load_levels(samples(8, 310, 90))
    )
    assert result.verdict == "unknown"
    assert result.warnings == ("too few statistics lines at the same load: 5 in both logs, 6 are needed",)


def test_a_few_common_samples_of_many_are_not_compared() -> None:
    before = [*samples(1, 50, 100), *samples(8, 300, 10)]
    result = equal_load(load_levels(before), load_levels(samples(8, 30, 100)))
    assert result.verdict == "unknown"


def test_a_handful_of_lines_says_nothing() -> None:
    result = equal_load(load_levels(samples(4, 100, 4)), load_levels(samples(4, 200, 40)))
    assert result.verdict == "unknown"
    assert "too few statistics lines in steady work: 3 in the first log" in result.warnings[0]


def test_idle_samples_and_the_first_of_a_burst_do_not_count() -> None:
    series = [Sample(None, 1, 0, 0, 0, running=0), *samples(64, 1000, 3), Sample(None, 9, 0, 0, 5, running=2)]
    (level,) = load_levels(series)
    assert (level.low, level.samples) == (64, 2)


def test_engines_of_one_server_are_each_their_own_series() -> None:
    series = [Sample(None, n, n % 2, 0, 10, running=(4, 50)[n % 2]) for n in range(8)]
    assert [(level.low, level.samples) for level in load_levels(series)] == [(4, 3), (50, 3)]


def test_longer_prompts_are_a_reason_to_take_care() -> None:
    before, after = samples(4, 100, 20, prompt=50), samples(4, 90, 20, prompt=400)
    result = equal_load(load_levels(before), load_levels(after))
    assert "the requests differ" in result.warnings[0]


@given(st.integers(1, 100_000))
def test_levels_grow_with_the_requests(running: int) -> None:
    assert band(running) <= band(running + 1) <= band(running) + 1


@given(st.floats(0.2, 5.0), st.integers(1, 300), st.integers(6, 60))
def test_the_ratio_turns_over_when_the_runs_change_places(ratio: float, running: int, count: int) -> None:
    one, other = (load_levels(samples(running, 100 * factor, count + 1)) for factor in (1.0, ratio))
    there, back = equal_load(one, other), equal_load(other, one)
    assert there.ratio is not None
    assert back.ratio is not None
    assert there.ratio * back.ratio == pytest.approx(1.0)
    assert there.ratio == pytest.approx(ratio, rel=0.02)


def test_levels_are_in_the_order_of_their_requests_whichever_ran_first() -> None:
    levels = load_levels([*samples(16, 900, 4), *samples(2, 90, 4), *samples(8, 500, 4)])
    assert [level.low for level in levels] == sorted(level.low for level in levels)
    assert len(levels) == 3
