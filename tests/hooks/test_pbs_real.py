"""The PBS scripts under a real PBS, where one answers on this host: kinds of jobs, as an ordinary user."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hook_samples import command

from vllm_logdoctor.hooks.scripts import ScriptValues, script

KINDS = Path(__file__).with_name("job_kinds.py")
SITE = [path for path in sys.path if path]
# What PBS says of each end: no report changes it.
STATUSES = {"exit 0": "0", "exit 7": "7", "SIGKILL": "137", "deleted": "271", "time limit": "-29"}
CHOSEN = "fragment, .*own log: (exit 7|SIGKILL|deleted|time limit)|afterany, output .*: exit 7|hook, output (joined|apart): (exit 7|deleted|time limit)"


def asked(*command: str) -> subprocess.CompletedProcess[str]:
    """Run a command of PBS and return how it ended."""
    return subprocess.run(command, capture_output=True, text=True, check=False)


def pbs_answers() -> bool:
    """Return whether a PBS server answers here."""
    if shutil.which("qstat") is None:
        return False
    return asked("qstat", "-B").returncode == 0


def python_of_jobs(user: str) -> str:
    """Return a Python that the user of the jobs may run: that of the tests may lie where only root can go."""
    beside = f"python{sys.version_info.major}.{sys.version_info.minor}"
    prefix = ["runuser", "-u", user, "--"] if user else []
    for python in (sys.executable, shutil.which(beside, path="/usr/bin:/usr/local/bin")):
        tried = [*prefix, python, "-c", "pass"]
        if python and subprocess.run(tried, capture_output=True, check=False).returncode == 0:
            return python
    pytest.skip(f"no Python {beside} that the user {user} may run")


@contextmanager
def installed_hook(logdoctor: str, folder: Path) -> Iterator[None]:
    """Install the epilogue hook while the jobs run, as its head says; where a hook of that name is there, or root may not: leave all as it is."""
    if os.geteuid() != 0 or "execjob_epilogue" in asked("qmgr", "-c", "list hook logdoctor").stdout:
        yield
        return
    (folder / "logdoctor_epilogue.py").write_text(script("pbs", "epilogue", ScriptValues(logdoctor)))
    commands = re.findall(
        r'^#   qmgr -c "(.+)"', (folder / "logdoctor_epilogue.py").read_text(), re.MULTILINE
    )
    try:
        for one in commands[:-1]:
            # The file is imported by its name.
            done = asked(
                "qmgr", "-c", one.replace("logdoctor_epilogue.py", str(folder / "logdoctor_epilogue.py"))
            )
            assert done.returncode == 0, done.stderr
        yield
    finally:
        asked("qmgr", "-c", commands[-1])


@pytest.fixture(scope="module")
def rows() -> Iterator[list[list[str]]]:
    """The rows of the table of job kinds, for some kinds."""
    user = os.environ.get("LOGDOCTOR_PBS_USER", "") if os.geteuid() == 0 else ""
    if not pbs_answers():
        pytest.skip("no PBS answers on this host")
    if asked("qstat", "-x").returncode != 0:
        pytest.skip("PBS keeps no history: qmgr -c 'set server job_history_enable = True'")
    if os.geteuid() == 0 and not user:
        pytest.skip("PBS runs no jobs of root: name a user in LOGDOCTOR_PBS_USER")
    python = python_of_jobs(user)
    home = Path(f"~{user}").expanduser()
    folder = home / f"logdoctor-kinds-{os.getpid()}"
    folder.mkdir()
    try:
        folder.chmod(0o777)
        body = f'PYTHONPATH={":".join(SITE)} PYTHONDONTWRITEBYTECODE=1 exec {python} -c "from vllm_logdoctor.cli import main; main()" "$@"'
        logdoctor = command(folder / "logdoctor", body)
        run = [sys.executable, str(KINDS), "pbs", logdoctor, str(folder), "--user", user, "--only", CHOSEN]
        with installed_hook(logdoctor, folder):
            done = subprocess.run(run, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        yield [[cell.strip() for cell in line.split("|")[1:-1]] for line in done.stdout.splitlines()[2:]]
    finally:
        shutil.rmtree(folder)


def test_no_report_changes_how_a_job_ends(rows: list[list[str]]) -> None:
    # A shell that sees its child end by SIGTERM before it gets the signal itself ends with 143.
    ends = {kind: "271" if status == "143" else status for kind, status, _, _ in rows}
    assert ends == {kind: STATUSES[kind.rpartition(": ")[2]] for kind in ends}


def test_every_fragment_reports_unless_its_shell_was_killed(rows: list[list[str]]) -> None:
    lines = {kind: lines for kind, _, lines, _ in rows if kind.startswith("fragment")}
    assert lines == {kind: "0" if kind.endswith("SIGKILL") else "3" for kind in lines}


def test_a_job_after_the_other_reports_on_every_kind_of_output(rows: list[list[str]]) -> None:
    assert {lines for kind, _, lines, _ in rows if kind.startswith("afterany")} == {"3"}


def test_the_hook_reports_on_joined_output_and_output_apart(rows: list[list[str]]) -> None:
    if os.geteuid() != 0:
        pytest.skip("only a manager of PBS installs the epilogue hook")
    assert {lines for kind, _, lines, _ in rows if kind.startswith("hook")} == {"3"}


def test_a_walltime_that_is_over_is_named(rows: list[list[str]]) -> None:
    said = [
        first for kind, _, _, first in rows if kind.endswith("time limit") and kind.startswith("fragment")
    ]
    assert said
    assert all(re.match(r"killed at the walltime after \d+ s of 8 s", first) for first in said)
