"""What differs between two runs, and what of it belongs together."""

from __future__ import annotations

import pytest
from compare_samples import analysis, diagnosis, finding, samples, snapshot
from msgspec.structs import replace

from vllm_logdoctor.comparison.comparison import Comparison, compare, same_value
from vllm_logdoctor.comparison.markdown import headline, render
from vllm_logdoctor.comparison.snapshot import snapshot_of
from vllm_logdoctor.errors import LogdoctorError
from vllm_logdoctor.report.json import document


def roles(comparison: Comparison) -> dict[str, str]:
    return {one.name: one.role for one in comparison.settings}


def verdicts(comparison: Comparison) -> dict[str, str]:
    return {one.name: one.verdict for one in comparison.figures}


def test_a_run_does_not_differ_from_itself() -> None:
    one = snapshot({"max_num_seqs": 4}, {"kv_cache_tokens": 1000}, samples(4, 100, 30), startup=60)
    result = compare(one, one)
    assert (result.settings, result.attributions, result.one_sided) == ((), (), ())
    assert set(verdicts(result).values()) == {"same"}
    assert result.load.verdict == "same"
    assert "No setting that could matter differs." in render(result)


def test_what_the_user_changed_is_the_cause_and_what_vllm_chose_follows() -> None:
    before = snapshot({"enforce_eager": True, "port": 8000}, chosen={"compilation_config": {"level": 0}})
    after = snapshot({"enforce_eager": False, "port": 9000}, chosen={"compilation_config": {"level": 3}})
    assert roles(compare(before, after)) == {
        "enforce_eager": "cause",
        "compilation_config.level": "follows",
        "port": "idle",
    }


def test_without_a_change_of_the_user_what_vllm_chose_otherwise_is_the_cause() -> None:
    before, after = snapshot(chosen={"block_size": 16}), snapshot(chosen={"block_size": 32})
    assert roles(compare(before, after)) == {"block_size": "cause"}


def test_a_flag_that_was_dropped_is_a_change() -> None:
    before = snapshot({"max_num_seqs": 1, "seed": 0})
    after = snapshot({"seed": 0})
    (change,) = compare(before, after).settings
    assert (change.name, change.after) == ("max_num_seqs", None)
    assert "`max_num_seqs` `1` → not given" in render(compare(before, after))


def test_a_setting_that_one_log_does_not_tell_is_no_change() -> None:
    before, after = snapshot({"max_num_seqs": 1}), snapshot(chosen={"block_size": 16})
    result = compare(before, after)
    assert result.settings == ()
    assert [one.name for one in result.one_sided] == ["max_num_seqs"]


def test_a_variable_of_the_launch_is_compared_like_a_setting() -> None:
    before = snapshot({"seed": 0}, environment={"VLLM_ATTENTION_BACKEND": "FLASHINFER", "VLLM_PORT": "1"})
    after = snapshot({"seed": 0}, environment={"VLLM_ATTENTION_BACKEND": "FLASH_ATTN", "VLLM_PORT": "2"})
    result = compare(before, after)
    assert roles(result) == {"VLLM_ATTENTION_BACKEND": "cause", "VLLM_PORT": "idle"}
    assert result.attributions[0].subjects == {"memory", "capacity", "speed"}


def test_a_variable_that_only_one_log_shows_is_a_change_only_where_both_logs_show_some() -> None:
    before = snapshot({"seed": 0}, environment={"OMP_NUM_THREADS": "8", "VLLM_USE_V1": "1"})
    assert roles(compare(before, snapshot({"seed": 0}, environment={"VLLM_USE_V1": "1"}))) == {
        "OMP_NUM_THREADS": "cause"
    }
    silent = compare(before, snapshot({"seed": 0}))
    assert silent.settings == ()
    assert [one.name for one in silent.one_sided] == ["OMP_NUM_THREADS", "VLLM_USE_V1"]


