"""The report of a job that the page opens: what its tables hold, the newest runs, and what changes did to other jobs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.fleet.made import DAY_MS, store_with
from vllm_logdoctor.fleet.effects import MeasuredEffect
from vllm_logdoctor.fleet.facts import jobs_of
from vllm_logdoctor.fleet.jobreport import JobReport, RunReport, reports_of
from vllm_logdoctor.fleet.store import Store

CHANGE = {"log": 0, "rank": 1, "finding": "a", "knob": "--max-num-seqs", "kind": "flag", "before": "64", "after": "128"}  # fmt: skip
EXPECTED = {"metric": "generation_throughput", "low": 1.1, "high": 1.25, "origin": "published"}


def report_of(store: Store, *effects: MeasuredEffect) -> JobReport:
    (report,) = reports_of(store, jobs_of(store), effects).values()
    return report


def run_of(place: Path, run: dict[str, Any], **tables: Any) -> RunReport:
    """Return the report of the one run of a store."""
    (report,) = report_of(store_with(place, [run], **tables)).runs
    return report


@pytest.mark.parametrize(
    ("run", "title"),
    [
        ({}, "vLLM 0.11.2, org/model-8B, cuda, TP=2, server"),
        ({"version": None}, "vLLM, release not in the log, org/model-8B, cuda, TP=2, server"),
        ({"server": "sglang", "version": None}, "sglang, org/model-8B, cuda, TP=2, server"),
        ({"model": None, "platform": None, "tp": 1, "pp": 2, "dp": 4}, "vLLM 0.11.2, PP=2 DP=4, server"),
    ],
)
def test_a_run_is_named_by_what_is_known_of_it(run: dict[str, Any], title: str, tmp_path: Path) -> None:
    assert run_of(tmp_path, run).title == title


def test_a_run_has_its_end_its_limit_and_the_figures_that_were_measured(tmp_path: Path) -> None:
    measured = {"startup_s": 61.239, "kv_max": 99.5, "waiting_max": 0, "preemptions": None}
    report = run_of(tmp_path, {"bottleneck": "kv-cache-limited", **measured})
    assert (report.outcome, report.bottleneck) == ("clean_shutdown", "kv-cache-limited")
    assert report.figures == [
        ("length, s", 3600.0),
        ("start-up, s", 61.24),
        ("highest KV cache use, %", 99.5),
    ]


def test_the_highest_ranks_of_findings_and_changes_are_kept(tmp_path: Path) -> None:
    findings = [
        {"log": 0, "rank": rank, "id": f"rule-{rank:02d}", "kind": "performance", "severity": "low", "confidence": "high", "fingerprint": "f", "line": rank}
        for rank in reversed(range(1, 16))
    ]  # fmt: skip
    changes = [{**CHANGE, "rank": rank, "after": str(rank)} for rank in reversed(range(1, 12))]
    report = run_of(tmp_path, {}, findings=findings, changes=changes)
    assert report.findings == [(f"rule-{rank:02d}", "low", rank) for rank in range(1, 13)]
    assert [change[2] for change in report.changes] == [str(rank) for rank in range(1, 9)]


@pytest.mark.parametrize(
    ("change", "shown"),
    [
        (EXPECTED, ("64", "128", "generation throughput x 1.1 to 1.25 (published)")),
        ({**EXPECTED, "high": 1.1}, ("64", "128", "generation throughput x 1.1 (published)")),
        ({**EXPECTED, "metric": None}, ("64", "128", "")),
        ({**EXPECTED, "low": None, "high": None}, ("64", "128", "")),
        ({"before": None, "after": "text:217005ca"}, (None, "in the full report", "")),
    ],
)
def test_a_change_has_its_values_and_its_expected_effect_with_the_origin(
    change: dict[str, Any], shown: tuple[str | None, ...], tmp_path: Path
) -> None:
    assert run_of(tmp_path, {}, changes=[{**CHANGE, **change}]).changes == [("--max-num-seqs", *shown)]


@pytest.mark.parametrize("expected", [EXPECTED, {}])
def test_a_change_that_other_jobs_made_says_what_it_did_to_them(
    expected: dict[str, Any], tmp_path: Path
) -> None:
    store = store_with(tmp_path, [{}], changes=[{**CHANGE, **expected}])
    seen = MeasuredEffect("max_num_seqs", "64", "128", "startup_seconds", 0.8, 0.9, 1.1, 5, 2, ())
    words = report_of(store, seen).runs[0].changes[0][3]
    assert words.endswith(f"startup seconds x {seen.words}")
    assert words.startswith("generation throughput x 1.1 to 1.25 (published); ") is bool(expected)


def test_a_job_has_its_logs_its_hours_and_what_accounting_says(tmp_path: Path) -> None:
    store = store_with(tmp_path, [{"span_s": 4321.0, "cards": 4}])
    report = report_of(store)
    assert report.logs == [("/logs/vllm-0.log", "ok", None)]
    assert (report.hours, report.cards, report.hours_from) == (1.2, 4, "log")
    assert report.date == "1970-01-01 00:00"
    assert (report.user, report.state) == (None, None)


def test_of_a_job_with_many_runs_the_newest_are_shown(tmp_path: Path) -> None:
    store = store_with(tmp_path, [])
    log = {"added": 1, "files": [], "state": "", "job": "a", "status": "ok", "modified": DAY_MS, "path": "/a"}
    run = {"kind": "server", "server": "vllm", "clock": "ok", "span_s": 1.0, "outcome": "clean_shutdown"}
    runs = [{**run, "log": "a", "run": number, "bottleneck": str(number)} for number in range(1, 31)]
    store.write_part("many", {"logs": [{**log, "log": "a"}], "runs": runs})
    assert [one.bottleneck for one in report_of(store).runs] == [str(number) for number in range(11, 31)]
