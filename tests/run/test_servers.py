"""Logs of other engines are named, not judged; a log of two engines is two runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from vllm_logdoctor import analyze
from vllm_logdoctor.catalogue.loading import load_all
from vllm_logdoctor.cli import main
from vllm_logdoctor.run.servers import NAMES, SIGNATURES

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
VLLM = (FIXTURES / "vllm-0.32.0-healthy-serve.log").read_text(encoding="utf-8")
SGLANG = """[2026-03-11 01:17:04] server_args=ServerArgs(model_path='tiny', port=30000)
[2026-03-11 01:17:09 TP0] Load weight end. type=Qwen2ForCausalLM, dtype=torch.bfloat16, avail mem=10.2 GB
[2026-03-11 01:17:20] The server is fired up and ready to roll!
[2026-03-11 01:17:34 TP0] Decode batch. #running-req: 1, #token: 120, token usage: 0.01, gen throughput (token/s): 58.10, #queue-req: 0
[2026-03-11 01:18:04 TP0] Scheduler hit an exception: Traceback (most recent call last):
  File "/opt/venv/lib/python3.12/site-packages/sglang/srt/managers/scheduler.py", line 1, in run
RuntimeError: CUDA error: an illegal memory access was encountered
"""
LLAMA_CPP = """build: 4793 (70680c48) with cc (Debian 12.2.0-14) 12.2.0 for x86_64-linux-gnu
llama_model_loader: loaded meta data with 34 key-value pairs and 339 tensors from tiny.gguf (version GGUF V3 (latest))
print_info: file type   = Q4_K - Medium
llama_context: n_ctx         = 4096
"""


def servers(text: str, tmp_path: Path) -> list[str]:
    log = tmp_path / "server.log"
    log.write_text(text)
    return [view.run.server for view in analyze(log).runs]


def test_every_pattern_of_an_engine_names_one() -> None:
    patterns = load_all(())[0].patterns
    assert {
        one.id for one in patterns if one.pack.startswith("engine-") and one.topic == "foreign"
    } == SIGNATURES.keys()
    assert set(SIGNATURES.values()) == NAMES.keys()


@pytest.mark.parametrize(("text", "server"), [(SGLANG, "sglang"), (LLAMA_CPP, "llama.cpp"), (VLLM, "vllm")])
def test_the_engine_of_a_log_is_named(text: str, server: str, tmp_path: Path) -> None:
    assert servers(text, tmp_path) == [server]


def test_a_crash_of_another_engine_is_no_finding(tmp_path: Path) -> None:
    log = tmp_path / "sglang.log"
    log.write_text(SGLANG)
    run = analyze(log).runs[0]
    assert (run.findings, run.diagnosis.plan.changes, run.run.outcome) == ((), (), "unknown")


@pytest.mark.parametrize("texts", [(VLLM, SGLANG), (SGLANG, VLLM)], ids=["vllm first", "sglang first"])
def test_two_engines_in_one_file_are_two_runs_with_the_counts_that_they_have_apart(
    texts: tuple[str, str], tmp_path: Path
) -> None:
    log, alone = tmp_path / "both.log", tmp_path / "alone.log"
    log.write_text("".join(texts))
    alone.write_text(VLLM)
    runs = {view.run.server: view.run for view in analyze(log).runs}
    assert runs.keys() == {"vllm", "sglang"}
    assert runs["vllm"].accesses == analyze(alone).runs[0].run.accesses


def test_an_engine_that_is_quoted_in_a_prompt_changes_nothing(tmp_path: Path) -> None:
    quoted = (
        VLLM
        + "INFO 01-01 00:00:00 [logger.py:39] Received request x: prompt: '[2026-03-11] server_args=ServerArgs(a)'\n"
    )
    assert servers(quoted, tmp_path) == ["vllm"]


def test_a_log_of_another_engine_ends_with_4_and_the_document_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "sglang.log"
    log.write_text(SGLANG)
    monkeypatch.setattr("sys.argv", ["logdoctor", "analyze", str(log), "--format", "json"])
    with pytest.raises(SystemExit) as ended:
        main()
    printed = capsys.readouterr()
    assert ended.value.code == 4
    assert json.loads(printed.out)["runs"][0]["server"] == "sglang"
    assert "SGLang" in printed.err
