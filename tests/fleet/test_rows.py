"""The rows of a run in the tables: every column of the schema, what counts as a clock, and no text of the log."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from tests.rules.making import a_run, load
from vllm_logdoctor.fleet.rows import Rows, joined, rows_of_run
from vllm_logdoctor.fleet.schema import TABLES
from vllm_logdoctor.plan.model import Plan, PlannedChange
from vllm_logdoctor.report.model import Diagnosis
from vllm_logdoctor.rules.bottleneck import Bottleneck
from vllm_logdoctor.rules.model import Change, Effect, Finding, Message
from vllm_logdoctor.run.model import Evidence, Phase, Run, Unknown, Value

AT = Evidence("a.log", 7, "text of the log")
EFFECT = Effect("generation_throughput", 1.1, 1.5, "published", "a source")
ROOT = Finding("oom", "failure", "critical", "high", "Out of memory", "", "root", (AT,))
SLOW = Finding("slow", "performance", "low", "medium", "Slow", "", effect=EFFECT)
CARE = Message("known", "text of the log", "harmless", "meaning", 3, AT)
DAY = 86_400.0


def rows(run: Run, written: datetime | None = None, **diagnosis: Any) -> Rows:
    return rows_of_run(Diagnosis(run, **diagnosis), written)


def run_row(run: Run, written: datetime | None = None, **diagnosis: Any) -> dict[str, Any]:
    (row,) = rows(run, written, **diagnosis)["runs"]
    return row


def planned(change: Change, *findings: str) -> Plan:
    return Plan(changes=(PlannedChange(change, findings),))


def full() -> Rows:
    """Rows of a run that has something for each table."""
    run = a_run(
        set={"max_num_seqs": 8}, samples=load((8, {"running": 4})), phases=(("load", 3.0),), number=2, started=0.0, ended=60.0
    )  # fmt: skip
    run.accesses[("POST", "/v1/completions", 200)] = 5
    run.unknown.append(Unknown("ERROR", "a template", 4, AT))
    return rows(
        run, findings=(ROOT, SLOW), messages=(CARE,), plan=planned(Change("--max-num-seqs", "flag", 8, 16), "slow")
    )  # fmt: skip


def test_rows_have_the_columns_of_their_table() -> None:
    for table, found in full().items():
        assert found, table
        columns = {column.name for column in TABLES[table]} - {"log", "part"}
        for row in found:
            assert set(row) == columns, table
            assert row["run"] == 2


def test_a_text_of_the_log_is_in_no_row() -> None:
    assert "text of the log" not in str(full())


@pytest.mark.parametrize(
    ("times", "clock", "span"),
    [
        ({"started": 0.0, "ended": 60.0}, "ok", 60.0),
        ({"started": 60.0, "ended": 60.0}, "ok", 0.0),
        ({"started": 0.0}, "no time", None),
        ({"ended": 60.0}, "no time", None),
        ({"started": 60.0, "ended": 0.0}, "runs backwards", -60.0),
        ({"started": 0.0, "ended": 60.0, "newest_first": True}, "runs backwards", 60.0),
        ({"started": 0.0, "ended": 30 * DAY}, "ok", 30 * DAY),
        ({"started": 0.0, "ended": 30 * DAY + 1}, "over 30 days", 30 * DAY + 1),
    ],
)
def test_a_clock_is_trusted_where_it_grows_by_less_than_a_month(
    times: dict[str, Any], clock: str, span: float | None
) -> None:
    row = run_row(a_run(**times))
    assert (row["clock"], row["span_s"]) == (clock, span)


@pytest.mark.parametrize(("seconds", "clock"), [(6 * 3600.0, "ok"), (6 * 3600.0 + 1, "start-up over 6 h")])
def test_a_start_of_more_than_six_hours_is_that_of_a_clock_that_was_set(seconds: float, clock: str) -> None:
    run = a_run(started=0.0, ended=DAY)
    names = ("api-server", "startup")
    run.phases = [Phase(name, "APIServer", 0.0, seconds, seconds) for name in names]
    row = run_row(run)
    assert (row["startup_s"], row["clock"]) == (seconds, clock)


@pytest.mark.parametrize(("year", "dated"), [(1970, False), (2022, False), (2023, True), (2026, True)])
def test_a_year_before_the_first_release_is_that_of_a_clock_that_is_not_set(year: int, dated: bool) -> None:
    run = a_run(started=DAY, ended=DAY + 60.0)
    row = run_row(run, datetime(year, 6, 1))
    assert row["started"] == (datetime(year, 1, 2) if dated else None)
    assert row["ended"] == (datetime(year, 1, 2, 0, 1) if dated else None)
    assert row["year_from"] == ("file date" if dated else None)


def test_a_run_names_its_root_and_the_line_that_proves_it() -> None:
    row = run_row(a_run(), findings=(SLOW, ROOT), bottleneck=Bottleneck("idle", ""))
    assert (row["root"], row["root_file"], row["root_line"], row["bottleneck"]) == ("oom", "a.log", 7, "idle")
    row = run_row(a_run(), findings=(SLOW,))
    assert (row["root"], row["root_file"], row["root_line"]) == (None, None, None)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"set": {"tensor_parallel_size": 4}}, {"tp": 4, "pp": None, "cards": 4}),
        ({"set": {"tensor_parallel_size": True}}, {"tp": None}),
        ({"set": {"tensor_parallel_size": 4}, "platform": "cpu"}, {"cards": 0}),
        ({"set": {"enforce_eager": True}}, {"eager": True}),
        ({"set": {"enforce_eager": "yes"}}, {"eager": None}),
        ({"set": {"quantization": "fp8"}}, {"quantization": "fp8"}),
        ({"model": Value("/cache/models/org/model-8B", "reported")}, {"model": "model-8B"}),
        ({"model": Value("", "reported")}, {"model": None}),
        ({"measured": {"kv_cache_tokens": 41_000.0}}, {"kv_tokens": 41_000.0, "weights_gib": None}),
        ({"version": "0.11.1rc2.dev3"}, {"version": "0.11.1rc2.dev3", "release": None}),
        ({"version": None}, {"version": None, "release": None}),
    ],
)
def test_what_a_run_is_has_a_column_each(given: dict[str, Any], expected: dict[str, Any]) -> None:
    row = run_row(a_run(**given))
    assert {name: row[name] for name in expected} == expected


def test_requests_are_counted_by_kind_of_status_and_known_endpoint() -> None:
    run = a_run()
    answered = {("/v1/completions", 200): 5, ("/v1/completions", 399): 1, ("/v1/completions", 400): 2, ("/v1/completions", 500): 4, ("/v1/../secret", 499): 3, ("/other", 499): 2}  # fmt: skip
    run.accesses.update({("POST", path, status): count for (path, status), count in answered.items()})
    row = run_row(run)
    assert (row["requests"], row["requests_4xx"], row["requests_5xx"]) == (17, 7, 4)
    assert [(one["endpoint"], one["status"], one["count"]) for one in rows(run)["requests"]] == [
        ("/v1/completions", 200, 5),
        ("/v1/completions", 399, 1),
        ("/v1/completions", 400, 2),
        ("/v1/completions", 500, 4),
        ("other", 499, 5),
    ]


def test_lines_with_credentials_are_counted_and_the_first_twenty_places_named_once() -> None:
    run = a_run()
    run.secrets = [(Evidence("a.log", line // 2, ""), ("token",)) for line in range(60)]
    row = run_row(run)
    assert row["secrets"] == 60
    assert row["secret_places"] == [f"a.log:{line}" for line in range(20)]


def test_settings_are_those_that_somebody_said() -> None:
    run = a_run(set={"max_num_seqs": 8}, reported={"dtype": "auto"}, default={"block_size": 16})
    run.environment["VLLM_USE_V1"] = Value("1", "explicit")
    found = [(one["scope"], one["name"], one["value"], one["provenance"], one["line"]) for one in rows(run)["settings"]]  # fmt: skip
    assert found == [
        ("config", "dtype", "auto", "reported", 3),
        ("config", "max_num_seqs", "8", "explicit", 2),
        ("env", "VLLM_USE_V1", "1", "explicit", None),
    ]


def test_findings_keep_their_order_and_their_effect() -> None:
    first, second = rows(a_run(), findings=(SLOW, ROOT))["findings"]
    assert (first["rank"], first["id"], first["metric"], first["low"], first["high"], first["origin"]) == (
        1, "slow", "generation_throughput", 1.1, 1.5, "published",
    )  # fmt: skip
    assert (first["file"], first["line"], first["role"]) == (None, None, None)
    assert (second["rank"], second["file"], second["line"], second["role"]) == (2, "a.log", 7, "root")
    assert second["metric"] is None


@pytest.mark.parametrize(
    ("change", "knob", "before", "after"),
    [
        (Change("--max-num-seqs", "flag", 8, 16), "--max-num-seqs", "8", "16"),
        (Change("--compilation-config", "flag", None, {"level": 3}), "--compilation-config", None, '{"level": 3}'),
        (Change("free the card", "action", None, "a word"), "action of slow", None, "text:"),
    ],
)  # fmt: skip
def test_a_planned_change_has_the_effect_of_its_finding(
    change: Change, knob: str, before: str | None, after: str
) -> None:
    (row,) = rows(a_run(), findings=(SLOW, ROOT), plan=planned(change, "oom", "slow"))["changes"]
    assert row["knob"] == knob.replace("slow", "oom")
    assert row["before"] == before
    assert row["after"].startswith(after)
    assert (row["rank"], row["findings"], row["origin"]) == (1, ["oom", "slow"], "published")


def test_phases_without_a_length_are_left_out() -> None:
    run = a_run()
    run.phases = [
        Phase("load", "startup", 0.0, None, None),
        Phase("compile", "Worker_TP0", 0.0, 3.0, 3.0),
    ]
    (row,) = rows(run)["phases"]
    assert (row["name"], row["parent"], row["process"], row["seconds"]) == (
        "compile",
        None,
        "Worker_TP0",
        3.0,
    )


def test_unknown_messages_are_hashes_of_their_templates_the_most_frequent_ones() -> None:
    run = a_run()
    at = Evidence("a.log", 9, "ERROR 01-01 00:00:00 [v1/core.py:187] broke")
    run.unknown = [Unknown("WARNING", f"template {count}", count, at) for count in range(50)]
    run.unknown += [Unknown("INFO", "said", 99, at), Unknown("<b>", "odd", 100, AT)]
    odd, *found = rows(run, messages=(CARE, Message("", "", "unknown", "", 1, AT)))["messages"][1:]
    assert (odd["count"], odd["level"], odd["call_site"], odd["known"]) == (100, None, None, False)
    assert [one["count"] for one in found] == list(range(49, 10, -1))
    assert (found[0]["level"], found[0]["call_site"], found[0]["line"]) == ("WARNING", "v1/core.py", 9)
    assert len({one["pattern"] for one in found}) == len(found)
    assert rows(run, messages=(CARE,))["messages"][0]["pattern"] == "known"


def test_rows_of_several_runs_are_put_together_in_order() -> None:
    assert joined([{"a": [{"x": 1}]}, {"a": [{"x": 2}], "b": []}]) == {"a": [{"x": 1}, {"x": 2}], "b": []}
