"""Speculative decoding: acceptance, draft length, the token budget."""

from __future__ import annotations

import pytest

from tests.rules.making import a_run, advice, knobs, load
from vllm_logdoctor.rules.performance.order import by_gain

BUSY = {"running": 8, "generation": 400.0, "prompt": 40.0, "kv": 3.0}
PROMPTS_WAIT = {"running": 4, "waiting": 9, "generation": 8.0, "prompt": 4000.0, "kv": 9.0}
WELL_TAKEN = (
    "SpecDecoding metrics: Mean acceptance length: 1.97, Accepted: 630 tokens, Drafted: 652 tokens,"
    " Per-position acceptance rate: 0.966, Avg Draft acceptance rate: 96.6%"
)


def test_drafts_that_are_thrown_away_are_cut_to_the_useful_positions() -> None:
    drafts = {"method": "ngram", "num_speculative_tokens": 5}
    line = (
        "SpecDecoding metrics: Mean acceptance length: 1.40, Accepted throughput: 9.0 tokens/s, Drafted"
        " throughput: 50.0 tokens/s, Accepted: 90 tokens, Drafted: 500 tokens, Per-position acceptance rate:"
        " 0.300, 0.200, 0.060, 0.020, 0.010, Avg Draft acceptance rate: 18.0%"
    )
    run = a_run(
        set={"speculative_config": drafts}, messages=(line,), samples=load((9, {**BUSY, "running": 30}))
    )
    found = advice(run)["spec-decode-not-profitable"]
    assert knobs(found) == {"--speculative-config": {"method": "ngram", "num_speculative_tokens": 2}}
    assert found.effect is not None
    assert "29 measured pairs" in found.effect.basis
    assert "`Mean acceptance length` falls" in found.verify
    assert found.alternatives == (
        "no speculative decoding, if many requests run at once",
        "another drafting method",
    )


@pytest.mark.parametrize(("drafted", "found"), [(249, False), (250, True)])
def test_fewer_than_fifty_steps_do_not_show_which_drafts_are_useful(drafted: int, found: bool) -> None:
    line = rejected(0.3, 0.2, 0.06, 0.02, 0.01, drafted=drafted)
    run = a_run(messages=(line,), samples=load((9, BUSY)))
    assert ("spec-decode-not-profitable" in advice(run)) is found


def test_well_accepted_drafts_are_left_alone() -> None:
    line = (
        "SpecDecoding metrics: Mean acceptance length: 2.60, Per-position acceptance rate: 0.900, 0.700, Avg"
        " Draft acceptance rate: 80.0%"
    )
    assert "spec-decode-not-profitable" not in advice(a_run(messages=(line,)))


def test_draft_slots_that_eat_the_step_raise_the_budget() -> None:
    line = (
        "max_num_scheduled_tokens is set to 1024 based on the speculative decoding settings. This may lead to"
        " suboptimal performance. Consider increasing max_num_batched_tokens"
    )
    queue = load((12, PROMPTS_WAIT))
    run = a_run(set={"max_num_batched_tokens": 2048}, messages=(line,), version="0.21.0", samples=queue)
    assert knobs(advice(run)["speculative-decoding-eats-token-budget"]) == {"--max-num-batched-tokens": 4096}
    calm = a_run(set={"max_num_batched_tokens": 2048}, messages=(line,), version="0.21.0")
    assert not advice(calm)["speculative-decoding-eats-token-budget"].changes


def test_accepted_drafts_of_a_single_stream_are_no_proof_that_drafting_pays() -> None:
    run = a_run(messages=(WELL_TAKEN,), samples=load((1, {"running": 1, "generation": 128.0})))
    found = advice(run)["speculation-not-compared"]
    assert "Acceptance alone does not show a gain" in found.explanation
    assert [change.kind for change in found.changes] == ["action"]
    crowd = a_run(messages=(WELL_TAKEN,), samples=load((9, {**BUSY, "running": 30})))
    assert "speculation-not-compared" not in advice(crowd)


