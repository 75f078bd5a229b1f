"""Where the log of a job and its report are once the job is over: PBS moves its spool away and deletes a private sandbox."""

from __future__ import annotations

from pathlib import Path

import pytest

from vllm_logdoctor.hooks.ending import final_paths
from vllm_logdoctor.hooks.request import report_place

SPOOL = Path("/var/spool/pbs/spool")
JOB = {"PBS_JOBID": "12.head", "PBS_JOBNAME": "serve"}


@pytest.mark.parametrize(
    ("log", "environ", "name"),
    [
        (SPOOL / "12.head.OU", JOB, "serve.o12"),
        (SPOOL / "12.head.ER", JOB, "serve.e12"),
        (SPOOL / "12[3].head.OU", {**JOB, "PBS_JOBID": "12[3].head"}, "serve.o12.3"),
        (SPOOL / "12.head.OU", {**JOB, "PBS_JOBNAME": "a/b"}, "a_b.o12"),
        # A hook of the server has no environment of the job: the name of the file tells it.
        (SPOOL / "12[3].head.OU", {}, "job.o12.3"),
        (Path("/home/u/pbs.12.head.x8z/12.head.OU"), JOB, "serve.o12"),
    ],
)
def test_a_spooled_output_ends_in_the_folder_of_submission_under_its_default_name(
    log: Path, environ: dict[str, str], name: str, tmp_path: Path
) -> None:
    assert final_paths([log], {**environ, "PBS_O_WORKDIR": str(tmp_path)}, {}) == [tmp_path / name]
    assert final_paths([log], environ, {}) == [Path(name)]


@pytest.mark.parametrize(("ending", "attribute"), [("OU", "Output_Path"), ("ER", "Error_Path")])
def test_a_spooled_output_ends_where_the_job_named_it_if_that_is_on_this_host(
    ending: str, attribute: str, tmp_path: Path
) -> None:
    log, other = SPOOL / f"12.head.{ending}", {"OU": "Error_Path", "ER": "Output_Path"}[ending]
    environ = {**JOB, "PBS_O_WORKDIR": "/work"}
    default = Path(f"/work/serve.{'o' if ending == 'OU' else 'e'}12")
    named = {attribute: f"node7:{tmp_path}/named.log"}
    assert final_paths([log], environ, named) == [tmp_path / "named.log"]
    assert final_paths([log], environ, {attribute: f"node7:{tmp_path}/absent/named.log"}) == [default]
    assert final_paths([log], environ, {other: f"node7:{tmp_path}/named.log"}) == [default]
    assert final_paths([log], environ, {attribute: "named.log"}) == [default]


@pytest.mark.parametrize("log", ["/home/u/spool/vllm.log", "/home/u/12.head.OU", "/home/u/pbs.12.head.x8z/a.log"])  # fmt: skip
def test_other_files_stay_where_they_are(log: str) -> None:
    assert final_paths([Path(log)], {**JOB, "PBS_O_WORKDIR": "/work"}, {}) == [Path(log)]


@pytest.mark.parametrize(
    ("sandbox", "log", "final"),
    [
        ("/scratch/pbs.12.head.x8z", "/scratch/pbs.12.head.x8z/logs/vllm.log", "/work/vllm.log"),
        ("/scratch/pbs.12.head.x8z", "/scratch/vllm.log", "/scratch/vllm.log"),
        # The home of the user, which is the sandbox of a job without a private one.
        ("/home/u", "/home/u/vllm.log", "/home/u/vllm.log"),
    ],
)
def test_a_log_in_a_private_sandbox_goes_to_the_folder_of_submission(
    sandbox: str, log: str, final: str
) -> None:
    environ = {**JOB, "PBS_O_WORKDIR": "/work", "PBS_JOBDIR": sandbox}
    assert final_paths([Path(log)], environ, {}) == [Path(final)]


@pytest.mark.parametrize(
    ("wanted", "environ", "place"),
    [
        ("", {}, "logs/vllm.log.logdoctor.md"),
        ("-", {}, None),
        ("", {"LOGDOCTOR_REPORT": "-"}, None),
        ("r.json", {"LOGDOCTOR_REPORT": "-"}, "r.json"),
        ("", {"LOGDOCTOR_REPORT": "r.html"}, "r.html"),
        ("reports/", {}, "reports/vllm.log.logdoctor.md"),
        ("reports/", {"SLURM_ARRAY_TASK_ID": "3"}, "reports/vllm.log.logdoctor.md"),
        ("r.json", {"SLURM_ARRAY_TASK_ID": "3"}, "r.3.json"),
        ("r", {"PBS_JOBID": "12[4].head"}, "r.4"),
        ("r.json", {"PBS_JOBID": "12[].head"}, "r.json"),
        ("r.json", {"PBS_JOBID": "12.head"}, "r.json"),
        ("r.json", {"SLURM_ARRAY_TASK_ID": "../3"}, "r.json"),
    ],
)
def test_the_report_goes_where_it_is_wanted_and_each_job_of_an_array_has_its_own(
    wanted: str, environ: dict[str, str], place: str | None
) -> None:
    found = report_place([Path("logs/vllm.log")], wanted, environ)
    assert found == (None if place is None else Path(place))


def test_a_relative_place_is_in_the_folder_of_the_job_and_a_folder_gets_a_name(tmp_path: Path) -> None:
    log = Path("logs/vllm.log")
    assert report_place([log], "r.md", {}, tmp_path) == tmp_path / "r.md"
    assert report_place([log], "/r.md", {}, tmp_path) == Path("/r.md")
    assert report_place([log], str(tmp_path), {}) == tmp_path / "vllm.log.logdoctor.md"
    assert report_place([tmp_path], "", {}) == tmp_path / "logdoctor.md"


@pytest.mark.parametrize(
    ("names", "report"),
    [
        (["serve.o12.1"], "serve.o12.1"),
        (["a.o12.1", "b.o12.1"], "a.o12.1"),
        (["vllm.log", "serve.o12.1"], "vllm.log"),
        (["slurm-12_1.out", "slurm-12_2.err"], "slurm-12_1.out"),
    ],
)
def test_only_outputs_of_one_array_share_a_name(names: list[str], report: str) -> None:
    assert report_place([Path(name) for name in names], "", {}) == Path(f"{report}.logdoctor.md")
