"""What the sections of the page count, over rows made for it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.fleet.made import store_with
from vllm_logdoctor.fleet.changes import expected_effect
from vllm_logdoctor.fleet.facts import JobSummary, Row
from vllm_logdoctor.fleet.picture import _statuses, picture_of
from vllm_logdoctor.fleet.schema import STATUSES
from vllm_logdoctor.fleet.sections import Cell, Section, hours_words, range_words, share
from vllm_logdoctor.fleet.store import Store
from vllm_logdoctor.fleet.writers import rendered

OOM = {"root": "cuda-out-of-memory", "outcome": "crashed_at_startup", "startup_complete": False}


def section(store: Store, name: str) -> Section:
    return next(one for one in picture_of(store).sections if one.id == name)


def cells(place: Path, name: str, runs: Sequence[Mapping[str, Any]], **tables: Any) -> list[tuple[Cell, ...]]:
    return [line.cells for line in section(store_with(place / "store", runs, **tables), name).lines]


def test_what_broke_is_ordered_by_the_card_hours_of_its_jobs(tmp_path: Path) -> None:
    """A run with a root that ended well broke nothing."""
    short = {"root": "engine-dead", "outcome": "killed", "span_s": 1800.0}
    runs = [{**OOM}, short, short, short, {"root": "engine-dead"}, {**OOM, "clock": "over 30 days"}]
    assert cells(tmp_path, "broke", runs) == [
        ("engine-dead", 3, 3.0, 1.5, 0, "1970-01-04"),
        ("cuda-out-of-memory", 2, 2.0, 1.0, 1, "1970-01-06"),
    ]


def test_the_hours_above_name_their_sources(tmp_path: Path) -> None:
    runs = [{}, {"cards": None}, {"clock": "over 30 days"}]
    assert picture_of(store_with(tmp_path / "s", runs)).hours == (
        "2.0 card hours and 2.0 job hours of 2 jobs: 0 % from accounting, the others from their logs (a lower bound); "
        "1 jobs without hours that can be trusted, 1 without a known number of cards"
    )
    assert cells(tmp_path, "clocks", runs) == [
        ("log", 2, 2.0, 2.0),
        ("clock not trusted: over 30 days", 1, None, None),
    ]


def test_start_up_above_the_best_quarter_is_summed_over_cards(tmp_path: Path) -> None:
    """Fewer than four runs are no peers; a run without known cards counts once."""
    runs: list[dict[str, Any]] = [{"startup_s": start} for start in (100.0, 100.0, 460.0, 1900.0)]
    runs += [{"startup_s": start, "tp": 1, "cards": None} for start in (100.0, 200.0, 300.0, 3800.0)]
    runs += [{"startup_s": start, "tp": 4} for start in (100.0, 200.0, 3000.0)]
    found = section(store_with(tmp_path / "store", runs), "starts")
    peers = "org/model-8B, cuda card not known, {}vLLM 0.11, server"
    assert [line.cells for line in found.lines] == [
        (peers.format("TP=2, "), 4, pytest.approx((360 + 1800) * 2 / 3600), 100.0, 280.0),
        (peers.format(""), 4, pytest.approx((100 + 3600) / 3600), 200.0, 250.0),
    ]
    assert found.lines[0].jobs == ("log 003", "log 002")
    assert found.note.startswith("2.2 card hours in all")


def test_two_periods_of_fourteen_days_are_compared(tmp_path: Path) -> None:
    """One job a day for 30 days: the newest 14, the 14 before, and two that are older than both."""
    runs: list[dict[str, Any]] = [{} for _ in range(30)]
    for number, root in {
        0: "old",
        2: "gone",
        15: "engine-dead",
        16: "engine-dead",
        29: "new",
        28: "new",
        27: "engine-dead",
    }.items():
        runs[number] = {"root": root, "outcome": "killed"}  # fmt: skip
    assert cells(tmp_path, "periods", runs) == [
        ("jobs", 14, 14, ""),
        ("jobs that failed", 4, 2, "29 % after 14 %"),
        ("engine-dead", 2, 1, ""),
        ("new", 2, 0, "new"),
        ("gone", 0, 1, "gone"),
    ]


def test_the_newest_release_is_first_and_what_is_none_last(tmp_path: Path) -> None:
    runs = [
        {"release": "0.9.2"}, {"release": "0.11.2"}, {"release": "0.11.2", **OOM}, {"release": None, "version": "0.1.dev3"},
        {"release": None, "version": None}, {"server": "sglang"},
    ]  # fmt: skip
    assert [(line[0], line[1], line[4], line[5]) for line in cells(tmp_path, "releases", runs)] == [
        ("0.11.2", 2, 1, "50 %"),
        ("0.9.2", 1, 0, "0 %"),
        ("source build", 1, 0, "0 %"),
        ("not known", 1, 0, "0 %"),
    ]


def test_who_runs_what_counts_jobs_by_mode(tmp_path: Path) -> None:
    runs: list[dict[str, Any]] = [
        {"engine": "V0"}, {"engine": "V1", "eager": True}, {"preemptions": 3}, {"requests_5xx": 1}, {"requests_5xx": 0, "eager": False},
        {"startup_complete": False, "outcome": "killed"}, {"startup_complete": False, "outcome": "running"},
    ]  # fmt: skip
    found = section(store_with(tmp_path / "store", runs), "modes")
    assert {str(line.cells[0]): line.jobs for line in found.lines} == {
        "engine V0": ("log 000",), "eager mode (enforce_eager)": ("log 001",), "preemptions": ("log 002",),
        "requests answered with 5xx": ("log 003",), "never got ready": ("log 005",),
    }  # fmt: skip


def test_months_count_jobs_failures_and_eager_runs(tmp_path: Path) -> None:
    runs: list[dict[str, Any]] = [{} for _ in range(33)]
    runs[30] = {"eager": True, "startup_s": 30.0}
    runs[31] = {"startup_s": 40.0, "release": "0.10.1", "eager": True, **OOM}
    runs[32] = {"startup_s": 90.0, "clock": "over 30 days", "eager": None}
    february, january = cells(tmp_path, "months", runs)
    assert february == ("1970-02", 2, 1, "0.10 (1), 0.11 (1)", 1, 40.0)
    assert january == ("1970-01", 31, 0, "0.11 (31)", 1, 30.0)


def test_the_head_room_of_the_cache_is_that_of_the_fullest_busy_run(tmp_path: Path) -> None:
    runs = [{"kv_max": use, "busy": 4} for use in (95.0, 90.0, 89.9, 50.0, 10.0, 3.0)]
    runs += [{"kv_max": 99.0, "busy": 0}, {"kv_max": None, "busy": 4}]
    found = section(store_with(tmp_path / "store", runs), "headroom")
    assert [line.cells[:2] for line in found.lines] == [
        ("90 % and more", 2), ("50 to 90 %", 2), ("10 to 50 %", 1), ("below 10 %", 1),
    ]  # fmt: skip
    assert "2 jobs print no such figure" in found.note


def test_credentials_are_counted_by_job_with_three_places(tmp_path: Path) -> None:
    places = [f"/logs/vllm-1.log:{line}" for line in (4, 5, 6, 7)]
    runs: list[dict[str, Any]] = [
        {"secrets": 1, "secret_places": ["/logs/vllm-0.log:9"]}, {"secrets": 4, "secret_places": places}, {"secrets": 0},
    ]  # fmt: skip
    found = section(store_with(tmp_path / "store", runs), "secrets")
    assert [line.cells for line in found.lines] == [
        ("log 001", 4, ", ".join(places[:3])),
        ("log 000", 1, "/logs/vllm-0.log:9"),
    ]
    assert found.note.startswith("5 lines in 2 jobs;")


def test_how_logs_were_read_names_the_three_notes_that_most_of_them_have() -> None:
    def job(key: str, *logs: tuple[str, str]) -> JobSummary:
        rows: list[Row] = [{"status": status, "note": note} for status, note in logs]
        return JobSummary(key, None, rows, [], None, None, None, "", datetime(2026, 5, 1))

    notes = ["gone", "cut", "cut", "odd", "odd", "odd", "empty", "empty", ""]
    found = _statuses(
        [
            job("a", ("ok", "")),
            job("b", ("unreadable", "")),
            job("c", *(("unreadable", one) for one in notes)),
        ]
    )
    assert [(*line.cells, *line.jobs) for line in found.lines] == [
        ("ok", 1, STATUSES["ok"], "", "a"),
        ("unreadable", 10, STATUSES["unreadable"], "odd (3), cut (2), empty (2)", "b", "c"),
    ]


def test_messages_that_nobody_knows_are_ordered_by_jobs(tmp_path: Path) -> None:
    def message(log: int, pattern: str, count: int, known: bool = False) -> dict[str, Any]:
        site = {"level": "WARNING", "call_site": "core.py", "file": f"/logs/vllm-{log}.log", "line": 7 + log}
        return {"log": log, "pattern": pattern, "known": known, "count": count, **site}

    rows = [message(0, "aa", 90), message(0, "bb", 1), message(1, "bb", 4), message(1, "known", 5, True)]
    assert cells(tmp_path, "unknown", [{}, {}], messages=rows) == [
        ("bb", "WARNING", "core.py", 2, 5, "/logs/vllm-0.log:7"),
        ("aa", "WARNING", "core.py", 1, 90, "/logs/vllm-0.log:7"),
    ]


def test_changes_are_those_of_each_last_run_by_card_hours(tmp_path: Path) -> None:
    def change(log: int, knob: str, after: str | None, kind: str = "flag", **more: Any) -> dict[str, Any]:
        return {"log": log, "rank": 1, "knob": knob, "kind": kind, "after": after, **more}

    effect = {"metric": "latency", "low": 0.5, "high": 0.75, "origin": "published"}
    rows = [
        change(0, "--max-num-seqs", "64"),
        change(0, "--enforce-eager", None),
        change(1, "--max-num-seqs", "64", **effect),
        change(2, "--max-num-seqs", "128"),
        change(2, "VLLM_USE_X", "True", "env"),
        change(2, "action of slow-storage", "text:12345678", "action"),
        change(1, "--old", "1", run=7),
    ]
    found = cells(tmp_path, "changes", [{}, {}, {"cards": 8}], changes=rows)
    assert [line[:5] for line in found] == [
        ("--max-num-seqs 128", 1, 8.0, 1.0, ""),
        ("VLLM_USE_X True", 1, 8.0, 1.0, ""),
        ("slow-storage", 1, 8.0, 1.0, ""),
        ("--max-num-seqs 64", 2, 4.0, 2.0, "latency x 0.5 to 0.75 (published, n=1)"),
        ("drop --enforce-eager", 1, 2.0, 1.0, ""),
    ]


def test_the_expected_effect_is_the_widest_range_of_a_metric() -> None:
    rows = [
        {"metric": "latency", "low": low, "high": high, "origin": "published"}
        for low, high in ((0.5, 0.9), (0.4, 0.6), (0.7, None), (None, 0.8))
    ]
    assert expected_effect(rows) == "latency x 0.4 to 0.9 (published, n=2)"


def test_the_page_shows_thirty_rows_of_a_section_and_counts_all(tmp_path: Path) -> None:
    runs = [{"root": f"cause-{number}", "outcome": "killed"} for number in range(31)]
    found = section(store_with(tmp_path / "store", runs), "broke")
    assert (len(found.lines), found.total) == (30, 31)


def test_hours_ranges_and_shares_have_the_digits_they_deserve() -> None:
    assert [hours_words(hours) for hours in (100.0, 99.94, 1.0, 0.994, 0.0)] == [
        "100",
        "99.9",
        "1.0",
        "0.99",
        "0.0",
    ]
    assert (range_words(2.0, 2.0), range_words(1.5, 2.0)) == ("2", "1.5 to 2")
    assert (share(1, 3), share(0, 0), share(0, 5)) == ("33 %", "-", "0 %")


def test_outliers_above_and_below_their_peers_are_rows_of_their_own(tmp_path: Path) -> None:
    """Two of eleven starts take three and four times as long, and one a third."""
    starts = [100.0, 101.0, 99.0, 100.0, 102.0, 98.0, 100.0, 101.0, 300.0, 400.0, 33.0]
    settings = [
        {"log": place, "scope": "config", "name": "seed", "value": str(place // 8), "provenance": "explicit"}
        for place in range(11)
    ]
    store = store_with(tmp_path / "s", [{"startup_s": start} for start in starts], settings=settings)
    found = section(store, "outliers")
    rows = [
        (line.cells[0], line.cells[1], line.cells[2], line.cells[3], line.cells[4], line.cells[5], line.jobs)
        for line in found.lines
    ]
    assert rows == [
        (
            "start-up, s",
            2,
            pytest.approx(3.0),
            pytest.approx(4.0),
            pytest.approx(100.0),
            11,
            ("log 009", "log 008"),
        ),
        ("start-up, s", 1, pytest.approx(0.33), pytest.approx(0.33), pytest.approx(100.0), 11, ("log 010",)),
    ]
    assert "3 of 11 compared figures in 1 group of at least 8 peers" in found.note


def test_a_tile_of_the_page_has_the_first_columns_alone_and_the_section_all(tmp_path: Path) -> None:
    page = rendered(picture_of(store_with(tmp_path / "s", [{**OOM}, {}])), "html")
    tile, table = (
        re.findall("<th>(.*?)</th>", part.split("</section>")[0])
        for part in (page.split("<section><h2>What broke", 1)[1], page.split('<section id="broke">', 1)[1])
    )
    assert tile == ["cause", "jobs", "card hours", "job hours", "last"]
    assert set(tile) < set(table)
    assert page.count('href="#broke"') == 1
    assert "all 1</a>" in page.split("<section><h2>What broke", 1)[1].split("</h2>")[0]
