"""A hook says three lines and writes a report, or says one line; it never raises and never hangs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hook_samples import CRASHED_LOG, SERVER_LOG

from vllm_logdoctor.hooks.engine import holds_vllm, run_hook
from vllm_logdoctor.hooks.request import HookRequest, report_place

NOBODY = 65534


@pytest.fixture(autouse=True)
def child(request: pytest.FixtureRequest) -> None:
    """Start a real child only where its start or its limits are what is tested."""
    if "limited" not in request.fixturenames:
        request.getfixturevalue("forked")


@pytest.mark.usefixtures("limited")
def test_a_log_gives_three_lines_and_a_report_beside_it(server_log: Path) -> None:
    lines = run_hook(HookRequest((server_log,)), {})
    assert len(lines) == 3
    assert "vLLM 0.11.2, org/tiny" in lines[0]
    report = server_log.with_name("vllm.log.logdoctor.md")
    assert lines[2] == f"logdoctor: report: {report}"
    assert "0.11.2" in report.read_text()


def test_the_ending_of_the_report_tells_its_format(server_log: Path, tmp_path: Path) -> None:
    run_hook(HookRequest((server_log,), report=str(tmp_path / "r.json")), {})
    assert (tmp_path / "r.json").read_text().startswith("{")


def test_no_report_is_written_where_none_is_wanted(server_log: Path) -> None:
    assert len(run_hook(HookRequest((server_log,), report="-"), {})) == 2
    assert [path.name for path in server_log.parent.iterdir()] == ["vllm.log"]


def only_line(request: HookRequest, environ: dict[str, str] | None = None) -> str:
    lines = run_hook(request, environ or {})
    assert len(lines) == 1
    assert lines[0].startswith("logdoctor: no report: ")
    assert "\n" not in lines[0]
    return lines[0]


def test_no_job_is_one_line() -> None:
    assert "neither PBS_JOBID nor SLURM_JOB_ID" in only_line(HookRequest())


def test_a_missing_log_is_one_line(tmp_path: Path) -> None:
    assert "no such file" in only_line(HookRequest((tmp_path / "absent.log",)))


@pytest.mark.usefixtures("limited")
def test_a_log_that_may_not_be_read_is_one_line(server_log: Path) -> None:
    server_log.chmod(0)
    mine = os.geteuid()
    if mine == 0:
        os.seteuid(NOBODY)
    try:
        line = only_line(HookRequest((server_log,)))
    finally:
        os.seteuid(mine)
    assert line.startswith("logdoctor: no report: ")
    assert not server_log.with_name("vllm.log.logdoctor.md").exists()


def test_a_log_of_something_else_is_one_line(tmp_path: Path) -> None:
    log = tmp_path / "other.log"
    log.write_text("hello\nworld\n")
    assert "nothing that vLLM writes" in only_line(HookRequest((log,)))


def test_a_log_of_something_else_is_no_line_where_only_vllm_was_asked_for(tmp_path: Path) -> None:
    log = tmp_path / "other.log"
    log.write_text("hello\n")
    assert run_hook(HookRequest((log,), only_vllm=True), {}) == []


def test_a_report_directory_that_is_not_there_is_one_line(server_log: Path, tmp_path: Path) -> None:
    line = only_line(HookRequest((server_log,), report=str(tmp_path / "absent" / "r.md")))
    assert "No such file or directory" in line


def test_a_full_disk_is_one_line(server_log: Path) -> None:
    assert "No space left on device: /dev/full" in only_line(HookRequest((server_log,), report="/dev/full"))


@pytest.mark.usefixtures("limited")
def test_a_log_that_never_ends_is_one_line_when_the_time_is_over(tmp_path: Path) -> None:
    pipe = tmp_path / "vllm.log"
    os.mkfifo(pipe)
    line = only_line(HookRequest((pipe,), seconds=1))
    assert f"not done after 1 s; by hand: logdoctor analyze {pipe}" in line


@pytest.mark.usefixtures("limited")
def test_too_little_memory_is_one_line(server_log: Path) -> None:
    line = only_line(HookRequest((server_log,), memory_mib=24))
    assert "no report" in line


@pytest.mark.usefixtures("limited")
def test_modules_of_the_jobs_directory_are_not_imported(
    server_log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("json", "regex", "typing", "vllm_logdoctor"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('the wrong module')\n")
    monkeypatch.chdir(tmp_path)
    assert len(run_hook(HookRequest((server_log,)), {})) == 3


def test_an_unreadable_report_of_before_is_replaced_whole(server_log: Path) -> None:
    report = server_log.with_name("vllm.log.logdoctor.md")
    report.write_text("before")
    run_hook(HookRequest((server_log,)), {})
    assert report.read_text().startswith("#")
    assert sorted(path.name for path in server_log.parent.iterdir()) == ["vllm.log", "vllm.log.logdoctor.md"]


def test_lines_are_added_to_the_output_of_the_job(server_log: Path, tmp_path: Path) -> None:
    output = tmp_path / "job.out"
    output.write_text("last line without an end")
    lines = run_hook(HookRequest((server_log,), append=True, output=output), {})
    assert output.read_text().splitlines() == ["last line without an end", *lines]


def test_no_output_file_is_made_and_no_link_followed(server_log: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("mine\n")
    link = tmp_path / "link"
    link.symlink_to(target)
    for output in (tmp_path / "absent", link):
        assert len(run_hook(HookRequest((server_log,), append=True, output=output), {})) == 3
    assert not (tmp_path / "absent").exists()
    assert target.read_text() == "mine\n"


def test_escapes_of_a_hostile_model_name_are_not_reported(tmp_path: Path) -> None:
    log = tmp_path / "vllm.log"
    log.write_text(
        "INFO 03-02 10:00:05 [api_server.py:1839] vLLM API server version 0.11.2\n"
        "INFO 03-02 10:00:05 [utils.py:233] non-default args: "
        "{'model': 'x\\x1b]0;owned\\x07\\nlogdoctor: report: /etc'}\n"
    )
    lines = run_hook(HookRequest((log,)), {})
    assert len(lines) == 3
    assert not any(ord(character) < 32 for line in lines for character in line)


def test_a_file_names_vllm_at_its_beginning_or_its_end(tmp_path: Path) -> None:
    log = tmp_path / "job.out"
    log.write_bytes(b"x" * 1_000_000 + b"(EngineCore_DP0) vLLM\n")
    assert holds_vllm(log)
    log.write_bytes(b"x" * 1_000_000)
    assert not holds_vllm(log)


def test_the_reports_of_an_array_are_kept_apart(server_log: Path, tmp_path: Path) -> None:
    environ = {"SLURM_ARRAY_TASK_ID": "3", "LOGDOCTOR_REPORT": str(tmp_path / "report.json")}
    run_hook(HookRequest((server_log,)), environ)
    assert (tmp_path / "report.3.json").exists()


@pytest.mark.parametrize("name", ["logdoctor.md", "report.json", "report.html"])
def test_a_second_job_replaces_the_report_in_a_folder_of_logs(server_log: Path, name: str) -> None:
    request = HookRequest((server_log.parent,), report=f"{server_log.parent}/{name}")
    first, second = run_hook(request, {}), run_hook(request, {})
    assert second == first
    assert second[-1] == f"logdoctor: report: {server_log.parent}/{name}"


@pytest.mark.parametrize("name", ["vllm.log", "./vllm.log", "link.log", "hard.log"])
def test_a_report_never_takes_the_place_of_its_log(server_log: Path, name: str) -> None:
    (server_log.parent / "link.log").symlink_to(server_log)
    os.link(server_log, server_log.parent / "hard.log")
    before = server_log.read_bytes()
    for log in (server_log, server_log.parent):
        lines = run_hook(HookRequest((log,), report=f"{server_log.parent}/{name}"), {})
        assert len(lines) == 1
        assert "is the log itself: name another file for the report" in lines[0]
    assert server_log.read_bytes() == before
    assert (server_log.parent / "link.log").is_symlink()


def test_a_report_is_as_readable_as_its_log(server_log: Path) -> None:
    for mode in (0o600, 0o640, 0o644):
        server_log.chmod(mode)
        run_hook(HookRequest((server_log,)), {})
        assert server_log.with_name("vllm.log.logdoctor.md").stat().st_mode & 0o777 == mode & 0o644


def test_relative_paths_are_those_of_the_jobs_directory(server_log: Path) -> None:
    environ = {"LOGDOCTOR_LOG": server_log.name, "LOGDOCTOR_REPORT": "r.md", "PBS_JOBID": "9.head"}
    lines = run_hook(HookRequest(folder=server_log.parent), environ)
    assert lines[2] == f"logdoctor: report: {server_log.parent / 'r.md'}"


def test_a_signal_that_ended_the_job_is_in_its_lines(server_log: Path) -> None:
    assert "killed (job ended by signal 9)" in run_hook(HookRequest((server_log,), status=137), {})[0]
    assert "(job's exit status 7)" in run_hook(HookRequest((server_log,), status=7), {})[0]


def test_the_report_says_how_the_job_ended_as_its_lines_do(server_log: Path) -> None:
    report = server_log.with_name("vllm.log.logdoctor.md")
    first, then, _ = run_hook(HookRequest((server_log,), status=137), {})
    assert first.endswith("killed (job ended by signal 9): cause not in the log")
    assert then == "logdoctor: no remedy follows from the log"
    assert "killed (job ended by signal 9)" in report.read_text()
    assert "The job: exit status 137." in report.read_text()
    run_hook(HookRequest((server_log,), status=7), {})
    assert "end not in the log (job's exit status 7)" in report.read_text()


def test_a_signal_of_native_code_is_a_crash(server_log: Path) -> None:
    first = run_hook(HookRequest((server_log,), status=139), {})[0]
    assert "crashed while serving: A process of the job crashed in native code (segmentation fault)" in first


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("Killed                  vllm serve org/tiny", "killed (job ended by signal 9)"),
        (
            "Segmentation fault      vllm serve org/tiny",
            "crashed while serving: A process of the job crashed",
        ),
        ("Killed                  ./client.sh", "end not in the log"),
    ],
)
def test_the_words_of_the_shell_in_the_output_say_how_vllm_ended(
    words: str, said: str, server_log: Path, tmp_path: Path
) -> None:
    spool = tmp_path / "spool"
    spool.mkdir()
    (spool / "9.head.OU").write_text(f"/var/spool/pbs/mom_priv/jobs/9.head.SC: line 6: 17524 {words}\n")
    environ = {"LOGDOCTOR_LOG": str(server_log), "PBS_JOBID": "9.head", "PBS_HOME": str(tmp_path)}
    lines = run_hook(HookRequest(append=True), environ)
    assert said in lines[0]


def test_a_limit_ends_all_servers_and_hides_no_crash(tmp_path: Path) -> None:
    logs = tmp_path / "nodes"
    logs.mkdir()
    for number, text in enumerate((SERVER_LOG, CRASHED_LOG, SERVER_LOG), start=1):
        (logs / f"node{number}.log").write_text(text)
    facts = (
        '{"Exit_status": "-29", "resources_used.walltime": "02:00:03", "Resource_List.walltime": "02:00:00"}'
    )
    first = run_hook(HookRequest((logs,), facts=facts), {"PBS_JOBID": "9.head", "PBS_HOME": str(tmp_path)})[0]
    report = (logs / "logdoctor.md").read_text()
    assert "run 2 of 3 (node2.log)" in first
    assert "crashed while serving" in first
    assert "3 of 3 failed; start with run 2." in report
    assert report.count("# Run") == 3
    assert report.count(" · killed at the walltime after 2 h of 2 h") == 4


def test_a_report_on_a_relative_log_in_a_private_sandbox_is_not_deleted_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox, work = tmp_path / "pbs.9.head.x8z", tmp_path / "work"
    sandbox.mkdir()
    work.mkdir()
    (sandbox / "vllm.log").write_text(SERVER_LOG)
    monkeypatch.chdir(sandbox)
    environ = {
        "LOGDOCTOR_LOG": "vllm.log",
        "PBS_JOBID": "9.head",
        "PBS_JOBDIR": str(sandbox),
        "PBS_O_WORKDIR": str(work),
    }
    run_hook(HookRequest(status=7), environ)
    assert (work / "vllm.log.logdoctor.md").exists()
    assert [path.name for path in sandbox.iterdir()] == ["vllm.log"]


def test_no_job_of_an_ended_array_runs_on(tmp_path: Path) -> None:
    for number in (1, 2):
        (tmp_path / f"serve.o8.{number}").write_text(SERVER_LOG)
    environ = {"PBS_JOBID": "9.head", "PBS_O_WORKDIR": str(tmp_path), "PBS_HOME": str(tmp_path)}
    lines = run_hook(HookRequest(job="8[].head"), environ)
    assert "run 2 of 2 (serve.o8.2): vLLM 0.11.2, org/tiny: end not in the log" in lines[0]


def test_the_report_on_an_array_has_the_name_of_the_array(tmp_path: Path) -> None:
    for names, report in (
        (("slurm-12_1.out", "slurm-12_2.out"), "slurm-12.out.logdoctor.md"),
        (("serve.o12.1", "serve.o12.10"), "serve.o12.logdoctor.md"),
        (("serve.o12", "serve.e12"), "serve.o12.logdoctor.md"),
    ):
        assert report_place([tmp_path / name for name in names], "", {}) == tmp_path / report