def test_another_version_is_a_cause_of_everything() -> None:
    before = snapshot(measured={"kv_cache_tokens": 1000}, version="0.11.2")
    after = snapshot(measured={"kv_cache_tokens": 1200}, version="0.12.0")
    (attribution,) = compare(before, after).attributions
    assert attribution.change.name == "vLLM version"
    assert [one.name for one in attribution.figures] == ["kv_cache_tokens"]


def test_a_change_is_tied_to_what_it_can_have_moved() -> None:
    before = snapshot(
        {"gpu_memory_utilization": 0.8, "load_format": "auto"}, {"kv_cache_tokens": 1000}, startup=60
    )
    after = snapshot(
        {"gpu_memory_utilization": 0.9, "load_format": "dummy"}, {"kv_cache_tokens": 1500}, startup=20
    )
    attributions = {
        attribution.change.name: attribution for attribution in compare(before, after).attributions
    }
    assert [one.name for one in attributions["gpu_memory_utilization"].figures] == ["kv_cache_tokens"]
    assert [one.name for one in attributions["load_format"].figures] == ["startup_seconds"]
    assert attributions["load_format"].shared_with == ()


def test_two_changes_that_can_both_have_done_it_share_it() -> None:
    settings = [
        {"gpu_memory_utilization": 0.8, "kv_cache_dtype": "auto"},
        {"gpu_memory_utilization": 0.9, "kv_cache_dtype": "fp8"},
    ]
    before, after = (
        snapshot(one, {"kv_cache_tokens": tokens}) for one, tokens in zip(settings, (1000, 2300), strict=True)
    )
    attributions = {
        attribution.change.name: attribution for attribution in compare(before, after).attributions
    }
    assert attributions["kv_cache_dtype"].shared_with == ("gpu_memory_utilization",)
    assert "two logs can't tell which it was" in render(compare(before, after))


@pytest.mark.parametrize(
    ("after", "verdict"), [(970, "same"), (1030, "same"), (900, "worse"), (1100, "better")]
)
def test_three_percent_of_the_cache_are_no_regression_between_starts_of_one_setup(
    after: int, verdict: str
) -> None:
    result = compare(
        snapshot(measured={"kv_cache_tokens": 1000}), snapshot(measured={"kv_cache_tokens": after})
    )
    assert verdicts(result)["kv_cache_tokens"] == verdict


def test_three_percent_count_where_a_setting_for_memory_changed() -> None:
    before = snapshot({"gpu_memory_utilization": 0.90}, {"kv_cache_tokens": 1000})
    after = snapshot({"gpu_memory_utilization": 0.89}, {"kv_cache_tokens": 975})
    assert verdicts(compare(before, after))["kv_cache_tokens"] == "worse"


def test_a_faster_start_without_a_change_is_a_warm_cache_not_a_merit() -> None:
    result = compare(snapshot(startup=120), snapshot(startup=50))
    (figure,) = result.figures
    assert figure.verdict == "other"
    assert "warm cache" in figure.note


def test_throughput_over_the_whole_run_is_not_judged() -> None:
    result = compare(snapshot(series=samples(1, 50, 20)), snapshot(series=samples(64, 2000, 20)))
    assert verdicts(result)["generation_throughput_busy_mean"] == "other"
    assert result.load.verdict == "unknown"


def test_room_that_waiting_requests_used_is_reported() -> None:
    before = snapshot({"max_num_seqs": 1}, series=samples(1, 50, 20, waiting=19))
    after = snapshot({"max_num_seqs": 32}, series=samples(20, 700, 20))
    result = compare(before, after)
    assert result.room is not None
    assert result.room.ratio == pytest.approx(14, rel=0.01)
    assert result.attributions[0].room
    assert "now 20 run at once, not 1" in render(result)


def test_room_that_nobody_asked_for_is_not() -> None:
    before = snapshot({"max_num_seqs": 8}, series=samples(1, 50, 20))
    after = snapshot({"max_num_seqs": 32}, series=samples(20, 700, 20))
    assert compare(before, after).room is None


def test_findings_go_come_and_stay() -> None:
    before = snapshot(series=samples(1, 50, 9), findings=(finding("a", "--x"), finding("b")))
    after = snapshot(series=samples(1, 50, 9), findings=(finding("b"), finding("c")))
    states = {one.finding.rule: one.state for one in compare(before, after).findings}
    assert states == {"a": "gone", "b": "kept", "c": "new"}


