"""The library: what it refuses, and each form of a report, a comparison, a verification and a forecast."""

from __future__ import annotations

from typing import Any

import pytest

from tests.run.lives_of_a_server import answers, start, statistics
from tests.tables import for_each
from vllm_logdoctor import analyze, compare, verify, whatif
from vllm_logdoctor.errors import LogdoctorError

LOG = [*start(), statistics(clock="03-04 10:02:00"), statistics(clock="03-04 10:02:10"), "WARNING 03-04 10:03:00 [x.py:1] Something odd"]  # fmt: skip


@for_each(
    ("source", "given", "words"),
    [
        (7, {}, "source: expected a path, bytes or lines, got int"),
        (LOG, {"objective": "speed"}, "speed"),
        (LOG, {"year": "2026"}, "year: expected a number such as 2026, got '2026'"),
        (LOG, {"year": 1969}, "got 1969"),
        (LOG, {"year": 9999}, "got 9999"),
        (LOG, {"patterns": "no/such/pack.toml"}, "no such pattern pack: no/such/pack.toml"),
        (LOG, {"patterns": ["no/such/pack.toml"]}, "no such pattern pack: no/such/pack.toml"),
    ],
)
def test_wrong_arguments_are_refused_by_name(source: Any, given: dict[str, Any], words: str) -> None:
    with pytest.raises(LogdoctorError, match=words.replace("(", r"\(")) as caught:
        analyze(source, **given)
    assert caught.value.exit_code == 2


@for_each("year", [1970, 2026, 9998])
def test_a_year_is_one_of_the_calendar(year: int) -> None:
    assert analyze(LOG, year=year).runs


def test_a_report_in_each_form() -> None:
    report = analyze(LOG)
    (run,) = report.runs
    assert (report.to_text().splitlines()[0], report.to_markdown()[:2]) == (report.to_markdown().splitlines()[0].lstrip("# "), "# ")  # fmt: skip
    assert report.to_html().startswith("<!doctype html>") or report.to_html().startswith("<!DOCTYPE html>")
    assert repr(report) == f"<report of 1 run: {run.title}>"
    assert repr(run) == f"<run 1: {run.title}>"
    assert report._repr_markdown_() == report.to_markdown()
    assert run.to_markdown().splitlines()[0] == report.to_markdown().splitlines()[0]
    assert [one.file for one in report.sources] == ["<lines>"]
    assert report.coverage.lines == len(LOG)
    assert [one.evidence.line for one in report.messages if "Something odd" in one.text] == [len(LOG)]
    assert [one.name for one in report.phases] == [one.name for one in run.run.phases] != []
    assert (
        [one.name for one in report.periods] == [one.name for one in run.diagnosis.bottleneck.periods] != []
    )


def test_settings_and_rows_are_plain_collections() -> None:
    report = analyze([*LOG, *answers(3)])
    config = report.runs[0].config
    assert len(config) == len(list(config)) > 3
    assert repr(config) == repr({name: config[name] for name in config})
    rows = report.phases
    assert (rows == tuple(rows), rows == report.phases, rows == ()) == (True, True, False)
    assert hash(rows) == hash(report.phases)
    assert repr(rows) == f"<{len(rows)} rows; to_frame() gives a DataFrame>"


def test_of_events_seen_often_the_first_ones_and_the_last_are_kept() -> None:
    lines = [statistics(clock=f"03-04 10:{minute:02}:00") for minute in range(10, 40)]
    warnings = [f"WARNING 03-04 10:{minute}:00 [envs.py:83] Unknown vLLM environment variable detected: VLLM_X{minute}" for minute in range(41, 59)]  # fmt: skip
    log = [*start(), *lines, *warnings]
    events = list(analyze(log).runs[0].events)
    assert [one.record.line for one in events] == sorted(one.record.line for one in events)
    unknown = [one for one in events if "environment variable" in one.record.message]
    assert (unknown[0].record.line, unknown[-1].record.line) == (len(log) - 17, len(log))
    assert len({one.record.line for one in unknown}) == len(unknown)


def test_a_comparison_in_each_form_and_of_each_side() -> None:
    report = analyze(LOG)
    sides = (report, report.runs[0], report.to_dict())
    found = [compare(one, other).to_dict() for one in sides for other in sides]
    assert all(not one["settings"] and one["schema"] == "logdoctor-comparison/1" for one in found)
    assert {one["before"]["name"] for one in found} == {"<lines>"}
    outcome = compare(report, report)
    assert outcome.to_markdown() == outcome._repr_markdown_()
    assert outcome.to_markdown().startswith("# ")
    assert outcome.to_text().startswith("<lines> → <lines>")
    assert outcome.to_html().lower().startswith("<!doctype html>")
    assert repr(outcome) == f"<comparison: {outcome.to_text().splitlines()[0]}>"
    with pytest.raises(
        LogdoctorError, match="expected a report, a run, a document or a path, got int"
    ) as caught:
        compare(report, 7)  # type: ignore[arg-type]
    assert caught.value.exit_code == 2


def test_a_verification_holds_the_second_log_against_the_plan_of_the_first() -> None:
    after = analyze([one.replace("'model': 'org/m'", "'model': 'org/m', 'max_num_seqs': 7") for one in LOG])
    found = verify(after, against=analyze(LOG)).to_dict()
    assert found["schema"] == "logdoctor-verification/1"
    (setting,) = [one for one in found["comparison"]["told_by_one_log"] if one["name"] == "max_num_seqs"]
    assert setting["after"]["value"] == 7


def test_a_forecast_needs_settings_that_the_release_has() -> None:
    report = analyze(LOG)
    for settings in ({}, {"no_such_setting": 1}):
        with pytest.raises(LogdoctorError) as caught:
            whatif(report, **settings)
        assert caught.value.exit_code == 2
    assert whatif(report, max_model_len=256) == whatif(report.runs[0], max_model_len=256)