def test_long_drafts_of_a_short_trial_come_before_the_client() -> None:
    rates = "0.660, 0.370, 0.210, 0.130, 0.030, 0.010"
    line = (
        "SpecDecoding metrics: Mean acceptance length: 2.41, Accepted: 300 tokens, Drafted: 1200 tokens,"
        f" Per-position acceptance rate: {rates}, Avg Draft acceptance rate: 23.5%"
    )
    one = {"running": 1, "generation": 26.0, "kv": 0.1}
    trial = advice(a_run(messages=(line,), samples=load((3, one))))
    long_run = advice(a_run(messages=(line,), samples=load((30, one))))
    assert next(iter(trial)) == "spec-decode-not-profitable"
    assert next(iter(long_run)) == "client-concurrency-bound"
    # What limits a long run is its client; what to change first are the drafts.
    assert next(iter(by_gain(long_run.values()))).id == "spec-decode-not-profitable"


def test_drafts_that_are_never_taken_come_before_a_client_that_sends_little() -> None:
    line = (
        "Speculative metrics: Draft acceptance rate: 0.000, System efficiency: 0.059, Number of speculative tokens: 16,"
        " Number of accepted tokens: 0, Number of draft tokens: 42272, Number of emitted tokens: 2642."
    )
    found = advice(a_run(messages=(line,), engine="V0", version="0.5.3", samples=load((9, BUSY))))
    assert next(iter(found)) == "spec-decode-not-profitable"
    assert "made for this model" in found["spec-decode-not-profitable"].explanation


def test_acceptance_is_judged_over_all_intervals_and_not_by_the_last_line() -> None:
    def line(accepted: int, rate: float) -> str:
        return (
            f"SpecDecoding metrics: Mean acceptance length: 2.5, Accepted: {accepted} tokens, Drafted: 1000 tokens,"
            f" Per-position acceptance rate: {rate}, {rate}, Avg Draft acceptance rate: {100 * rate:.1f}%"
        )

    poor_end = a_run(messages=(line(800, 0.8), line(700, 0.7), line(100, 0.1)), samples=load((9, BUSY)))
    assert "spec-decode-not-profitable" not in advice(poor_end)


def test_drafts_of_which_hardly_the_first_token_is_taken_are_given_up() -> None:
    drafts = {"method": "ngram", "num_speculative_tokens": 3}
    line = (
        "SpecDecoding metrics: Mean acceptance length: 1.09, Accepted: 9 tokens, Drafted: 300 tokens,"
        " Per-position acceptance rate: 0.050, 0.020, 0.010, Avg Draft acceptance rate: 2.7%"
    )
    found = advice(
        a_run(
            set={"speculative_config": drafts}, messages=(line,), samples=load((9, {**BUSY, "running": 30}))
        )
    )
    assert next(iter(found)) == "spec-decode-not-profitable"
    assert knobs(found["spec-decode-not-profitable"]) == {"--speculative-config": None}
    assert "no line on drafted tokens any more" in found["spec-decode-not-profitable"].verify
    assert "made for this model" not in found["spec-decode-not-profitable"].explanation
    # To run without drafts is the change itself, and its effect is not that of shorter drafts.
    assert found["spec-decode-not-profitable"].alternatives == ("another drafting method",)
    assert found["spec-decode-not-profitable"].effect is None


def test_four_tokens_a_step_need_no_comparison_without_drafts() -> None:
    line = (
        "SpecDecoding metrics: Mean acceptance length: 4.00, Accepted: 264 tokens, Drafted: 264 tokens,"
        " Per-position acceptance rate: 1.000, 1.000, 1.000, Avg Draft acceptance rate: 100.0%"
    )
    run = a_run(messages=(line,), samples=load((9, {"running": 1, "generation": 35.0, "kv": 56.0})))
    assert "speculation-not-compared" not in advice(run)


