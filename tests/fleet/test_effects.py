"""Effects of single changes: the same job before and after, at equal load, with no second change and no clock that is not trusted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.fleet.made import store_of, store_with
from vllm_logdoctor.fleet.effects import MeasuredEffect, effects_of, measured_words
from vllm_logdoctor.fleet.facts import jobs_of, levels_of

EAGER = [{"enforce_eager": "True" if number % 2 else "False"} for number in range(8)]


def load(log: int, generation: float | None, low: int = 1, high: int = 2, samples: int = 3) -> dict[str, Any]:
    return {"log": log, "low": low, "high": high, "samples": samples, "generation_p50": generation}


def setting(log: int, name: str, value: str, provenance: str = "explicit") -> dict[str, Any]:
    return {"log": log, "scope": "config", "name": name, "value": value, "provenance": provenance}


def test_throughput_at_a_level_needs_three_samples_and_a_figure(tmp_path: Path) -> None:
    levels = [
        load(0, 100.0),
        load(0, 300.0, 3, 8, samples=9),
        load(0, 500.0, 9, 16, samples=2),
        load(0, None, 17, 32),
        load(1, 90.0),
    ]
    store = store_with(tmp_path / "s", [{}, {}], load=levels)
    asked = (f"{0:016d}", 1)
    assert levels_of(store, {asked}) == {asked: {(1, 2): 100.0, (3, 8): 300.0}}


def test_throughput_is_compared_at_equal_load_alone(tmp_path: Path) -> None:
    """The middle of the levels that both runs have; the level that one of them has alone says nothing."""
    levels = []
    for number in range(8):
        factor = 1.5 if number % 2 else 1.0
        levels += [load(number, 100.0 * factor), load(number, 200.0 * factor, 3, 8)]
        levels += [load(number, 9000.0, 9, 16)] if number % 2 else []
    rows = [setting(number, *next(iter(own.items()))) for number, own in enumerate(EAGER)]
    store = store_with(tmp_path / "s", [{}] * 8, load=levels, settings=rows)
    on, off = effects_of(store, jobs_of(store))
    assert (on.metric, on.before, on.after, on.low, on.high, on.pairs) == (
        "generation_throughput", "False", "True", 1.5, 1.5, 4,
    )  # fmt: skip
    assert (off.after, off.middle, off.pairs) == ("False", pytest.approx(1 / 1.5), 3)


def test_a_setting_that_both_runs_share_is_no_change(tmp_path: Path) -> None:
    shared = [own | {"max_num_seqs": "64"} for own in EAGER]
    store = store_of(tmp_path / "s", [100.0, 150.0] * 4, shared)
    assert {one.setting for one in effects_of(store, jobs_of(store))} == {"enforce_eager"}


def test_eight_pairs_show_quartiles_and_fewer_the_whole_range(tmp_path: Path) -> None:
    eager = [{"enforce_eager": "True" if number % 2 else "False"} for number in range(18)]
    after = [10.0, 50.0, 60.0, 70.0, 80.0, 90.0, 95.0, 96.0, 400.0]
    many = store_of(tmp_path / "many", [one for late in after for one in (100.0, late)], eager)
    few = store_of(tmp_path / "few", [one for late in after[:4] for one in (100.0, late)], eager[:8])

    def range_of(store: Any) -> tuple[float, float, float]:
        (on,) = (one for one in effects_of(store, jobs_of(store)) if one.after == "True")
        return on.low, on.middle, on.high

    assert range_of(many) == (0.6, 0.8, 0.95)
    assert range_of(few) == (0.1, 0.55, 0.7)


def test_an_effect_needs_three_pairs(tmp_path: Path) -> None:
    store = store_of(tmp_path / "s", [100.0, 50.0] * 3, EAGER[:6])
    assert [(one.after, one.pairs) for one in effects_of(store, jobs_of(store))] == [("True", 3)]


def test_a_new_release_is_a_change_like_any_other(tmp_path: Path) -> None:
    runs = [{"startup_s": 100.0, "release": "0.11.2" if number % 2 else "0.10.0"} for number in range(8)]
    store = store_with(tmp_path / "s", runs)
    assert [(one.setting, one.before, one.after, one.pairs) for one in effects_of(store, jobs_of(store))] == [
        ("vLLM release", "0.10.0", "0.11.2", 4),
        ("vLLM release", "0.11.2", "0.10.0", 3),
    ]


def test_only_what_the_launch_chose_is_a_change(tmp_path: Path) -> None:
    """A default, a port and the name of the model differ as well, and are no second change."""
    rows = [setting(number, *next(iter(own.items()))) for number, own in enumerate(EAGER)]
    rows += [setting(number, "max_num_seqs", str(number), "reported") for number in range(8)]
    rows += [setting(number, "port", str(8000 + number)) for number in range(8)]
    store = store_with(tmp_path / "s", [{"startup_s": 100.0}] * 8, settings=rows)
    assert {one.setting for one in effects_of(store, jobs_of(store))} == {"enforce_eager"}


@pytest.mark.parametrize("given", [{"clock": "runs backwards"}, {"model": None}, {"startup_complete": False}])
def test_runs_that_prove_nothing_give_no_effect(tmp_path: Path, given: dict[str, Any]) -> None:
    store = store_of(tmp_path / "s", [100.0, 50.0] * 4, EAGER, **given)
    assert effects_of(store, jobs_of(store)) == []


def test_an_untrusted_clock_leaves_the_size_of_the_cache(tmp_path: Path) -> None:
    store = store_of(tmp_path / "s", [100.0, 50.0] * 4, EAGER, clock="runs backwards", kv_tokens=1000.0)
    assert {one.metric for one in effects_of(store, jobs_of(store))} == {"kv_cache_tokens"}


def effect(
    setting: str, after: str | None, metric: str = "startup_seconds", middle: float = 1.5
) -> MeasuredEffect:
    return MeasuredEffect(setting, "x", after, metric, 1.0, middle, 2.0, 5, 2, ())


def test_the_words_of_a_change_are_those_of_its_setting_and_value() -> None:
    effects = [effect("max_num_seqs", "256"), effect("max_num_seqs", "512", middle=1.75)]
    words = measured_words(effects, "--max-num-seqs", "512")
    assert words == (
        "startup seconds x 1.00 to 2.00, median 1.75, measured on your own jobs: 5 pairs of 2 job series"
    )
    assert measured_words(effects, "--max-num-seqs", "128") == ""
    assert measured_words(effects, "--max-model-len", "512") == ""


def test_a_dropped_flag_is_one_that_is_not_set_or_false() -> None:
    for after in (None, "False"):
        assert measured_words([effect("enforce_eager", after)], "--enforce-eager", None)
    assert not measured_words([effect("enforce_eager", "True")], "--enforce-eager", None)


def test_two_figures_of_a_change_are_named() -> None:
    metrics = ("startup_seconds", "kv_cache_tokens", "generation_throughput")
    words = measured_words([effect("VLLM_X", "1", metric) for metric in metrics], "VLLM_X", "1")
    assert [part.partition(" x ")[0] for part in words.split("; ")] == ["startup seconds", "kv cache tokens"]
