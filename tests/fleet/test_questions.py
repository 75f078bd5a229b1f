"""Ten questions of a site, answered from a store; and what a question may not do."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from vllm_logdoctor.errors import LogdoctorError
from vllm_logdoctor.fleet.library import Fleet

pytest.importorskip("duckdb")

QUESTIONS = {
    "Which root causes cost the most hours?": (
        "select root, count(*) jobs, sum(card_hours) card_hours from jobs where root is not null group by root order by card_hours desc"
    ),
    "What is new since a day?": (
        "select root, min(started) first from jobs where root is not null group by root having first >= '2026-11-01' order by first"
    ),
    "Which releases run, and how often do they fail?": (
        "select release, count(*) runs, avg((outcome like 'crashed%')::int) failed from runs group by release order by runs desc"
    ),
    "Who still runs V0 or eager mode?": (
        "select job, runs.engine, eager from runs join logs using (log) where runs.engine = 'V0' or eager order by job"
    ),
    "How long do starts take, by model?": (
        "select model, count(*) n, median(startup_s) startup from runs where clock = 'ok' group by model order by startup desc"
    ),
    "Which change waits in the most jobs?": (
        "select knob, after, count(distinct log) logs from changes group by all order by logs desc limit 10"
    ),
    "Where do credentials leak?": (
        "select job, unnest(secret_places) place from runs join logs using (log) where secrets > 0"
    ),
    "Whose KV cache is full?": "select job, kv_max, preemptions from runs join logs using (log) where kv_max >= 90 order by kv_max desc",
    "Which settings differ between two jobs?": (
        "select name, list(distinct value) as found from settings group by name having count(distinct value) > 1 order by name"
    ),
    "What was not read, and why?": "select status, note, count(*) logs from logs where status <> 'ok' group by all order by logs desc",
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_questions_are_answered(fleet: Fleet, question: str) -> None:
    assert fleet.sql(QUESTIONS[question]).num_columns > 0


def test_answers_are_those_of_the_logs(fleet: Fleet) -> None:
    statuses = fleet.sql(QUESTIONS["What was not read, and why?"]).to_pylist()
    assert {row["status"]: row["logs"] for row in statuses} == {
        "partial": 1, "empty": 1, "not-vllm": 1, "other-tool": 1,
    }  # fmt: skip
    (full,) = {row["kv_max"] >= 90 for row in fleet.sql(QUESTIONS["Whose KV cache is full?"]).to_pylist()}
    assert full


@pytest.mark.parametrize(
    "query",
    [
        "select * from read_csv('/etc/passwd')",
        "copy (select 1) to '/tmp/out.csv'",
        "select 1; select 2",
        "attach '/tmp/x.db'",
        "set enable_external_access = true",
        "install httpfs",
        "create table x as select 1",
        "select nothing from runs",
    ],
)
def test_a_query_reads_the_tables_and_nothing_else(fleet: Fleet, query: str) -> None:
    with pytest.raises(LogdoctorError):
        fleet.sql(query)


def test_the_report_of_a_job_is_kept_without_its_log(fleet: Fleet, logs: Path) -> None:
    (logs / "slurm-101.out").unlink()
    document = json.loads(fleet.report("101"))
    assert document["schema"] == "logdoctor/1"
    with pytest.raises(LogdoctorError, match="no report"):
        fleet.report("999")


def test_frames_are_of_pandas(fleet: Fleet) -> None:
    frame = fleet.frame("runs")
    assert list(frame["release"].dropna().unique()) == ["0.11.2"]
