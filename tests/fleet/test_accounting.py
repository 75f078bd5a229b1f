"""Accounting makes hours, cards and dates true; a clock that it contradicts is not trusted."""

from __future__ import annotations

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
