"""Speed is compared where as many requests were running, and not at all where the load was another."""

from __future__ import annotations

import math

import pytest
from compare_samples import samples
from hypothesis import given
from hypothesis import strategies as st

from tests.tables import for_each
from vllm_logdoctor.rules.equal_load import LoadLevel, band, equal_load, load_levels
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


def level(
    running: int = 4,
    count: int = 32,
    speed: float = 100.0,
    spread: float = 0.0,
    prompt: float = 0.0,
    high: int = 0,
) -> LoadLevel:
    """Return samples of a level whose speeds are the middle one less and more a spread."""
    speeds = (speed - spread, speed, speed + spread)
    return LoadLevel(running, high or running, float(high or running), count, speeds, prompt)


def test_the_range_of_the_ratio_is_two_standard_errors_of_both_medians() -> None:
    """The quartiles are 1.349 deviations apart, a median has 1.2533 times the error of a mean, and of neighbours every second counts."""
    result = equal_load([level(spread=5.0)], [level(speed=200.0, spread=20.0, count=18)])
    errors = [1.2533 * 0.1 / 1.349 / math.sqrt(16), 1.2533 * 0.2 / 1.349 / math.sqrt(9)]
    assert result.ratio == pytest.approx(2.0)
    assert result.low == pytest.approx(2.0 * math.exp(-2 * math.hypot(*errors)))
    assert result.high == pytest.approx(2.0 * math.exp(2 * math.hypot(*errors)))


def test_samples_that_are_all_alike_are_taken_to_spread_by_three_percent() -> None:
    result = equal_load([level()], [level()])
    assert result.high == pytest.approx(math.exp(2 * math.sqrt(2) * 1.2533 * 0.03 / 4))


def test_levels_count_by_the_samples_that_both_have() -> None:
    before = [level(4, 30), level(8, 10)]
    result = equal_load(before, [level(4, 30, 200.0), level(8, 40, 50.0)])
    assert result.ratio == pytest.approx(math.exp((30 * math.log(2.0) + 10 * math.log(0.5)) / 40))
    error = 1.2533 * 0.03
    variance = (30 / 40) ** 2 * 2 * error**2 / 15 + (10 / 40) ** 2 * (error**2 / 5 + error**2 / 20)
    assert result.low == pytest.approx(result.ratio * math.exp(-2 * math.sqrt(variance)))  # type: ignore[operator]


@for_each(
    ("speed", "spread", "verdict"),
    [
        (103.1, 0.0, "faster"), (102.9, 0.0, "same"), (97.1, 0.0, "same"), (96.9, 0.0, "slower"), (103.1, 20.0, "same"), (150.0, 20.0, "faster"), (60.0, 20.0, "slower"),
    ],
)  # fmt: skip
def test_a_difference_is_clear_from_three_percent_on_and_beyond_its_range(
    speed: float, spread: float, verdict: str
) -> None:
    assert equal_load([level(count=999)], [level(speed=speed, spread=spread, count=99)]).verdict == verdict


@for_each(
    ("before", "after", "warning"),
    [
        ([level(count=6)], [level(count=6)], None),
        ([level(count=5)], [level(count=6)], "too few statistics lines in steady work: 5 in the first log, 6 in the other"),
        ([level(count=6)], [level(count=5)], "too few statistics lines in steady work: 6 in the first log, 5 in the other"),
        ([], [level()], "too few statistics lines in steady work: 0 in the first log, 32 in the other"),
        ([level(4, 10), level(8, 30)], [level(4, 40)], None),
        ([level(4, 10), level(8, 31)], [level(4, 40)], "the load differs too much: 8 requests running before, 4 after; 24 % and 100 % of the steady samples have a counterpart"),
        ([level(4, 40)], [level(4, 10), level(6, 10), level(8, 21)], "the load differs too much: 4 requests running before, 6 to 8 after; 100 % and 24 % of the steady samples have a counterpart"),
        ([level(4, 9)], [level(4, 5), level(8, 9)], "too few statistics lines at the same load: 5 in both logs, 6 are needed"),
        # A level of one sample, or without tokens, is no counterpart.
        ([level(4, 6), level(8, 1)], [level(4, 6), level(8, 30)], "the load differs too much: 4 requests running before, 8 after; 86 % and 17 % of the steady samples have a counterpart"),
        ([level(4, 6), level(8, 2)], [level(4, 6), level(8, 30)], None),
        ([level(speed=0.0)], [level()], "the load differs too much: 4 requests running before, 4 after; 0 % and 0 % of the steady samples have a counterpart"),
        ([level()], [level(speed=0.0)], "the load differs too much: 4 requests running before, 4 after; 0 % and 0 % of the steady samples have a counterpart"),
    ],
)  # fmt: skip
def test_what_is_not_compared_has_its_reason(
    before: list[LoadLevel], after: list[LoadLevel], warning: str | None
) -> None:
    found = equal_load(before, after)
    assert found.warnings == ((warning,) if warning else ())
    assert (found.verdict == "unknown") is (found.ratio is None) is (warning is not None)


@for_each(
    ("before", "after", "differ"),
    [(100.0, 149.0, False), (100.0, 151.0, True), (151.0, 100.0, True), (5.0, 9.0, True), (4.9, 9.0, False), (0.0, 9.0, False)],
)  # fmt: skip
def test_prompts_differ_where_one_log_has_half_as_many_more_for_each_generated_token(
    before: float, after: float, differ: bool
) -> None:
    """Below one in twenty the prompts cost too little to matter."""
    found = equal_load([level(prompt=before)], [level(prompt=after)])
    assert bool(found.warnings) is differ
    if differ:
        assert (
            f"{before / 100:.2g} prompt tokens for each generated one before, {after / 100:.2g} after"
            in found.warnings[0]
        )


def test_within_a_wide_level_throughput_grows_a_little_slower_than_the_requests() -> None:
    result = equal_load([level(36)], [level(36, high=40, speed=150.0)])
    assert result.ratio == pytest.approx(1.5 / (40 / 36) ** 0.7)
    assert (result.share_before, result.share_after) == (1.0, 1.0)


def test_a_level_sums_its_samples_by_the_lines_that_each_stands_for() -> None:
    rates = [(10.0, 1), (20.0, 1), (30.0, 1), (40.0, 3)]
    series = [
        Sample(None, 0, 0, 0.0, 0.0, running=4),
        *(
            Sample(None, 1 + n, 0, rate / 10, rate, running=4, count=count)
            for n, (rate, count) in enumerate(rates)
        ),
    ]
    (found,) = load_levels(series[1:2] + series[1:])
    assert found == LoadLevel(4, 4, 4.0, 6, (20.0, 30.0, 40.0), 3.0)
    broken = [Sample(None, 9, 0, bad, 9.0, running=4) for bad in (math.nan, math.inf)]
    assert load_levels([*series[1:2], *broken]) == ()
