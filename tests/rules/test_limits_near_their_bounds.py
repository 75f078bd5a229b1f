"""Each limit just below and just above its bound, in series of statistics lines as servers print them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.rules.making import a_run, advice, load
from vllm_logdoctor.rules.bottleneck import bottleneck_of
from vllm_logdoctor.rules.limits import BottleneckName, in_one_burst, limits_of
from vllm_logdoctor.rules.load import Span, load_of
from vllm_logdoctor.run.model import Sample

CROWD = {"running": 100, "waiting": 6, "generation": 2000.0, "prompt": 4000.0}


def limit(figures: dict[str, Any], lines: int = 12, **more: Any) -> str:
    return bottleneck_of(a_run(samples=load((lines, figures)), **more)).name


@pytest.mark.parametrize(("kv", "expected"), [(89.4, "prefill-limited"), (90.0, "kv-cache-limited")])
def test_a_cache_is_full_from_nine_tenths_on_when_something_waits(kv: float, expected: str) -> None:
    assert limit({**CROWD, "kv": kv}, set={"max_num_seqs": 256}) == expected


@pytest.mark.parametrize(("kv", "reported"), [(94.9, False), (95.0, True)])
def test_a_full_cache_without_a_queue_is_reported_and_limits_nothing(kv: float, reported: bool) -> None:
    full = {**CROWD, "waiting": 0, "kv": kv}
    assert limit(full, set={"max_num_seqs": 256}) == "client-limited"
    found = advice(a_run(samples=load((12, full)), set={"max_num_seqs": 256}))
    assert ("kv-cache-preemption" in found) == reported
    assert ("client-concurrency-bound" in found) != reported


def test_a_full_cache_limits_without_a_queue_where_requests_are_preempted() -> None:
    run = a_run(samples=load((12, {**CROWD, "waiting": 0, "kv": 97.0})), set={"max_num_seqs": 256})
    run.extremes.preemptions = 3
    assert bottleneck_of(run).name == "kv-cache-limited"


def test_a_full_cache_of_an_hour_without_a_queue_is_not_that_of_a_later_one_with_a_queue() -> None:
    full, calm = {**CROWD, "kv": 97.0}, {**CROWD, "waiting": 0, "kv": 20.0}
    run = a_run(samples=load((30, {**full, "waiting": 0}), (3, calm), (4, full)), set={"max_num_seqs": 256})
    periods = bottleneck_of(run).periods
    assert [one.name for one in periods] == ["client-limited", "kv-cache-limited"]


@pytest.mark.parametrize(("prompt", "expected"), [(5001.0, "prefill-limited"), (5000.0, "kv-cache-limited")])
def test_requests_of_a_full_cache_that_just_ended_leave_room_and_no_step_full_of_prompts(
    prompt: float, expected: str
) -> None:
    line = {"running": 180, "waiting": 400, "generation": 3000.0}
    full, freed = {**line, "kv": 99.0, "prompt": 10000.0}, {**line, "kv": 80.0, "prompt": prompt}
    run = a_run(samples=load((2, full), (1, freed), (2, full)), set={"max_num_seqs": 256})
    assert limits_of(run, load_of(run))[2] == expected


@pytest.mark.parametrize(("kv", "expected"), [(72.0, "prefill-limited"), (78.0, "kv-cache-limited")])
def test_a_few_large_requests_fill_a_cache_that_has_no_room_for_one_more(kv: float, expected: str) -> None:
    assert (
        limit(
            {"running": 3, "waiting": 2, "kv": kv, "generation": 90.0, "prompt": 800.0},
            set={"max_num_seqs": 64},
        )
        == expected
    )


@pytest.mark.parametrize(("running", "expected"), [(121, "prefill-limited"), (122, "max-num-seqs-limited")])
def test_slots_are_taken_when_all_but_a_few_are(running: int, expected: str) -> None:
    assert limit({**CROWD, "running": running, "kv": 30.0}, set={"max_num_seqs": 128}) == expected


@pytest.mark.parametrize(("lines", "expected"), [(19, "client-limited"), (20, "prefill-limited")])
def test_a_limit_of_the_server_is_the_runs_from_a_fifth_of_the_busy_time_on(
    lines: int, expected: str
) -> None:
    calm = {"running": 8, "generation": 300.0, "kv": 4.0}
    queue = {**calm, "waiting": 3, "prompt": 9000.0}
    run = a_run(set={"max_num_seqs": 256}, samples=load((100 - lines, calm), (lines, queue)))
    assert bottleneck_of(run).name == expected


@pytest.mark.parametrize(("rate", "expected"), [(1.4, "host-limited"), (1.6, "client-limited")])
def test_steps_slower_than_any_card_reads_its_memory_are_the_hosts(rate: float, expected: str) -> None:
    assert limit({"running": 2, "generation": 2 * rate, "kv": 5.0}) == expected


@pytest.mark.parametrize(("rate", "expected"), [(0.9, "host-limited"), (1.1, "client-limited")])
def test_a_cpu_is_the_limit_below_a_token_a_second_and_request(rate: float, expected: str) -> None:
    assert limit({"running": 10, "generation": 10 * rate, "kv": 5.0}, platform="cpu") == expected


@pytest.mark.parametrize(
    ("ranks", "rate", "expected"),
    [(16, 4.9, "interconnect-limited"), (16, 5.1, "client-limited"), (8, 4.9, "client-limited")],
)
def test_more_ranks_than_a_machine_has_cards_crawl_because_of_the_network(
    ranks: int, rate: float, expected: str
) -> None:
    assert (
        limit({"running": 1, "generation": rate, "kv": 3.0}, set={"tensor_parallel_size": ranks}) == expected
    )


@pytest.mark.parametrize(("lines", "expected"), [(3, "client-limited"), (6, "none-clear")])
def test_an_engine_that_makes_no_progress_tells_no_limit(lines: int, expected: str) -> None:
    moving = [(1, {"running": 8, "generation": 300.0, "kv": 4.0 + number}) for number in range(2)]
    still = {"running": 8, "generation": 0.0, "kv": 6.0}
    run = a_run(samples=load(*moving, (lines, still)))
    assert bottleneck_of(run).name == expected


def test_the_client_gets_the_free_slots_the_free_cache_and_for_how_long() -> None:
    run = a_run(set={"max_num_seqs": 256}, samples=load((42, {"running": 8, "kv": 1.6, "generation": 400.0})))
    words = advice(run)["client-concurrency-bound"].explanation
    assert "248 of 256 max_num_seqs slots free" in words
    assert "at least 98 % of the KV cache free" in words
    assert "In all 42 statistics lines with load no request waited" in words
    assert "nothing to change" not in words  # The log has no latency.


def test_the_first_line_of_a_client_is_the_one_with_the_most_requests() -> None:
    parts = (
        (3, {"running": 81, "kv": 86.0}),
        (1, {"running": 98, "kv": 84.0}),
        (3, {"running": 40, "kv": 30.0}),
    )
    run = a_run(set={"max_num_seqs": 256}, samples=load(*parts))
    assert "Running: 98 reqs" in advice(run)["client-concurrency-bound"].evidence[0].text


def line_of_a_queue(waiting: int = 9, prompt: float = 9.0, engine: int = 0) -> Span:
    return Span(Sample(0.0, 1, engine, prompt, 9.0, running=9, waiting=waiting, kv_usage=80.0), 10.0)


CACHE, PROMPTS, CLIENT = "kv-cache-limited", "prefill-limited", "client-limited"


@pytest.mark.parametrize(
    ("spans", "limits", "shown"),
    [
        # A line that shows free cache within a full one keeps what it shows.
        ([line_of_a_queue()] * 3, [CACHE, PROMPTS, CACHE], [CACHE, PROMPTS, CACHE]),
        ([line_of_a_queue(), line_of_a_queue(0), line_of_a_queue()], [CACHE, PROMPTS, CACHE], [CACHE, PROMPTS, CACHE]),
        ([line_of_a_queue(), line_of_a_queue(), line_of_a_queue(0)], [CACHE, PROMPTS, CACHE], [CACHE, PROMPTS, CACHE]),
        ([line_of_a_queue()] * 3, [CLIENT, PROMPTS, CACHE], [CLIENT, PROMPTS, CACHE]),
        ([line_of_a_queue()] * 3, [CACHE, PROMPTS, CLIENT], [CACHE, PROMPTS, CLIENT]),
        ([line_of_a_queue()] * 4, [CACHE, PROMPTS, PROMPTS, CACHE], [CACHE, PROMPTS, PROMPTS, CACHE]),
        ([line_of_a_queue()] * 2, [CACHE, PROMPTS], [CACHE, PROMPTS]),
        # Where a queue begins, the first line holds less than a tenth of the prompts of the second.
        ([line_of_a_queue(prompt=8.9), line_of_a_queue(prompt=90.0)], [PROMPTS, PROMPTS], [CLIENT, PROMPTS]),
        ([line_of_a_queue(prompt=9.0), line_of_a_queue(prompt=90.0)], [PROMPTS, PROMPTS], [PROMPTS, PROMPTS]),
        ([line_of_a_queue(prompt=0.0), line_of_a_queue(prompt=90.0)], [PROMPTS, PROMPTS], [PROMPTS, PROMPTS]),
        ([line_of_a_queue(0), line_of_a_queue(prompt=8.9), line_of_a_queue(prompt=90.0)], [CLIENT, PROMPTS, PROMPTS], [CLIENT, CLIENT, PROMPTS]),
        ([line_of_a_queue(), line_of_a_queue(prompt=8.9), line_of_a_queue(prompt=90.0)], [CLIENT, PROMPTS, PROMPTS], [CLIENT, PROMPTS, PROMPTS]),
        # Lines of another engine in between are of another queue.
        ([line_of_a_queue(), line_of_a_queue(0, engine=1), line_of_a_queue(), line_of_a_queue()], [CACHE, CLIENT, PROMPTS, CACHE], [CACHE, CLIENT, PROMPTS, CACHE]),
    ],
)  # fmt: skip
def test_only_the_line_in_which_a_queue_begins_is_no_line_of_prompts(
    spans: list[Span], limits: list[BottleneckName], shown: list[str]
) -> None:
    assert in_one_burst(spans, limits) == shown


@pytest.mark.parametrize(
    ("beside", "expected"),
    [
        # Six of 64 have just ended: the tokens are those of a full batch.
        ({"running": 58, "generation": 2500.0}, {"max-num-seqs-limited"}),
        ({"running": 57, "generation": 2500.0}, {"max-num-seqs-limited", "prefill-limited"}),
        # Prompts took the steps of the interval.
        ({"running": 58, "generation": 900.0}, {"max-num-seqs-limited", "prefill-limited"}),
        (
            {"running": 58, "generation": 2500.0, "prompt": 6000.0},
            {"max-num-seqs-limited", "prefill-limited"},
        ),
    ],
)
def test_a_line_in_which_a_few_slots_were_just_freed_is_of_the_limit_beside_it(
    beside: dict[str, Any], expected: set[str]
) -> None:
    full = {"running": 64, "waiting": 30, "generation": 2600.0, "prompt": 800.0, "kv": 14.0}
    samples = load((6, full), (3, full | beside), (6, full))
    periods = bottleneck_of(a_run(samples=samples, set={"max_num_seqs": 64})).periods
    assert {one.name for one in periods} == expected


@pytest.mark.parametrize(("kv", "slow"), [(2.5, False), (14.4, True)])
def test_a_request_that_gave_its_cache_back_left_the_next_prompt_to_compute(kv: float, slow: bool) -> None:
    answer = {"running": 1, "generation": 0.4, "kv": 14.6}
    samples = load((1, answer | {"prompt": 9000.0}), (1, answer | {"kv": kv}))
    assert ("slow decode steps" in bottleneck_of(a_run(samples=samples)).reason) == slow
