"""Rules on the load: what is advised, what is not, and the numbers that go with it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.rules.making import a_run, advice, knobs, load
from vllm_logdoctor.plan.planned import planned_run
from vllm_logdoctor.rules.model import Finding
from vllm_logdoctor.rules.performance.serving import max_num_seqs_wanted

UNDER_USED = {"running": 8, "generation": 412.2, "prompt": 78.5, "kv": 1.6}
QUEUE = {"running": 64, "waiting": 31, "kv": 9.9, "generation": 5300.0}
FULL = {"running": 36, "waiting": 131, "kv": 99.7, "generation": 60.0}


def test_an_under_used_server_learns_that_its_client_is_the_limit_and_gets_no_flag() -> None:
    found = advice(a_run(default={"max_num_seqs": 256}, samples=load((30, UNDER_USED))))
    assert next(iter(found)) == "client-concurrency-bound"
    bound = found["client-concurrency-bound"]
    assert "248 of 256 max_num_seqs slots free" in bound.explanation
    assert "98 % of the KV cache" in bound.explanation
    assert all(change.kind == "action" for change in bound.changes)
    assert "scheduler-limit-not-memory" not in found
    assert "kv-cache-preemption" not in found


def test_a_client_that_sends_long_prompts_for_short_answers_is_not_asked_to_send_more() -> None:
    reading = {"running": 2, "kv": 9.0, "prompt": 9000.0, "generation": 60.0}
    found = advice(a_run(set={"max_num_seqs": 256}, samples=load((12, reading))))["client-concurrency-bound"]
    assert found.changes == ()
    assert found.effect is None
    assert "9,000 prompt tokens/s" in found.explanation
    writing = {**reading, "prompt": 600.0}
    found = advice(a_run(set={"max_num_seqs": 256}, samples=load((12, writing))))["client-concurrency-bound"]
    assert found.changes != ()


def test_low_kv_usage_never_raises_slots_or_memory() -> None:
    found = advice(
        a_run(set={"max_num_seqs": 16, "gpu_memory_utilization": 0.5}, samples=load((30, UNDER_USED)))
    )
    proposed = {change.knob for finding in found.values() for change in finding.changes}
    assert not proposed & {"--max-num-seqs", "--gpu-memory-utilization", "--kv-cache-dtype"}


def test_a_cap_below_the_load_is_raised_to_take_the_queue() -> None:
    run = a_run(set={"max_num_seqs": 64}, samples=load((5, QUEUE)))
    found = advice(run)
    assert next(iter(found)) == "scheduler-limit-not-memory"
    assert knobs(found["scheduler-limit-not-memory"]) == {"--max-num-seqs": 128}
    assert "client-concurrency-bound" not in found


def test_a_cap_is_said_to_hold_for_its_share_of_the_busy_time() -> None:
    run = a_run(set={"max_num_seqs": 64}, samples=load((8, QUEUE), (8, UNDER_USED)))
    assert "In 8 of 16 statistics lines with load" in advice(run)["scheduler-limit-not-memory"].explanation


def test_slots_that_are_taken_are_counted_in_lines_however_long_the_load_is() -> None:
    """An interval at whose end the queue is gone is the cap's, and its line shows no slot that is taken."""
    ended = {"generation": 4000.0, "prompt": 9.0}
    calm = (30, {"running": 1, "generation": 90.0})
    run = a_run(set={"max_num_seqs": 64}, samples=load(calm, (3, QUEUE), (1, ended), calm))
    said = advice(run)["scheduler-limit-not-memory"].explanation
    assert said.startswith("In 3 of 64 statistics lines with load")


def test_the_gain_of_more_slots_is_bounded_by_the_queue_that_was_seen() -> None:
    run = a_run(set={"max_num_seqs": 64}, samples=load((5, {**QUEUE, "waiting": 8})))
    effect = advice(run)["scheduler-limit-not-memory"].effect
    assert effect is not None
    assert effect.high == pytest.approx(72 / 64)
    assert "8 measured pairs" in effect.basis


