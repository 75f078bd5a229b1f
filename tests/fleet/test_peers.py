"""Peers, outliers and effects over rows made for it: robust, with n, spread and the number expected by chance."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from tests.fleet.made import store_of, store_with
from vllm_logdoctor.cli.analyze import AnalyzeArguments, run_analyze
from vllm_logdoctor.fleet.effects import effects_of
from vllm_logdoctor.fleet.facts import jobs_of
from vllm_logdoctor.fleet.peers import chance, group_words, outliers_of, peer_key, slow_starts
from vllm_logdoctor.fleet.picture import picture_of
from vllm_logdoctor.fleet.values import release_of

LOG = Path(__file__).parents[2] / "fixtures" / "vllm-0.11.2-color.log"


def test_a_run_far_from_its_peers_is_found_with_what_it_differs_in(tmp_path: Path) -> None:
    settings = [{"enforce_eager": "True" if number == 9 else "False"} for number in range(10)]
    store = store_of(tmp_path / "s", [100, 101, 99, 100, 102, 98, 100, 101, 99, 300], settings)
    (found,) = outliers_of(store, jobs_of(store)).found
    assert (found.job, found.metric, found.n) == ("log 009", "startup_s", 10)
    assert found.ratio == pytest.approx(3.0, rel=0.02)
    assert found.differs_in == ("enforce_eager=True",)


def test_fewer_than_eight_peers_are_no_group(tmp_path: Path) -> None:
    store = store_of(tmp_path / "s", [100.0] * 6 + [900.0])
    result = outliers_of(store, jobs_of(store))
    assert (result.found, result.groups) == ([], 0)


@pytest.mark.parametrize("given", [{"release": None}, {"model": None}, {"server": "sglang"}])
def test_runs_that_say_too_little_have_no_peers(tmp_path: Path, given: dict[str, Any]) -> None:
    store = store_of(tmp_path / "s", [100.0] * 9 + [900.0], **given)
    assert outliers_of(store, jobs_of(store)).groups == 0


def test_equal_runs_give_about_as_many_outliers_as_announced(tmp_path: Path) -> None:
    draw = random.Random(7)
    starts = [100 * 2.718 ** draw.gauss(0, 0.2) for _ in range(1000)]
    store = store_of(tmp_path / "s", starts)
    result = outliers_of(store, jobs_of(store))
    assert len(result.found) <= 3 * max(result.expected, 1.0)


def test_a_wide_group_expects_more_by_chance_than_a_narrow_one() -> None:
    assert chance(8, 0.05) < chance(8, 0.2) < 0.1


def test_start_up_is_held_against_the_best_quarter(tmp_path: Path) -> None:
    store = store_of(tmp_path / "s", [100.0, 100.0, 100.0, 1900.0])
    (slow,) = slow_starts(jobs_of(store))
    assert slow.hours == pytest.approx(1800 * 2 / 3600)
    assert slow.jobs == ("log 003",)


def test_an_untrusted_clock_gives_no_hours(tmp_path: Path) -> None:
    store = store_of(tmp_path / "s", [100.0], clock="over 30 days")
    (job,) = jobs_of(store)
    assert (job.hours, job.hours_from) == (None, "clock not trusted: over 30 days")


def test_one_changed_setting_is_an_effect_with_its_pairs(tmp_path: Path) -> None:
    settings = [{"enforce_eager": "True" if number % 2 else "False"} for number in range(8)]
    store = store_of(tmp_path / "s", [100.0, 50.0] * 4, settings)
    effects = {(one.setting, one.before, one.after): one for one in effects_of(store, jobs_of(store))}
    off = effects["enforce_eager", "False", "True"]
    assert (off.metric, off.middle, off.pairs) == ("startup_seconds", 0.5, 4)
    assert "measured on your own jobs: 4 pairs" in off.words


def test_a_single_report_says_what_a_change_did_to_the_jobs_of_a_fleet(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = [{"enforce_eager": "False" if number % 2 else "True"} for number in range(8)]
    store = store_of(tmp_path / "s", [100.0, 110.0] * 4, settings)
    store.create()
    assert run_analyze(AnalyzeArguments([str(LOG)], format="json", fleet=str(tmp_path / "s"))) == 0
    (change,) = (
        one
        for one in json.loads(capsys.readouterr().out)["runs"][0]["plan"]["changes"]
        if one["knob"] == "--enforce-eager"
    )
    assert change["note"].endswith(
        "startup seconds x 1.10 to 1.10, median 1.10, measured on your own jobs: 4 pairs of 1 job series"
    )


def test_the_report_of_a_job_shows_what_its_change_did_to_others(tmp_path: Path) -> None:
    settings = [{"enforce_eager": "True" if number % 2 else "False"} for number in range(8)]
    store = store_of(tmp_path / "s", [100.0, 50.0] * 4, settings)
    planned = {
        "log": f"{0:016d}",
        "run": 1,
        "rank": 1,
        "knob": "--enforce-eager",
        "kind": "flag",
        "after": "True",
    }
    store.write_part("part", {"changes": [planned]})
    (change,) = picture_of(store).reports["log 000"].runs[0].changes
    assert change[3] == (
        "startup seconds x 0.50 to 0.50, median 0.50, measured on your own jobs: 4 pairs of 1 job series"
    )


def test_two_changed_settings_are_no_effect(tmp_path: Path) -> None:
    settings = [{"enforce_eager": str(number % 2), "max_num_seqs": str(number % 2)} for number in range(8)]
    store = store_of(tmp_path / "s", [100.0, 50.0] * 4, settings)
    assert effects_of(store, jobs_of(store)) == []


@pytest.mark.parametrize(
    ("version", "release"),
    [("0.11.2", "0.11.2"), ("v0.8.5.post1", "0.8.5.post1"), ("0.32.0+cpu", "0.32.0"), ("0.1.dev15917+g0a6396b45", None), ("0.9.2.dev364+gb4", None)],
)  # fmt: skip
def test_source_builds_are_no_release(version: str, release: str | None) -> None:
    assert release_of(version) == release


def test_peers_are_named_by_what_they_share() -> None:
    run = {
        "server": "vllm",
        "model": "org/model-8B",
        "release": "0.11.2",
        "tp": 4,
        "pp": None,
        "dp": 1,
        "quantization": None,
        "kind": "server",
    }
    named = {
        platform: peer_key({**run, "platform": platform, "card": card})
        for platform, card in (("cuda", "H100"), ("rocm", None), ("cpu", None))
    }
    assert {platform: group_words(key) for platform, key in named.items() if key is not None} == {
        "cuda": "org/model-8B, H100, TP=4, vLLM 0.11, server",
        "rocm": "org/model-8B, rocm card not known, TP=4, vLLM 0.11, server",
        "cpu": "org/model-8B, CPU, TP=4, vLLM 0.11, server",
    }


def test_throughput_is_far_only_from_that_at_the_same_load(tmp_path: Path) -> None:
    """A run with few requests at once is slower than one with many, and no outlier; one that is slow at equal load is."""
    load = [
        {
            "log": number,
            "low": low,
            "high": 2 * low,
            "samples": 5,
            "generation_p50": 100.0 * low + number % 3 - (60 if (number, low) == (8, 1) else 0),
        }
        for number in range(9)
        for low in (1, 8)
    ]
    store = store_with(tmp_path / "s", [{}] * 9, load=load)
    (found,) = outliers_of(store, jobs_of(store)).found
    assert (found.job, found.metric, found.level, found.n) == ("log 008", "generation", "1-2 running", 9)
    assert found.ratio == pytest.approx(0.42, abs=0.01)


def test_times_of_an_untrusted_clock_are_not_compared(tmp_path: Path) -> None:
    runs = [{"startup_s": 100.0, "load_s": 10.0} for _ in range(9)]
    store = store_with(
        tmp_path / "s", [*runs, {"startup_s": 900.0, "load_s": 10.0, "clock": "runs backwards"}]
    )
    result = outliers_of(store, jobs_of(store))
    assert (result.found, result.compared) == ([], 9 + 10)


def test_a_tight_group_has_no_outlier_below_thirty_percent(tmp_path: Path) -> None:
    store = store_of(tmp_path / "s", [100.0] * 9 + [128.0])
    assert outliers_of(store, jobs_of(store)).found == []
    store = store_of(tmp_path / "t", [100.0] * 9 + [132.0])
    assert [one.job for one in outliers_of(store, jobs_of(store)).found] == ["log 009"]


def test_five_rare_settings_are_named_and_free_text_by_its_name(tmp_path: Path) -> None:
    """A value that a second of the ten runs has is not rare."""
    own = {f"option_{letter}": "1" for letter in "abcdef"} | {
        "hf_overrides": "text:217005ca",
        "block_size": "16",
        "port": "8001",
    }
    settings = [{"block_size": "16"}, *({} for _ in range(8)), own]
    store = store_of(tmp_path / "s", [100.0] * 9 + [300.0], settings)
    (found,) = outliers_of(store, jobs_of(store)).found
    assert found.differs_in == ("hf_overrides", "option_a=1", "option_b=1", "option_c=1", "option_d=1")
