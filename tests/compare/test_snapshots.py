"""What a comparison reads of a JSON report: every fact, and nothing where the report lacks it."""

from __future__ import annotations

from typing import Any

import pytest

from vllm_logdoctor.comparison.snapshot import (
    KnownFinding,
    PlannedKnob,
    Predicted,
    Setting,
    Snapshot,
    snapshot_of,
)
from vllm_logdoctor.rules.equal_load import LoadLevel
from vllm_logdoctor.run.model import Evidence

EFFECT = {"metric": "kv_cache_tokens", "low": 1.2, "high": 1.4, "origin": "computed", "basis": "x"}
LINE = {"file": "a.log", "line": 7, "text": "line seven"}
CHANGE = {"knob": "--seed", "kind": "flag", "from": 1, "to": 2}
FINDING = {"id": "rule-a", "kind": "performance", "severity": "high", "title": "A", "changes": [CHANGE], "effect": EFFECT, "evidence": [LINE, {**LINE, "line": 8}]}  # fmt: skip
RUN: dict[str, Any] = {
    "vllm_version": {"value": "0.11.2"}, "model": {"value": "org/tiny"}, "platform": "cuda", "engine": "V1", "kind": "server",
    "outcome": "clean_shutdown", "startup_complete": True, "bottleneck": "idle",
    "config": {"model": {"value": "org/tiny"}, "seed": {"value": 3, "provenance": "explicit"}, "lora": {"value": {"a": {"b": 1}, "c": {}}, "provenance": "reported"}},
    "environment": {"VLLM_X": {"value": "1", "provenance": "explicit"}},
    "measured": {"kv_cache_tokens": {"value": 1000}, "unknown": None, "word": {"value": "many"}, "switch": {"value": True}},
    "phases": [
        {"name": "startup", "seconds": 40}, {"name": "imports", "parent": "startup", "seconds": 9}, {"name": "compile", "parent": "startup", "seconds": 5},
        {"name": "inner", "parent": "imports", "seconds": 2},
    ],
    "serving": {
        "busy_samples": 5, "levels": [{"low": 1, "high": 2, "running": 1.5, "samples": 4, "generation": [1.0, 2.0, 3.0], "prompt": 4.0}],
        "running": {"max": 6}, "waiting": {"max": 7}, "prompt_throughput": {"mean_busy": 10.0, "p95": 11.0}, "generation_throughput": {"mean_busy": 12.0, "p95": 13.0},
        "kv_cache_usage": {"max": 14.0}, "prefix_cache_hit_rate": {"last": 15.0}, "preemptions": 16,
    },
    "beside": {"latency": [
        {"name": "TTFT mean", "unit": "s", "joined": True, "value": 0.25}, {"name": "TTFT p95", "unit": "s", "joined": True, "value": 1.0},
        {"name": "E2E mean", "unit": "s", "joined": False, "value": 1.0}, {"name": "Tokens mean", "unit": "tokens", "joined": True, "value": 1.0},
    ]},
    "findings": [FINDING], "plan": {"changes": [{**CHANGE, "findings": ["rule-a"]}]},
}  # fmt: skip


def report(*runs: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"runs": list(runs), **more}


def test_every_fact_of_a_run_is_read() -> None:
    assert snapshot_of(report(RUN, sources=[{"file": "a.log"}])) == Snapshot(
        name="a.log",
        what={"vLLM version": "0.11.2", "model": "org/tiny", "platform": "cuda", "engine": "V1", "kind": "server"},
        outcome="clean_shutdown",
        started=True,
        config={"seed": Setting(3, "explicit"), "lora.a.b": Setting(1, "reported"), "lora.c": Setting({}, "reported")},
        environment={"VLLM_X": Setting("1", "explicit")},
        figures={
            "kv_cache_tokens": 1000.0, "startup_seconds": 40.0, "startup.imports_seconds": 9.0, "prompt_throughput_busy_mean": 10.0,
            "prompt_throughput_p95": 11.0, "generation_throughput_busy_mean": 12.0, "generation_throughput_p95": 13.0, "kv_cache_usage_max": 14.0,
            "prefix_cache_hit_rate": 15.0, "preemptions": 16.0, "ttft_mean_ms": 250.0,
        },
        busy_samples=5,
        levels=(LoadLevel(1, 2, 1.5, 4, (1.0, 2.0, 3.0), 4.0),),
        most_running=6,
        most_waiting=7,
        findings=(KnownFinding("rule-a --seed", "rule-a", "performance", "high", "A", ("--seed",), Predicted("kv_cache_tokens", 1.2, 1.4, "computed"), Evidence("a.log", 7, "line seven")),),
        planned=(PlannedKnob("--seed", "flag", 1, 2, ("rule-a",)),),
        bottleneck="idle",
    )  # fmt: skip


def test_what_a_report_lacks_is_unknown() -> None:
    assert snapshot_of(report({})) == Snapshot(name="log")
    bare = {"id": "rule-a", "kind": "failure", "severity": "low", "title": "A", "changes": []}
    (found,) = snapshot_of(report({"findings": [bare]})).findings
    assert (found.knobs, found.effect, found.line) == ((), None, None)
    (planned,) = snapshot_of(report({"plan": {"changes": [{"knob": "--x", "kind": "flag"}]}})).planned
    assert planned == PlannedKnob("--x", "flag", None, None, ())


def test_a_run_is_named_by_its_file_and_by_its_number_where_there_are_several() -> None:
    one, two = [{"file": "a.log"}], [{"file": "a.log"}, {"file": "b.log"}]
    assert [
        snapshot_of(report(*[{}] * runs, sources=sources)).name for sources in (one, two) for runs in (1, 2)
    ] == ["a.log", "a.log, run 2", "2 files", "2 files, run 2"]


@pytest.mark.parametrize(
    ("ready", "chosen"), [("y", 1), ("yn", 1), ("ny", 2), ("yy", 2), ("nn", 2), ("yyn", 2), ("nyn", 2)]
)
def test_the_last_run_that_got_ready_stands_for_the_log_or_else_the_last(ready: str, chosen: int) -> None:
    runs = [{"startup_complete": one == "y", "outcome": str(place)} for place, one in enumerate(ready, 1)]
    assert snapshot_of(report(*runs)).outcome == str(chosen)


def test_the_time_of_a_start_that_broke_off_is_no_figure() -> None:
    broken = {**RUN, "startup_complete": False}
    found = snapshot_of(report(broken))
    assert not found.started
    assert not [name for name in found.figures if name.startswith("startup")]
