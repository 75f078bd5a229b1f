"""The printed scripts, run by the shells of batch systems, never change the exit status of a job."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hook_samples import SERVER_LOG, told

from vllm_logdoctor.errors import LogdoctorError
from vllm_logdoctor.hooks.scripts import KINDS, ScriptValues, script

SHELLS = [shell for shell in ("bash", "dash", "zsh", "ksh") if shutil.which(shell)]
SHELL_SCRIPTS = [(system, kind) for system, kinds in KINDS.items() for kind in kinds if kind != "epilogue"]

StandIn = Callable[[str], str]


def run_job(
    shell: str, text: str, folder: Path, environ: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a job script as a batch system does, with its output in a file of the spool."""
    path = folder / "job.sh"
    path.write_text(text)
    return subprocess.run(
        [shell, path],
        cwd=folder,
        env={"PATH": os.environ["PATH"], **(environ or {})},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.fixture
def pbs_environment(tmp_path: Path) -> dict[str, str]:
    """What PBS gives a job, with its output in the spool."""
    spool = tmp_path / "pbs/spool"
    spool.mkdir(parents=True)
    (spool / "55.head.OU").write_text(SERVER_LOG)
    (tmp_path / "work").mkdir()
    return {
        "PBS_JOBID": "55.head",
        "PBS_JOBNAME": "serve",
        "PBS_O_WORKDIR": str(tmp_path / "work"),
        "PBS_HOME": str(tmp_path / "pbs"),
        "PBS_ENVIRONMENT": "PBS_BATCH",
        "PBS_QUEUE": "gpu",
        "TMPDIR": str(tmp_path),
    }


@pytest.mark.parametrize("shell", SHELLS)
def test_a_pbs_job_reports_from_the_spool_to_its_directory(
    shell: str, tmp_path: Path, logdoctor: str, pbs_environment: dict[str, str]
) -> None:
    fragment = script("pbs", "job", ScriptValues(logdoctor))
    done = run_job(shell, f"{fragment}\nexit 3\n", tmp_path, pbs_environment)
    assert done.returncode == 3
    report = tmp_path / "work/serve.o55.logdoctor.md"
    assert told(done.stdout)[2] == f"logdoctor: report: {report}"
    assert len(told(done.stdout)) == 3
    assert "0.11.2" in report.read_text()


def test_a_pbs_afterany_job_reports_on_the_other_job(
    tmp_path: Path, logdoctor: str, pbs_environment: dict[str, str]
) -> None:
    (tmp_path / "work/serve.o54").write_text(SERVER_LOG)
    environ = {**pbs_environment, "LOGDOCTOR_JOB": "54.head"}
    done = run_job("sh", script("pbs", "afterany", ScriptValues(logdoctor)), tmp_path, environ)
    assert done.returncode == 0
    assert told(done.stdout)[2].endswith("work/serve.o54.logdoctor.md")


@pytest.mark.parametrize("system", ["pbs", "slurm"])
def test_an_afterany_job_without_a_job_says_so(system: str, tmp_path: Path) -> None:
    done = run_job("sh", script(system, "afterany", ScriptValues("/absent")), tmp_path)
    assert done.returncode == 0
    assert told(done.stdout) == ["logdoctor: no report: neither LOGDOCTOR_JOB nor LOGDOCTOR_LOG is set"]


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("options", ["", "set -e", "set -u", "set -eu", "set -f", "IFS=:"])
@pytest.mark.parametrize("status", [0, 5])
def test_the_exit_status_of_the_job_stays(
    shell: str, options: str, status: int, tmp_path: Path, stand_in: StandIn
) -> None:
    fragment = script("slurm", "job", ScriptValues(stand_in("echo logdoctor: said")))
    done = run_job(shell, f"{options}\n{fragment}\n(exit {status})\nexit {status}\n", tmp_path)
    assert done.returncode == status
    assert told(done.stdout) == ["logdoctor: said"]


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    "body", ["exit 1", "kill -SEGV $$", "kill -KILL $$", "echo Traceback >&2; exit 120"], ids=str
)
@pytest.mark.parametrize("options", ["", "set -eu"])
def test_a_tool_that_fails_is_one_line(
    shell: str, body: str, options: str, tmp_path: Path, stand_in: StandIn
) -> None:
    fragment = script("pbs", "job", ScriptValues(stand_in(body)))
    done = run_job(shell, f"{options}\n{fragment}\nexit 0\n", tmp_path)
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) == 1
    assert done.stdout.startswith("logdoctor: no report: the tool ended with status ")