def test_one_slot_has_its_own_range() -> None:
    run = a_run(set={"max_num_seqs": 1}, samples=load((5, {"running": 1, "waiting": 19, "kv": 0.9})))
    effect = advice(run)["scheduler-limit-not-memory"].effect
    assert effect is not None
    assert (effect.low, effect.high) == (5.21, 14.21)


def test_a_short_rush_behind_one_slot_is_reported_even_when_the_day_was_quiet() -> None:
    run = a_run(
        set={"max_num_seqs": 1},
        samples=load(
            (3000, {"running": 1, "generation": 22.0}), (45, {"running": 1, "waiting": 19, "kv": 0.9})
        ),
    )
    assert "scheduler-limit-not-memory" in advice(run)


def test_a_batch_that_is_offered_at_once_waits_for_prompts_not_for_slots() -> None:
    run = a_run(
        set={"max_num_seqs": 192},
        samples=load(
            (90, {"running": 128, "waiting": 9000, "kv": 33.0, "prompt": 9000.0, "generation": 900.0}),
            (9, {"running": 192, "waiting": 900, "kv": 36.0, "prompt": 9000.0, "generation": 900.0}),
        ),
    )
    found = advice(run)
    assert "scheduler-limit-not-memory" not in found
    assert "prefill-bound-queueing" in found


def test_a_full_cache_comes_first_and_advises_against_more_slots() -> None:
    found = advice(a_run(samples=load((20, FULL))))
    assert next(iter(found)) == "kv-cache-preemption"
    assert "--max-num-seqs" in found["kv-cache-preemption"].avoid
    assert "--max-num-seqs" not in knobs(found["kv-cache-preemption"])


def test_a_cache_that_fills_up_without_a_queue_is_reported_and_gets_no_change() -> None:
    found = advice(a_run(samples=load((5, {"running": 8, "kv": 95.8, "generation": 240.0}))))
    assert found["kv-cache-preemption"].confidence == "medium"
    assert found["kv-cache-preemption"].severity == "low"
    assert not found["kv-cache-preemption"].changes


def test_preemptions_that_are_printed_need_no_full_sample() -> None:
    run = a_run(samples=load((20, {"running": 8, "kv": 60.0, "generation": 240.0})))
    run.extremes.preemptions = 12
    assert "12 preemptions" in advice(run)["kv-cache-preemption"].explanation


def test_utilization_below_the_default_of_the_version_is_raised_to_it_with_a_computed_effect() -> None:
    run = a_run(
        set={"gpu_memory_utilization": 0.60},
        measured={"kv_cache_tokens": 42624, "available_kv_cache_gib": 7.83, "model_weights_gib": 27.5},
        samples=load((20, FULL)),
        version="0.11.2",
    )
    found = advice(run)["kv-cache-preemption"]
    assert knobs(found)["--gpu-memory-utilization"] == pytest.approx(0.9)
    assert found.effect is not None
    assert found.effect.origin == "computed"
    assert found.effect.low == 1.0
    assert found.effect.high <= 2.66


def test_a_fixed_number_of_blocks_is_dropped_before_anything_else() -> None:
    run = a_run(
        set={"num_gpu_blocks_override": 40},
        measured={"kv_cache_tokens": 640, "available_kv_cache_gib": 20.0},
        samples=load((20, FULL)),
    )
    assert knobs(advice(run)["kv-cache-preemption"]) == {"--num-gpu-blocks-override": None}


def test_without_a_fixed_number_the_cache_has_the_blocks_that_the_engine_had_counted() -> None:
    run = a_run(
        set={"num_gpu_blocks_override": 40, "max_model_len": 4096},
        measured={"kv_cache_tokens": 5120, "max_concurrency": 1.25},
        messages=("Overriding num_gpu_blocks=4096 with num_gpu_blocks_override=40",),
        samples=load((20, {"running": 7, "waiting": 17, "kv": 98.0})),
        platform="cpu",
    )
    found = advice(run)["kv-cache-preemption"]
    assert "102 x the tokens" in found.effect.basis
    assert found.effect.next_limit == "client"
    planned = planned_run(run, found.changes)
    assert planned.after.tokens == 524_288
    assert (planned.run.samples[0].running, planned.run.samples[0].waiting) == (24, 0)


