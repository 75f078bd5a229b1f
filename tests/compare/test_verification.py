"""A plan is held against the next log: its changes and its predictions."""

from __future__ import annotations

from typing import Any

import pytest
from compare_samples import finding, planned, samples, snapshot

from tests.tables import for_each
from vllm_logdoctor.comparison.verification import Verification, verify
from vllm_logdoctor.comparison.verification_markdown import render
from vllm_logdoctor.comparison.writers import result_of_comparison, result_of_verification
from vllm_logdoctor.plan.model import Plan, PlannedChange
from vllm_logdoctor.report.writers import render_result
from vllm_logdoctor.rules.model import Change, Effect, Finding


def checked(change: PlannedChange, after: dict[str, Any]) -> tuple[str, str]:
    before = snapshot({"seed": 0}, plan=Plan((change,)))
    (one,) = verify(before, snapshot({**after, "seed": 0})).changes
    return one.state, one.note


@for_each(
    ("change", "after", "state"),
    [
        (planned("--max-num-seqs", 1, 32), {"max_num_seqs": 32}, "took-effect"),
        (planned("--max-num-seqs", 1, 32), {"max_num_seqs": 1}, "not-applied"),
        (planned("--max-num-seqs", 1, 32), {"max_num_seqs": 64}, "other-value"),
        (planned("--max-num-seqs", 1, 32), {}, "unknown"),
        (planned("--gpu-memory-utilization", 0.8, 0.9), {"gpu_memory_utilization": "0.90"}, "took-effect"),
        (planned("--enforce-eager", True, None), {"enforce_eager": True}, "not-applied"),
        (planned("--enforce-eager", True, None), {"enforce_eager": False}, "took-effect"),
        (planned("--enforce-eager", True, None), {}, "took-effect"),
        (planned("--async-scheduling", False, None), {"async_scheduling": False}, "not-applied"),
        (planned("--no-enable-prefix-caching", None, True), {"enable_prefix_caching": False}, "took-effect"),
        (planned("--no-enable-prefix-caching", True, None), {"enable_prefix_caching": True}, "took-effect"),
        (planned("--no-enable-prefix-caching", True, None), {"enable_prefix_caching": False}, "not-applied"),
        (
            planned("--compilation-config.cudagraph_mode", None, "FULL"),
            {"compilation_config": {"cudagraph_mode": "FULL"}},
            "took-effect",
        ),
    ],
)
def test_a_change_is_looked_for_in_the_next_configuration(
    change: PlannedChange, after: dict[str, Any], state: str
) -> None:
    assert checked(change, after)[0] == state


@pytest.mark.parametrize("kind", ["env", "action"])
def test_what_no_log_shows_is_not_guessed(kind: Any) -> None:
    change = PlannedChange(Change("VLLM_CACHE_ROOT", kind, None, "/cache"), ())
    assert checked(change, {})[0] == "unknown"


@pytest.mark.parametrize(("shown", "state"), [("/cache", "took-effect"), ("/other", "other-value")])
def test_a_variable_that_the_next_log_shows_is_checked(shown: str, state: str) -> None:
    change = PlannedChange(Change("VLLM_CACHE_ROOT", "env", None, "/cache"), ())
    after = snapshot({"seed": 0}, environment={"VLLM_CACHE_ROOT": shown})
    (one,) = verify(snapshot({"seed": 0}, plan=Plan((change,))), after).changes
    assert one.state == state


def predicted(
    effect: Effect, before: dict[str, Any], after: dict[str, Any], knob: str = "--gpu-memory-utilization"
) -> Verification:
    field = knob.lstrip("-").replace("-", "_")
    expects = finding("rule", knob, effect, after=0.9)
    plan = Plan((planned(knob, 0.8, 0.9, "rule"),))
    return verify(
        snapshot({field: 0.8}, findings=(expects,), plan=plan, **before), snapshot({field: 0.9}, **after)
    )


@pytest.mark.parametrize(
    ("tokens", "state"),
    [
        (1185, "less"),
        (1190, "as-predicted"),
        (1300, "as-predicted"),
        (1410, "as-predicted"),
        (1420, "more"),
    ],
)
def test_a_prediction_of_the_cache_is_held_against_the_engines_own_number(tokens: int, state: str) -> None:
    effect = Effect("kv_cache_tokens", 1.2, 1.4, "computed", "")
    result = predicted(
        effect, {"measured": {"kv_cache_tokens": 1000}}, {"measured": {"kv_cache_tokens": tokens}}
    )
    (one,) = result.predictions
    assert (one.state, one.ratio) == (state, tokens / 1000)