@pytest.mark.parametrize("shell", SHELLS)
def test_a_tool_that_is_not_there_is_one_line(shell: str, tmp_path: Path) -> None:
    fragment = script("pbs", "job", ScriptValues("/absent/logdoctor"))
    done = run_job(shell, f"set -eu\n{fragment}\nexit 6\n", tmp_path)
    assert done.returncode == 6
    assert done.stdout.splitlines() == [
        "logdoctor: no report: /absent/logdoctor is not there, or may not be run"
    ]


@pytest.mark.parametrize("shell", SHELLS)
def test_a_tool_that_hangs_is_ended(shell: str, tmp_path: Path, stand_in: StandIn) -> None:
    fragment = script("pbs", "job", ScriptValues(stand_in("exec tail -f /dev/null"))).replace("+ 10", "+ 0")
    done = run_job(shell, f"{fragment}\nexit 2\n", tmp_path, {"LOGDOCTOR_SECONDS": "1"})
    assert done.returncode == 2
    assert told(done.stdout) == ["logdoctor: no report: the time is over"]


@pytest.mark.parametrize("seconds", ["", "abc", "08", "-1", "9999999", "1;echo", "$(id)"])
def test_a_strange_time_limit_becomes_the_default(seconds: str, tmp_path: Path, stand_in: StandIn) -> None:
    fragment = script("pbs", "job", ScriptValues(stand_in('echo "logdoctor: $4"'), seconds=33))
    done = run_job("bash", f"set -eu\n{fragment}\n", tmp_path, {"LOGDOCTOR_SECONDS": seconds})
    assert (done.returncode, done.stdout) == (0, "logdoctor: 33\n")


@pytest.mark.parametrize("shell", SHELLS)
def test_without_timeout_nothing_is_run(shell: str, tmp_path: Path, stand_in: StandIn) -> None:
    fragment = script("pbs", "job", ScriptValues(stand_in("echo ran")))
    text = f"PATH=/nowhere\n{fragment}\nexit 4\n"
    done = run_job(str(shutil.which(shell)), text, tmp_path)
    assert done.returncode == 4
    assert done.stdout.splitlines() == ["logdoctor: no report: the command timeout (coreutils) is missing"]


def test_a_full_disk_under_the_jobs_output_changes_nothing(
    tmp_path: Path, logdoctor: str, server_log: Path
) -> None:
    fragment = script("pbs", "job", ScriptValues(logdoctor))
    job = tmp_path / "job.sh"
    job.write_text(f"{fragment}\nexit 8\n")
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            ["bash", job],
            env={"PATH": os.environ["PATH"], "LOGDOCTOR_LOG": str(server_log)},
            stdout=full,
            stderr=full,
            check=False,
        )
    assert done.returncode == 8


def test_a_trap_that_was_there_before_runs_too_and_sees_the_status(tmp_path: Path, stand_in: StandIn) -> None:
    fragment = script("slurm", "job", ScriptValues(stand_in("echo logdoctor: said")))
    text = f"set -e\ntrap 'echo \"cleaned '\\''up'\\'' after $?\"' EXIT\n{fragment}\nexit 9\n"
    done = run_job("bash", text, tmp_path)
    assert done.returncode == 9
    assert done.stdout.splitlines() == ["logdoctor: said", "cleaned 'up' after 9"]


