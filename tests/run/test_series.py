"""A long series is merged on the way as it is at the end, in less memory."""

from __future__ import annotations

from itertools import count
from unittest.mock import patch

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from vllm_logdoctor.run import series as series_module
from vllm_logdoctor.run.model import Sample
from vllm_logdoctor.run.series import Series

MOST = 40
engines = st.one_of(
    st.just([0]), st.just([0, 1]), st.just([0, 0, 1, 2]), st.lists(st.integers(0, 3), min_size=1, max_size=9)
)
_numbers = st.one_of(st.none(), st.integers(0, 99))
figures = st.tuples(st.floats(0, 1e6), _numbers, _numbers)


def samples_of(
    order: list[int], drawn: list[tuple[float, int | None, int | None]], number: int
) -> list[Sample]:
    """Return samples of engines that take turns; their figures repeat."""
    return [
        Sample(
            float(at), at + 1, order[at % len(order)], rate, rate / 3, running=running, swapped=None, preemptions=lost,
            prefix_hit=running, text=f"line {at + 1}",
        )
        for at, (rate, running, lost) in ((at, drawn[at % len(drawn)]) for at in range(number))
    ]  # fmt: skip


def told_of(samples: list[Sample], merged_at_once: int, hit_rates: bool) -> list[Sample]:
    found, rates = Series(), count(0.5)
    with (
        patch.object(series_module, "MOST_SAMPLES", MOST),
        patch.object(series_module, "_MERGED_AT_ONCE", merged_at_once),
    ):
        for sample in samples:
            found.add(sample)
            if hit_rates:
                found.note_hit_rate(next(rates))
        return found.samples()


@settings(deadline=None, suppress_health_check=list(HealthCheck))
@given(engines, st.lists(figures, min_size=1, max_size=7), st.integers(0, 5 * MOST), st.booleans())
def test_merging_on_the_way_changes_nothing(
    order: list[int], drawn: list[tuple[float, int | None, int | None]], number: int, hit_rates: bool
) -> None:
    samples = samples_of(order, drawn, number)
    at_the_end, on_the_way = (told_of(samples, at_once, hit_rates) for at_once in (10**6, 3))
    assert on_the_way == at_the_end
    assert len(on_the_way) <= MOST + len(set(order))


def test_a_long_series_holds_little_more_than_it_tells() -> None:
    held = []
    with patch.object(series_module, "MOST_SAMPLES", MOST), patch.object(series_module, "_MERGED_AT_ONCE", 4):
        found = Series()
        for sample in samples_of([0, 1], [(1.0, 2, None)], 20 * MOST):
            found.add(sample)
            held.append(len(found._texts))
    assert max(held) <= MOST + 8


def test_neighbours_of_one_engine_become_one_line() -> None:
    """Means of rates by the lines they stand for, the most of gauges, the last hit rate, and sums of counts."""
    lines = [
        Sample(
            10.0 * at, at + 1, engine, 10.0 * at, 100.0 * at, running=at, waiting=9 - at, swapped=None, kv_usage=float(at), prefix_hit=10.0 * at,
            preemptions=1, text=f"line {at + 1}",
        )
        for at, engine in enumerate((0, 1, 0, 1, 0, 1))
    ]  # fmt: skip
    with (
        patch.object(series_module, "MOST_SAMPLES", 4),
        patch.object(series_module, "_MERGED_AT_ONCE", 10**6),
    ):
        found = Series()
        for one in lines:
            found.add(one)
        merged = found.samples()
    assert [(one.time, one.line, one.engine, one.count, one.text) for one in merged] == [
        (0.0, 1, 0, 2, "line 1"), (10.0, 2, 1, 2, "line 2"), (40.0, 5, 0, 1, "line 5"), (50.0, 6, 1, 1, "line 6"),
    ]  # fmt: skip
    first = merged[0]
    assert (first.prompt, first.generation) == (10.0, 100.0)
    assert (first.running, first.waiting, first.kv_usage, first.prefix_hit, first.preemptions) == (
        2,
        9,
        2.0,
        20.0,
        2,
    )
    assert (first.swapped, first.external_hit) == (None, None)