def test_a_finding_of_load_is_not_gone_where_nothing_was_served() -> None:
    before = snapshot(series=samples(1, 50, 9), findings=(finding("a"),))
    (one,) = compare(before, snapshot()).findings
    assert one.state == "unclear"
    assert "no statistics line with a running request" in one.note


def test_a_failure_is_not_gone_while_the_next_run_fails_too() -> None:
    before = snapshot(findings=(finding("a", kind="failure"),), outcome="crashed_at_startup")
    again = snapshot(findings=(finding("b", kind="failure"),), outcome="crashed_at_startup")
    states = {one.finding.rule: one.state for one in compare(before, again).findings}
    assert states == {"a": "unclear", "b": "new"}
    assert [one.state for one in compare(before, snapshot()).findings] == ["gone"]


def test_a_finding_that_went_is_tied_to_the_setting_it_is_about() -> None:
    before = snapshot(
        {"max_num_seqs": 1}, series=samples(1, 50, 9), findings=(finding("a", "--max-num-seqs"),)
    )
    after = snapshot({"max_num_seqs": 9}, series=samples(1, 50, 9))
    (attribution,) = compare(before, after).attributions
    assert [one.finding.rule for one in attribution.findings] == ["a"]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("0.90", 0.9, True),
        ("AUTO", "auto", True),
        (True, 1, False),
        (None, 0, False),
        ("True", True, True),
        ([1], [1], True),
    ],
)
def test_values_are_the_same_however_they_are_spelt(one: object, other: object, same: bool) -> None:
    assert same_value(one, other) == same


def test_the_last_run_that_got_ready_is_taken_or_the_one_that_is_asked_for() -> None:
    report = document(
        analysis(
            diagnosis(version="1"),
            diagnosis(version="2"),
            diagnosis(version="3", outcome="crashed_at_startup"),
        )
    )
    assert snapshot_of(report).what["vLLM version"] == "2"
    assert snapshot_of(report, 3).what["vLLM version"] == "3"
    with pytest.raises(LogdoctorError, match="no run 4"):
        snapshot_of(report, 4)


@pytest.mark.parametrize(
    "report", [{}, {"runs": 1}, {"runs": [{"findings": [{}]}]}, {"runs": [3]}, {"runs": []}]
)
def test_what_is_no_report_is_said(report: dict[str, object]) -> None:
    with pytest.raises(LogdoctorError):
        snapshot_of(report)


def test_log_text_is_never_markup() -> None:
    hostile = "x`| <img src=x onerror=alert(1)> [a](http://e.example) \x1b[31m\u202e"
    before = snapshot({"served_name": "a", hostile: "b"}, version=hostile)
    after = snapshot({"served_name": hostile, hostile: hostile}, version="0.12.0")
    page = render(compare(before, after))
    assert "\x1b" not in page
    assert "\u202e" not in page
    from vllm_logdoctor.report.reader import reader

    html = reader().render(page)
    assert "<img" not in html
    assert "<a " not in html


def test_the_time_until_a_start_broke_off_is_no_time_of_a_start() -> None:
    broken, whole = snapshot(startup=3, outcome="crashed_at_startup"), snapshot(startup=40)
    assert not [one for one in compare(broken, whole).figures if one.name.startswith("startup")]


def test_a_log_beside_itself_is_reported() -> None:
    side = snapshot({"max_num_seqs": 1})
    assert "Both sides are the same run" in headline(compare(side, side))
    assert "Both sides" not in headline(compare(side, snapshot({"max_num_seqs": 2})))


@pytest.mark.parametrize(("other", "differ"), [("org/large", True), ("/scratch/models/tiny", False)])
def test_two_models_are_reported_a_model_in_two_places_is_one(other: str, differ: bool) -> None:
    side = snapshot()
    after = replace(side, what={**side.what, "model": other})
    assert ("The models differ" in headline(compare(side, after))) == differ
