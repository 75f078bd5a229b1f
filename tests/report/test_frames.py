"""Every column of the data frames, on one small log."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import pytest

from tests.run.lives_of_a_server import start, statistics
from vllm_logdoctor import analyze
from vllm_logdoctor.api import Report
from vllm_logdoctor.report import frames

pytest.importorskip("pandas")


@cache
def report() -> Report:
    dated = [f"2026-03-04T10:00:0{number}Z {line}" for number, line in enumerate(start())]
    answer = 'INFO:     10.0.0.9:1 - "POST /v1/completions HTTP/1.1" '
    return analyze([
        *dated, *(statistics(clock=f"03-04 10:02:{second:02}") for second in (0, 10, 20, 30)), f"{answer}200 OK", f"{answer}500 Internal Server Error",
        f"{answer}500 Internal Server Error", f"{answer}404 Not Found", "WARNING 03-04 10:03:00 [x.py:1] Something odd",
    ])  # fmt: skip


def rows(frame: Any) -> list[dict[str, Any]]:
    found = [
        {str(name): None if isinstance(value, float) and math.isnan(value) else value for name, value in row.items()} for row in frame.to_dict("records")
    ]  # fmt: skip
    return [{name: str(value) if name in ("time", "started", "ended", "start", "end") else value for name, value in row.items()} for row in found]  # fmt: skip


def test_a_row_of_runs() -> None:
    (found,) = rows(frames.runs_frame([(run.diagnosis, run.times) for run in report().runs]))
    assert found == {
        "run": 1, "file": "<lines>", "kind": "server", "version": "0.11.2", "model": "org/m", "platform": "cuda", "outcome": "running",
        "bottleneck": "client-limited", "started": "2026-03-04 10:00:00", "ended": "2026-03-04 10:03:00", "duration": 180.0, "startup": 30.0,
        "generation_mean": 100.0, "generation_max": 100.0, "prompt_mean": 10.0, "running_max": 3, "waiting_max": 0, "kv_usage_max": 1.0,
        # 100 tokens/s over the 30 s between the first and the last line.
        "generated": 3000.0, "requests": 4, "failed_requests": 2, "kv_cache_tokens": 65536.0, "findings": found["findings"],
    }  # fmt: skip
    severities = [one.severity for one in report().runs[0].diagnosis.findings]
    assert found["findings"] == sum(one in ("critical", "high") for one in severities) > 0


def test_a_row_of_periods_of_messages_of_processes_and_of_forecasts() -> None:
    run = report().runs[0]
    assert rows(frames.periods_frame([(run.diagnosis, run.times)])) == [
        {
            "run": 1, "limit": "client-limited", "start": "2026-03-04 10:01:50", "end": "2026-03-04 10:02:30", "start_seconds": 110.0, "duration": 40.0, "samples": 4,
            "reason": "up to 3 running, 0 waiting, KV cache 1 %",
        },
    ]  # fmt: skip
    messages = rows(frames.messages_frame([run.diagnosis]))
    assert {"run": 1, "pattern": None, "verdict": "unknown", "count": 1, "text": "WARNING 03-04 10:03:00 [x.py:1] Something odd", "meaning": "", "line": 14} in messages  # fmt: skip
    assert rows(frames.processes_frame([run.run])) == [
        {"run": 1, "name": "APIServer", "role": "api-server", "pid": 1, "rank": "", "host": ""}, {"run": 1, "name": "EngineCore_DP0", "role": "engine-core", "pid": 2, "rank": "DP0", "host": ""},
    ]  # fmt: skip
    assert {(row["run"], row["knob"]) for row in rows(frames.what_if_frame([run.diagnosis]))} >= {(1, "gpu_memory_utilization")}  # fmt: skip


def test_a_row_of_events() -> None:
    first, *_ = rows(report().runs[0].events.to_frame())
    assert first == {
        "event": "api-server-version", "pattern": "api-server-version", "level": "INFO", "process": "APIServer", "time": "2026-03-04 10:00:00", "seconds": 0.0, "line": 1, "count": 1,
        "fields": {"version": "0.11.2"}, "message": "vLLM API server version 0.11.2",
    }  # fmt: skip


def test_tokens_in_all_are_those_between_the_lines_of_each_engine() -> None:
    run = report().runs[0].run
    assert frames.tokens_in_all(run) == 3000.0
    alone = analyze([*start(), statistics(clock="03-04 10:02:00")]).runs[0].run
    assert frames.tokens_in_all(alone) is None