def test_at_the_default_utilization_an_fp8_cache_is_proposed_as_changing_results() -> None:
    run = a_run(
        set={"dtype": "bfloat16"},
        default={"gpu_memory_utilization": 0.9, "kv_cache_dtype": "auto"},
        samples=load((20, FULL)),
    )
    found = advice(run)["kv-cache-preemption"]
    assert knobs(found) == {"--kv-cache-dtype": "fp8"}
    assert found.changes[0].safety == "changes-results"


def test_a_cpu_gets_more_cache_by_its_variable() -> None:
    measured = {"kv_cache_tokens": 64_000, "available_kv_cache_gib": 4.0}
    known = a_run(platform="cpu", measured=measured, samples=load((20, FULL)))
    assert knobs(advice(known)["kv-cache-preemption"])["VLLM_CPU_KVCACHE_SPACE"] == 8
    unknown = advice(a_run(platform="cpu", samples=load((20, FULL))))["kv-cache-preemption"]
    assert unknown.changes[0].kind == "action"


def test_prompts_that_fill_the_steps_are_distinguished_from_missing_slots() -> None:
    figures = {"running": 2, "waiting": 2, "kv": 3.6, "prompt": 1486.5, "generation": 1.3}
    found = advice(
        a_run(set={"max_num_seqs": 32}, samples=load((9, {"running": 1, "generation": 9.0}), (4, figures)))
    )
    assert next(iter(found)) == "prefill-bound-queueing"
    assert "slots are free" in found["prefill-bound-queueing"].avoid


def test_a_single_waiting_request_now_and_then_is_no_limit() -> None:
    figures = {"running": 2, "waiting": 1, "kv": 3.6, "prompt": 1486.5, "generation": 1.3}
    found = advice(
        a_run(set={"max_num_seqs": 32}, samples=load((50, {"running": 1, "generation": 9.0}), (3, figures)))
    )
    assert "prefill-bound-queueing" not in found
    assert "client-concurrency-bound" in found


def test_a_minute_of_load_is_the_least_to_advise_a_client_by() -> None:
    assert not advice(a_run(samples=load((5, UNDER_USED))))["client-concurrency-bound"].changes
    minute = advice(a_run(samples=load((6, UNDER_USED))))["client-concurrency-bound"]
    assert "check the client" in minute.explanation
    assert minute.changes


@pytest.mark.parametrize(
    ("running", "words"),
    [
        ((1, 1), "one request after the other"),
        ((16, 16), "hardly changes"),
        ((4, 16), "steps that wait for each other"),
    ],
)
def test_what_to_check_of_a_client_follows_from_what_ran_at_once(
    running: tuple[int, int], words: str
) -> None:
    usual, peak = ({**UNDER_USED, "running": number} for number in running)
    found = advice(a_run(samples=load((20, usual), (4, peak))))["client-concurrency-bound"]
    assert words in found.explanation


def test_a_number_that_falls_again_and_again_is_no_limit_of_the_client() -> None:
    lines = load(*[(2, {**UNDER_USED, "running": number}) for number in (52, 61, 15, 56, 21, 60)])
    assert "hardly changes" not in advice(a_run(samples=lines))["client-concurrency-bound"].explanation


LONG_PROMPT = {"running": 1, "generation": 0.8, "prompt": 13_000.0, "kv": 1.4}


def test_a_client_whose_long_prompts_take_the_steps_is_not_asked_for_more_requests() -> None:
    reading = advice(a_run(samples=load((12, UNDER_USED), (11, LONG_PROMPT))))["client-concurrency-bound"]
    assert not reading.changes
    assert "In 48 % of the time with requests the steps computed prompts" in reading.explanation
    answering = advice(a_run(samples=load((20, UNDER_USED), (4, LONG_PROMPT))))["client-concurrency-bound"]
    assert "requests at once from the client" in answering.changes[0].knob


