"""Accounting makes hours, cards and dates true; a clock that it contradicts is not trusted."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest

from tests.fleet.conftest import STARVED
from vllm_logdoctor.errors import LogdoctorError
from vllm_logdoctor.fleet.accounting import read_accounting
from vllm_logdoctor.fleet.facts import jobs_of
from vllm_logdoctor.fleet.library import Fleet

SACCT = """\
JobID|User|State|ExitCode|Start|End|Elapsed|AllocTRES|NNodes
101|ada|COMPLETED|0:0|2026-11-03T10:00:00|2026-11-03T12:00:00|02:00:00|billing=8,cpu=8,gres/gpu:a100=4,gres/gpu=4|1
101.batch||COMPLETED|0:0|2026-11-03T10:00:00|2026-11-03T12:00:00|02:00:00|cpu=8|1
"""
QSTAT = """\
Job Id: 202.head
    Job_Name = vllm
    Job_Owner = bob@login
    resources_used.walltime = 00:30:00
    job_state = F
    Resource_List.select = 2:ncpus=8:ngpus=2
    Resource_List.nodect = 2
    stime = Tue Nov  3 10:00:00 2026
    Exit_status = 0
"""
PBS_LOG = """\
11/23/2026 00:20:15;Q;202.head;user=eve queue=workq ctime=1795393215 Resource_List.select=1:ncpus=6
11/23/2026 00:20:15;S;202.head;user=eve queue=workq start=1795393215 exec_host=n1/0*6 Resource_List.select=1:ncpus=6:ngpus=2
11/23/2026 00:21:40;E;202.head;user=eve group=eve queue=workq ctime=1795393215 start=1795393215 exec_host=n1/0*6 \
Resource_List.nodect=1 Resource_List.select=1:ncpus=6:ngpus=2 Resource_List.walltime=00:45:00 session=1359 end=1795398615 \
Exit_status=-29 resources_used.mem=9968kb resources_used.walltime=01:30:00 run_count=1
"""
CSV = "job,elapsed,cards,card,start\n303,3600,8,H100,2026-11-04T00:00:00\n"


@pytest.mark.parametrize(
    ("text", "number", "hours", "cards"),
    [(SACCT, "101", 2.0, 4), (QSTAT, "202", 0.5, 4), (PBS_LOG, "202", 1.5, 2), (CSV, "303", 1.0, 8)],
    ids=["sacct", "qstat", "accounting log of PBS", "csv"],
)
def test_hours_and_cards_are_those_of_accounting(
    fleet: Fleet, tmp_path: Path, text: str, number: str, hours: float, cards: int
) -> None:
    file = tmp_path / "accounting.txt"
    file.write_text(text)
    assert fleet.add_accounting(file) == 1
    job = next(job for job in jobs_of(fleet.store) if job.number == number)
    assert (job.hours, job.cards, job.hours_from) == (hours, cards, "accounting")
    assert job.card_hours == hours * cards
    assert job.date.year == 2026


QSTAT_JSON = """
 {"timestamp": 1, "Jobs": {"202[3].head": {
   "Job_Owner": "bob@login", "job_state": "F", "stime": "Tue Nov  3 10:00:00 2026", "obittime": "Tue Nov  3 10:30:00 2026",
   "mtime": "Tue Nov  3 11:00:00 2026", "Exit_status": 271,
   "resources_used": {"walltime": "00:30:00"},
   "Resource_List": {"ngpus": 8, "gpu_type": "H100", "nodect": 2, "walltime": "01:00:00"}}}}
