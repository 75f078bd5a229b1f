"""A cause that only a pack of the user's own knows becomes the root where no rule of the tool has one."""

from __future__ import annotations

from pathlib import Path

import pytest

from vllm_logdoctor.pipeline import Options, analyse
from vllm_logdoctor.report.model import Analysis
from vllm_logdoctor.report.writers import FORMATS, render
from vllm_logdoctor.source import inputs_from

PACK = """\
[pack]
name = "our-wrapper"
title = "serve.sh, our launch script"
[[pattern]]
id = "wrapper-killed-unhealthy"
literal = ["wrapper: health check failed"]
regex = 'wrapper: health check failed (?P<times>\\d+) times, killing the server'
level = "foreign"
seen = "any"
topic = "lifecycle"
verdict = "cause-of-failure"
severity = "high"
meaning = "Our script killed the server because it did not answer."
[pattern.fields]
times = { type = "int" }
[[pattern.samples]]
text = "wrapper: health check failed 3 times, killing the server"
values = { times = 3 }
"""
KILLED = "wrapper: health check failed 3 times, killing the server"
START = """\
(APIServer pid=77) INFO 05-01 10:00:00 [api_server.py:1043] vLLM API server version 0.11.2
(EngineCore pid=78) INFO 05-01 10:00:20 [core.py:97] Initializing a V1 LLM engine (v0.11.2) with config: model='m'"""
READY = "(APIServer pid=77) INFO:     Application startup complete."
SERVED = '(APIServer pid=77) INFO:     127.0.0.1:5 - "POST /v1/completions HTTP/1.1" 200 OK'
STATISTICS = (
    "(APIServer pid=77) INFO 05-01 10:0{0}:00 [loggers.py:127] Engine 000: Avg prompt throughput: 10.0 tokens/s, "
    "Avg generation throughput: 20.0 tokens/s, Running: 1 reqs, Waiting: 0 reqs, GPU KV cache usage: 1.0%, "
    "Prefix cache hit rate: 0.0%"
)
GONE = (
    "(APIServer pid=77) ERROR 05-01 10:41:12 [core_client.py:564] Engine core proc EngineCore_DP0 died unexpectedly, "
    "shutting down client."
)
WRAPPER = "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}"
OUT_OF_MEMORY = """\
(EngineCore pid=78) ERROR 05-01 10:00:30 [core.py:708] EngineCore failed to start.
(EngineCore pid=78) ERROR 05-01 10:00:30 [core.py:708] Traceback (most recent call last):
(EngineCore pid=78) ERROR 05-01 10:00:30 [core.py:708]   File "/opt/vllm/v1/worker/gpu_model_runner.py", line 2500, in load_model
(EngineCore pid=78) ERROR 05-01 10:00:30 [core.py:708]     self.model = get_model(vllm_config=self.vllm_config)
(EngineCore pid=78) ERROR 05-01 10:00:30 [core.py:708] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.00 GiB."""


@pytest.fixture
def pack(tmp_path: Path) -> Path:
    path = tmp_path / "our-wrapper.toml"
    path.write_text(PACK)
    return path


def analysed(pack: Path, *parts: str) -> Analysis:
    return analyse(inputs_from("\n".join(parts).encode()), Options(patterns=(pack,)))


def root(analysis: Analysis) -> str:
    return next((one.id for one in analysis.runs[0].findings if one.role == "root"), "")


@pytest.mark.parametrize(
    ("parts", "outcome"),
    [
        ((START, KILLED), "crashed_at_startup"),
        ((START, KILLED, WRAPPER), "crashed_at_startup"),
        ((START, READY, SERVED, KILLED), "crashed_while_serving"),
        ((START, READY, SERVED, KILLED, GONE), "crashed_while_serving"),
        ((START, READY, STATISTICS.format(1), KILLED), "crashed_while_serving"),
    ],
)
def test_it_is_the_root_of_an_end_that_nothing_else_explains(
    parts: tuple[str, ...], outcome: str, pack: Path
) -> None:
    found = analysed(pack, *parts)
    assert found.runs[0].run.outcome == outcome
    assert root(found) == "wrapper-killed-unhealthy"


def test_the_report_says_whose_word_it_is(pack: Path) -> None:
    text = render(analysed(pack, START, KILLED), "markdown")
    assert "Our script killed the server because it did not answer." in text
    assert "So says the pack our-wrapper" in text


def test_a_cause_that_a_rule_knows_stays_the_root(pack: Path) -> None:
    assert root(analysed(pack, START, KILLED, OUT_OF_MEMORY)) == "oom-weights-load"


def test_a_run_that_went_on_did_not_end_by_it(pack: Path) -> None:
    before_ready = analysed(pack, START, KILLED, READY, SERVED)
    served_on = analysed(
        pack, START, READY, STATISTICS.format(1), KILLED, STATISTICS.format(2), STATISTICS.format(3)
    )
    for found in (before_ready, served_on):
        assert root(found) == ""
        assert found.runs[0].run.outcome == "running"


@pytest.mark.parametrize("format_name", FORMATS)
def test_every_format_can_tell_it(format_name: str, pack: Path) -> None:
    assert "wrapper" in render(analysed(pack, START, KILLED), format_name)
