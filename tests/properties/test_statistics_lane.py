"""Statistics lines read in one step say what the long way says, whatever stands between them."""

from __future__ import annotations

from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from vllm_logdoctor.analysis import Analyser, Options
from vllm_logdoctor.events import StatisticsReader
from vllm_logdoctor.report.json import render
from vllm_logdoctor.run.builder import RunBuilder
from vllm_logdoctor.source import Chunk

V1 = (
    "({who}) INFO 03-01 {clock} [loggers.py:127] Engine {engine:03d}: Avg prompt throughput: {a} tokens/s, Avg generation throughput: {b} tokens/s, "
    "Running: {n} reqs, Waiting: {m} reqs, GPU KV cache usage: {c}%, Prefix cache hit rate: {c}%"
)
SHAPES = (
    V1,
    V1 + ", MM cache hit rate: {a}%",
    V1 + ", External prefix cache hit rate: {a}%",
    V1 + ", Something new: {n}",
    V1[:140],
    V1.replace("{a}", "nan"),
    V1.replace("Waiting:", "Preemptions: {m}, Waiting:"),
    V1.replace(" 03-01 ", " 2025-03-01 "),
    V1.replace("{clock}", "{clock},123"),
    V1.replace("({who}) ", ""),
    V1 + "\r",
    'web-1  | "' + V1,
    (
        "INFO 03-01 {clock} [metrics.py:455] Avg prompt throughput: {a} tokens/s, Avg generation throughput: {b} tokens/s, Running: {n} reqs, "
        "Swapped: {m} reqs, Pending: {m} reqs, GPU KV cache usage: {c}%, CPU KV cache usage: 0.0%."
    ),
)
OTHERS = (
    "INFO 03-01 {clock} [metrics.py:471] Prefix cache hit rate: GPU: {c}%, CPU: 0.00%",
    "({who}) INFO:     10.0.0.1:4000 - \"POST /v1/completions HTTP/1.1\" 200 OK",
    "({who}) ERROR 03-01 {clock} [core.py:700] ValueError: step {n} went wrong",
    "({who}) INFO 03-01 {clock} [logger.py:41] Received request cmpl-{n}: prompt: 'hello', params: SamplingParams(n=1), lora_request: None.",
    "({who}) INFO 03-01 {clock} [api_server.py:1839] vLLM API server version 0.11.0",
    "({who}) INFO:     Finished server process [41]",
)  # fmt: skip


def line_of(shape: str, second: int, seed: int, who: int) -> str:
    minute, rest = divmod(second, 60)
    return shape.format(
        who=("APIServer pid=41", "APIServer_1 pid=42", "EngineCore_DP0 pid=55")[who],
        clock=f"{8 + minute // 60:02d}:{minute % 60:02d}:{rest:02d}",
        engine=seed % 2,
        a=seed * 7 % 900 / 10,
        b=seed * 13 % 900 / 10,
        c=seed * 3 % 1000 / 10,
        n=seed % 50,
        m=seed % 3,
    )


def warm(second: int) -> list[str]:
    """Return enough statistics lines for the short way."""
    return [line_of(V1, second + number, number, 0) for number in range(230)]


def report_of(lines: list[str], chunk_lines: int = 10_000) -> str:
    analyser = Analyser(Options())
    number = analyser.open("vllm.log")
    for at in range(0, len(lines), chunk_lines):
        data = "".join(f"{line}\n" for line in lines[at : at + chunk_lines]).encode()
        analyser.feed(Chunk(number, at + 1, data))
    return render(analyser.analysis())


def report_the_long_way(lines: list[str]) -> str:
    with patch.object(StatisticsReader, "read", lambda self, line: None):
        return report_of(lines)


log_lines = st.lists(
    st.tuples(st.sampled_from(SHAPES * 3 + OTHERS), st.integers(0, 4), st.integers(0, 10_000), st.integers(0, 2)),
    max_size=120,
)  # fmt: skip


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(log_lines)
def test_both_ways_give_the_same_report(drawn: list[tuple[str, int, int, int]]) -> None:
    lines, second = warm(0), 300
    for shape, step, seed, who in drawn:
        second += step
        lines.append(line_of(shape, second, seed, who))
    assert report_of(lines) == report_the_long_way(lines)


@pytest.mark.parametrize("chunk_lines", [1, 7, 250])
def test_chunks_make_no_difference(chunk_lines: int) -> None:
    lines = [*warm(0), line_of(OTHERS[2], 240, 1, 0), *warm(300)]
    assert report_of(lines, chunk_lines) == report_the_long_way(lines)


def test_a_long_series_is_thinned_the_same_way() -> None:
    lines = [line_of(SHAPES[number % 2], number, number, 0) for number in range(10_300)]
    assert report_of(lines) == report_the_long_way(lines)


def test_most_lines_of_a_long_series_make_no_record() -> None:
    told: list[int] = []
    long_way = RunBuilder.add

    def counted(self: RunBuilder, record: object, event: object, count: int = 1) -> None:
        told.append(1)
        long_way(self, record, event, count)  # type: ignore[arg-type]

    with patch.object(RunBuilder, "add", counted):
        report_of([line_of(V1, number, number, 0) for number in range(1_000)])
    assert len(told) < 300