"""


def row(**given: object) -> dict[str, object]:
    columns = (
        "job_number",
        "system",
        "user",
        "state",
        "started",
        "ended",
        "elapsed_s",
        "cards",
        "card",
        "nodes",
    )
    return {**dict.fromkeys(columns), **given}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            SACCT,
            row(job_number="101", system="slurm", user="ada", state="COMPLETED", started=datetime(2026, 11, 3, 10), ended=datetime(2026, 11, 3, 12),
                elapsed_s=7200.0, cards=4, card="a100", nodes=1),
        ),
        (
            "\n\n  Elapsed|JobID|State|ReqTRES|AllocNodes\n10|7|RUNNING|cpu=8|2\n10|8|FAILED||x\n",
            [row(job_number="7", system="slurm", state="RUNNING", elapsed_s=10.0, cards=0, nodes=2), row(job_number="8", system="slurm", state="FAILED", elapsed_s=10.0)],
        ),
        (
            QSTAT,
            row(job_number="202", system="pbs", user="bob", state="F Exit_status = 0", started=datetime(2026, 11, 3, 10), elapsed_s=1800.0, cards=4, nodes=2),
        ),
        (
            # A long value goes on behind a tab; without a start a job has no end either.
            "Job Id: 9.head\n    Job_Owner = a\n\tda@login\n    mtime = Tue Nov  3 10:00:00 2026\nJob Id: 10.head\n    job_state = Q\n",
            [row(job_number="9", system="pbs", user="ada"), row(job_number="10", system="pbs", state="Q")],
        ),
        (
            PBS_LOG,
            row(job_number="202", system="pbs", user="eve", state="Exit_status = -29", started=datetime.fromtimestamp(1795393215),
                ended=datetime.fromtimestamp(1795398615), elapsed_s=5400.0, cards=2, nodes=1),
        ),
        (
            QSTAT_JSON,
            row(job_number="202[3]", system="pbs", user="bob", state="F Exit_status = 271", started=datetime(2026, 11, 3, 10),
                ended=datetime(2026, 11, 3, 10, 30), elapsed_s=1800.0, cards=8, card="H100", nodes=2),
        ),
        (
            "Job , ELAPSED,user,state,start,end,cards,card,nodes\n303.head, 01:00:00,eve,done,2026-11-04,2026-11-04 01:00:00,8,H100,2\n,5\n304,x\n",
            [
                row(job_number="303", system="csv", user="eve", state="done", started=datetime(2026, 11, 4), ended=datetime(2026, 11, 4, 1), elapsed_s=3600.0,
                    cards=8, card="H100", nodes=2),
                row(job_number="304", system="csv"),
            ],
        ),
    ],
    ids=["sacct", "sacct of jobs without an end", "qstat", "qstat of waiting jobs", "accounting log of PBS", "qstat as JSON", "csv"],
)  # fmt: skip
def test_a_job_has_what_its_form_of_accounting_says(text: str, expected: object, tmp_path: Path) -> None:
    (tmp_path / "accounting").write_text(text)
    assert read_accounting(str(tmp_path / "accounting")) == (
        expected if isinstance(expected, list) else [expected]
    )


@pytest.mark.parametrize(
    ("select", "cards"),
    [("2:ncpus=8:ngpus=2", 4), ("1:ngpus=4:ncpus=32+1:ncpus=1", 4), ("ncpus=8:ngpus=2+3:ngpus=1", 5), ("2:ncpus=8", None), ("", None)],
)  # fmt: skip
def test_cards_of_pbs_are_summed_over_its_chunks(select: str, cards: int | None, tmp_path: Path) -> None:
    (tmp_path / "q").write_text(f"Job Id: 9.head\n    Resource_List.select = {select}\n")
    assert read_accounting(str(tmp_path / "q"))[0]["cards"] == cards
    (tmp_path / "q").write_text(
        f"Job Id: 9.head\n    Resource_List.ngpus = 7\n    Resource_List.select = {select}\n"
    )
    assert read_accounting(str(tmp_path / "q"))[0]["cards"] == 7


@pytest.mark.parametrize(
    ("tres", "cards", "card"),
    [("gres/gpu=4,gres/gpu:a100=3", 4, "a100"), ("cpu=8,gres/gpu=2", 2, None), ("cpu=8", 0, None), ("billing=8", None, None)],
)  # fmt: skip
def test_cards_of_slurm_are_those_of_its_resources(
    tres: str, cards: int | None, card: str | None, tmp_path: Path
) -> None:
    (tmp_path / "s").write_text(f"JobID|AllocTRES\n7|{tres}\n")
    (found,) = read_accounting(str(tmp_path / "s"))
    assert (found["cards"], found["card"]) == (cards, card)


def test_json_that_is_no_answer_of_qstat_is_refused_in_one_line(tmp_path: Path) -> None:
    for text in ('{"Jobs": 7', '{"other": {"Jobs": 7}}'):
        (tmp_path / "q").write_text(text)
        with pytest.raises(LogdoctorError, match="qstat -F json") as refused:
            read_accounting(str(tmp_path / "q"))
        assert refused.value.exit_code == 2
    with pytest.raises(LogdoctorError, match=r"can.t read .*absent: No such file"):
        read_accounting(str(tmp_path / "absent"))


def test_a_job_with_logs_in_two_places_counts_its_hours_once(fleet: Fleet, tmp_path: Path) -> None:
    log = STARVED.read_text()
    for place in ("slurm-8123405.out", "8123405/node1.log", "8123406/node1.log"):
        file = tmp_path / "more" / place
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(log)
    fleet.add([tmp_path / "more"], jobs=1)
    (tmp_path / "jobs.csv").write_text("job,elapsed\n8123405,3600\n")
    fleet.add_accounting(tmp_path / "jobs.csv")
    found = {job.key: (len(job.logs), job.hours_from) for job in jobs_of(fleet.store) if "81234" in job.key}
    assert found == {
        "slurm 8123405": (2, "accounting"),
        f"job 8123406 in {tmp_path}/more": (1, "log"),
    }


def test_columns_of_sacct_are_read_by_their_dashes(tmp_path: Path) -> None:
    file = tmp_path / "sacct.txt"
    file.write_text(
        "JobID           State    Elapsed\n"
        "------------ -------- ----------\n"
        "101          TIMEOUT    02:00:12\n"
        "101.batch    CANCELLED  02:00:12\n"
    )
    (row,) = read_accounting(str(file))
    assert (row["job_number"], row["state"], row["elapsed_s"]) == ("101", "TIMEOUT", 7212.0)


def test_a_run_longer_than_its_job_has_a_clock_that_is_not_trusted(fleet: Fleet, tmp_path: Path) -> None:
    file = tmp_path / "jobs.csv"
    file.write_text("job,elapsed\n101,1\n")
    fleet.add_accounting(file)
    job = next(job for job in jobs_of(fleet.store) if job.number == "101")
    span = job.runs[0]["span_s"]
    assert job.hours == 1 / 3600
    assert (job.runs[0]["clock"] == "longer than accounting") == (span > 121)


def test_the_newest_row_of_a_job_counts(fleet: Fleet, tmp_path: Path) -> None:
    for elapsed in (10, 20):
        file = tmp_path / f"{elapsed}.csv"
        file.write_text(f"job,elapsed\n101,{elapsed}\n")
        fleet.add_accounting(file)
    rows = fleet.table("accounting").to_pylist()
    assert len(rows) == 1


def test_a_file_of_another_form_is_refused(tmp_path: Path, fleet: Fleet) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("hello\n")
    with pytest.raises(LogdoctorError, match="neither sacct"):
        fleet.add_accounting(file)