def test_a_prediction_of_speed_is_held_against_equal_load() -> None:
    effect = Effect("generation_throughput", 1.05, 1.3, "published", "")
    before, after = samples(4, 100, 30), samples(4, 120, 30) + samples(64, 1000, 10)
    result = predicted(effect, {"series": before}, {"series": after}, "--async-scheduling")
    (one,) = result.predictions
    assert one.state == "as-predicted"
    assert one.ratio == pytest.approx(1.2, rel=0.01)
    assert "equal load" in one.note


def test_a_prediction_of_speed_is_not_judged_where_the_load_was_another() -> None:
    effect = Effect("generation_throughput", 1.05, 1.3, "published", "")
    result = predicted(
        effect, {"series": samples(1, 50, 30)}, {"series": samples(64, 2000, 30)}, "--async-scheduling"
    )
    (one,) = result.predictions
    assert (one.state, one.ratio) == ("unknown", None)
    assert "the load differs too much" in one.note


def test_room_for_more_requests_is_judged_where_requests_waited() -> None:
    effect = Effect("generation_throughput", 5, 20, "published", "")
    before = samples(1, 50, 30, waiting=10)
    result = predicted(effect, {"series": before}, {"series": samples(11, 500, 30)}, "--max-num-seqs")
    assert [one.state for one in result.predictions] == ["as-predicted"]


def test_a_prediction_whose_change_was_not_made_is_not_judged() -> None:
    effect = Effect("kv_cache_tokens", 1.2, 1.4, "computed", "")
    expects = finding("rule", "--gpu-memory-utilization", effect)
    plan = Plan((planned("--gpu-memory-utilization", 0.8, 0.9, "rule"),))
    before = snapshot(
        {"gpu_memory_utilization": 0.8}, {"kv_cache_tokens": 1000}, findings=(expects,), plan=plan
    )
    (one,) = verify(before, snapshot({"gpu_memory_utilization": 0.8}, {"kv_cache_tokens": 1000})).predictions
    assert one.state == "not-tried"


def test_graphs_are_off_while_one_of_their_flags_is_left() -> None:
    """Without --enforce-eager a run at optimization level 0 has no graphs either: nothing took effect, nothing is judged."""
    off = {"enforce_eager": True, "optimization_level": 0}
    eager = Finding(
        "eager-mode",
        "performance",
        "high",
        "high",
        "no graphs",
        "",
        changes=(Change("--enforce-eager", "flag", True), Change("--optimization-level", "flag", 0)),
        effect=Effect("generation_throughput", 2, 8, "published", ""),
    )
    plan = Plan(
        (
            planned("--enforce-eager", True, None, "eager-mode"),
            planned("--optimization-level", 0, None, "eager-mode"),
        )
    )
    before = snapshot(off, findings=(eager,), plan=plan)
    half = verify(before, snapshot({**off, "enforce_eager": False}))
    assert [one.state for one in half.changes] == ["not-applied", "not-applied"]
    assert "graphs stay off" in half.changes[0].note
    assert [one.state for one in half.predictions] == ["not-tried"]
    whole = verify(before, snapshot({"enforce_eager": False, "optimization_level": 2}))
    assert [one.state for one in whole.changes] == ["took-effect", "other-value"]


def test_the_page_says_how_much_of_the_plan_took_effect() -> None:
    plan = Plan((planned("--max-num-seqs", 1, 32), planned("--enforce-eager", True, None)))
    result = verify(
        snapshot({"max_num_seqs": 1, "enforce_eager": True}, plan=plan),
        snapshot({"max_num_seqs": 32, "enforce_eager": True}),
    )
    assert "1 of 2 planned changes took effect" in render(result)


def test_without_a_plan_there_is_nothing_to_check() -> None:
    assert "holds no plan" in render(verify(snapshot(), snapshot()))


def test_the_documents_name_their_schema() -> None:
    result = verify(snapshot(), snapshot())
    assert '"schema": "logdoctor-verification/1"' in render_result(result_of_verification(result), "json")
    assert '"schema": "logdoctor-comparison/1"' in render_result(
        result_of_comparison(result.comparison), "json"
    )


@for_each(
    ("prompt", "doubt"),
    [
        (10.0, ""),
        (100.0, "; but the requests differ: 0.1 prompt tokens for each generated one before, 0.83 after"),
    ],
)
def test_a_speed_at_equal_load_is_told_with_its_doubts(prompt: float, doubt: str) -> None:
    effect = Effect("generation_throughput", 1.05, 1.3, "published", "")
    before, after = {"series": samples(4, 100, 30)}, {"series": samples(4, 120, 30, prompt=prompt)}
    (one,) = predicted(effect, before, after, "--async-scheduling").predictions
    assert one.note == f"at equal load, in 1 level of running requests{doubt}"
