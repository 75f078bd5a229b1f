"""Files that are no log of vLLM: named with their kind, skipped, and listed in the report."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import vllm_logdoctor
from tests.cli_extra.test_surprises import FIXTURE, logdoctor, one_line
from vllm_logdoctor.report.own_reports import kind_of_file
from vllm_logdoctor.report.writers import FORMATS, render

METRICS = "# HELP vllm:num_requests_running Number of requests\n# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running 3.0\n"


@pytest.fixture(scope="module")
def report() -> vllm_logdoctor.Report:
    return vllm_logdoctor.analyze(FIXTURE)


@pytest.mark.parametrize("name", FORMATS)
def test_a_report_in_place_of_a_log_is_named_and_refused(
    name: str, report: vllm_logdoctor.Report, tmp_path: Path
) -> None:
    (tmp_path / "report").write_text(render(report.analysis, name))
    for command in ("analyze", "config", "excerpt"):
        done = logdoctor(command, "report", cwd=tmp_path)
        one_line(done, 3, "no log of vLLM: report (", "logdoctor); give the log that the report was made of")


PIECES = {
    "no proof": "INFO 05-01 10:00:01 [api_server.py:1043] vLLM API server version 0.9.0\n",
    "a failure without a release": "vllm: error: unrecognized arguments: --no-such-flag 3\n",
}


@pytest.mark.parametrize("form", ["markdown", "text"])
@pytest.mark.parametrize("piece", PIECES.values(), ids=PIECES)
def test_the_report_on_a_piece_is_recognised_as_a_report(piece: str, form: str) -> None:
    report = vllm_logdoctor.analyze(piece.encode())
    assert kind_of_file(render(report.analysis, form).encode()) == FORMATS[form].title + " of logdoctor"


def test_comparisons_and_transcripts_are_reports_too(tmp_path: Path) -> None:
    shutil.copy(FIXTURE, tmp_path / "vllm.log")
    for form in ("md", "text"):
        compared = logdoctor("compare", str(FIXTURE), "vllm.log", "-f", form, cwd=tmp_path).stdout
        assert kind_of_file(compared.encode())
    assert kind_of_file(b"run 1: vLLM 0.11.2, models/tiny-qwen3\nrun 1: ready after 27 s\n")


def test_a_log_that_ends_with_a_report_is_no_report(report: vllm_logdoctor.Report) -> None:
    for form in ("markdown", "text"):
        assert kind_of_file((8 * PIECES["no proof"] + render(report.analysis, form)).encode()) is None


def test_a_folder_with_a_log_its_reports_and_metrics_is_one_run(
    report: vllm_logdoctor.Report, tmp_path: Path
) -> None:
    shutil.copy(FIXTURE, tmp_path / "vllm.log")
    for name, ending in (
        ("json", "json"),
        ("csv", "csv"),
        ("text", "txt"),
        ("markdown", "out"),
        ("html", "err"),
    ):
        (tmp_path / f"report.{ending}").write_text(render(report.analysis, name))
    (tmp_path / "metrics.txt").write_text(METRICS)
    (tmp_path / "shopping.txt").write_text("milk\n")
    done = logdoctor("analyze", ".", "-f", "json", cwd=tmp_path)
    document = json.loads(done.stdout)
    assert len(document["runs"]) == 1
    kinds = {one["file"]: one["kind"] for one in document["sources"]}
    assert kinds == {
        "vllm.log": "log",
        "report.json": "JSON report of logdoctor",
        "report.csv": "CSV report of logdoctor",
        "report.txt": "text report of logdoctor",
        "report.out": "Markdown report of logdoctor",
        "report.err": "HTML report of logdoctor",
        "metrics.txt": "prometheus-text",
        "shopping.txt": "text without a line of vLLM",
    }
    page = logdoctor("analyze", ".", cwd=tmp_path).stdout
    assert "prometheus-text" in page
    assert "JSON report of logdoctor" in page


def test_the_state_of_the_cards_before_the_log_of_the_server_is_no_other_kind(tmp_path: Path) -> None:
    cards = "| NVIDIA-SMI 560.35.03    Driver Version: 560.35.03    CUDA Version: 12.6 |\n" * 2000
    (tmp_path / "job.log").write_text(cards + FIXTURE.read_text())
    done = logdoctor("analyze", "job.log", "-f", "json", cwd=tmp_path)
    assert json.loads(done.stdout)["runs"][0]["vllm_version"]["value"] == "0.11.2"


def test_a_file_that_is_cut_costs_itself(tmp_path: Path) -> None:
    shutil.copy(FIXTURE, tmp_path / "vllm.log")
    (tmp_path / "broken.log.gz").write_bytes(b"\x1f\x8b\x08\x00rubbish")
    document = json.loads(logdoctor("analyze", ".", "-f", "json", cwd=tmp_path).stdout)
    assert len(document["runs"]) == 1
    assert any(one["file"] == "broken.log.gz" and one["note"] for one in document["sources"])


@pytest.mark.parametrize("log", sorted((FIXTURE.parent).glob("*.log"))[::6], ids=lambda path: path.name)
def test_no_log_is_taken_for_another_kind(log: Path) -> None:
    from vllm_logdoctor.selection import split_by_kind
    from vllm_logdoctor.source import inputs_from

    assert split_by_kind(inputs_from(log)).others == []


def test_words_of_ray_are_evidence_and_part_of_a_log_of_vllm() -> None:
    from vllm_logdoctor.selection import split_by_kind
    from vllm_logdoctor.source import inputs_from

    ray = "[2025-02-17 15:27:18,341 E 2669821 2669821] logging.cc:460: *** SIGTERM received at time=1739834838 ***\n"
    worker = "(RayWorkerWrapper pid=7) INFO 02-17 15:27:10 worker.py:267] the current vLLM instance can use 20 GiB\n"
    assert [one.kind for one in split_by_kind(inputs_from(ray.encode())).others] == ["ray-log"]
    assert split_by_kind(inputs_from((ray + worker).encode())).others == []


@pytest.mark.parametrize("command", [("config",), ("plan",), ("whatif", "-s", "max_num_seqs=8")])
def test_commands_on_a_run_refuse_a_file_that_lies_beside_logs(
    command: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "metrics.txt").write_text(METRICS)
    done = logdoctor(*command, "metrics.txt", cwd=tmp_path)
    one_line(
        done,
        4,
        "metrics.txt is a copy of `/metrics`, not a log of vLLM",
        "analyze vllm.log --with metrics.txt",
    )
