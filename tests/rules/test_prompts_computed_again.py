"""Prompts of preempted requests are computed again without being counted, and what waits and runs is of the same lines."""

from __future__ import annotations

from tests.rules.making import a_run, advice, load
from vllm_logdoctor.rules.bottleneck import bottleneck_of

FILLING = {"running": 40, "waiting": 120, "kv": 50.0, "generation": 100.0, "prompt": 9000.0}
FULL = {"running": 70, "waiting": 90, "kv": 99.0, "generation": 1400.0}


def again(number: int, each: float) -> tuple[int, dict[str, float]]:
    """Return a line in which 9 requests fewer wait than in the one before, and no prompt is counted."""
    running = 60 - 9 * number
    return 1, {
        "running": running,
        "waiting": 80 - 9 * number,
        "kv": 70.0 - 9 * number,
        "generation": each * running,
    }


def test_preempted_requests_that_are_computed_again_are_prompts_in_the_steps() -> None:
    samples = load((2, FILLING), (8, FULL), *(again(number, 1.7) for number in range(4)))
    run = a_run(set={"max_num_seqs": 256}, samples=samples)
    found = bottleneck_of(run)
    assert found.name == "kv-cache-limited"
    assert "by prefill (6 lines)" in found.reason
    assert (
        "In 4 of them the queue got shorter and no prompt is counted"
        in advice(run)["prefill-bound-queueing"].explanation
    )


def test_a_queue_that_gets_shorter_at_full_speed_shows_no_prompts() -> None:
    samples = load((2, FILLING), (8, FULL), *(again(number, 20.0) for number in range(4)))
    assert "by prefill (2 lines)" in bottleneck_of(a_run(set={"max_num_seqs": 256}, samples=samples)).reason


def test_a_single_large_request_before_a_queue_leaves_open_whether_the_cache_or_max_num_seqs_holds_it() -> (
    None
):
    reason = bottleneck_of(
        a_run(samples=load((3, {"running": 1, "waiting": 14, "kv": 76.0, "generation": 5.4})))
    ).reason
    assert (
        "its free part was too small for the next one, or max_num_seqs, which is not in the log, was reached"
        in reason
    )


def test_requests_that_wait_and_run_are_counted_in_the_same_lines() -> None:
    crowd = {"running": 200, "waiting": 0, "kv": 97.0, "generation": 2000.0}
    reason = bottleneck_of(a_run(samples=load((3, crowd), (5, FULL)))).reason
    assert "in all 8 statistics lines" in reason
    assert "up to 90 requests waited while at most 70 ran" in reason
