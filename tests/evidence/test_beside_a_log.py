"""Files beside a log: they join the run that they are of, fill in what it does not print, and never change its verdict."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from tests.evidence.samples import SAMPLES
from vllm_logdoctor import analyze
from vllm_logdoctor.cli import main

ROOT = Path(__file__).resolve().parents[2]
LOG = ROOT / "fixtures" / "vllm-0.11.2-kv-starved.log"
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def logdoctor(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["logdoctor", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        printed = capsys.readouterr()
        return int(ended.value.code or 0), printed.out, printed.err

    return run


def metrics(blocks: int, model: str = "models/tiny-qwen3") -> str:
    return (
        "# TYPE vllm:num_preemptions_total counter\n"
        f'vllm:num_preemptions_total{{engine="0",model_name="{model}"}} 17.0\n'
        f'vllm:cache_config_info{{block_size="128",num_gpu_blocks="{blocks}"}} 1.0\n'
    )


def verdict(document: dict[str, object]) -> list[object]:
    return [
        (run["outcome"], run["bottleneck"], [one["id"] for one in run["findings"]])
        for run in document["runs"]
    ]  # type: ignore[attr-defined,index]


def test_metrics_of_the_same_cache_are_surely_of_the_run_and_fill_in_its_preemptions(
    logdoctor: Run, tmp_path: Path
) -> None:
    tokens = json.loads(logdoctor("analyze", LOG, "--format", "json")[1])["runs"][0]["measured"][
        "kv_cache_tokens"
    ]["value"]
    file = tmp_path / "metrics.txt"
    file.write_text(metrics(tokens // 128))
    document = json.loads(logdoctor("analyze", LOG, "--with", file, "--format", "json")[1])
    beside = document["evidence"][0]
    assert (beside["belongs"]["run"], beside["belongs"]["certainty"], beside["used"]) == (1, "sure", True)
    assert document["runs"][0]["serving"]["preemptions"] == 17


def test_metrics_of_another_model_are_shown_and_not_used(logdoctor: Run, tmp_path: Path) -> None:
    file = tmp_path / "metrics.txt"
    file.write_text(metrics(7, "other/model"))
    document = json.loads(logdoctor("analyze", LOG, "--with", file, "--format", "json")[1])
    assert document["evidence"][0]["belongs"]["certainty"] == "contradicted"
    assert document["evidence"][0]["used"] is False
    assert "other/model" in document["evidence"][0]["why_not"]
    assert document["runs"][0]["serving"]["preemptions"] is None


@cache
def verdict_of_the_log_alone() -> object:
    return verdict(analyze(LOG).to_dict())


@pytest.mark.parametrize("name", SAMPLES)
def test_no_file_that_has_nothing_to_do_with_a_run_changes_its_verdict(
    name: str, logdoctor: Run, tmp_path: Path
) -> None:
    file = tmp_path / "beside"
    file.write_text(SAMPLES[name])
    beside = json.loads(logdoctor("analyze", LOG, "--with", file, "--format", "json")[1])
    assert verdict(beside) == verdict_of_the_log_alone()
    assert beside["evidence"][0]["kind"] == name


def test_a_file_among_logs_is_recognized_without_the_option(logdoctor: Run, tmp_path: Path) -> None:
    file = tmp_path / "nvidia-smi.txt"
    file.write_text(SAMPLES["nvidia-smi-table"])
    document = json.loads(logdoctor("analyze", LOG, file, "--format", "json")[1])
    assert len(document["runs"]) == 1
    assert document["evidence"][0]["kind"] == "nvidia-smi-table"


def test_evidence_alone_ends_with_4_says_what_it_adds_and_is_in_the_document(
    logdoctor: Run, tmp_path: Path
) -> None:
    file = tmp_path / "top.txt"
    file.write_text(SAMPLES["top"])
    status, printed, said = logdoctor("analyze", file, "--format", "json")
    assert status == 4
    assert "top" in said
    assert "which thread is busy" in said
    assert json.loads(printed)["evidence"][0]["readings"]


def test_the_report_lists_each_file_with_its_use(logdoctor: Run, tmp_path: Path) -> None:
    file = tmp_path / "free.txt"
    file.write_text(SAMPLES["free"])
    report = logdoctor("analyze", LOG, "--with", file, "--format", "markdown")[1]
    assert "Files beside the log" in report
    assert "mem total" in report
    # A file of another kind has no lines of a log.
    assert "free.txt |  | free, given beside the log |" in report[report.index("## What was read") :]


def test_readings_of_files_that_the_report_leaves_out_are_counted(logdoctor: Run, tmp_path: Path) -> None:
    for number in range(10):
        (tmp_path / f"free{number}.txt").write_text(SAMPLES["free"])
    report = logdoctor("analyze", LOG, "--with", tmp_path, "--format", "markdown")[1]
    assert "2 more files with readings in the JSON report." in report


def test_busy_threads_stand_before_what_the_host_is(logdoctor: Run, tmp_path: Path) -> None:
    (tmp_path / "a-free.txt").write_text(SAMPLES["free"])
    (tmp_path / "b-top.txt").write_text(SAMPLES["top"])
    report = logdoctor("analyze", LOG, "--with", tmp_path, "--format", "markdown")[1]
    host = report[report.index("**Host**") :]
    assert host.index("VLLM::W+") < host.index("mem total")


def test_a_missing_file_is_one_line_and_status_3(logdoctor: Run, tmp_path: Path) -> None:
    status, printed, said = logdoctor("analyze", LOG, "--with", tmp_path / "gone.txt")
    assert (status, printed) == (3, "")
    assert said.count("\n") == 1
    assert "gone.txt" in said


def test_each_file_of_a_folder_is_recognized_by_content_whatever_its_name(
    logdoctor: Run, tmp_path: Path
) -> None:
    (tmp_path / "server").write_text(LOG.read_text(encoding="utf-8"))
    (tmp_path / "scrape.prom").write_text(SAMPLES["prometheus-text"])
    (tmp_path / "q").write_text(SAMPLES["nvidia-smi-q"])
    (tmp_path / "weights.safetensors").write_bytes(b"\0\1\2" * 1000)
    (tmp_path / "serve.py").write_text("import vllm\n")
    document = json.loads(logdoctor("analyze", tmp_path, "--format", "json")[1])
    assert len(document["runs"]) == 1
    assert {one["kind"] for one in document["evidence"]} == {"prometheus-text", "nvidia-smi-q"}


def test_a_file_of_a_folder_is_recognized_though_it_is_quoted_or_of_powershell(
    logdoctor: Run, tmp_path: Path
) -> None:
    (tmp_path / "server.log").write_text(LOG.read_text(encoding="utf-8"))
    card = SAMPLES["nvidia-smi-q"]
    (tmp_path / "quoted.txt").write_text("\n".join(f"> {line}" for line in card.split("\n")))
    (tmp_path / "powershell.txt").write_bytes(card.encode("utf-16"))
    document = json.loads(logdoctor("analyze", tmp_path, "--format", "json")[1])
    assert [one["kind"] for one in document["evidence"]] == ["nvidia-smi-q"] * 2
    assert len(document["runs"]) == 1


def test_a_folder_of_evidence_alone_ends_with_4(logdoctor: Run, tmp_path: Path) -> None:
    (tmp_path / "q.txt").write_text(SAMPLES["nvidia-smi-q"])
    status, _, said = logdoctor("analyze", tmp_path)
    assert status == 4
    assert "`nvidia-smi -q`" in said


def test_two_results_in_one_file_are_two_columns(logdoctor: Run, tmp_path: Path) -> None:
    result = SAMPLES["vllm-bench-text"]
    (tmp_path / "bench.txt").write_text(f"{result}{'=' * 50}\n{result.replace('21.50', '43.25')}{'=' * 50}\n")
    status, text, said = logdoctor("analyze", tmp_path / "bench.txt", "--format", "markdown")
    assert status == 4
    assert "`vllm bench serve`" in said
    assert "| reading | from L2 | from L6 |" in text
    assert "| Mean TTFT (ms) | `21.5` | `43.25` |" in text
