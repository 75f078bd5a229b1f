"""What the sentence on a run's limit says: the span, the queue, the other limits and what no line shows; and rules on measured values."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from tests.rules.making import a_run, advice, load
from tests.tables import for_each
from vllm_logdoctor.parse import Process
from vllm_logdoctor.rules.bottleneck import bottleneck_of, no_request_succeeded
from vllm_logdoctor.rules.engine import settings_findings
from vllm_logdoctor.rules.model import Finding
from vllm_logdoctor.rules.observed import RULES
from vllm_logdoctor.rules.offline import one_by_one
from vllm_logdoctor.rules.urgency import is_urgent, urgent_first
from vllm_logdoctor.run.model import Evidence, Progress, Run
from vllm_logdoctor.run.observed import Group, Measured, Observed

CALM = {"running": 8, "generation": 300.0, "kv": 4.0}
FULL = {"running": 40, "waiting": 30, "generation": 900.0, "kv": 96.0}
SEATS = {"max_num_seqs": 64}


def reason(*parts: tuple[int, dict[str, Any]], **more: Any) -> str:
    return bottleneck_of(a_run(**{"set": SEATS, "samples": load(*parts), **more})).reason


@for_each(
    ("parts", "more", "said"),
    [
        ([(12, CALM)], {}, "The client set the pace in all 12 statistics lines with load: the queue was empty"),
        ([(11, CALM), (1, {**CALM, "waiting": 1})], {}, "The client set the pace in 11 of 12 statistics lines with load: the queue was empty. Otherwise limited by prefill (1 line)"),
        ([(24, CALM)], {}, "The client set the pace in all 24 statistics lines with load: the queue was empty"),
        ([(10, CALM), (2, {**CALM, "running": 40, "generation": 10.0})], {"platform": "cuda"}, "The client set the pace in 10 of 12 statistics lines with load: the queue was empty. Otherwise limited by slow decode steps (2 lines)"),
        ([(3, {"running": 4, "generation": 9.0, "kv": 9.0}), (2, {"running": 4, "generation": 4.0, "kv": 9.0})], {}, "At most 4 requests at once in 3 of 5 statistics lines with load, and none waited. Otherwise limited by slow decode steps (2 lines)"),
        ([(9, CALM), (3, {**CALM, "generation": 0.0})], {}, "The client set the pace in 9 of 12 statistics lines with load: the queue was empty. No clear limit in 3 lines"),
        ([(4, {"running": 9, "generation": 5.0, "prompt": 6000.0, "kv": 60.0})], {"set": {}}, "Prefill took up the steps in all 4 statistics lines with load: running requests got at most 0.56 tokens/s each"),
        ([(2, {"running": 50, "waiting": 90, "kv": 9.0, "prompt": 6000.0, "generation": 90.0}), (10, FULL)], {}, "The KV cache limited concurrency in 10 of 12 statistics lines with load: up to 30 requests waited while at most 40 ran. Otherwise limited by prefill (2 lines)"),
        ([(1, {"running": 5, "waiting": 95, "kv": 2.0, "prompt": 36.0, "generation": 0.1}), (2, {"running": 50, "waiting": 90, "kv": 9.0, "prompt": 6000.0, "generation": 90.0}), (10, FULL)], {}, "The KV cache limited concurrency in 10 of 13 statistics lines with load: up to 30 requests waited while at most 40 ran. Otherwise limited by prefill (2 lines). Requests had just arrived in 1 line"),
        ([(12, FULL), (12, CALM)], {"kind": "offline"}, "The KV cache limited concurrency in 12 of 24 statistics lines with load: up to 30 requests waited while at most 40 ran. No prompt waited in 12 lines"),
        ([(12, FULL), (12, {**CALM, "running": 20, "waiting": 1, "generation": 900.0})], {"kind": "offline"}, "The KV cache limited concurrency in 12 of 24 statistics lines with load: up to 30 requests waited while at most 40 ran. At most 1 prompt waited in 12 lines"),
        ([(12, FULL), (12, CALM)], {}, "The KV cache limited concurrency in 12 of 24 statistics lines with load: up to 30 requests waited while at most 40 ran. Otherwise limited by the client (12 lines)"),
        ([(24, CALM)], {"kind": "offline"}, "The program gave no more prompts in all 24 statistics lines with load: the queue was empty"),
        ([(3, CALM), (1, {**CALM, "running": 0, "generation": 4.0})], {}, "At most 8 requests at once in all 4 statistics lines with load, and none waited"),
        ([(2, CALM)], {}, "At most 8 requests at once in both statistics lines with load, and none waited"),
        ([(2, CALM), (1, {**CALM, "generation": 0.0})], {}, "At most 8 requests at once in 2 of 3 statistics lines with load, and none waited. No clear limit in 1 line"),
        ([(12, {**CALM, "running": 64, "generation": 2000.0})], {}, "The queue was empty in all 12 statistics lines with load, with up to 64 of 64 max_num_seqs slots taken"),
        ([(12, FULL)], {}, "The KV cache limited concurrency in all 12 statistics lines with load: up to 30 requests waited while at most 40 ran"),
        ([(12, {**FULL, "waiting": 1})], {}, "The KV cache limited concurrency in all 12 statistics lines with load: up to 1 request waited while at most 40 ran"),
        ([(12, {**FULL, "waiting": 0})], {}, "The queue was empty in all 12 statistics lines with load, with up to 96 % of the KV cache in use"),
        ([(9, {**FULL, "waiting": 0}), (3, FULL)], {}, "The KV cache limited concurrency in all 12 statistics lines with load: up to 30 requests waited while at most 40 ran"),
        ([(6, FULL), (6, CALM)], {}, "The KV cache limited concurrency in 6 of 12 statistics lines with load: up to 30 requests waited while at most 40 ran. Otherwise limited by the client (6 lines)"),
        ([(12, FULL), (3, {"running": 4, "waiting": 99, "generation": 8.0, "prompt": 4000.0, "kv": 9.0})], {}, "The KV cache limited concurrency in 12 of 15 statistics lines with load: up to 30 requests waited while at most 40 ran. Otherwise limited by prefill (3 lines)"),
        ([(12, {**CALM, "running": 64, "waiting": 30, "generation": 2000.0})], {}, "max_num_seqs reached in all 12 statistics lines with load: requests queued while the KV cache had room"),
        ([(12, {"running": 0, "kv": 0.0})], {}, "No request reached the engine for all 2 min"),
        ([(12, {"running": 4, "waiting": 9, "generation": 8.0, "prompt": 4000.0, "kv": 9.0})], {}, "Requests queued behind prompts (prefill) in all 12 statistics lines with load, while slots and KV cache were free"),
        ([(12, {"running": 2, "generation": 1.0, "kv": 5.0})], {"platform": None}, "Very slow decode steps in all 12 statistics lines with load: the log shows neither the cause nor the device"),
        ([(12, {"running": 2, "generation": 1.0, "kv": 5.0})], {"platform": "npu"}, "Decode steps much slower than the NPU needs in all 12 statistics lines with load: these lines do not show why"),
        ([(12, {"running": 2, "generation": 1.0, "kv": 5.0})], {"set": {**SEATS, "cpu_offload_gb": 8}}, "weights offloaded to the host are copied in every step"),
        ([(12, {"running": 2, "generation": 1.0, "kv": 5.0})], {"set": {**SEATS, "cpu_offload_gb": 0}}, "these lines do not show why"),
    ],
)  # fmt: skip
def test_the_sentence_on_a_limit(
    parts: list[tuple[int, dict[str, Any]]], more: dict[str, Any], said: str
) -> None:
    found = reason(*parts, **more)
    assert found == said or (len(said) < 60 and found.endswith(said)), found


def batch(done: int, total: int, output: float | None = 50.0, seconds: float | None = 10.0) -> Progress:
    return Progress(
        done=done, total=total, input=None, output=output, seconds=seconds, evidence=Evidence("x", done, "")
    )  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("answers", "failed"),
    [
        ({("POST", "/v1/completions", 500): 2}, True),
        ({("POST", "/v1/completions", 400): 2}, True),
        ({("POST", "/v1/completions", 399): 2}, False),
        ({("POST", "/v1/completions", 500): 2, ("POST", "/v1/chat/completions", 200): 1}, False),
        ({("GET", "/v1/models", 500): 2}, False),
        ({}, False),
    ],
)
def test_no_request_succeeded_where_each_answer_is_an_error(answers: dict[Any, int], failed: bool) -> None:
    assert no_request_succeeded(a_run(accesses=answers)) is failed
    assert no_request_succeeded(a_run(accesses=answers, samples=load((1, CALM)))) is False
    embedding = load((1, {"running": 0, "generation": 0.2, "prompt": 0.2}))
    assert no_request_succeeded(a_run(accesses=answers, samples=embedding)) is failed, (
        "V0 counts it as a token"
    )


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ({("POST", "/v1/completions", 500): 2}, "No request succeeded"),
        ({("POST", "/v1/completions", 200): 2}, "Requests were served; the log has no statistics lines"),
        ({("GET", "/v1/models", 200): 2}, "The log shows the start-up and no load"),
    ],
)
def test_without_statistics_the_answers_are_what_is_known(answers: dict[Any, int], said: str) -> None:
    assert bottleneck_of(a_run(accesses=answers)).reason == said


# Which thread is busy says what to look at, and nothing that could be set.
WITHOUT_A_WAY = {"one-thread-is-busy"}


def _measured(group: Group, *values: tuple[str, object, str]) -> Observed:
    return Observed(
        {
            group: [
                Measured(name, value, "", subject, "beside.txt", 1, "", "read", True)
                for name, value, subject in values
            ]
        }
    )  # type: ignore[arg-type]


@for_each(
    ("group", "values", "rule", "words"),
    [
        ("latency", [("waiting share", 50.0, ""), ("queue time mean", 1.0, ""), ("TTFT mean", 2.5, "")], "requests-wait-in-queue", "Requests spend 50 % of their time in the queue: 1 s on average before they run. The mean time to first token is 2.5 s."),
        ("latency", [("waiting share", 49.9, ""), ("queue time mean", 1.0, "")], "requests-wait-in-queue", None),
        ("latency", [("waiting share", 50.0, ""), ("queue time mean", 0.9, "")], "requests-wait-in-queue", None),
        ("kernels", [("share", 20.0, "communication")], "communication-between-gpus-dominates", "takes 20.0 % of the kernel time"),
        ("kernels", [("share", 19.9, "communication")], "communication-between-gpus-dominates", None),
        ("kernels", [("gpu busy share", 0.69, ""), ("launches", 200, ""), ("steps", 4, "")], "gpu-idle-between-kernels", "A kernel runs in 69 % of the profiled time only, 50 launches a step"),
        ("kernels", [("gpu busy share", 0.7, ""), ("launches", 200, "")], "gpu-idle-between-kernels", None),
        ("kernels", [("gpu busy share", 0.4, ""), ("launches", 199, "")], "gpu-idle-between-kernels", None),
        ("host", [("cpu of VLLM::EngineCor", 95.0, "thread 7")], "one-thread-is-busy", "VLLM::EngineCor (thread 7) uses 95.0 % of one processor"),
        ("host", [("cpu of VLLM::EngineCor", 94.9, "thread 7")], "one-thread-is-busy", None),
        ("host", [("cpu of VLLM::EngineCor", 95.0, "thread 8")], "one-thread-is-busy", None),
        ("gpus", [("clocks_event_reasons.hw_thermal_slowdown", "Active", "0")], "gpu-power-capped", "The driver lowers the clock of gpu 0: hw thermal slowdown is active."),
        ("gpus", [("sw power cap", "ACTIVE", "")], "gpu-power-capped", "the clock of the card: sw power cap"),
        ("gpus", [("pcie width max", "16x", "GPU 0"), ("pcie width current", "8x", "GPU 0")], "pcie-link-narrow", "GPU 0 runs on 8x PCIe lanes of 16x."),
        ("gpus", [("pcie width max", "16x", "GPU 0"), ("pcie width current", "12x", "GPU 0")], "pcie-link-narrow", None),
        ("gpus", [("pcie width max", "16x", "GPU 0"), ("pcie width current", "0x", "GPU 0")], "pcie-link-narrow", None),
        ("gpus", [("pcie width max", "16x", "GPU 1"), ("pcie width current", "4x", "GPU 0")], "pcie-link-narrow", None),
        ("fate", [("oom killed", "711 python3", "")], "killed-for-host-memory", "ended process 711 python3"),
        ("fate", [("OOMKilled", True, "")], "killed-for-host-memory", "at its memory limit: OOMKilled is True"),
        ("fate", [("OOMKilled", False, "")], "killed-for-host-memory", None),
        ("fate", [("State", "OUT_OF_ME+", "")], "killed-for-host-memory", "State is OUT_OF_ME+"),
        ("fate", [("State", "FAILED", "")], "killed-for-host-memory", None),
    ],
)  # fmt: skip
def test_a_measured_value_is_a_finding_from_its_bound_on(
    group: Group, values: list[tuple[str, object, str]], rule: str, words: str | None
) -> None:
    run = Run(outcome="killed", observed=_measured(group, *values), processes=[Process("EngineCore", pid=7)])
    found = {one.id: one for one in settings_findings(RULES, run)}
    assert (rule in found) is (words is not None)
    if words is not None:
        assert words in found[rule].explanation
        assert found[rule].changes or found[rule].alternatives or group == "fate" or rule in WITHOUT_A_WAY
    clean = Run(outcome="clean_shutdown", observed=run.observed, processes=run.processes)
    assert (rule in [one.id for one in settings_findings(RULES, clean)]) is (
        words is not None and group != "fate"
    )


def _finding(id: str, role: Any = "") -> Finding:
    return Finding(id, "failure", "high", "high", id, "", role=role)


@pytest.mark.parametrize(
    ("id", "role", "outcome", "ready", "urgent"),
    [
        ("disk-full-or-quota", "", "running", True, True),
        ("thread-or-process-limit", "", "running", True, True),
        ("any", "root", "truncated", False, True),
        ("any", "root", "truncated", True, False),
        ("any", "root", "running", False, False),
        ("any", "", "truncated", False, False),
    ],
)
def test_what_is_urgent_comes_first(id: str, role: str, outcome: Any, ready: bool, urgent: bool) -> None:
    run = Run(outcome=outcome, startup_complete=ready)
    last = _finding(id, role)
    assert is_urgent(run, last) is urgent
    others = (_finding("a"), _finding("b"))
    assert [one.id for one in urgent_first(run, [*others, last])] == (
        [id, "a", "b"] if urgent else ["a", "b", id]
    )


def test_requests_that_an_evaluation_completed_are_the_work_of_its_offline_engine() -> None:
    """A bar that is not full is no result: the pattern does not match it."""
    bar = "Running generate_until requests: 100%|##########| 400/400 [03:20<00:00,  2.00it/s]"
    found = bottleneck_of(a_run(messages=(bar,), kind="offline"))
    assert found.name == "none-clear"
    assert "The evaluation completed 400 requests" in found.reason


def test_prompts_of_which_each_is_a_call_of_its_own() -> None:
    ones = [batch(1, 1)] * 20
    assert one_by_one(ones)
    assert not one_by_one([*ones, batch(2, 2)])
    assert not one_by_one(ones[:1])


def test_the_client_that_sends_one_request_now_is_asked_for_more_than_one() -> None:
    run = a_run(set=SEATS, samples=load((9, {"running": 1, "generation": 90.0, "kv": 1.0})))
    (change,) = advice(run)["client-concurrency-bound"].changes
    assert change.before == 1


def test_two_slow_lines_of_five_are_named_and_lead_to_a_profile() -> None:
    rates = (9.0, 9.0, 5.0, 9.0, 4.0)
    lines = load(*[(1, {"running": 4, "generation": rate, "kv": 80.0}) for rate in rates])
    found = advice(a_run(platform=None, samples=lines))["steps-slower-than-memory"]
    assert found.explanation.startswith("In 2 of 5 statistics lines with load at most 4 requests ran")
    assert found.confidence == "low"


def test_images_that_the_api_server_prepares_leave_open_who_sets_the_pace() -> None:
    calm = {"running": 3, "generation": 90.0, "prompt": 4000.0, "kv": 4.0}
    with_images = [replace(one, mm_hit=0.0) for one in load((12, calm))]
    said = "the client set the pace, or the API server, which prepares images and sound"
    assert said in reason(samples=with_images)
    assert said not in reason((12, calm))
