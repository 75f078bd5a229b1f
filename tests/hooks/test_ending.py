"""How a job ended, asked of a batch system that is stood in for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from vllm_logdoctor.hooks.ending import job_end
from vllm_logdoctor.hooks.query import Query
from vllm_logdoctor.run.job import JobEnd

TASKS = """\
JobId=31 ArrayJobId=31 ArrayTaskId=2 JobName=serve
   JobState=TIMEOUT Reason=TimeLimit Dependency=(null)
   Requeue=1 Restarts=0 BatchFlag=1 Reboot=0 ExitCode=0:15
   RunTime=02:00:12 TimeLimit=02:00:00 TimeMin=N/A

JobId=32 ArrayJobId=31 ArrayTaskId=1 JobName=serve
   JobState=FAILED Reason=NonZeroExitCode Dependency=(null)
   Requeue=1 Restarts=0 BatchFlag=1 Reboot=0 ExitCode=7:0
   RunTime=00:05:00 TimeLimit=02:00:00 TimeMin=N/A
"""


def answers(**texts: str) -> tuple[list[str], Query]:
    asked: list[str] = []

    def query(command: Sequence[str]) -> str:
        asked.append(command[0])
        return texts.get(command[0], "")

    return asked, query


def test_scontrol_is_asked_first_for_it_knows_the_exit_status_as_it_is() -> None:
    # For a script that ended with 137, sacct prints 9:0.
    asked, query = answers(
        scontrol="JobId=45\n   JobState=FAILED\n   ExitCode=137:0\n",
        sacct="FAILED|9:0|00:00:08|UNLIMITED|400M\n",
    )
    end = job_end({}, "45", None, {}, [], query)
    assert end is not None
    assert (end.signal, end.exit_status) == (9, None)
    assert asked == ["scontrol"]


def test_the_accounting_is_asked_where_slurm_has_forgotten_the_job() -> None:
    asked, query = answers(sacct="FAILED|7:0|00:00:08|00:05:00|400M\n")
    end = job_end({}, "45", None, {}, [], query)
    assert end is not None
    assert (end.exit_status, end.elapsed, end.walltime, end.memory) == (7, 8.0, 300.0, 400 << 20)
    assert asked == ["scontrol", "sacct"]


def test_the_last_task_of_an_array_has_the_number_of_the_array_and_an_end_of_its_own() -> None:
    _, query = answers(scontrol=TASKS)
    end = job_end({"SLURM_JOB_ID": "31"}, "", None, {}, [], query)
    assert end is not None
    assert (end.limit, end.elapsed) == ("walltime", 7212.0)


def test_a_whole_array_has_no_end_of_its_own(tmp_path: Path) -> None:
    output = tmp_path / "slurm-31_2.out"
    output.write_text(
        "slurmstepd: error: *** JOB 31 ON n1 CANCELLED AT 2026-03-02T10:00:00 DUE TO TIME LIMIT ***\n"
    )
    for texts in (
        {"scontrol": TASKS},
        {"sacct": "TIMEOUT|0:15|02:00:12|02:00:00|4G\nFAILED|7:0|00:05:00|02:00:00|4G\n"},
    ):
        end = job_end({"SLURM_JOB_ID": "40"}, "31", None, {}, [output], answers(**texts)[1])
        assert end == JobEnd(words="the jobs of an array end each in its own way")


def test_the_batch_systems_words_are_cited_with_their_place(tmp_path: Path) -> None:
    output = tmp_path / "slurm-31.out"
    words = "slurmstepd: error: *** JOB 31 ON n1 CANCELLED AT 2026-03-02T10:00:00 DUE TO TIME LIMIT ***"
    output.write_text(f"hello\n{words}\n")
    end = job_end({}, "31", 143, {}, [output], answers()[1])
    assert end is not None
    assert (end.limit, end.file, end.line, end.words) == ("walltime", str(output), 2, words)
    # Of a long output the end alone is read: the line is not known.
    output.write_text("x" * 100_000 + f"\n{words}\n")
    end = job_end({}, "31", 143, {}, [output], answers()[1])
    assert end is not None
    assert (end.limit, end.file, end.line, end.words) == ("walltime", "", 0, words)
