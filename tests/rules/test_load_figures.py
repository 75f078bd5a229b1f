"""The seconds, medians and peaks of a load, and what of it is steady decoding."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from tests.rules.making import a_run
from vllm_logdoctor.rules.load import (
    Span,
    decode_spans,
    generated_tokens,
    is_steady,
    load_of,
    quantile,
    spans_of,
    weighted_median,
)
from vllm_logdoctor.rules.performance.full_cache import only_computes_prompts
from vllm_logdoctor.run.model import Phase, Run, Sample


def line(
    time: float | None, running: int = 1, generation: float = 10.0, number: int = 1, **more: Any
) -> Sample:
    return Sample(
        time,
        number,
        more.pop("engine", 0),
        more.pop("prompt", 0.0),
        generation,
        running,
        more.pop("waiting", 0),
        None,
        more.pop("kv", 1.0),
        **more,
    )


def seconds(*times: float | None, begun: float | None = None, **more: Any) -> list[float]:
    return [
        span.seconds
        for span in spans_of([line(time, number=place, **more) for place, time in enumerate(times, 1)], begun)
    ]


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        ([0.0, 10.0, 20.0], [10, 10, 10]),
        ([0.0, 5.0, 10.0], [5, 5, 5]),
        ([None, None], [10, 10]),
        ([0.0], [10]),
        # Three intervals are the longest; what is longer is a silence.
        ([0.0, 10.0, 20.0, 50.0], [10, 10, 10, 30]),
        ([0.0, 10.0, 20.0, 51.0], [10, 10, 10, 10]),
        # A clock that goes back, or stands still.
        ([0.0, 10.0, 20.0, 15.0, 25.0], [10, 10, 10, 10, 10]),
        ([0.0, 10.0, 10.0, 20.0], [10, 10, 10, 10]),
        # Of a few pasted lines some may have been left out: the shorter steps count.
        ([0.0, 10.0, 40.0, 70.0], [10, 10, 30, 30]),
    ],
)
def test_a_line_counts_for_the_time_since_the_one_before(
    times: list[float | None], expected: list[float]
) -> None:
    assert seconds(*times) == expected


def test_the_first_line_covers_no_time_before_the_load() -> None:
    assert seconds(100.0, 110.0, begun=96.0) == [4, 10]
    assert seconds(100.0, 110.0, begun=80.0) == [10, 10]
    assert seconds(100.0, 110.0, begun=120.0) == [10, 10]
    run = a_run(samples=[line(100.0), line(110.0, number=2)])
    run.phases = [Phase("startup", "", 50.0, 97.0, 47.0)]
    assert load_of(run).busy_seconds == 13.0


def test_after_an_idle_line_a_longer_gap_is_none() -> None:
    """One and a half intervals at most: the engine prints nothing while it idles."""
    idle = {"generation": 0.0, "running": 0}
    lines = [line(0.0), line(10.0, number=2), line(20.0, number=3, **idle), line(35.0, number=4)]
    assert [span.seconds for span in spans_of(lines)] == [10, 10, 10, 15]
    lines[-1] = line(36.0, number=4)
    assert [span.seconds for span in spans_of(lines)] == [10, 10, 10, 10]


@pytest.mark.parametrize(("gap", "count", "covered"), [(30, 1, 30), (31, 1, 10), (60, 2, 60), (61, 2, 20)])
def test_a_merged_line_covers_as_many_intervals(gap: int, count: int, covered: int) -> None:
    lines = [line(10.0 * place, number=place) for place in range(9)]
    lines.append(line(80.0 + gap, number=9, count=count))
    assert spans_of(lines)[-1].seconds == covered


def test_sums_over_ranks_are_left_out_beside_the_ranks() -> None:
    both = [line(0.0, engine=-1), line(0.0, number=2), line(0.0, number=3, engine=1)]
    assert [span.sample.engine for span in spans_of(both)] == [0, 1]
    assert [span.sample.engine for span in spans_of(both[:1])] == [-1]


def test_figures_of_a_load() -> None:
    lines = [
        line(0.0, 0, 0.0), line(10.0, 2, 100.0, 2, kv=5.0, prompt=7.0), line(20.0, 4, 300.0, 3, waiting=3, kv=9.0, preemptions=2), line(30.0, 6, 500.0, 4, kv=7.0, prefix_hit=40.0),
        line(40.0, 0, 0.0, 5, preemptions=1, prefix_hit=50.0),
    ]  # fmt: skip
    found = load_of(a_run(samples=lines))
    assert (found.engines, found.busy_seconds, found.idle_seconds) == (1, 30.0, 20.0)
    assert (found.peak_running, found.peak_waiting, found.peak_kv) == (6, 3, 9.0)
    assert (found.running, found.kv_usage, found.prompt, found.generation) == (4.0, 7.0, 0.0, 300.0)
    assert (found.hit_rate, found.preemptions) == (50.0, 3)
    assert [span.sample.line for span in found.busy] == [2, 3, 4]
    assert found.share_of(found.busy[:1]) == pytest.approx(1 / 3)
    assert generated_tokens(found.busy[:2]) == 4000.0
    assert load_of(Run()).generation == 0.0


@pytest.mark.parametrize(
    ("before", "running", "steady"),
    [(100, 90, True), (120, 100, True), (121, 100, False), (80, 100, True), (79, 100, False), (1, 1, True), (0, 1, False), (None, 4, False), (4, None, False), (4, 0, False), (5, 4, False)],
)  # fmt: skip
def test_an_interval_is_steady_within_a_fifth_of_its_requests(
    before: int | None, running: int | None, steady: bool
) -> None:
    assert is_steady(before, running) is steady


@pytest.mark.parametrize(
    ("sample", "steady", "decodes"),
    [(line(0.0, 4, 100.0), True, True), (line(0.0, 4, 100.0), False, False), (line(0.0, 4, 0.0), True, False), (line(0.0, 0, 100.0), True, False), (line(0.0, 4, 100.0, prompt=1.0), True, True), (line(0.0, 4, 100.0, prompt=1.1), True, False)],
)  # fmt: skip
def test_steady_decoding_computes_next_to_no_prompt(sample: Sample, steady: bool, decodes: bool) -> None:
    span = Span(sample, 10.0, steady)
    assert decode_spans([span]) == ([span] if decodes else [])


@pytest.mark.parametrize(
    ("sample", "busy", "waits"),
    [(line(0.0, 1, 0.0), True, False), (line(0.0, 0, 0.0), False, False), (line(0.0, 0, 0.0, waiting=1), True, True), (line(0.0, 0, 1.0), True, False), (line(0.0, 0, 0.0, prompt=1.0), True, False)],
)  # fmt: skip
def test_a_line_is_busy_with_a_request_or_a_token(sample: Sample, busy: bool, waits: bool) -> None:
    span = Span(sample, 10.0)
    assert (span.busy, span.waits) == (busy, waits)


@pytest.mark.parametrize(
    ("weighted", "share", "value"),
    [([(1.0, 1), (2.0, 1), (9.0, 2)], 0.5, 5.5), ([(2.0, 1), (1.0, 1), (9.0, 1)], 0.5, 2.0), ([(1.0, 1)], 0.95, 1.0), ([(1.0, 19), (9.0, 1)], 0.95, 5.0), ([(1.0, 18), (9.0, 2)], 0.95, 9.0), ([(float("nan"), 5), (3.0, 1)], 0.5, 3.0), ([], 0.5, None), ([(1.0, 1), (9.0, 1)], 1.0, 9.0), ([(1.0, 1), (9.0, 1)], 0.0, 1.0), ([(7.0, 0)], 0.5, 7.0)],
)  # fmt: skip
def test_a_quantile_of_weighted_values(
    weighted: list[tuple[float, int]], share: float, value: float | None
) -> None:
    assert quantile(weighted, share) == value


def test_a_median_weighs_lines_by_their_seconds() -> None:
    spans = [Span(line(0.0, 1), 10.0), Span(line(0.0, 5), 30.0)]
    assert weighted_median(spans, lambda sample: float(sample.running or 0)) == 5.0
    assert (
        weighted_median([spans[0], Span(line(0.0, 5), 10.0)], lambda sample: float(sample.running or 0))
        == 3.0
    )
    assert weighted_median([], lambda sample: 1.0) == 0.0


@pytest.mark.parametrize(
    ("prompt", "generation", "mostly"),
    [(50.0, 10.0, False), (50.1, 10.0, True), (5.0, 0.2, False), (5.1, 0.2, True)],
)
def test_prompts_are_most_of_the_work_from_five_times_the_generated_tokens_on(
    prompt: float, generation: float, mostly: bool
) -> None:
    samples = [line(10.0 * n, generation=generation, number=n, prompt=prompt) for n in range(4)]
    assert load_of(a_run(samples=samples)).is_mostly_prompts is mostly


@pytest.mark.parametrize(
    ("prompt", "swapped", "alone"), [(1000.0, 0, False), (1000.1, 0, True), (1000.1, 1, False)]
)
def test_a_full_cache_of_prompts_alone_generates_a_hundredth_of_what_it_reads(
    prompt: float, swapped: int, alone: bool
) -> None:
    (span,) = spans_of([replace(line(0.0, generation=10.0, prompt=prompt), swapped=swapped)])
    assert only_computes_prompts([span]) is alone
    assert not only_computes_prompts([])


def silent(prompt: float = 9000.0, ran: int = 1, generation: float = 0.0, swapped: int | None = None) -> Span:
    """A line that counts prompts 60 s behind one of the same engine."""
    times = [line(10.0 * number, ran, 20.0, number) for number in range(3)]
    quiet, counted = line(30.0, ran, generation, 3), line(90.0, 1, 0.8, 4, prompt=prompt)
    return spans_of([*times, quiet, replace(counted, swapped=swapped)])[-1]


def test_a_silence_before_a_counted_prompt_is_the_time_in_which_it_was_computed() -> None:
    assert (silent().seconds, silent().computing, silent().missing) == (10.0, 50.0, 0.0)


@pytest.mark.parametrize("figures", [{"prompt": 0.0}, {"ran": 0}, {"generation": 20.0}, {"swapped": 0}])
def test_no_prompt_fills_a_silence_where_the_lines_show_none_under_way(figures: dict[str, Any]) -> None:
    assert not silent(**figures).computing


def test_few_tokens_behind_a_silence_are_a_step_that_took_long_and_no_long_prompt() -> None:
    lines = [line(0.0, 1, 0.0, 1), line(60.0, 1, 0.8, 2, prompt=700.0)]
    assert load_of(Run(samples=lines)).long_prompts == ()
