"""The commands: what they print, what they write, how they end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import IO

import pytest

from tests.commands import logdoctor

TREE = Path(__file__).parents[2]


def run(
    *arguments: object, cwd: Path | None = None, stdin: IO[str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Call `logdoctor fleet` with arguments."""
    return logdoctor("fleet", *map(str, arguments), cwd=cwd or TREE, stdin=stdin)


def command(*arguments: object) -> list[str]:
    """Return the words of a call."""
    return [sys.executable, "-m", "vllm_logdoctor", "fleet", *map(str, arguments)]


def environment() -> dict[str, str]:
    """Return an environment in which this tree is imported."""
    return {**os.environ, "PYTHONPATH": str(TREE)}


def test_from_logs_to_a_page_and_back_to_nothing(tmp_path: Path, logs: Path) -> None:
    store = tmp_path / "store"
    added = run("add", store, logs, "--jobs", 1)
    assert added.returncode == 0, added.stderr
    assert "7 logs read" in added.stderr
    assert "\r" not in added.stderr, "only a terminal is shown how far the reading is"
    assert "nothing new; 7 were known" in run("add", store, logs, "--jobs", 1).stderr
    assert run("show", store, "-o", tmp_path / "a.html", "-o", tmp_path / "a.json").returncode == 0
    assert json.loads((tmp_path / "a.json").read_text())["headline"].startswith("7 logs, 7 jobs, 4 runs")
    assert run("show", store).stdout.startswith("# Fleet of vLLM jobs")
    asked = run("ask", store, "select count(*) n from logs", "--format", "csv")
    assert asked.stdout.splitlines() == ["n", "7"]
    assert asked.stderr == ""
    assert run("check", store).returncode == 0
    assert "1 after" in run("compact", store).stdout
    assert run("forget", store, logs / "slurm-*").stdout == "1 logs forgotten\n"
    assert json.loads(run("ask", store, "select count(*) n from logs", "--format", "json").stdout) == [
        {"n": 6}
    ]


