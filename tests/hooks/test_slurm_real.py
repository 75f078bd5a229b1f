"""The Slurm scripts under a real Slurm: one node, started for these tests by slurm_node.sh."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hook_samples import SERVER_LOG, command, told
from msgspec import Struct

from vllm_logdoctor.hooks.ending import job_end
from vllm_logdoctor.hooks.scripts import ScriptValues, script

NODE = Path(__file__).with_name("slurm_node.sh")
USER = "nobody"
SITE = [path for path in sys.path if path]


class Cluster(Struct, frozen=True):
    """A running one-node Slurm, a directory that jobs may write to, a logdoctor for their user."""

    directory: Path
    work: Path
    logdoctor: str

    def sbatch(self, text: str, *options: str, environment: dict[str, str] | None = None) -> tuple[int, str]:
        """Submit as an ordinary user, wait for the end; return the job's exit status and its number."""
        job = self.work / "job.sh"
        job.write_text(text)
        done = subprocess.run(
            ["runuser", "-u", USER, "--", "sbatch", "--parsable", "--wait", "-D", self.work, *options, job],
            env={**self.environment(), **(environment or {})},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.stdout, done.stderr
        return done.returncode, done.stdout.split()[0]

    def environment(self) -> dict[str, str]:
        """Return the environment of the client commands."""
        return {"PATH": os.environ["PATH"], "SLURM_CONF": str(self.directory / "slurm.conf")}

    def output(self, job: str) -> str:
        """Return what a job wrote to its default output file."""
        return (self.work / f"slurm-{job}.out").read_text()


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """A directory that every user can enter."""
    directory = Path(tempfile.mkdtemp(prefix="logdoctor-slurm-"))
    directory.chmod(0o755)
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(scope="module")
def usable_logdoctor(place: Path) -> str:
    """A logdoctor that the job's user may run: the tests' Python may lie where only root can go."""
    if os.geteuid() != 0:
        pytest.skip("starting Slurm needs root")
    beside = f"python{sys.version_info.major}.{sys.version_info.minor}"
    for python in (sys.executable, shutil.which(beside, path="/usr/bin:/usr/local/bin")):
        body = (
            f"PYTHONPATH={':'.join(SITE)} PYTHONDONTWRITEBYTECODE=1 "
            f'exec {python} -c "from vllm_logdoctor.cli import main; main()" "$@"'
        )
        path = command(place / "logdoctor", body)
        tried = subprocess.run(
            ["runuser", "-u", USER, "--", path, "--version"], capture_output=True, check=False
        )
        if tried.returncode == 0:
            return path
    pytest.skip(f"no Python {beside} that the user {USER} may run")


@pytest.fixture(scope="module")
def cluster(place: Path, usable_logdoctor: str) -> Iterator[Cluster]:
    """A one-node Slurm whose TaskEpilog is ours."""
    missing = [name for name in ("slurmctld", "slurmd", "munged") if shutil.which(name) is None]
    if missing:
        pytest.skip(f"no {', '.join(missing)} here: bash tests/hooks/slurm_node.sh install")
    directory, work = place / "slurm", place / "work"
    directory.mkdir()
    work.mkdir()
    work.chmod(0o777)
    (directory / "task_epilog.sh").write_text(script("slurm", "task-epilog", ScriptValues(usable_logdoctor)))
    (directory / "task_epilog.sh").chmod(0o755)
    (work / "vllm.log").write_text(SERVER_LOG)
    started = subprocess.run(
        ["bash", NODE, "start", directory], stderr=subprocess.PIPE, text=True, check=False
    )
    try:
        if started.returncode:
            pytest.skip(f"Slurm does not start here: {started.stderr.strip()}")
        yield Cluster(directory, work, usable_logdoctor)
    finally:
        subprocess.run(["bash", NODE, "stop", directory], check=False)


def test_trap_reports_on_the_named_log_and_keeps_the_exit_status(cluster: Cluster) -> None:
    fragment = script("slurm", "job", ScriptValues(cluster.logdoctor))
    report = cluster.work / "vllm.log.logdoctor.md"
    status, job = cluster.sbatch(f"#!/bin/bash\nexport LOGDOCTOR_LOG=vllm.log\n{fragment}\nfalse\nexit 7\n")
    assert status == 7
    lines = told(cluster.output(job))
    assert len(lines) == 3
    assert "vLLM 0.11.2" in lines[0]
    assert lines[2].endswith("report: vllm.log.logdoctor.md")
    assert "0.11.2" in report.read_text()
    assert report.owner() == USER


def test_trap_finds_the_output_of_its_own_job(cluster: Cluster) -> None:
    fragment = script("slurm", "job", ScriptValues(cluster.logdoctor))
    options = ["-o", "serve-%x-%j.log", "-J", "tiny"]
    status, job = cluster.sbatch(f"#!/bin/bash\n{fragment}\ncat vllm.log\n", *options)
    output = cluster.work / f"serve-tiny-{job}.log"
    assert status == 0
    assert len(told(output.read_text())) == 3
    assert output.with_name(output.name + ".logdoctor.md").exists()


def test_each_task_of_an_array_reports_on_its_own_output(cluster: Cluster) -> None:
    fragment = script("slurm", "job", ScriptValues(cluster.logdoctor))
    text = f'#!/bin/bash\n{fragment}\n[ "$SLURM_ARRAY_TASK_ID" = 2 ] && cat vllm.log\ntrue\n'
    _, job = cluster.sbatch(text, "--array=1-2")
    with_vllm = (cluster.work / f"slurm-{job}_2.out").read_text()
    without = (cluster.work / f"slurm-{job}_1.out").read_text()
    assert len(told(with_vllm)) == 3
    assert f"slurm-{job}_2.out.logdoctor.md" in told(with_vllm)[2]
    assert len(told(without)) == 1
    assert "no report" in told(without)[0]


def test_afterany_job_reports_on_a_job_that_failed(cluster: Cluster) -> None:
    status, failed = cluster.sbatch("#!/bin/bash\ncat vllm.log\nexit 9\n")
    assert status == 9
    text = script("slurm", "afterany", ScriptValues(cluster.logdoctor))
    options = [f"--dependency=afterany:{failed}", f"--export=ALL,LOGDOCTOR_JOB={failed}", "--mem=900M"]
    status, reporting = cluster.sbatch(text, *options)
    assert status == 0
    assert len(told(cluster.output(reporting))) == 3
    assert (cluster.work / f"slurm-{failed}.out.logdoctor.md").exists()


def test_the_accounting_says_how_a_job_ended(cluster: Cluster) -> None:
    if shutil.which("slurmdbd") is None or shutil.which("mariadbd") is None:
        pytest.skip("no slurmdbd and mariadbd here: apt-get install slurmdbd mariadb-server")
    _, failed = cluster.sbatch("#!/bin/bash\nexit 9\n", "--mem=900M", "--time=5")
    asked: list[str] = []

    def query(command: Sequence[str]) -> str:
        asked.append(command[0])
        if command[0] == "scontrol":
            return ""  # Slurm forgets a job some minutes after its end.
        # The accounting learns of an end a moment later, and of the limits that the job asked for later still.
        for _ in range(100):
            done = subprocess.run(
                command, env=cluster.environment(), capture_output=True, text=True, check=False
            )
            if "FAILED" in done.stdout and "00:05:00" in done.stdout:
                break
            time.sleep(0.1)
        return done.stdout

    end = job_end({}, failed, None, {}, [], query)
    assert asked == ["scontrol", "sacct"]
    assert end is not None
    assert (end.exit_status, end.walltime, end.memory) == (9, 300.0, 900 << 20)


def test_task_epilog_adds_its_lines_to_the_output_of_a_job_that_asks(cluster: Cluster) -> None:
    status, job = cluster.sbatch(
        "#!/bin/bash\nsrun -n1 true\ncat vllm.log\nexit 4\n", environment={"LOGDOCTOR": "1"}
    )
    assert status == 4
    assert len(told(cluster.output(job))) == 3
    assert (cluster.work / f"slurm-{job}.out.logdoctor.md").owner() == USER


def test_task_epilog_leaves_other_jobs_alone(cluster: Cluster) -> None:
    _, unasked = cluster.sbatch("#!/bin/bash\ncat vllm.log\n")
    _, no_vllm = cluster.sbatch("#!/bin/bash\necho hello\n", environment={"LOGDOCTOR": "1"})
    assert cluster.output(unasked) == SERVER_LOG
    assert cluster.output(no_vllm) == "hello\n"
    assert not list(cluster.work.glob(f"slurm-{no_vllm}*.md"))


def test_a_broken_tool_neither_fails_jobs_nor_drains_the_node(cluster: Cluster) -> None:
    epilog = cluster.directory / "task_epilog.sh"
    working = epilog.read_text()
    broken = command(cluster.directory / "broken", "kill -SEGV $$")
    epilog.write_text(script("slurm", "task-epilog", ScriptValues(broken)))
    try:
        fragment = script("slurm", "job", ScriptValues(broken))
        status, job = cluster.sbatch(f"#!/bin/bash\n{fragment}\nexit 0\n", environment={"LOGDOCTOR": "1"})
    finally:
        epilog.write_text(working)
    assert status == 0
    # One of the fragment, one of the TaskEpilog.
    assert len(told(cluster.output(job))) == 2
    states = subprocess.run(
        ["sinfo", "-h", "-o", "%T"], env=cluster.environment(), capture_output=True, text=True, check=True
    )
    assert "drain" not in states.stdout
    assert "down" not in states.stdout