BEHIND_PROMPTS = {"running": 2, "waiting": 1, "kv": 3.6, "prompt": 1486.5, "generation": 1.3}


@pytest.mark.parametrize(("lines", "waiting", "advised"), [(4, 1, False), (4, 60, True), (6, 1, True)])
def test_another_replica_needs_more_than_a_moment_of_a_short_queue(
    lines: int, waiting: int, advised: bool
) -> None:
    run = a_run(set={"max_num_seqs": 256}, samples=load((lines, {**BEHIND_PROMPTS, "waiting": waiting})))
    found = advice(run)["prefill-bound-queueing"]
    assert any("replica" in change.knob for change in found.changes) == advised


def test_lines_that_prompts_limit_are_counted_whole_and_those_with_a_queue_of_them() -> None:
    behind = (6, BEHIND_PROMPTS), (2, {**BEHIND_PROMPTS, "waiting": 0})
    text = advice(a_run(set={"max_num_seqs": 256}, samples=load(*behind)))[
        "prefill-bound-queueing"
    ].explanation
    assert text.startswith("In all 8 statistics lines with load up to 1 request waited (in 6 of them)")


def test_steps_of_which_drafts_leave_little_for_prompts_are_made_larger() -> None:
    warning = (
        "max_num_scheduled_tokens is set to 2048 based on the speculative decoding settings. This may lead to suboptimal"
        " performance. Consider increasing max_num_batched_tokens to accommodate the additional draft token slots, or"
        " decrease num_speculative_tokens or max_num_seqs."
    )
    run = a_run(
        set={"max_num_seqs": 256},
        messages=(warning,),
        samples=load((9, BEHIND_PROMPTS)),
        version="0.25.1",
    )
    assert knobs(advice(run)["prefill-bound-queueing"]) == {"--max-num-batched-tokens": 8192}


def test_a_hit_rate_near_the_whole_is_a_remark_on_benchmarks_not_a_defect() -> None:
    found = advice(a_run(samples=load((30, {**UNDER_USED, "hit": 93.1}))))
    assert found["benchmark-measures-cache"].severity == "info"


def test_no_load_no_rule_on_load() -> None:
    assert not advice(a_run(samples=load((9, {}))))


@given(st.integers(1, 600), st.integers(1, 5000), st.floats(0.1, 89.0), st.sampled_from([256, 2048, None]))
def test_more_slots_never_overfill_cache_or_step(
    max_num_seqs: int, waiting: int, usage: float, tokens: int | None
) -> None:
    wanted = max_num_seqs_wanted(max_num_seqs, waiting, usage, tokens)
    if wanted is not None:
        assert wanted > max_num_seqs
        assert wanted / max_num_seqs * usage <= 90.0 + 1e-6
        assert tokens is None or wanted <= tokens


def test_where_the_cache_holds_no_more_no_number_of_slots_is_proposed() -> None:
    run = a_run(set={"max_num_seqs": 64}, samples=load((9, {**QUEUE, "kv": 86.0})))
    found = advice(run)["scheduler-limit-not-memory"]
    assert not found.changes
    assert found.effect is None


def test_one_statistics_line_is_a_moment_and_no_load() -> None:
    assert "client-concurrency-bound" not in advice(a_run(samples=load((1, UNDER_USED))))


def test_an_old_engine_is_not_asked_for_what_the_new_one_does_not_print() -> None:
    full = load((6, {"running": 200, "waiting": 700, "kv": 99.7}))
    old = advice(a_run(samples=full, engine="V0", version="0.5.3"))["kv-cache-preemption"]
    new = advice(a_run(samples=full))["kv-cache-preemption"]
    assert "V1" not in old.explanation
    assert "preemption in fifty" in old.explanation
    assert "fifty" not in new.explanation
    assert "in all 6 statistics lines with load" in new.explanation


