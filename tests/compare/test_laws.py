"""Laws of comparisons: what one side gained the other lost, and how far two figures may lie apart to be the same."""

from __future__ import annotations

from typing import Any

import pytest
from compare_samples import analysis, diagnosis, finding, planned, samples, snapshot
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tables import for_each
from vllm_logdoctor.comparison.comparison import Comparison, compare, same_value
from vllm_logdoctor.comparison.snapshot import Snapshot, snapshot_of
from vllm_logdoctor.comparison.verification import CheckedPrediction, verify
from vllm_logdoctor.plan.model import Plan
from vllm_logdoctor.report.json import document
from vllm_logdoctor.rules.model import Effect

FIGURES = {"kv_cache_tokens": 1000.0, "model_weights_gib": 10.0, "torch_compile_seconds": 40.0, "available_kv_cache_gib": 5.0}  # fmt: skip
KNOBS = ("--max-num-seqs", "--gpu-memory-utilization", "")

sides = st.builds(
    snapshot,
    st.dictionaries(st.sampled_from(["max_num_seqs", "gpu_memory_utilization", "seed", "port", "dtype"]), st.sampled_from([0, 1, 2])),
    st.fixed_dictionaries({}, optional={name: st.sampled_from([value, 1.01 * value, 2 * value]) for name, value in FIGURES.items()}),
    st.sampled_from([[], samples(4, 100, 20), samples(4, 150, 20), samples(2, 80, 20, waiting=5)]),
    st.lists(st.sampled_from([finding(f"rule{n}", knob) for n, knob in enumerate(KNOBS)]), unique_by=lambda one: one.id, max_size=3).map(tuple),
    st.sampled_from([None, 30.0, 90.0]),
    version=st.sampled_from(["0.11.2", "0.12.0"]),
    chosen=st.dictionaries(st.sampled_from(["block_size", "max_model_len"]), st.sampled_from([16, 32])),
)  # fmt: skip
MIRRORED = {"better": "worse", "worse": "better", "gone": "new", "new": "gone", "faster": "slower", "slower": "faster"}  # fmt: skip


def mirrored(word: str) -> str:
    return MIRRORED.get(word, word)


@settings(max_examples=60)
@given(sides, sides)
def test_what_one_side_gained_the_other_lost(one: Snapshot, other: Snapshot) -> None:
    there, back = compare(one, other), compare(other, one)
    for mine, its in ((there.settings, back.settings), (there.one_sided, back.one_sided)):
        assert {(x.name, x.before, x.after, x.role) for x in mine} == {(x.name, x.after, x.before, x.role) for x in its}  # fmt: skip
    assert {(x.name, x.before, x.after) for x in there.figures} == {(x.name, x.after, x.before) for x in back.figures}  # fmt: skip
    # What the later log can't show may be gone.
    states = [
        {(x.finding.rule, x.state.replace("unclear", "gone")) for x in side.findings}
        for side in (there, back)
    ]
    assert {(rule, mirrored(state)) for rule, state in states[0]} == states[1]
    assert mirrored(there.load.verdict) == back.load.verdict
    ratios = {x.name: x.ratio for x in back.figures}
    for figure in there.figures:
        assert figure.ratio == pytest.approx(1 / (ratios[figure.name] or 1))
    assert [x.change.name for x in there.attributions] == [x.name for x in there.settings if x.role == "cause"]  # fmt: skip
    assert there.room is None or back.room is None


@settings(max_examples=30)
@given(sides)
def test_a_side_differs_in_nothing_from_itself(side: Snapshot) -> None:
    same = compare(side, side)
    assert (same.settings, same.one_sided, same.attributions, same.room) == ((), (), (), None)
    assert {figure.verdict for figure in same.figures} <= {"same"}
    assert {one.state for one in same.findings} <= {"kept"}


def verdict(name: str, before: float, after: float, *changed: str) -> tuple[str, str]:
    """Return verdict and note of a figure where some settings were changed."""
    one, other = (dict.fromkeys(changed, value) for value in (1, 2))
    sides = [
        snapshot(given or {"seed": 0}, {name: value}) for given, value in ((one, before), (other, after))
    ]
    (figure,) = compare(*sides).figures
    return figure.verdict, figure.note


