"""The PBS scripts under a real PBS, where one answers on this host: every kind of job, as an ordinary user."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

KINDS = Path(__file__).with_name("job_kinds.py")
# What `$?` and PBS say of each end: no report changes it.
STATUSES = {"exit 0": "0", "exit 7": "7", "SIGKILL": "137", "qdel": "271", "walltime": "-29"}


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> list[list[str]]:
    """The rows of the table of job kinds."""
    if (
        shutil.which("qsub") is None
        or subprocess.run(["qstat", "-B"], capture_output=True, check=False).returncode
    ):
        pytest.skip("no PBS answers on this host")
    if os.geteuid() == 0:
        pytest.skip("PBS runs no jobs of root: run this test as an ordinary user")
    logdoctor = Path(sys.executable).with_name("logdoctor")
    if not logdoctor.exists():
        pytest.skip("logdoctor is not installed beside this Python")
    folder = tmp_path_factory.mktemp("kinds")
    done = subprocess.run(
        [sys.executable, KINDS, logdoctor, folder], capture_output=True, text=True, check=True
    )
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in done.stdout.splitlines()[2:]]


def test_no_report_changes_how_a_job_ends(rows: list[list[str]]) -> None:
    for kind, status, _, _ in rows:
        if not kind.startswith("afterany"):
            assert status == STATUSES[kind.rpartition(": ")[2]], kind


def test_every_fragment_reports_unless_its_shell_was_killed(rows: list[list[str]]) -> None:
    for kind, _, lines, first in rows:
        if kind.startswith("fragment"):
            assert lines == ("0" if kind.endswith("SIGKILL") else "3"), kind
        if kind.startswith("fragment") and kind.endswith("walltime"):
            assert first.startswith("killed at the walltime"), kind


def test_a_job_after_the_other_reports_on_every_kind_of_output(rows: list[list[str]]) -> None:
    assert {lines for kind, _, lines, _ in rows if kind.startswith("afterany")} == {"3"}
