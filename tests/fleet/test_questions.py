"""Ten questions of a site, answered from a store; and what a question may not do."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from vllm_logdoctor.errors import LogdoctorError
from vllm_logdoctor.fleet.library import Fleet

pytest.importorskip("duckdb")

DOCUMENT = Path(__file__).parents[2] / "docs" / "how-to" / "fleet.md"
QUESTIONS = dict(
    re.findall(r"^(\w[^\n]*\?)\n\n```sql\n(.*?)\n```", DOCUMENT.read_text("utf-8"), re.MULTILINE | re.DOTALL)
)


def test_the_how_to_holds_ten_questions() -> None:
    assert len(QUESTIONS) == 10


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
    assert "# " in fleet.report("101", "md")
    assert "</html>" in fleet.report("101", "html")
    (logs / "slurm-101.out").unlink()
    document = json.loads(fleet.report("101"))
    assert document["schema"] == "logdoctor/1"
    with pytest.raises(LogdoctorError, match="no report"):
        fleet.report("999")
    with pytest.raises(LogdoctorError, match="only the JSON report is left"):
        fleet.report("101", "md")


def test_frames_are_of_pandas(fleet: Fleet) -> None:
    frame = fleet.frame("runs")
    assert list(frame["release"].dropna().unique()) == ["0.11.2"]