@for_each(
    ("name", "before", "after", "changed", "expected"),
    [
        ("kv_cache_tokens", 1000, 1005, ["gpu_memory_utilization"], "same"),
        ("kv_cache_tokens", 1000, 1006, ["gpu_memory_utilization"], "better"),
        ("kv_cache_tokens", 1000, 994, ["gpu_memory_utilization"], "worse"),
        ("kv_cache_tokens", 1000, 1035, [], "same"),
        ("kv_cache_tokens", 1000, 1036, [], "better"),
        # A name moves nothing: both starts are of one setup.
        ("kv_cache_tokens", 1000, 1030, ["served_model_name"], "same"),
        ("available_kv_cache_gib", 10.0, 10.3, [], "same"),
        ("available_kv_cache_gib", 10.0, 10.3, ["gpu_memory_utilization"], "better"),
        ("graph_capture_gib", 1.0, 1.5, ["compilation_config"], "worse"),
        ("model_weights_gib", 10.0, 10.04, ["dtype"], "same"),
        ("model_weights_gib", 10.0, 10.06, ["dtype"], "worse"),
        ("model_weights_gib", 10.0, 5.0, ["dtype"], "better"),
        # Less than two seconds, or a tenth, are no longer start.
        ("model_load_seconds", 2.0, 3.9, ["load_format"], "same"),
        ("model_load_seconds", 2.0, 4.0, ["load_format"], "worse"),
        ("model_load_seconds", 100.0, 109.9, ["load_format"], "same"),
        ("model_load_seconds", 100.0, 110.1, ["load_format"], "worse"),
        ("model_load_seconds", 100.0, 80.0, ["load_format"], "better"),
        ("model_load_seconds", 100.0, 80.0, ["max_num_seqs"], "better"),
        ("model_load_seconds", 100.0, 80.0, ["served_model_name"], "other"),
        ("model_load_seconds", 100.0, 80.0, [], "other"),
        ("max_concurrency", 0.0, 0.0, [], "same"),
        ("max_concurrency", 0.0, 2.0, [], "better"),
        ("an_unknown_figure", 100.0, 102.9, [], "same"),
        ("an_unknown_figure", 100.0, 104.0, [], "better"),
        ("an_unknown_figure_ms", 100.0, 104.0, [], "worse"),
    ],
)  # fmt: skip
def test_figures_that_lie_as_far_apart_as_two_starts_do_are_the_same(
    name: str, before: float, after: float, changed: list[str], expected: str
) -> None:
    found, note = verdict(name, before, after, *changed)
    assert found == expected
    two_starts = expected == "same" and "kv_cache" in name and after / before > 1.02
    assert bool(note) is (expected == "other" or two_starts)


def figure_of(result: Comparison, name: str) -> str:
    return next(one.verdict for one in result.figures if one.name == name)


def test_preemptions_are_judged_and_other_figures_of_the_traffic_are_not() -> None:
    before, after = (snapshot({"seed": 0}, series=samples(4, rate, 20)) for rate in (100, 200))
    few, many = (Snapshot("x", figures={"preemptions": n, "prefix_cache_hit_rate": 10 * n, "kv_cache_usage_max": n}) for n in (1.0, 9.0))  # fmt: skip
    assert figure_of(compare(before, after), "generation_throughput_busy_mean") == "other"
    assert figure_of(compare(few, many), "preemptions") == "worse"
    assert figure_of(compare(many, few), "preemptions") == "better"
    assert figure_of(compare(few, many), "prefix_cache_hit_rate") == "other"
    assert figure_of(compare(few, many), "kv_cache_usage_max") == "other"


@for_each(
    ("one", "other", "same"),
    [
        (1, 1.0, True), ("1", 1, True), ("1e3", 1000, True), ("a", "b", False), (" a", "A ", True), (None, None, True), (None, "None", False),
        (False, 0, False), (False, "false", True), ("x", True, False), ([1], (1,), False), ({"a": 1}, {"a": 1}, True),
    ],
)  # fmt: skip
def test_same_values(one: object, other: object, same: bool) -> None:
    assert same_value(one, other) is same
    assert same_value(other, one) is same


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize(
    ("given_on_one_side", "changed"),
    [
        ({"max_num_seqs": 7}, True),
        # The default of the other run's release changes nothing there.
        ({"gpu_memory_utilization": 0.9}, False),
        ({"gpu_memory_utilization": 0.8}, True),
    ],
)  # fmt: skip
def test_a_setting_that_one_run_was_given_is_a_change_unless_it_is_the_default(
    given_on_one_side: dict[str, Any], changed: bool, swapped: bool
) -> None:
    pair = [snapshot({"seed": 0, **given_on_one_side}), snapshot({"seed": 0})]
    result = compare(*(pair[::-1] if swapped else pair))
    (name,) = given_on_one_side
    assert [one.name for one in result.settings] == ([name] if changed else [])
    assert [one.name for one in result.one_sided] == ([] if changed else [name])


def test_causes_come_first_then_what_follows_then_what_moves_nothing() -> None:
    before = snapshot({"port": 1, "max_num_seqs": 1}, chosen={"block_size": 16, "max_model_len": 10}, version="0.11.2")  # fmt: skip
    after = snapshot(
        {"port": 2, "max_num_seqs": 2}, chosen={"block_size": 32, "max_model_len": 20}, version="0.12.0"
    )
    order = [(one.name, one.role) for one in compare(before, after).settings]
    assert order == [
        ("max_num_seqs", "cause"), ("vLLM version", "cause"), ("block_size", "follows"), ("max_model_len", "follows"), ("port", "idle"),
    ]  # fmt: skip


def test_more_running_requests_are_room_only_where_requests_waited() -> None:
    waited, idle = samples(2, 80, 20, waiting=5), samples(2, 80, 20)
    more, fewer = samples(8, 300, 20), samples(1, 40, 20)
    room = compare(snapshot(series=waited), snapshot(series=more)).room
    assert room is not None
    assert (room.running_before, room.running_after) == (2, 8)
    assert room.ratio == pytest.approx(300 / 80, rel=0.02)
    for before, after in ((idle, more), (waited, fewer), (waited, idle), ([], more), (waited, [])):
        assert compare(snapshot(series=before), snapshot(series=after)).room is None


