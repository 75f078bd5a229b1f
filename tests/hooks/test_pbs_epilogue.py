"""The execjob_epilogue hook against a stand-in of PBS's interface: the end of a job is always accepted."""

from __future__ import annotations

import ast
import os
import sys
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hook_samples import SERVER_LOG, command, told
from msgspec import Struct, field

from vllm_logdoctor.hooks.scripts import ScriptValues, script


class Job(Struct):
    """What PBS shows a hook of a job."""

    id: str
    Job_Name: str
    Variable_List: Any
    output: Path
    first_host: bool = True
    Exit_status: int = 0
    Output_Path: str = ""
    sandbox: str | None = None
    jobdir: str = "/"
    resources_used: dict[str, str] = field(default_factory=dict)
    Resource_List: dict[str, str] = field(default_factory=dict)

    def in_ms_mom(self) -> bool:
        return self.first_host

    def stdout_file(self) -> str:
        return str(self.output)

    def stderr_file(self) -> str:
        # The execution host names this file for a job with `-j oe` too, for which it does not exist.
        return str(self.output.with_suffix(".ER"))


class Accepted(SystemExit):
    """PBS leaves the hook by SystemExit when it accepts."""


class Event(Struct):
    """The event that a hook is called for."""

    type: int
    job: Job
    rejected: bool = False

    def accept(self) -> None:
        raise Accepted(0)

    def reject(self, message: str = "") -> None:
        self.rejected = True
        raise SystemExit(1)


class StandIn(Struct):
    """A stand-in of the module pbs with one event."""

    event: Event
    said: list[str] = field(default_factory=list)

    def module(self) -> types.ModuleType:
        made = types.ModuleType("pbs")
        made.__dict__.update(
            event=lambda: self.event,
            logmsg=lambda level, message: self.said.append(message),
            LOG_DEBUG=7,
            EXECJOB_EPILOGUE=1024,
        )
        return made


@pytest.fixture
def job(tmp_path: Path) -> Job:
    spool = tmp_path / "spool"
    spool.mkdir()
    (spool / "8.head.OU").write_text(SERVER_LOG)
    (tmp_path / "work").mkdir()
    variables = {"LOGDOCTOR": "1", "PBS_O_WORKDIR": str(tmp_path / "work"), "PBS_O_HOME": str(tmp_path)}
    return Job("8.head", "serve", variables, spool / "8.head.OU")


@pytest.fixture
def as_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)


def run(
    job: Job, logdoctor: str, monkeypatch: pytest.MonkeyPatch, edit: Callable[[str], str] = str
) -> StandIn:
    """Run the hook as PBS does; it must end by accepting."""
    stand_in = StandIn(Event(1024, job))
    monkeypatch.setitem(sys.modules, "pbs", stand_in.module())
    text = edit(script("pbs", "epilogue", ScriptValues(logdoctor)))
    with pytest.raises(Accepted):
        exec(compile(text, "<hook>", "exec"), {"__name__": "builtins"})
    assert not stand_in.event.rejected
    return stand_in


