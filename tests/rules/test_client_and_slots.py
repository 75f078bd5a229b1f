"""What the findings on a client's pace and on max_num_seqs say: figures, changes and effects, below and above each bound."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from tests.rules.making import a_run, advice, knobs, load, sample
from tests.tables import for_each
from vllm_logdoctor.rules.bottleneck import bottleneck_of
from vllm_logdoctor.rules.context import rule_context
from vllm_logdoctor.rules.load import load_of
from vllm_logdoctor.rules.model import Finding
from vllm_logdoctor.rules.one_batch import cut_off_at_end
from vllm_logdoctor.rules.performance.serving import held_long, max_num_seqs_wanted, room_to_grow, significant
from vllm_logdoctor.run.model import Run, Value

CALM = {"running": 8, "generation": 300.0, "kv": 4.0}
CLIENT = "client-concurrency-bound"
SLOTS = "scheduler-limit-not-memory"
MORE = "send {} requests at once from the client"
H100 = "0, NVIDIA H100 80GB HBM3, 81559 MiB, 550.54"


def run_of(*parts: tuple[int, dict[str, Any]], seats: int | None = 256, **more: Any) -> Run:
    given = {"max_num_seqs": seats} if seats else {}
    return a_run(samples=load(*parts), **{"set": given, **more})


def client(*parts: tuple[int, dict[str, Any]], objective: str = "balanced", **more: Any) -> Finding:
    return advice(run_of(*parts, **more), objective)[CLIENT]


@pytest.mark.parametrize(
    ("parts", "seats", "said"),
    [
        ([(9, CALM)], 256, "In all 9 statistics lines with load no request waited: vLLM ran at most 8 requests at once and had 248 of 256 max_num_seqs slots free and at least 96 % of the KV cache free."),
        ([(9, CALM)], None, "no request waited: vLLM ran at most 8 requests at once and had at least 96 % of the KV cache free."),
        ([(9, {**CALM, "kv": 0.0})], None, "and had nearly all of the KV cache free."),
        ([(9, {**CALM, "kv": 0.4})], None, "and had at least 99.6 % of the KV cache free."),
        ([(6, CALM), (3, {**CALM, "running": 12})], None, "vLLM ran 8 requests at once in the median (at most 12) and had"),
    ],
)  # fmt: skip
def test_the_load_of_a_client_is_described_by_its_figures(
    parts: list[tuple[int, dict[str, Any]]], seats: int | None, said: str
) -> None:
    assert said in client(*parts, seats=seats).explanation


def test_the_median_of_a_client_leaves_out_lines_that_are_partly_idle_as_the_table_of_the_load_does() -> None:
    bursts = [(1, {**CALM, "generation": 900.0}), (1, {"running": 0, "generation": 4.0}), (1, {})] * 6
    assert "vLLM ran at most 8 requests at once" in client(*bursts).explanation


def test_a_client_whose_number_of_requests_varies_may_have_no_more() -> None:
    steady, varies = client((9, CALM)), client((6, CALM), (3, {**CALM, "running": 12}))
    assert ["if it has more" in " ".join(knobs(one)) for one in (steady, varies)] == [False, True]


def batch_of(asked: int, last: int, **more: Any) -> Run:
    """Return a run whose requests were answered, most of them behind the last line, where `last` still ran."""
    parts = [(1, {**CALM, "running": running}) for running in (40, 39, 37, 36, 35, 34, last)]
    run = run_of(*parts, **more)
    run.accesses[("POST", "/v1/chat/completions", 200)] = asked
    return replace(run, outcome="clean_shutdown", ended=(run.samples[-1].time or 0.0) + 4)


def test_a_client_that_sent_all_requests_at_once_is_not_asked_for_more() -> None:
    found = advice(batch_of(40, 33))[CLIENT]
    assert "had no more to send" in found.explanation
    assert not found.changes
    # More answers than ran at once: others were sent later.
    assert advice(batch_of(400, 33))[CLIENT].changes


def test_requests_that_ran_when_the_server_was_stopped_are_cut_off_and_not_answered() -> None:
    assert cut_off_at_end(batch_of(40, 33)) == 33
    assert cut_off_at_end(batch_of(40, 3)) == 0
    assert cut_off_at_end(batch_of(400, 33)) == 0


def test_engines_of_one_server_are_said_to_be_counted_together() -> None:
    both = [
        one
        for number in range(9)
        for one in (sample(number=number, **CALM), sample(number=number, engine=1, **CALM))
    ]  # type: ignore[arg-type]
    found = advice(a_run(set={"data_parallel_size": 2}, samples=both))[CLIENT]
    assert "In all 18 statistics lines with load no request waited" in found.explanation


@pytest.mark.parametrize(
    ("figures", "seats", "words", "high"),
    [
        (CALM, 256, None, 1.94),
        # Twice the requests fit: no word on the server's own limit.
        ({**CALM, "kv": 45.0}, 256, None, 1.94),
        (
            {**CALM, "kv": 60.0},
            256,
            "60 % of the cache were taken, which leaves cache for 1.5 times as many",
            1.5,
        ),
        (
            {**CALM, "kv": 60.0},
            10,
            "8 of 10 slots of max_num_seqs were taken, which leaves max_num_seqs for 1.2 times as many",
            1.25,
        ),
        (
            {**CALM, "kv": 60.0},
            12,
            "8 of 12 slots of max_num_seqs were taken, which leaves max_num_seqs for 1.5 times as many",
            1.5,
        ),
        (
            {**CALM, "kv": 84.0, "generation": 250.0},
            256,
            "84 % of the cache were taken, which leaves hardly any cache for more",
            None,
        ),
    ],
)
def test_what_more_requests_bring_ends_where_the_server_is_full(
    figures: dict[str, Any], seats: int, words: str | None, high: float | None
) -> None:
    found = client((12, figures), seats=seats)
    assert (words or "not far from its own limit") in found.explanation or words is None
    assert ("not far from its own limit" in found.explanation) is (words is not None)
    assert (found.effect and found.effect.high) == high
    assert list(knobs(found)) == ([MORE.format("twice as many" if words is None else "more")] if high else [])
    if high:
        assert found.effect is not None
        assert ("cache and max_num_seqs allow" in found.effect.basis) is (high < 1.9)


@for_each(("lines", "judged"), [(1, False), (5, False), (6, True)])
def test_a_minute_of_lines_is_needed_to_judge_the_client(lines: int, judged: bool) -> None:
    found = advice(run_of((lines, CALM))).get(CLIENT)
    assert bool(found and found.changes) is judged


@pytest.mark.parametrize(
    ("prompt", "generation", "asked"),
    [(1000.0, 40.0, True), (1001.0, 40.0, False), (9000.0, 5000.0, True)],
)
def test_a_load_of_prompts_gains_nothing_from_more_requests(
    prompt: float, generation: float, asked: bool
) -> None:
    found = client((12, {"running": 4, "prompt": prompt, "generation": generation, "kv": 4.0}))
    assert ("Prompts are most of the work" in found.explanation) is not asked
    assert bool(found.changes) is asked
    if not asked:
        assert "(1,001 prompt tokens/s, 40 generated)" in found.explanation


@pytest.mark.parametrize(("computing", "asked"), [(4, True), (5, False)])
def test_time_in_which_steps_only_compute_prompts_is_no_room_for_requests(
    computing: int, asked: bool
) -> None:
    """From two fifths of the time on; 41.7 % are five of twelve lines."""
    busy = {"running": 8, "generation": 300.0, "kv": 4.0}
    stuck = {"running": 1, "generation": 0.8, "prompt": 13_000.0, "kv": 1.4}
    found = client((12 - computing, busy), (computing, stuck))
    assert bool(found.changes) is asked
    assert ("In 42 % of the time with requests the steps computed prompts" in found.explanation) is not asked


@pytest.mark.parametrize(("idle", "asked"), [(15, True), (16, True), (30, False)])
def test_one_request_now_and_then_is_no_client_that_could_send_more(idle: int, asked: bool) -> None:
    one = {"running": 1, "generation": 100.0, "kv": 1.0}
    found = client((4, one), (idle, {"running": 0, "kv": 0.0}), (4, one))
    assert bool(found.changes) is asked
    assert ("One request ran at a time" in found.explanation) is not asked


@pytest.mark.parametrize(
    ("running", "platform", "objective", "model", "offered"),
    [
        (1, "cuda", "latency", None, True),
        (1, "cuda", "balanced", None, False),
        (1, "cuda", "balanced", "Qwen/Qwen3.5-27B", True),
        (1, "cpu", "latency", None, False),
        (64, "cuda", "latency", None, False),
    ],
)
def test_a_drafter_is_offered_where_few_answers_are_to_be_fast(
    running: int, platform: str, objective: str, model: str | None, offered: bool
) -> None:
    figures = {"running": running, "generation": 60.0 * running, "kv": 1.0}
    named = {"model": Value(model, "explicit")} if model else {}
    found = client((12, figures), platform=platform, objective=objective, version="0.17.0", **named)
    assert bool(found.alternatives) is offered


FULL_SLOTS = {"running": 64, "waiting": 30, "kv": 20.0, "generation": 2000.0}


@pytest.mark.parametrize(
    ("parts", "seats", "said"),
    [
        ([(12, FULL_SLOTS)], 64, "In all 12 statistics lines with load all 64 max_num_seqs slots were taken and up to 30 requests waited, while at most 20 % of the KV cache was used."),
        ([(11, FULL_SLOTS), (1, {**FULL_SLOTS, "running": 63})], 64, "at least 63 of the 64 max_num_seqs slots were taken"),
        ([(12, {**FULL_SLOTS, "running": 1, "waiting": 1})], 1, "the only max_num_seqs slot was taken and up to 1 request waited"),
        ([(6, CALM), (6, FULL_SLOTS)], 64, "In 6 of 12 statistics lines with load all 64"),
        ([(11, FULL_SLOTS), (1, {**FULL_SLOTS, "running": 5, "waiting": 0})], 64, "In 11 of 12 statistics lines with load all 64"),
    ],
)  # fmt: skip
def test_taken_slots_are_described_by_their_figures(
    parts: list[tuple[int, dict[str, Any]]], seats: int, said: str
) -> None:
    assert said in advice(run_of(*parts, seats=seats))[SLOTS].explanation


def test_slots_of_ranks_whose_lines_are_added_up_are_counted_for_each() -> None:
    """Two ranks of 32 slots print one line: 30 requests wait, 15 at each."""
    lines = [replace(one, engine=-1) for one in load((12, FULL_SLOTS))]
    found = advice(a_run(set={"max_num_seqs": 32, "data_parallel_size": 2}, samples=lines))[SLOTS]
    assert "all 32 max_num_seqs slots of each of 2 ranks were taken" in found.explanation
    assert knobs(found) == {"--max-num-seqs": 64}


@pytest.mark.parametrize(
    ("given", "default", "confidence"),
    [({"max_num_seqs": 64}, {}, "high"), ({"seed": 0}, {"max_num_seqs": 64}, "medium")],
)
def test_slots_that_the_user_set_are_surer_than_a_default(
    given: dict[str, Any], default: dict[str, Any], confidence: str
) -> None:
    run = a_run(set=given, default=default, samples=load((12, FULL_SLOTS)))
    assert advice(run)[SLOTS].confidence == confidence


def test_the_effect_of_more_slots_names_its_share_and_the_next_limit() -> None:
    found = advice(run_of((6, CALM), (6, FULL_SLOTS), seats=64))[SLOTS].effect
    assert found is not None
    assert (found.share, found.next_limit) == (0.5, "client")
    # 94 requests in place of 64, by the run's own slope from 8 requests to 64.
    assert 1.0 < found.low < found.high <= 94 / 64
    assert "64 -> 94 requests at once" in found.basis
    unmeasured = advice(run_of((12, FULL_SLOTS), seats=64))[SLOTS].effect
    assert unmeasured is not None
    assert (unmeasured.low, unmeasured.high, unmeasured.share) == (1.07, pytest.approx(94 / 64), 1.0)
    assert "raised from below the load's concurrency" in unmeasured.basis


@for_each(
    ("seats", "waiting", "usage", "tokens", "wanted"),
    [
        (64, 32, 10.0, None, 128),
        (64, 64, 10.0, None, 128),
        (64, 65, 10.0, None, 256),
        (64, 5000, 1.0, None, 1024),
        (64, 60, 60.0, None, 96),
        (64, 60, 59.0, None, 96),  # 97 by the cache, in steps of eight
        (8, 60, 50.0, None, 14),  # below 16 every request counts
        (64, 60, 0.0, None, 128),
        (64, 60, 10.0, 100, 100),
        (64, 60, 88.0, None, None),
        (80, 60, 81.0, None, 88),  # a tenth more is worth a restart
        (100, 60, 85.0, None, None),
    ],
)
def test_slots_are_raised_for_the_queue_as_far_as_cache_and_step_allow(
    seats: int, waiting: int, usage: float, tokens: int | None, wanted: int | None
) -> None:
    assert max_num_seqs_wanted(seats, waiting, usage, tokens) == wanted


@pytest.mark.parametrize(
    ("usage", "running", "seats", "growth"),
    [(9.0, 8, 256, 10.0), (60.0, 100, 120, 1.2), (0.0, 8, None, 1024), (0.0, 8, 256, 32.0), (45.0, 0, 256, 2.0), (45.0, 8, None, 2.0)],
)  # fmt: skip
def test_requests_can_grow_until_cache_or_slots_are_used_up(
    usage: float, running: int, seats: int | None, growth: float
) -> None:
    assert room_to_grow(usage, running, seats) == growth


@pytest.mark.parametrize(
    ("parts", "limit", "long"),
    [
        # 5 % of the busy time, or a queue of eight over two lines.
        ([(96, CALM), (4, {**FULL_SLOTS, "waiting": 7})], "max-num-seqs-limited", False),
        ([(95, CALM), (5, {**FULL_SLOTS, "waiting": 7})], "max-num-seqs-limited", True),
        ([(98, CALM), (2, {**FULL_SLOTS, "waiting": 8})], "max-num-seqs-limited", True),
        ([(98, CALM), (2, {**FULL_SLOTS, "waiting": 7})], "max-num-seqs-limited", False),
        ([(99, CALM), (1, {**FULL_SLOTS, "waiting": 80})], "max-num-seqs-limited", False),
        ([(9, CALM), (1, FULL_SLOTS)], "max-num-seqs-limited", False),
        ([(9, CALM), (1, {"running": 20, "kv": 96.0, "waiting": 3, "generation": 500.0})], "kv-cache-limited", True),
        ([(9, CALM), (1, {"running": 20, "kv": 93.0, "waiting": 3, "generation": 500.0})], "kv-cache-limited", False),
        # Less than a third of the waiting.
        ([(31, {**CALM, "waiting": 9, "prompt": 9000.0}), (15, FULL_SLOTS)], "max-num-seqs-limited", False),
        ([(30, {**CALM, "waiting": 9, "prompt": 9000.0}), (15, FULL_SLOTS)], "max-num-seqs-limited", True),
        ([(9, CALM)], "max-num-seqs-limited", False),
    ],
)  # fmt: skip
def test_a_limit_counts_when_it_held_long_or_held_back_many(
    parts: list[tuple[int, dict[str, Any]]], limit: Any, long: bool
) -> None:
    run = run_of(*parts, seats=64)
    found = load_of(run)
    case = rule_context(run, found, bottleneck_of(run, found), "balanced")
    assert held_long(case, limit) is long
    if long:
        assert significant(case)


@pytest.mark.parametrize(("hit", "lines", "said"), [(85.0, 6, True), (84.9, 6, False), (85.0, 5, False)])
def test_a_hit_rate_of_most_prompts_is_a_remark_after_a_minute_of_load(
    hit: float, lines: int, said: bool
) -> None:
    found = advice(run_of((lines, {**CALM, "hit": hit})))
    assert ("benchmark-measures-cache" in found) is said


def test_what_is_checked_after_the_change_belongs_to_the_change() -> None:
    """With a cache that holds no more requests nothing is raised: more replicas shorten the queue, and no more run at once."""
    full = advice(a_run(set={"max_num_seqs": 64}, samples=load((12, {**FULL_SLOTS, "kv": 88.0}))))
    found = full["scheduler-limit-not-memory"]
    assert found.changes == ()
    assert found.verify == "`Waiting` falls at the same load."
    assert "has room" not in found.title
    free = advice(a_run(set={"max_num_seqs": 64}, samples=load((12, FULL_SLOTS))))[
        "scheduler-limit-not-memory"
    ]
    assert "goes above 64" in free.verify
