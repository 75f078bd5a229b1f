"""PBS and Slurm as the table of job kinds uses them: submit, follow, end, and ask."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

SECONDS = 900


class BatchSystem(ABC):
    """A batch system that jobs are submitted to.

    Args:
        logdoctor: command that jobs call.
        folder: directory of submission.
        user: whose jobs these are; "" for the one who calls.
    """

    name: str
    hook: str
    outputs: ClassVar[Mapping[str, Sequence[str]]]
    limits: ClassVar[Mapping[str, Sequence[str]]]
    status_words: str

    def __init__(self, logdoctor: str, folder: Path, user: str = "") -> None:
        self.logdoctor, self.folder, self.user = logdoctor, folder, user
        self.fragment = self._printed("job")
        self._reporter = folder / "afterany.sh"
        self._reporter.write_text(self._printed("afterany"))

    def _printed(self, kind: str) -> str:
        command = [self.logdoctor, "hook", self.name, "--kind", kind, "--command", self.logdoctor]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    def run(
        self, *command: str, folder: Path | None = None, variables: Mapping[str, str] | None = None
    ) -> str:
        """Run a command as the user of the jobs and return what it printed."""
        prefix = ["runuser", "-u", self.user, "--"] if self.user else []
        done = subprocess.run(
            [*prefix, *command],
            cwd=folder or self.folder,
            env={**os.environ, **(variables or {})},
            capture_output=True,
            text=True,
            check=False,
        )
        return done.stdout

    def wait(self, job: str, states: str) -> str:
        """Return what is known of a job once it is in one of some states, or after the time limit."""
        deadline = time.monotonic() + SECONDS
        while not re.search(states, text := self.asked(job)) and time.monotonic() < deadline:
            time.sleep(0.5)
        return text

    @abstractmethod
    def asked(self, job: str) -> str:
        """Return what the batch system knows of a job."""

    @abstractmethod
    def submit(self, script: Path, options: Sequence[str], variables: Mapping[str, str]) -> str:
        """Submit a script in its directory and return the id of the job."""

    @abstractmethod
    def follow(self, job: str, log: str, folder: Path) -> str:
        """Submit the job that reports on another one."""

    @abstractmethod
    def act(self, job: str, end: str) -> None:
        """Bring about an end of a running job that its script does not bring about itself."""

    @abstractmethod
    def ended(self, job: str) -> tuple[str, list[Path]]:
        """Wait for the end of a job; return its status and the files of its output."""


class Pbs(BatchSystem):
    """OpenPBS; MOM enforces memory limits with `$enforce mem`."""

    name, hook, status_words = "pbs", "hook", "Exit_status"
    outputs: ClassVar = {
        "joined": ["-j", "oe"], "apart": [], "-k oe": ["-k", "oe"], "-k oed": ["-k", "oed"], "-o elsewhere": ["-j", "oe", "-o", "{}"],
        "sandbox": ["-W", "sandbox=private"], "array": ["-J", "1-2"],
    }  # fmt: skip
    limits: ClassVar = {
        "time limit": ["-l", "walltime=8"],
        "memory limit": ["-l", "mem=300mb"],
        "requeued": ["-r", "y"],
        "node failure": ["-r", "n"],
    }

    def asked(self, job: str) -> str:
        return self.run("qstat", "-xf", job).replace("\n\t", "")

    def submit(self, script: Path, options: Sequence[str], variables: Mapping[str, str]) -> str:
        given = ["-v", ",".join(f"{name}={value}" for name, value in variables.items())] if variables else []
        return self.run(
            "qsub", "-N", "kind", "-l", "ncpus=6", *options, *given, str(script), folder=script.parent
        ).strip()

    def follow(self, job: str, log: str, folder: Path) -> str:
        given = f"LOGDOCTOR_JOB={job}" + (f",LOGDOCTOR_LOG={log}" if log else "")
        return self.run(
            "qsub",
            "-l",
            "select=1:ncpus=1",
            "-W",
            f"depend=afterany:{job}",
            "-v",
            given,
            str(self._reporter),
            folder=folder,
        ).strip()

    def act(self, job: str, end: str) -> None:
        self.wait(job, r"job_state = [RFX]")
        time.sleep(4)
        if end == "node failure":
            home = Path("/var/spool/pbs/mom_priv/mom.lock")
            os.kill(int(home.read_text()), signal.SIGKILL)
            session = re.search(r"session_id = (\d+)", self.asked(job))
            subprocess.run(["pkill", "-KILL", "-s", session[1] if session else "0"], check=False)
            time.sleep(2)
            subprocess.run([shutil.which("pbs_mom") or "pbs_mom"], check=False)
            return
        self.run({"deleted": "qdel", "requeued": "qrerun"}[end], job)
        if end == "requeued" and os.geteuid() == 0:
            subprocess.run(["qrerun", job], check=False, capture_output=True)

    def ended(self, job: str) -> tuple[str, list[Path]]:
        text = self.wait(job.replace("[]", "[1]"), r"job_state = [FX]")
        status = re.search(r"Exit_status = (-?\d+)", text)
        named = [Path(path) for path in re.findall(r"(?:Output|Error)_Path = [^:]*:(.+)", text)]
        home = Path(f"~{self.user}").expanduser()
        return status[1] if status else "none", [*named, *(home / path.name for path in named)]


class Slurm(BatchSystem):
    """Slurm; memory limits by cgroups or `JobAcctGatherParams=OverMemoryKill`."""

    name, hook, status_words = "slurm", "TaskEpilog", "state and ExitCode"
    outputs: ClassVar = {
        "joined": [],
        "apart": ["-e", "apart-%j.err"],
        "-o elsewhere": ["-o", "{}"],
        "array": ["--array=1-2"],
    }
    limits: ClassVar = {
        "time limit": ["-t", "0:08"],
        "memory limit": ["--mem=300M"],
        "requeued": ["--requeue"],
        "node failure": ["--no-requeue"],
    }

    def asked(self, job: str) -> str:
        return self.run("scontrol", "show", "job", job)

    def submit(self, script: Path, options: Sequence[str], variables: Mapping[str, str]) -> str:
        command = ["sbatch", "--parsable", "-J", "kind", "--mem=400M", *options, str(script)]
        return self.run(*command, folder=script.parent, variables=variables).strip()

    def follow(self, job: str, log: str, folder: Path) -> str:
        given = f"ALL,LOGDOCTOR_JOB={job}" + (f",LOGDOCTOR_LOG={log}" if log else "")
        return self.run(
            "sbatch",
            "--parsable",
            "--mem=400M",
            f"--dependency=afterany:{job}",
            f"--export={given}",
            str(self._reporter),
            folder=folder,
        ).strip()

    def act(self, job: str, end: str) -> None:
        self.wait(job, r"JobState=(?!PENDING)")
        time.sleep(4)
        if end == "node failure":
            host = os.uname().nodename.partition(".")[0]
            for state in ("down", "resume"):
                subprocess.run(
                    ["scontrol", "update", f"node={host}", f"state={state}", "reason=test"], check=False
                )
                time.sleep(3)
            return
        if end == "deleted":
            self.run("scancel", job)
        else:
            subprocess.run(["scontrol", "requeue", job], check=False)

    def ended(self, job: str) -> tuple[str, list[Path]]:
        text = self.wait(job, r"JobState=(?!PENDING|RUNNING|COMPLETING|REQUEUED)(?s:.*?)EndTime=(?!Unknown)")
        state, status = re.search(r"JobState=(\w+)", text), re.search(r"ExitCode=(\S+)", text)
        named = list(
            dict.fromkeys(Path(path.replace("%j", job)) for path in re.findall(r"Std(?:Out|Err)=(.+)", text))
        )
        return f"{state[1] if state else 'none'} {status[1] if status else ''}", named
