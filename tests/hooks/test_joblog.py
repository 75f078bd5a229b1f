"""The log of a job is found where PBS and Slurm put it, and one line says where it was not."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from vllm_logdoctor.errors import LogdoctorError
from vllm_logdoctor.hooks.joblog import find_job_log


def silent(command: Sequence[str]) -> str:
    """A batch system without commands."""
    return ""


def written(path: Path, text: str = "INFO vLLM\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.fixture
def pbs(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "work").mkdir()
    return {
        "PBS_JOBID": "77.head",
        "PBS_JOBNAME": "serve",
        "PBS_O_WORKDIR": str(tmp_path / "work"),
        "PBS_HOME": str(tmp_path / "pbs"),
    }


@pytest.fixture
def slurm(tmp_path: Path) -> dict[str, str]:
    return {"SLURM_JOB_ID": "31", "SLURM_JOB_NAME": "serve", "SLURM_SUBMIT_DIR": str(tmp_path)}


def test_a_named_log_comes_before_everything(pbs: dict[str, str], tmp_path: Path) -> None:
    log = written(tmp_path / "vllm.log")
    written(tmp_path / "pbs/spool/77.head.OU")
    assert find_job_log({**pbs, "LOGDOCTOR_LOG": str(log)}, query=silent) == [log]


def test_pbs_output_is_read_from_the_spool_while_the_job_runs(pbs: dict[str, str], tmp_path: Path) -> None:
    out = written(tmp_path / "pbs/spool/77.head.OU")
    err = written(tmp_path / "pbs/spool/77.head.ER")
    assert find_job_log(pbs, query=silent) == [out, err]


def test_an_empty_pbs_file_is_left_out(pbs: dict[str, str], tmp_path: Path) -> None:
    out = written(tmp_path / "pbs/spool/77.head.OU")
    written(tmp_path / "pbs/spool/77.head.ER", "")
    assert find_job_log(pbs, query=silent) == [out]


def test_pbs_home_comes_from_the_configuration_file(pbs: dict[str, str], tmp_path: Path) -> None:
    out = written(tmp_path / "elsewhere/spool/77.head.OU")
    configuration = written(tmp_path / "pbs.conf", f"PBS_SERVER=head\nPBS_HOME={tmp_path}/elsewhere\n")
    del pbs["PBS_HOME"]
    assert find_job_log({**pbs, "PBS_CONF_FILE": str(configuration)}, query=silent) == [out]


def test_pbs_says_where_a_named_output_is_even_on_a_broken_line(pbs: dict[str, str], tmp_path: Path) -> None:
    log = written(tmp_path / "a-long-directory-name" / "serve.out")
    text = str(log)
    answer = f"Job Id: 77.head\n    Output_Path = node1:{text[:30]}\n\t{text[30:]}\n    x = y\n"
    assert find_job_log(pbs, query=lambda command: answer if "qstat" in command[0] else "") == [log]


def test_a_pbs_output_that_is_a_directory_holds_a_file_of_the_job(
    pbs: dict[str, str], tmp_path: Path
) -> None:
    log = written(tmp_path / "outputs/77.head.OU")
    answer = f"Job Id: 77.head\n    Output_Path = node1:{log.parent}\n"
    assert find_job_log(pbs, query=lambda command: answer) == [log]


def test_the_subjob_of_a_pbs_array_has_its_own_file(pbs: dict[str, str], tmp_path: Path) -> None:
    mine = written(tmp_path / "work/serve.o77.4")
    written(tmp_path / "work/serve.o77.5")
    array = {**pbs, "PBS_JOBID": "77[4].head", "PBS_ARRAY_INDEX": "4"}
    assert find_job_log(array, query=silent) == [mine]


def test_the_index_is_filled_into_the_output_path_of_a_pbs_array(pbs: dict[str, str], tmp_path: Path) -> None:
    mine = written(tmp_path / "out-4.log")
    answer = f"Job Id: 77[4].head\n    Output_Path = node1:{tmp_path}/out-^array_index^.log\n"
    array = {**pbs, "PBS_JOBID": "77[4].head", "PBS_ARRAY_INDEX": "4"}
    assert find_job_log(array, query=lambda command: answer) == [mine]


def test_an_ended_pbs_job_is_found_by_its_number_from_another_job(
    pbs: dict[str, str], tmp_path: Path
) -> None:
    out = written(tmp_path / "work/other.o66")
    err = written(tmp_path / "work/other.e66")
    assert find_job_log(pbs, job_id="66.head", query=silent) == [err, out]


def test_slurm_says_where_the_output_is(slurm: dict[str, str], tmp_path: Path) -> None:
    out, err = written(tmp_path / "my out.log"), written(tmp_path / "my.err")
    answer = f"JobId=31 JobName=serve\n   StdErr={err}\n   StdIn=/dev/null\n   StdOut={out}\n   Power=\n"
    assert find_job_log(slurm, query=lambda command: answer) == [out, err]


def test_one_slurm_file_for_both_streams_is_read_once(slurm: dict[str, str], tmp_path: Path) -> None:
    out = written(tmp_path / "slurm-31.out")
    answer = f"JobId=31 JobName=serve\n   StdErr={out}\n   StdOut={out}\n"
    assert find_job_log(slurm, query=lambda command: answer) == [out]


def test_patterns_that_slurm_left_in_a_path_are_filled_in(slurm: dict[str, str], tmp_path: Path) -> None:
    log = written(tmp_path / "serve-30_007.out")
    answer = f"JobId=31 ArrayJobId=30 ArrayTaskId=7 JobName=serve\n   StdOut={tmp_path}/%x-%A_%3a.out\n"
    assert find_job_log(slurm, query=lambda command: answer) == [log]


def test_the_task_whose_number_is_the_number_of_the_array_finds_its_own_file(
    slurm: dict[str, str], tmp_path: Path
) -> None:
    mine, other = written(tmp_path / "slurm-31_2.out"), written(tmp_path / "slurm-31_1.out")
    answer = (
        f"JobId=31 ArrayJobId=31 ArrayTaskId=2 JobName=serve\n   StdOut={mine}\n\n"
        f"JobId=32 ArrayJobId=31 ArrayTaskId=1 JobName=serve\n   StdOut={other}\n\n"
    )
    assert find_job_log(slurm, query=lambda command: answer) == [mine]
    assert find_job_log({**slurm, "SLURM_JOB_ID": "40"}, job_id="31", query=lambda c: answer) == [other, mine]


def test_slurm_without_scontrol_falls_back_to_the_default_names(
    slurm: dict[str, str], tmp_path: Path
) -> None:
    log = written(tmp_path / "slurm-31.out")
    assert find_job_log(slurm, query=silent) == [log]
    task = written(tmp_path / "slurm-30_2.out")
    array = {**slurm, "SLURM_ARRAY_JOB_ID": "30", "SLURM_ARRAY_TASK_ID": "2"}
    assert find_job_log(array, query=silent) == [task]


def test_the_scripts_own_output_is_the_last_resort(slurm: dict[str, str], tmp_path: Path) -> None:
    own = written(tmp_path / "strange-name")
    assert find_job_log(slurm, own_output=own, query=silent) == [own]


@pytest.mark.parametrize("hostile", ["../../etc/passwd", "77;reboot", "-f", "77 78", "$(id)"])
def test_what_is_no_job_id_is_asked_for_nowhere(pbs: dict[str, str], hostile: str) -> None:
    asked: list[Sequence[str]] = []

    def query(command: Sequence[str]) -> str:
        asked.append(command)
        return ""

    for environ in ({**pbs, "PBS_JOBID": hostile}, {"SLURM_JOB_ID": hostile}):
        with pytest.raises(LogdoctorError, match="is not the id of a job"):
            find_job_log(environ, query=query)
    assert asked == []


def test_a_log_that_is_not_found_is_one_line_that_says_where_it_looked(pbs: dict[str, str]) -> None:
    with pytest.raises(
        LogdoctorError, match=r"log of PBS job 77.head was not found: nothing in .*77.head.OU"
    ) as told:
        find_job_log(pbs, query=silent)
    assert "\n" not in str(told.value)
    assert "LOGDOCTOR_LOG" in str(told.value)


def test_outside_of_a_job_the_line_says_what_is_missing() -> None:
    with pytest.raises(LogdoctorError, match="neither PBS_JOBID nor SLURM_JOB_ID"):
        find_job_log({}, query=silent)


def test_a_log_without_the_right_to_read_is_said_so(
    slurm: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path / "slurm-31.out")
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(LogdoctorError, match="no right to read"):
        find_job_log(slurm, query=silent)