def test_the_arguments_of_the_job_script_stay(tmp_path: Path, stand_in: StandIn) -> None:
    fragment = script("slurm", "job", ScriptValues(stand_in("true")))
    job = tmp_path / "job.sh"
    job.write_text(f'{fragment}\necho "$#:$1"\n')
    done = subprocess.run(["bash", job, "a b", "c"], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[0] == "2:a b"


@pytest.mark.parametrize("shell", SHELLS)
def test_a_job_that_is_ended_by_a_signal_reports_once_and_ends_by_that_signal(
    shell: str, tmp_path: Path, stand_in: StandIn
) -> None:
    fragment = script("slurm", "job", ScriptValues(stand_in("echo logdoctor: said")))
    job = tmp_path / "job.sh"
    job.write_text(f"{fragment}\nkill -TERM $$\nexit 0\n")
    done = subprocess.run([shell, job], capture_output=True, text=True, timeout=30, check=False)
    assert done.stdout == "logdoctor: said\n"
    assert done.returncode == -signal.SIGTERM


# ksh gives a command substitution up at a signal that it ignores.
@pytest.mark.parametrize("shell", [shell for shell in SHELLS if shell != "ksh"])
def test_a_signal_while_the_report_is_written_does_not_end_it(
    shell: str, tmp_path: Path, stand_in: StandIn
) -> None:
    # MOM signals the processes of a job one after the other: the program, then the shell, which reports on that end already.
    body = 'while [ "$1" != --shell ]; do shift; done; kill -TERM "$2"; echo logdoctor: said'
    fragment = script("pbs", "job", ScriptValues(stand_in(body)))
    done = run_job(shell, f"{fragment}\nexit 7\n", tmp_path)
    assert done.stdout == "logdoctor: said\n"
    assert done.returncode == 7


@pytest.mark.parametrize("shell", SHELLS)
def test_a_reader_of_the_output_that_is_gone_does_not_change_the_exit_status(
    shell: str, tmp_path: Path, stand_in: StandIn
) -> None:
    fragment = script("slurm", "job", ScriptValues(stand_in("echo logdoctor: said")))
    (tmp_path / "job.sh").write_text(f"{fragment}\nexit 7\n")
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([shell, tmp_path / "job.sh"], stdout=write, timeout=30, check=False)
    os.close(write)
    assert done.returncode == 7


def test_the_tool_learns_the_exit_status_of_the_job(tmp_path: Path, stand_in: StandIn) -> None:
    fragment = script("slurm", "job", ScriptValues(stand_in('echo "logdoctor: $*"')))
    assert run_job("bash", f"{fragment}\nexit 7\n", tmp_path).stdout.strip().endswith("--status 7")


def test_the_libraries_of_the_job_are_not_the_tools(tmp_path: Path, stand_in: StandIn) -> None:
    fragment = script(
        "pbs", "job", ScriptValues(stand_in('echo "logdoctor: ${PYTHONPATH-none} ${PYTHONHOME-none}"'))
    )
    done = run_job("bash", fragment, tmp_path, {"PYTHONPATH": "/of/the/job", "PYTHONHOME": "/too"})
    assert told(done.stdout) == ["logdoctor: none none"]


@pytest.mark.parametrize(
    ("environ", "runs"),
    [
        ({}, False),
        ({"LOGDOCTOR": "1"}, True),
        ({"LOGDOCTOR": "1", "SLURM_PROCID": "1"}, False),
        ({"LOGDOCTOR": "1", "SLURM_STEP_ID": "0"}, False),
        ({"LOGDOCTOR": "1", "SLURM_STEP_ID": "4294967291"}, True),
        ({"LOGDOCTOR": "0"}, False),
    ],
)
def test_a_task_epilog_runs_once_for_jobs_that_ask(
    environ: dict[str, str], runs: bool, tmp_path: Path, stand_in: StandIn
) -> None:
    mark = tmp_path / "ran"
    text = script("slurm", "task-epilog", ScriptValues(stand_in(f"echo $* > {mark}; exit 1")))
    done = run_job("sh", text.replace('"$(id -u)"', "1000"), tmp_path, environ)
    assert done.returncode == 0
    assert mark.exists() == runs


def test_the_end_of_a_job_waits_less_for_a_task_epilog_than_a_job_of_its_own() -> None:
    values = ScriptValues("/opt/logdoctor", seconds=15)
    assert "timeout -k 2 17 " in script("slurm", "task-epilog", values)
    assert "timeout -k 5 25 " in script("slurm", "afterany", values)


def test_a_task_epilog_never_runs_as_root(tmp_path: Path, stand_in: StandIn) -> None:
    mark = tmp_path / "ran"
    text = script("slurm", "task-epilog", ScriptValues(stand_in(f"touch {mark}")))
    run_job("sh", text.replace('"$(id -u)"', "0"), tmp_path, {"LOGDOCTOR": "1"})
    assert not mark.exists()


def test_a_command_with_blanks_and_quotes_in_its_path_is_run(tmp_path: Path) -> None:
    folder = tmp_path / "it's a place"
    folder.mkdir()
    (folder / "logdoctor").write_text("#!/bin/sh\necho logdoctor: said\n")
    (folder / "logdoctor").chmod(0o755)
    done = run_job("bash", script("pbs", "job", ScriptValues(str(folder / "logdoctor"))), tmp_path)
    assert told(done.stdout) == ["logdoctor: said"]


@pytest.mark.parametrize(("system", "kind"), [*SHELL_SCRIPTS, ("pbs", "epilogue")])
def test_nothing_is_left_unfilled(system: str, kind: str) -> None:
    text = script(system, kind, ScriptValues("/opt/logdoctor"))
    assert "@" not in text.replace('"$@"', "")


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="shellcheck is not installed")
@pytest.mark.parametrize(("system", "kind"), SHELL_SCRIPTS)
@pytest.mark.parametrize("dialect", ["bash", "dash"])
def test_shellcheck_has_nothing_to_say(system: str, kind: str, dialect: str) -> None:
    done = subprocess.run(
        ["shellcheck", "-s", dialect, "-"],
        input=script(system, kind, ScriptValues("/opt/logdoctor")),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == ""


def test_an_unknown_kind_names_the_known_ones() -> None:
    with pytest.raises(LogdoctorError, match="job, afterany, epilogue"):
        script("pbs", "prologue", ScriptValues("/opt/logdoctor"))


def tools(folder: Path, curl: str) -> str:
    """Return a PATH with an own curl and nvidia-smi before the others."""
    (folder / "bin").mkdir()
    for name, text in (
        ("curl", curl),
        ("nvidia-smi", "printf 'Attached GPUs                             : 1\\n'"),
    ):
        (folder / "bin" / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / "bin" / name).chmod(0o755)
    return f"{folder / 'bin'}:{os.environ['PATH']}"


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    ("curl", "kept"),
    [
        ('echo "vllm:num_preemptions_total{model_name=\\"models/tiny\\"} 7"', "vllm:num_preemptions_total"),
        ("exit 7", None),
        ("sleep 30", None),
        ("yes", "y"),
    ],
    ids=["answers", "is gone", "hangs", "never ends"],
)
def test_what_the_server_counted_is_saved_at_the_end_within_bounds(
    shell: str,
    curl: str,
    kept: str | None,
    tmp_path: Path,
    logdoctor: str,
    stand_in: StandIn,
    pbs_environment: dict[str, str],
) -> None:
    beside = tmp_path / "job's files"
    reports = curl == "exit 7"  # What is read is the same in each case: once for each shell is enough.
    environ = {**pbs_environment, "LOGDOCTOR_BESIDE": str(beside), "PATH": tools(tmp_path, curl)}
    values = ScriptValues(logdoctor if reports else stand_in("true"))
    done = run_job(shell, f"{script('pbs', 'job', values)}\nexit 3\n", tmp_path, environ)
    assert done.returncode == 3
    metrics = beside / "metrics-end.txt"
    assert (
        (metrics.read_text().startswith(kept) and metrics.stat().st_size <= 4 << 20)
        if kept
        else not metrics.exists()
    )
    assert "Attached GPUs" in (beside / "nvidia-smi-q-end.txt").read_text()
    report = tmp_path / "work/serve.o55.logdoctor.md"
    assert report.exists() == reports
    assert not reports or "nvidia-smi-q-end.txt" in report.read_text()


def test_nothing_is_saved_unless_it_is_asked_for(
    tmp_path: Path, logdoctor: str, pbs_environment: dict[str, str]
) -> None:
    environ = {**pbs_environment, "PATH": tools(tmp_path, "echo x")}
    run_job("sh", f"{script('pbs', 'job', ScriptValues(logdoctor))}\nexit 0\n", tmp_path, environ)
    assert not list(tmp_path.rglob("*-end.txt"))