def test_drafts_of_which_none_is_accepted_are_given_up_where_rates_by_position_are_not_printed() -> None:
    line = (
        "Speculative metrics: Draft acceptance rate: 0.000, System efficiency: 0.059, Number of speculative tokens: 16,"
        " Number of accepted tokens: 0, Number of draft tokens: 30144, Number of emitted tokens: 1884."
    )
    found = advice(a_run(messages=(line,), samples=load((9, BUSY))))["spec-decode-not-profitable"]
    assert found.explanation.startswith("No drafted token is accepted")
    assert list(knobs(found)) == ["run without speculative decoding"]


def rejected(*rates: float, drafted: int = 1000) -> str:
    """A line of V1 on drafts of which each position is taken so often."""
    share = sum(rates) / len(rates) if rates else 0.3
    positions = (
        f" Per-position acceptance rate: {', '.join(f'{rate:.3f}' for rate in rates)}," if rates else ""
    )
    return (
        f"SpecDecoding metrics: Mean acceptance length: {1 + sum(rates):.2f}, Accepted: {int(share * drafted)} tokens, Drafted: {drafted} tokens,"
        f"{positions} Avg Draft acceptance rate: {100 * share:.1f}%"
    )


FEW_OF_FIVE = rejected(0.3, 0.2, 0.06, 0.02, 0.01)
NEVER = rejected(0.1, 0.04, 0.01)


@pytest.mark.parametrize(
    ("given", "reported", "line", "expected"),
    [
        ({"method": "ngram", "num_speculative_tokens": 5}, None, FEW_OF_FIVE, {"--speculative-config": {"method": "ngram", "num_speculative_tokens": 2}}),
        # What the user did not write as a mapping can't be written anew: the number is named in words.
        (None, {"method": "ngram", "num_speculative_tokens": 5}, FEW_OF_FIVE, {"draft fewer tokens a step (5 -> 2), or none": None}),
        ("ngram", None, FEW_OF_FIVE, {"draft fewer tokens a step (5 -> 2), or none": None}),
        # Each of two positions is worth drafting, though little of both is taken: no smaller number to name.
        (None, {"method": "ngram", "num_speculative_tokens": 2}, rejected(0.4, 0.2), {"draft fewer tokens a step, or none": None}),
        ({"method": "ngram", "num_speculative_tokens": 2}, None, rejected(0.4, 0.2), {"draft fewer tokens a step, or none": None}),
        ({"method": "ngram", "num_speculative_tokens": 3}, None, NEVER, {"--speculative-config": None}),
        (None, {"method": "ngram", "num_speculative_tokens": 3}, NEVER, {"run without speculative decoding": None}),
    ],
)  # fmt: skip
def test_what_is_proposed_for_drafts_that_are_thrown_away(
    given: object, reported: object, line: str, expected: dict[str, object]
) -> None:
    run = a_run(
        set={"speculative_config": given} if given else {},
        reported={"speculative_config": reported} if reported else {},
        messages=(line,),
        samples=load((9, BUSY)),
    )
    assert knobs(advice(run)["spec-decode-not-profitable"]) == expected


@pytest.mark.parametrize(
    ("rates", "wasteful"),
    [
        ((0.4, 0.398), True),  # 39.9 % of the drafts are taken
        ((0.4, 0.402), False),
        ((0.3,), False),  # a single drafted token costs little
        ((0.9, 0.5, 0.149), True),  # three positions, of which the last is hardly ever taken
        ((0.9, 0.5, 0.151), False),
        ((0.9, 0.14), False),
    ],
)
def test_drafts_are_wasted_below_two_in_five_or_where_the_last_of_three_is_hardly_taken(
    rates: tuple[float, ...], wasteful: bool
) -> None:
    found = advice(a_run(messages=(rejected(*rates),), samples=load((9, BUSY))))
    assert ("spec-decode-not-profitable" in found) is wasteful