def test_a_list_from_standard_input(tmp_path: Path, logs: Path) -> None:
    names = tmp_path / "names"
    names.write_text(f"{logs / 'slurm-101.out'}\n{logs / 'gone.log'}\n")
    with names.open() as stdin:
        added = run("add", tmp_path / "store", "--from", "-", "--jobs", 1, stdin=stdin)
    assert "1 ok, 1 unreadable" in added.stderr or "1 unreadable, 1 ok" in added.stderr


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (("add", "store"), 2, "name logs"),
        (("add", "store", "nothing.log"), 3, "no such file: nothing.log"),
        (("add", "store", ".", "--cluster", "lsf"), 2, "unknown cluster"),
        (("add", "store", ".", "--memory-limit", "much"), 2, "write a size such as 1GB"),
        (("show", "store", "-o", "x.pdf"), 2, ".html, .md or .json"),
        (("show", "store", "--since", "yesterday"), 2, "write a day as"),
        (("show", "store", "--job", "7"), 2, "no report of job 7"),
        (("ask", "store", "drop table runs"), 2, "one SELECT"),
        (("ask", "store", "select 1", "--format", "xml"), 2, "unknown format"),
    ],
)
def test_mistakes_get_one_line_and_an_exit_code(
    tmp_path: Path, arguments: tuple[str, ...], status: int, words: str
) -> None:
    (tmp_path / "store").mkdir()
    done = run(*arguments, cwd=tmp_path)
    assert done.returncode == status, done.stderr
    assert words in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("paths", "status", "words"),
    [
        (["nothing.log"], 3, "no such file: nothing.log; give logs, globs or directories"),
        (["circle.log"], 3, "can't read circle.log: Too many levels of symbolic links"),
        (["logs/slurm-101.out", "circle.log"], 3, "can't read circle.log: Too many levels of symbolic links"),
        (["/dev/null"], 3, "can't read /dev/null: not a file"),
        (["nothing"], 4, "no log in nothing"),
        (["--from", "empty.txt"], 4, "no log in empty.txt"),
    ],
)
def test_without_a_log_nothing_is_written(
    tmp_path: Path, logs: Path, paths: list[str], status: int, words: str
) -> None:
    (tmp_path / "circle.log").symlink_to("circle.log")
    (tmp_path / "empty.txt").touch()
    if paths == ["nothing"]:
        (tmp_path / "nothing").mkdir()
    done = run("add", "store", *paths, "--jobs", 1, cwd=tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (status, 1)
    assert words in done.stderr
    assert not (tmp_path / "store").exists()


def test_a_page_never_takes_the_place_of_a_part_of_its_store(tmp_path: Path, logs: Path) -> None:
    store = tmp_path / "store"
    run("add", store, logs, "--jobs", 1)
    (tmp_path / "link").symlink_to(store)
    before = (store / "store.json").read_bytes()
    for name in (store / "store.json", store / "page.html", tmp_path / "link" / "store.json"):
        done = run("show", store, "-o", name)
        assert (done.returncode, done.stderr) == (
            2,
            f"logdoctor: -o {name} is in the store: choose another place\n",
        )
    assert (store / "store.json").read_bytes() == before
    assert run("check", store).returncode == 0


def test_a_report_of_a_job_never_takes_the_place_of_its_log(tmp_path: Path, logs: Path) -> None:
    store, log = tmp_path / "store", logs / "slurm-101.out"
    run("add", store, logs, "--jobs", 1)
    before = log.read_bytes()
    (tmp_path / "link.md").symlink_to(log)
    for name in (log, tmp_path / "link.md"):
        done = run("show", store, "--job", log, "-o", name)
        assert (done.returncode, done.stderr) == (
            2,
            f"logdoctor: -o {name} is a log of the store: choose another place\n",
        )
    assert run("show", store, "--job", log, "-o", tmp_path / "job.md").returncode == 0
    assert run("show", store, "--job", log, "-o", tmp_path / "job.md").returncode == 0
    assert log.read_bytes() == before


def test_a_list_of_bytes_is_a_list_of_what_can_not_be_read(tmp_path: Path) -> None:
    (tmp_path / "list.bin").write_bytes(b"a\0b.log\n\xff\xfe.log\n")
    added = run("add", tmp_path / "store", "--from", tmp_path / "list.bin", "--jobs", 1)
    assert (added.returncode, "2 unreadable" in added.stderr) == (0, True), added.stderr


def test_a_working_directory_that_is_gone_is_named(tmp_path: Path, logs: Path) -> None:
    (tmp_path / "gone").mkdir()
    call = 'rmdir "$PWD"; exec "$@"'
    done = subprocess.run(
        ["sh", "-c", call, "sh", *command("add", "store", logs)],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path / "gone",
        env=environment(),
    )
    words = "logdoctor: the working directory is gone: change to one that exists\n"
    assert (done.returncode, done.stderr) == (3, words)


def test_a_link_in_a_circle_in_a_folder_is_named_and_the_others_are_read(tmp_path: Path, logs: Path) -> None:
    (logs / "circle.log").symlink_to("circle.log")
    for place in (logs, f"{logs}/*"):
        done = run("add", tmp_path / "store", place, "--jobs", 1)
        assert done.returncode == 0
        assert f"skipped {logs}/circle.log: Too many levels of symbolic links\n" in done.stderr
        assert "defect" not in done.stderr
    assert "nothing new; 7 were known" in done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
def test_workers_end_with_their_driver_and_the_next_call_goes_on(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    text = (TREE / "fixtures" / "vllm-0.11.2-kv-starved.log").read_text()
    for number in range(40):
        (folder / f"slurm-{number + 100}.out").write_text(text)
    store = tmp_path / "store"
    driver = subprocess.Popen(command("add", store, folder, "--jobs", 2), env=environment())
    _until(lambda: any((store / ".running").iterdir()) if (store / ".running").is_dir() else False)
    driver.send_signal(signal.SIGKILL)
    driver.wait()
    _until(lambda: not _processes_of(store))
    done = run("add", store, folder, "--jobs", 2)
    assert done.returncode == 0, done.stderr
    assert json.loads(
        run("ask", store, "select count(*) n, count(distinct log) logs from logs", "--format", "json").stdout
    ) == [{"n": 40, "logs": 40}]


def _until(test: object, patience: float = 60.0) -> None:
    end = time.monotonic() + patience
    while not test():  # type: ignore[operator]
        assert time.monotonic() < end
        time.sleep(0.02)


def _processes_of(store: Path) -> list[str]:
    """Return the processes that hold a file of the store open."""
    found = []
    for folder in Path("/proc").glob("[0-9]*/fd/*"):
        try:
            if os.readlink(folder).startswith(str(store)):
                found.append(str(folder))
        except OSError:
            continue
    return found
