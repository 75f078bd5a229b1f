"""How a job ended, asked of a batch system that is stood in for."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from vllm_logdoctor.hooks import query as query_module
from vllm_logdoctor.hooks.ending import facts_of, job_end
from vllm_logdoctor.hooks.query import Query, ask
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
        asked.append(" ".join(command))
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
    assert asked == ["scontrol show job 45"]


def test_the_accounting_is_asked_where_slurm_has_forgotten_the_job() -> None:
    asked, query = answers(sacct="FAILED|7:0|00:00:08|00:05:00|400M\n")
    end = job_end({}, "45", None, {}, [], query)
    assert end is not None
    assert (end.exit_status, end.elapsed, end.walltime, end.memory) == (7, 8.0, 300.0, 400 << 20)
    assert asked == [
        "scontrol show job 45",
        "sacct -X -n -P -j 45 -o State,ExitCode,Elapsed,Timelimit,ReqMem",
    ]


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


USED_UP = {"Resource_List.walltime": "00:10:00", "resources_used.walltime": "00:10:00"}


@pytest.mark.parametrize(
    ("status", "facts", "limit"),
    [
        (143, USED_UP, "walltime"),
        (137, USED_UP, "walltime"),
        (143, {**USED_UP, "resources_used.walltime": "00:09:59"}, ""),
        (139, USED_UP, ""),
        (1, USED_UP, ""),
        (143, {"Resource_List.walltime": "00:10:00"}, ""),
        (143, {**USED_UP, "Exit_status": "-27"}, "memory"),
    ],
)
def test_a_signal_that_came_when_the_walltime_was_used_up_came_for_it(
    status: int, facts: dict[str, str], limit: str
) -> None:
    end = job_end({"PBS_JOBID": "9.head"}, "", status, facts, [], answers()[1])
    assert end is not None
    assert (end.job, end.limit) == ("PBS job 9.head", limit)


@pytest.mark.parametrize(
    ("state", "stime", "elapsed"),
    [("R", "Mon Mar  2 10:00:00 2026", 90.0), ("E", "Mon Mar  2 10:00:00 2026", 90.0), ("F", "Mon Mar  2 10:00:00 2026", 5.0), ("R", "yesterday", 5.0), ("R", "Mon Mar  2 11:00:00 2026", 0.0)],
)  # fmt: skip
def test_the_time_of_a_running_job_is_that_since_its_start(
    state: str, stime: str, elapsed: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What the server knows of the time used is minutes old.
    began = time.mktime(time.strptime("Mon Mar  2 10:00:00 2026", "%a %b %d %H:%M:%S %Y"))
    monkeypatch.setattr(time, "time", lambda: began + 90.5)
    answer = f"Job Id: 9.head\n    job_state = {state}\n    stime = {stime}\n    resources_used.walltime = 00:00:05\n"
    asked, query = answers(qstat=answer)
    end = job_end({"PBS_JOBID": "9.head"}, "", None, {}, [], query)
    assert end is not None
    assert end.elapsed == elapsed
    assert asked == ["qstat -x -f 9.head"]


def test_nothing_is_asked_where_no_job_is_known_and_a_script_that_ended_says_so() -> None:
    asked, query = answers()
    assert job_end({}, "", None, {}, [], query) is None
    assert job_end({}, "", None, {}, [], query, ended=True) == JobEnd(words="the script of the job has ended")
    end = job_end({}, "", 7, {}, [], query, ended=True)
    assert end is not None
    assert (end.job, end.exit_status, end.words) == ("", 7, "exit status 7")
    assert asked == []


def test_a_named_job_comes_before_the_job_that_the_hook_runs_in() -> None:
    _, query = answers(scontrol="JobId=45\n   JobState=FAILED\n   ExitCode=7:0\n")
    end = job_end({"SLURM_JOB_ID": "31"}, "45", None, {}, [], query)
    assert end is not None
    assert (end.job, end.exit_status) == ("Slurm job 45", 7)


def test_the_first_output_that_says_how_the_job_ended_is_cited_by_the_name_that_it_gets(
    tmp_path: Path,
) -> None:
    spool = tmp_path / "spool"
    spool.mkdir()
    (spool / "9.head.OU").write_text("fine\n")
    (spool / "9.head.ER").write_text("=>> PBS: job killed: walltime 35 exceeded limit 30\n")
    outputs = [tmp_path / "absent.OU", spool / "9.head.OU", spool / "9.head.ER"]
    environ = {"PBS_JOBID": "9.head", "PBS_JOBNAME": "serve", "PBS_O_WORKDIR": "/work"}
    end = job_end(environ, "", 143, {}, outputs, answers()[1])
    assert end is not None
    assert (end.limit, end.elapsed, end.walltime, end.signal) == ("walltime", 35.0, 30.0, 15)
    assert (end.file, end.line) == ("/work/serve.e9", 1)


@pytest.mark.parametrize(
    ("text", "facts"),
    [('{"a": 1, "b": null}', {"a": "1", "b": "None"}), ("[1]", {}), ("", {}), ("no JSON", {})],
)
def test_facts_of_a_hook_are_texts_by_name(text: str, facts: dict[str, str]) -> None:
    assert facts_of(text) == facts


@pytest.mark.parametrize(
    ("script", "answer"),
    [("echo out; echo err >&2", "out\n"), ("echo out; exit 1", ""), ("head -c 2000000 /dev/zero | tr '\\0' x", "x" * (1 << 20)), ("printf '\\377'", "\ufffd")],
    ids=["output alone", "failed", "long", "no UTF-8"],
)  # fmt: skip
def test_an_answer_of_the_batch_system_is_bounded_text(script: str, answer: str) -> None:
    assert ask(["sh", "-c", script]) == answer


def test_a_batch_system_that_does_not_answer_is_left_after_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query_module, "_SECONDS", 0.05)
    began = time.monotonic()
    assert ask(["sleep", "20"]) == ""
    assert time.monotonic() - began < 10