@pytest.mark.parametrize(
    ("method", "running", "basis"),
    [
        ("ngram", 17, "29 measured pairs from 2 sources"),
        ("ngram", 16, None),
        ("deepseek_mtp", 2, "middle half of 19 measured pairs from 3 sources"),
        ("deepseek_mtp", 17, None),
        ("deepseek_mtp", 1, None),
        ("eagle3", 16, "middle half of 12 measured pairs from one source"),
        ("medusa", 8, None),
    ],
)
def test_the_published_effect_of_no_drafts_is_that_of_the_method_and_the_load(
    method: str, running: int, basis: str | None
) -> None:
    run = a_run(
        set={"speculative_config": {"method": method, "num_speculative_tokens": 5}},
        messages=(FEW_OF_FIVE,),
        samples=load((9, {**BUSY, "running": running})),
    )
    effect = advice(run)["spec-decode-not-profitable"].effect
    assert (effect.basis.split(", median")[0] if effect else None) == basis


@pytest.mark.parametrize(
    ("line", "confidence", "severity"),
    [
        (FEW_OF_FIVE, "medium", "medium"),
        (rejected(0.3, 0.2, 0.06, 0.02, 0.01, drafted=499), "low", "medium"),
        (rejected(0.4, 0.2), "low", "medium"),  # each position is worth drafting
        (NEVER, "high", "high"),
    ],
)
def test_the_more_was_drafted_for_nothing_the_surer_is_the_finding(
    line: str, confidence: str, severity: str
) -> None:
    found = advice(a_run(messages=(line,), samples=load((9, BUSY))))["spec-decode-not-profitable"]
    assert (found.confidence, found.severity) == (confidence, severity)


@pytest.mark.parametrize(
    ("running", "rates", "drafted", "asked"),
    [
        (1, (0.7,), 1000, True),
        (4, (0.7,), 1000, True),
        (5, (0.7,), 1000, False),
        (1, (0.7,), 99, False),  # one prompt
        (1, (0.7,), 100, True),
        (1, (0.95, 0.95), 1000, True),  # 2.9 tokens a step
        (1, (1.0, 1.0), 1000, False),  # three tokens a step, and nearly all of them taken
    ],
)
def test_a_comparison_without_drafts_is_asked_for_at_few_requests(
    running: int, rates: tuple[float, ...], drafted: int, asked: bool
) -> None:
    run = a_run(
        messages=(rejected(*rates, drafted=drafted),), samples=load((9, {**BUSY, "running": running}))
    )
    assert ("speculation-not-compared" in advice(run)) is asked


@pytest.mark.parametrize(
    ("budget", "left", "proposed"),
    [(2048, 1024, 4096), (2048, 1638, 4096), (2048, 1639, None), (None, 1024, 0)],
)
def test_a_budget_that_drafts_leave_little_of_is_doubled(
    budget: int | None, left: int, proposed: int | None
) -> None:
    line = (
        f"max_num_scheduled_tokens is set to {left} based on the speculative decoding settings. This may lead to"
        " suboptimal performance. Consider increasing max_num_batched_tokens"
    )
    settings = {"max_num_batched_tokens": budget} if budget else {}
    run = a_run(set=settings, messages=(line,), version="0.21.0", samples=load((12, PROMPTS_WAIT)))
    found = advice(run).get("speculative-decoding-eats-token-budget")
    assert (found and knobs(found).get("--max-num-batched-tokens", 0)) == proposed


def test_rates_by_position_are_told_where_they_are_printed() -> None:
    printed = advice(a_run(messages=(rejected(0.3, 0.2, 0.06, drafted=500),), samples=load((9, BUSY))))
    assert "; by position 30 %, 20 %, 6 %. Drafted tokens cost time" in printed["spec-decode-not-profitable"].explanation  # fmt: skip
    mean = "SpecDecoding metrics: Mean acceptance length: 1.10, Accepted: 10 tokens, Drafted: 500 tokens, Avg Draft acceptance rate: 2.0%"
    plain = advice(a_run(messages=(mean,), samples=load((9, BUSY)))).get("spec-decode-not-profitable")
    assert plain is None or "by position" not in plain.explanation
