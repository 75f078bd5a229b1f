"""Workers as batch jobs: the site's options, and real Slurm and PBS where they are on this host; the same rows from each."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from vllm_logdoctor.errors import LogdoctorError
from vllm_logdoctor.fleet.cluster import _has_ended, _job_options, cluster_workers, scheduler_workers, site_of
from vllm_logdoctor.fleet.library import Fleet
from vllm_logdoctor.fleet.schema import TABLES

TREE = Path(__file__).parents[2]
NODE = TREE / "tests" / "hooks" / "slurm_node.sh"


def rows(fleet: Fleet) -> dict[str, list[str]]:
    """Return all rows without what differs from reading to reading."""
    left_out = {"part", "added", "seconds"}
    return {
        table: sorted(
            str({name: value for name, value in row.items() if name not in left_out})
            for row in fleet.table(table).to_pylist()
        )
        for table in TABLES
    }


@pytest.mark.parametrize(
    ("kind", "answer", "ended"),
    [
        ("slurm", "echo '7 gpu PD'", False),
        ("slurm", "", True),
        ("slurm", "echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1", True),
        ("slurm", "echo 'Unable to contact slurm controller' >&2; exit 1", False),
        ("pbs", "echo 'qstat: Unknown Job Id 7.head' >&2; exit 153", True),
        ("pbs", "echo 'qstat: 7.head Job has finished' >&2; exit 35", True),
        ("pbs", "", False),
        ("pbs", None, False),
    ],
)
def test_a_job_has_ended_only_where_the_batch_system_says_so(
    kind: str, answer: str | None, ended: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    if answer is not None:
        for name in ("qstat", "squeue"):
            (tmp_path / name).write_text(f"#!/bin/sh\n{answer}\n")
            (tmp_path / name).chmod(0o755)
    assert _has_ended(kind, "7") is ended


def test_the_site_s_options_reach_the_job_script() -> None:
    site = site_of(
        {
            "queue": "cpu",
            "account": "abc",
            "walltime": "00:30:00",
            "interface": "ib0",
            "job_directives": ["--qos=x"],
        }
    )
    options = _job_options("slurm", site)
    assert (options["queue"], options["account"], options["interface"]) == ("cpu", "abc", "ib0")
    assert options["job_extra_directives"] == ["--qos=x"]
    assert options["worker_extra_args"][:2] == ["--lifetime", "1680s"]
    # Two calls on one login node: no port is asked for that the other one has.
    assert options["scheduler_options"]["dashboard_address"].endswith(":0")


@pytest.mark.parametrize("values", [{"quueue": "cpu"}, {"workers": "many"}, {"walltime": "00:01:00"}])
def test_a_wrong_option_is_named(values: dict[str, Any]) -> None:
    with pytest.raises(LogdoctorError) as error:
        _job_options("slurm", site_of(values))
    assert next(iter(values)) in str(error.value)


def test_a_scheduler_that_is_not_there_is_a_clear_word(tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    (tmp_path / "scheduler.json").write_text('{"address": "tcp://127.0.0.1:9"}')
    with (
        pytest.raises(LogdoctorError, match="no scheduler"),
        scheduler_workers(str(tmp_path / "scheduler.json"), patience=2),
    ):
        pass


def test_a_scheduler_file_that_is_not_there_is_not_waited_for(tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    absent = str(tmp_path / "scheduler.json")
    with pytest.raises(LogdoctorError, match=f"no scheduler file {absent}"), scheduler_workers(absent):
        pass


@pytest.mark.parametrize(
    ("kind", "command", "words"),
    [
        ("pbs", "qsub", "qsub: Bad UID for job execution"),
        ("pbs", "qsub", "qsub: Unknown queue"),
        ("slurm", "sbatch", "sbatch: error: invalid partition specified: nowhere"),
        ("slurm", "sbatch", "sbatch: error: Invalid account or account/partition combination specified"),
    ],
)
def test_a_job_that_the_batch_system_refuses_ends_with_its_words(
    kind: str, command: str, words: str, tmp_path: Path, logs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("dask_jobqueue")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    (tmp_path / command).write_text(f"#!/bin/sh\necho '{words}' >&2\nexit 17\n")
    (tmp_path / command).chmod(0o755)
    add = ["fleet", "add", str(tmp_path / "store"), str(logs), "--cluster", kind]
    ended = subprocess.run(
        [sys.executable, "-m", "vllm_logdoctor", *add],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    said = f"--cluster {kind}: {command} refuses the job (exit status 17): {words}"
    assert (ended.returncode, " ".join(ended.stderr.split())) == (3, f"logdoctor: {said}")


def test_a_later_job_that_is_refused_is_said_and_the_others_go_on(
    tmp_path: Path, logs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("dask_jobqueue")
    import dask

    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr("vllm_logdoctor.fleet.cluster._UNTIL_ASKED_AGAIN", 0.2)
    # The first job begins when another one was refused twice.
    (tmp_path / "sbatch").write_text(
        f"#!/bin/sh\ncd {tmp_path}\nif mkdir first 2>/dev/null; then cp $1 job.sh\n"
        "(until test -d third; do sleep 0.1; done; exec bash job.sh) >job.log 2>&1 </dev/null & echo $! >pid\n"
        "echo Submitted batch job 7; else mkdir second 2>/dev/null || mkdir -p third; echo 'sbatch: error: MaxSubmitJobs' >&2; exit 1; fi\n"
    )
    (tmp_path / "sbatch").chmod(0o755)
    (tmp_path / "scancel").write_text(f"#!/bin/sh\nkill $(cat {tmp_path}/pid)\n")
    (tmp_path / "scancel").chmod(0o755)
    notes: list[str] = []
    fleet = Fleet(tmp_path / "store")
    options = {**site(tmp_path), "workers": 2, "interface": "lo"}
    with (
        dask.config.set({"distributed.adaptive.target-duration": "1ms"}),
        cluster_workers("slurm", options, notes.append) as workers,
    ):
        done = fleet.add([logs], workers=workers)
    assert done.read == 7
    assert len(notes) == 1
    assert "sbatch refuses the job (exit status 1): sbatch: error: MaxSubmitJobs" in notes[0]


@pytest.mark.parametrize(
    ("kind", "submit", "look", "answer"),
    [
        ("pbs", "qsub", "qstat", "echo 'qstat: Unknown Job Id 7.head' >&2; exit 153"),
        ("pbs", "qsub", "qstat", "echo 'qstat: 7.head Job has finished, use -x or -H' >&2; exit 35"),
        ("slurm", "sbatch", "squeue", "exit 0"),
        ("slurm", "sbatch", "squeue", "echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1"),
    ],
)
def test_a_job_that_ends_without_a_worker_is_not_waited_for(
    kind: str,
    submit: str,
    look: str,
    answer: str,
    tmp_path: Path,
    logs: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("dask_jobqueue")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr("vllm_logdoctor.fleet.mapping._UNTIL_LOOKED", 0.01)
    # Without the packages of the site, the worker's interpreter has no distributed.
    cancelled = "exit 0"
    for name, words in (
        ("qdel", cancelled),
        ("scancel", cancelled),
        (submit, f"bash $1 >{tmp_path}/worker.7.out 2>&1; echo 7"),
        (look, answer),
    ):
        (tmp_path / name).write_text(f"#!/bin/sh\n{words}\n")
        (tmp_path / name).chmod(0o755)
    options = {**site(tmp_path), "python": f"{sys.executable} -I -S", "interface": "lo"}
    with pytest.raises(LogdoctorError) as said, cluster_workers(kind, options) as workers:
        Fleet(tmp_path / "store").add([logs], workers=workers)
    assert f"--cluster {kind}: job 7 ended without a worker: " in str(said.value)
    assert "No module named 'distributed'" in str(said.value)


def test_a_running_scheduler_gives_the_same_rows(tmp_path: Path, logs: Path, fleet: Fleet) -> None:
    distributed = pytest.importorskip("distributed")
    file = tmp_path / "scheduler.json"
    with (
        distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        client.write_scheduler_file(str(file))
        with scheduler_workers(str(file)) as workers:
            other = Fleet(tmp_path / "other")
            other.add([logs], workers=workers)
    assert rows(other) == rows(fleet)


def site(folder: Path) -> dict[str, Any]:
    """Return what a worker on this host needs."""
    return {
        "python": sys.executable, "job_script_prologue": [f"export PYTHONPATH={TREE}"], "memory": "480MB", "workers": 1,
        "log_directory": str(folder), "local_directory": str(folder),
    }  # fmt: skip


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A one-node Slurm, started for one test."""
    pytest.importorskip("dask_jobqueue")
    if os.geteuid() != 0 or not (
        shutil.which("slurmctld") and shutil.which("slurmd") and shutil.which("munged")
    ):
        pytest.skip("no Slurm that this user may start: as root, bash tests/hooks/slurm_node.sh install")
    place = tmp_path / "slurm"
    started = subprocess.run(["bash", NODE, "start", place], capture_output=True, text=True, check=False)
    try:
        if started.returncode:
            pytest.skip(f"Slurm does not start here: {started.stderr[-300:]}")
        monkeypatch.setenv("SLURM_CONF", str(place / "slurm.conf"))
        yield place
    finally:
        subprocess.run(["bash", NODE, "stop", place], check=False)


def test_jobs_of_slurm_give_the_same_rows(slurm: Path, tmp_path: Path, logs: Path, fleet: Fleet) -> None:
    other = Fleet(tmp_path / "other")
    with cluster_workers("slurm", {**site(slurm), "interface": "lo"}) as workers:
        other.add([logs], workers=workers)
    assert rows(other) == rows(fleet)


def test_jobs_of_pbs_give_the_same_rows(tmp_path: Path, logs: Path, fleet: Fleet) -> None:
    pytest.importorskip("dask_jobqueue")
    if (
        not shutil.which("qsub")
        or subprocess.run(["qstat", "-B"], capture_output=True, check=False).returncode
    ):
        pytest.skip("no PBS answers on this host")
    if os.geteuid() == 0:
        pytest.skip("PBS runs no jobs of root")
    other = Fleet(tmp_path / "other")
    with cluster_workers("pbs", site(tmp_path)) as workers:
        other.add([logs], workers=workers)
    assert rows(other) == rows(fleet)