def prediction(effect: Effect, before: Snapshot, after: Snapshot) -> CheckedPrediction:
    (one,) = verify(before, after).predictions
    assert one.predicted.metric == effect.metric
    return one


@for_each(
    ("metric", "figure", "ratio", "state"),
    [
        ("kv_cache_tokens", "kv_cache_tokens", 0.989, "less"), ("kv_cache_tokens", "kv_cache_tokens", 0.991, "as-predicted"),
        ("kv_cache_tokens", "kv_cache_tokens", 2.019, "as-predicted"), ("kv_cache_tokens", "kv_cache_tokens", 2.021, "more"),
        ("load_seconds", "model_load_seconds", 0.89, "less"), ("load_seconds", "model_load_seconds", 0.91, "as-predicted"),
        ("load_seconds", "model_load_seconds", 2.19, "as-predicted"), ("load_seconds", "model_load_seconds", 2.21, "more"),
        ("max_concurrency", "kv_cache_tokens", 1.5, "unknown"),
    ],
)  # fmt: skip
def test_a_prediction_has_the_margin_of_its_figure(
    metric: str, figure: str, ratio: float, state: str
) -> None:
    effect = Effect(metric, 1.0, 2.0, "computed", "")
    expects = finding("rule", "--max-num-seqs", effect, after=9)
    plan = Plan((planned("--max-num-seqs", 1, 9, "rule"),))
    before = snapshot({"max_num_seqs": 1}, {figure: 1000.0}, findings=(expects,), plan=plan)
    one = prediction(effect, before, snapshot({"max_num_seqs": 9}, {figure: 1000.0 * ratio}))
    assert one.state == state
    if state == "unknown":
        assert (one.ratio, one.note) == (None, "one of the logs does not show it")
    else:
        assert one.note == f"1,000 before, {1000 * ratio:,.6g} after"


@for_each(
    ("knob", "before", "after", "state", "note"),
    [
        ("--max-num-seqs", samples(2, 80, 20, waiting=5), samples(8, 120, 20), "as-predicted", "2 requests at most before, 8 after"),
        ("--max-num-seqs", samples(2, 80, 20), samples(2, 120, 20), "as-predicted", "at equal load, in 1 level of running requests"),
        ("--max-num-seqs", samples(2, 80, 20), samples(30, 120, 20), "unknown", "no more requests came than before; "),
        ("--enforce-eager", samples(2, 80, 20), samples(30, 120, 20), "unknown", "the load differs too much"),
        ("--enforce-eager", samples(2, 80, 20), samples(2, 75, 20), "less", "at equal load"),
        ("--enforce-eager", samples(2, 80, 20), samples(2, 90, 20), "as-predicted", "at equal load"),
        ("--enforce-eager", samples(2, 80, 20), samples(2, 190, 20), "more", "at equal load"),
    ],
)  # fmt: skip
def test_a_prediction_of_speed_is_measured_where_the_change_acts(
    knob: str, before: Any, after: Any, state: str, note: str
) -> None:
    effect, field = Effect("generation_throughput", 1.0, 2.0, "published", ""), knob.strip("-").replace("-", "_")  # fmt: skip
    expects = finding("rule", knob, effect, after=9)
    had = snapshot({field: 1}, series=before, findings=(expects,), plan=Plan((planned(knob, 1, 9, "rule"),)))
    one = prediction(effect, had, snapshot({field: 9}, series=after))
    assert one.state == state
    assert note in one.note


@for_each(
    ("found", "state"),
    [({"max_num_seqs": 9}, "as-predicted"), ({"max_num_seqs": 1}, "not-tried"), ({"max_num_seqs": 5}, "not-tried"), ({}, "as-predicted")],
)  # fmt: skip
def test_a_prediction_is_judged_unless_the_log_shows_that_its_change_was_not_made(
    found: dict[str, int], state: str
) -> None:
    effect = Effect("kv_cache_tokens", 1.0, 2.0, "computed", "")
    plan = Plan((planned("--max-num-seqs", 1, 9, "rule"),))
    before = snapshot({"max_num_seqs": 1, "seed": 0}, {"kv_cache_tokens": 1000.0}, findings=(finding("rule", "--max-num-seqs", effect, after=9),), plan=plan)  # fmt: skip
    assert prediction(effect, before, snapshot({"seed": 0, **found}, {"kv_cache_tokens": 1500.0})).state == state  # fmt: skip


def test_a_report_of_several_runs_or_files_names_the_run_and_counts_the_files() -> None:
    report = document(analysis(diagnosis(), diagnosis()))
    assert snapshot_of(report, 1).name == "vllm.log, run 1"
    assert snapshot_of({**report, "runs": report["runs"][:1]}).name == "vllm.log"
    assert snapshot_of({**report, "sources": report["sources"] * 3}, 2).name == "3 files, run 2"
    assert snapshot_of({**report, "sources": []}, 2).name == "log, run 2"