def test_a_full_cache_for_which_nothing_waits_gets_no_more_memory() -> None:
    run = a_run(
        set={"gpu_memory_utilization": 0.9},
        measured={"kv_cache_tokens": 400_000, "available_kv_cache_gib": 50.0, "model_weights_gib": 16.0},
        samples=load((20, {"running": 30, "kv": 96.5, "generation": 960.0})),
    )
    found = advice(run)["kv-cache-preemption"]
    assert not found.changes
    assert "wait" not in found.title
    assert "waiting" not in found.explanation


def test_requests_that_make_more_tokens_than_one_sequence_can_hold_many_of_them() -> None:
    figures = {"running": 2, "waiting": 98, "kv": 80.0}
    many = advice(a_run(samples=load((3, {**figures, "generation": 7200.0}))))["kv-cache-preemption"]
    one = advice(a_run(samples=load((3, {**figures, "generation": 90.0}))))["kv-cache-preemption"]
    assert "best_of" in many.changes[0].knob
    assert "max_tokens" in one.changes[0].knob


def test_preempted_requests_fill_the_steps_with_prompts_so_that_the_cache_comes_first() -> None:
    queue = (11, {"running": 40, "waiting": 300, "kv": 30.0, "prompt": 9000.0, "generation": 20.0})
    full = (9, {"running": 90, "waiting": 300, "kv": 99.0, "prompt": 9000.0, "generation": 20.0})
    run = a_run(set={"max_num_seqs": 512}, samples=load(queue, full))
    assert next(iter(advice(run))) == "prefill-bound-queueing"
    run.extremes.preemptions = 50
    assert next(iter(advice(run))) == "kv-cache-preemption"


def test_requests_that_go_back_to_the_queue_without_a_new_prompt_were_probably_preempted() -> None:
    falling = [
        a_sample
        for running, waiting in ((40, 100), (37, 103), (31, 109))
        for a_sample in load((1, {"running": running, "waiting": waiting, "kv": 99.7, "prompt": 0.0, "generation": 900.0}))
    ]  # fmt: skip
    steady = load((3, {"running": 40, "waiting": 100, "kv": 99.7, "prompt": 0.0, "generation": 900.0}))
    words = "fell from 40 to 31 while waiting ones rose from 100 to 109"
    assert words in advice(a_run(samples=falling))["kv-cache-preemption"].explanation
    assert "fell" not in advice(a_run(samples=steady))["kv-cache-preemption"].explanation


def long_prompts(tokens: int | None, rate: float = 19_000.0) -> dict[str, Finding]:
    """Prompts that are counted ninety seconds behind the only line that vLLM prints meanwhile."""
    quiet, counted = (
        {"running": 1, "generation": 0.0, "kv": 4.0},
        {"running": 1, "generation": 0.8, "kv": 2.0},
    )
    lines = load(*[(1, quiet), (1, counted | {"prompt": rate})] * 6)
    late = [replace(one, time=60.0 * (number // 2) + 50.0 * (number % 2)) for number, one in enumerate(lines)]
    given = {"max_num_seqs": 32} | ({"max_num_batched_tokens": tokens} if tokens else {})
    return advice(a_run(set=given, samples=late))


def test_prompts_of_minutes_in_small_steps_lead_to_larger_ones() -> None:
    found = long_prompts(2048)["long-wait-for-first-token"]
    assert knobs(found) == {"--max-num-batched-tokens": 8192}
    assert "190,000 tokens in about 50 s, about 3,800 prompt tokens/s" in found.explanation


def test_prompts_of_minutes_in_large_steps_lead_to_no_setting() -> None:
    assert "long-wait-for-first-token" not in long_prompts(8192)


def test_short_prompts_behind_a_silence_are_no_long_wait_for_prompts() -> None:
    assert "long-wait-for-first-token" not in long_prompts(2048, rate=500.0)