@pytest.mark.usefixtures("as_user")
def test_the_report_lands_in_the_jobs_directory_and_three_lines_in_its_output(
    job: Job, logdoctor: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in = run(job, logdoctor, monkeypatch)
    assert stand_in.said == []
    assert len(told(job.output.read_text())) == 3
    assert "0.11.2" in (tmp_path / "work/serve.o8.logdoctor.md").read_text()
    assert sorted(path.name for path in job.output.parent.iterdir()) == ["8.head.OU"]


@pytest.mark.usefixtures("as_user")
def test_the_named_log_is_read_in_place_of_the_output(
    job: Job, logdoctor: str, server_log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job.output.write_text("nothing here\n")
    job.Variable_List["LOGDOCTOR_LOG"] = str(server_log)
    run(job, logdoctor, monkeypatch)
    assert server_log.with_name("vllm.log.logdoctor.md").exists()
    assert len(told(job.output.read_text())) == 3


@pytest.mark.usefixtures("as_user")
def test_errors_that_are_apart_are_read_too(
    job: Job, logdoctor: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job.output.with_suffix(".ER").write_text("=>> PBS: job killed: walltime 7203 exceeded limit 7200\n")
    job.Exit_status = -29
    job.resources_used, job.Resource_List = {"walltime": "02:00:03"}, {"walltime": "02:00:00"}
    run(job, logdoctor, monkeypatch)
    assert "killed at the walltime after 2 h of 2 h" in told(job.output.read_text())[0]
    report = (tmp_path / "work/serve.o8.logdoctor.md").read_text()
    assert "=>> PBS: job killed: walltime" in report
    assert "serve.e8" in report


@pytest.mark.usefixtures("as_user")
def test_the_start_of_an_earlier_job_in_the_same_log_is_no_part_of_this_job_s_time(
    job: Job, logdoctor: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "work/own.log").write_text(SERVER_LOG)
    job.Variable_List["LOGDOCTOR_LOG"] = "own.log"
    job.Exit_status = -29
    job.resources_used, job.Resource_List = {"walltime": "00:00:10"}, {"walltime": "00:00:08"}
    run(job, logdoctor, monkeypatch)
    report = (tmp_path / "work/own.log.logdoctor.md").read_text()
    assert "Killed at the walltime after 10 s of 8 s. PBS job 8.head: Exit" in report


@pytest.mark.usefixtures("as_user")
def test_a_job_killed_at_its_walltime_says_so_though_its_own_log_does_not(
    job: Job, logdoctor: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "work/own.log").write_text(SERVER_LOG)
    job.Variable_List["LOGDOCTOR_LOG"] = "own.log"
    job.Exit_status = -29
    job.resources_used, job.Resource_List = {"walltime": "00:15:04"}, {"walltime": "00:15:00"}
    run(job, logdoctor, monkeypatch)
    report = (tmp_path / "work/own.log.logdoctor.md").read_text()
    assert (
        "Killed at the walltime after 15 min of 15 min; start-up took 20 s of them. PBS job 8.head: Exit"
        in report
    )
    assert "killed at the walltime" in told(job.output.read_text())[0]


@pytest.mark.usefixtures("as_user")
def test_the_report_is_beside_the_output_that_the_job_named_and_no_more_readable(
    job: Job, logdoctor: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "else").mkdir()
    job.Output_Path = f"head:{tmp_path}/else/out.txt"
    job.output.chmod(0o600)
    run(job, logdoctor, monkeypatch)
    report = tmp_path / "else/out.txt.logdoctor.md"
    assert report.stat().st_mode & 0o777 == 0o600
    assert "/spool/" not in report.read_text()


@pytest.mark.usefixtures("as_user")
def test_a_private_sandbox_keeps_nothing(
    job: Job, logdoctor: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox = tmp_path / "pbs.8.head.x8z"
    sandbox.mkdir()
    job.output = job.output.rename(sandbox / "8.head.OU")
    job.sandbox, job.jobdir = "private", str(sandbox)
    run(job, logdoctor, monkeypatch)
    assert (tmp_path / "work/serve.o8.logdoctor.md").exists()
    assert [path.name for path in sandbox.iterdir()] == ["8.head.OU"]


@pytest.mark.usefixtures("as_user")
def test_the_reports_of_an_array_are_kept_apart(
    job: Job, logdoctor: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The index of a subjob is in its id alone.
    job.id = "8[2].head"
    job.Variable_List["LOGDOCTOR_REPORT"] = "report.md"
    run(job, logdoctor, monkeypatch)
    assert (tmp_path / "work/report.2.md").exists()


def not_run(tmp_path: Path) -> str:
    return command(tmp_path / "not-run", f"touch {tmp_path}/ran")


@pytest.mark.usefixtures("as_user")
@pytest.mark.parametrize("variables", [{}, {"LOGDOCTOR": "0"}, None, 17])
def test_jobs_that_do_not_ask_are_left_alone(
    variables: Any, job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job.Variable_List = variables
    run(job, not_run(tmp_path), monkeypatch)
    assert not (tmp_path / "ran").exists()


@pytest.mark.usefixtures("as_user")
def test_only_the_first_host_of_a_job_reports(
    job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job.first_host = False
    run(job, not_run(tmp_path), monkeypatch)
    assert not (tmp_path / "ran").exists()


def test_it_never_runs_as_root(job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    stand_in = run(job, not_run(tmp_path), monkeypatch)
    assert not (tmp_path / "ran").exists()
    assert any("user = pbsuser" in line for line in stand_in.said)


@pytest.mark.usefixtures("as_user")
@pytest.mark.parametrize("body", ["exit 1", "kill -SEGV $$", "yes", "echo; head -c 100000000 /dev/zero"])
def test_a_tool_that_fails_is_accepted(
    body: str, job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = command(tmp_path / "broken", body if body != "yes" else "exec timeout 1 yes")
    stand_in = run(job, tool, monkeypatch)
    if body in ("exit 1", "kill -SEGV $$"):
        assert len(stand_in.said) == 1
        assert len(told(job.output.read_text())) == 1


@pytest.mark.usefixtures("as_user")
def test_a_tool_that_is_not_there_is_said_and_accepted(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in = run(job, "/absent/logdoctor", monkeypatch)
    assert len(stand_in.said) == 1
    assert "no report: /absent/logdoctor is not there" in stand_in.said[0]


@pytest.mark.usefixtures("as_user")
def test_a_tool_that_hangs_is_ended_with_its_children(
    job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = command(tmp_path / "hangs", f"tail -f /dev/null & echo $! > {tmp_path}/child; wait")
    stand_in = run(job, tool, monkeypatch, lambda text: text.replace("SECONDS = 20", "SECONDS = 4"))
    assert stand_in.said == ["logdoctor: no report: not done after 4 s"]
    child = int((tmp_path / "child").read_text())
    # A kill is carried out when the process is next scheduled: on a busy machine that takes a moment.
    deadline = time.monotonic() + 20
    while not _is_gone(child) and time.monotonic() < deadline:
        pass
    assert _is_gone(child)


def _is_gone(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return True
    return state in "ZX"


@pytest.mark.usefixtures("as_user")
@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError, MemoryError, RuntimeError])
def test_whatever_is_raised_inside_is_accepted(
    error: type[BaseException], job: Job, logdoctor: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: Job) -> bool:
        raise error

    monkeypatch.setattr(Job, "in_ms_mom", broken)
    stand_in = run(job, logdoctor, monkeypatch)
    assert "no report" in stand_in.said[0]


@pytest.mark.usefixtures("as_user")
def test_it_warns_where_a_classic_epilogue_no_longer_runs(
    job: Job, logdoctor: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mom_priv").mkdir()
    (tmp_path / "mom_priv/epilogue").write_text("")
    monkeypatch.setenv("PBS_HOME", str(tmp_path))
    assert any("classic epilogue" in line for line in run(job, logdoctor, monkeypatch).said)


def test_nothing_of_the_package_is_imported_and_old_pythons_can_read_it() -> None:
    tree = ast.parse(script("pbs", "epilogue", ScriptValues("/opt/logdoctor")), feature_version=(3, 6))
    imported = {
        name.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in node.names
    }
    assert imported == {"json", "os", "pbs", "resource", "signal", "subprocess", "time"}
    # Python 2 of older releases of PBS knows neither.
    keywords = {
        keyword.arg for node in ast.walk(tree) if isinstance(node, ast.Call) for keyword in node.keywords
    }
    assert keywords.isdisjoint({"timeout", "start_new_session"})
    assert not any(isinstance(node, ast.JoinedStr) for node in ast.walk(tree))
    assert "reject" not in {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}


def test_the_notes_warn_of_the_classic_epilogue_and_name_the_user() -> None:
    text = script("pbs", "epilogue", ScriptValues("/opt/logdoctor"))
    assert "WARNING" in text
    assert "mom_priv/epilogue" in text
    assert "set hook logdoctor user = pbsuser" in text
    assert compile(text, "<hook>", "exec")
