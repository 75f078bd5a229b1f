"""The objective decides: for each two objectives there is a load whose plans differ, for a reason that the plan states."""

from __future__ import annotations

from itertools import combinations

import pytest

from tests.rules.making import a_run, load
from tests.tables import for_each
from vllm_logdoctor.plan import plan_of
from vllm_logdoctor.plan.model import Plan
from vllm_logdoctor.rules.bottleneck import bottleneck_of
from vllm_logdoctor.rules.model import Change, Finding
from vllm_logdoctor.rules.performance import performance_findings
from vllm_logdoctor.run.model import Run

OBJECTIVES = ("throughput", "latency", "long-context", "memory", "startup", "cost")
CAPPED_AND_EAGER = a_run(
    set={"max_num_seqs": 32, "enforce_eager": True},
    samples=load((20, {"running": 32, "waiting": 60, "kv": 20.0})),
    version="0.16.0",
)
SMALL_SHARE = a_run(
    set={"gpu_memory_utilization": 0.6, "max_num_seqs": 512, "max_model_len": 4096},
    default={"kv_cache_dtype": "auto", "dtype": "bfloat16"},
    measured={"kv_cache_tokens": 150_000, "available_kv_cache_gib": 20.0, "model_weights_gib": 25.0},
    samples=load((20, {"running": 100, "waiting": 60, "kv": 98.0})),
    version="0.16.0",
)
ONE_CLIENT = a_run(
    set={"max_num_seqs": 32, "enforce_eager": True},
    samples=load((20, {"running": 1, "kv": 1.0})),
    version="0.16.0",
)
SPLIT_SMALL_MODEL = a_run(
    set={"tensor_parallel_size": 4, "max_model_len": 32768},
    measured={"model_weights_gib": 1.1, "available_kv_cache_gib": 18.0, "kv_cache_tokens": 2_600_000},
    messages=(
        "Custom allreduce is disabled because it's not supported on more than two PCIe-only GPUs. To silence this"
        " warning, specify disable_custom_all_reduce=True explicitly.",
    ),
    samples=load((20, {"running": 8, "generation": 412.0, "kv": 1.6})),
    version="0.16.0",
)
LOADS = (CAPPED_AND_EAGER, SMALL_SHARE, ONE_CLIENT, SPLIT_SMALL_MODEL)


def plan(run: Run, objective: str) -> Plan:
    return plan_of(run, performance_findings(run, bottleneck_of(run), objective), objective)


def steps(run: Run, objective: str) -> list[tuple[str, object]]:
    return [(item.change.knob, item.change.after) for item in plan(run, objective).changes]


@for_each(("one", "other"), list(combinations(OBJECTIVES, 2)))
def test_two_objectives_have_a_load_whose_plans_differ(one: str, other: str) -> None:
    assert any(steps(run, one) != steps(run, other) for run in LOADS)


@pytest.mark.parametrize(("one", "other"), list(combinations(OBJECTIVES, 2)))
def test_what_only_one_of_two_objectives_changes_has_its_reason_in_the_other(one: str, other: str) -> None:
    for run in LOADS:
        for with_it, without_it in ((one, other), (other, one)):
            left = {knob for knob, _ in steps(run, with_it)} - {knob for knob, _ in steps(run, without_it)}
            unexplained = left - dict(plan(run, without_it).refused).keys()
            for item in plan(run, with_it).changes:
                if item.change.knob in unexplained:
                    said, instead = judged(run, item.findings[0], without_it)
                    assert said != judged(run, item.findings[0], with_it)[0] or instead, item.change.knob


def judged(run: Run, name: str, objective: str) -> tuple[str, tuple[Change, ...]]:
    """What a finding says of a run and what it changes: under another objective it can say or change something else."""
    findings = performance_findings(run, bottleneck_of(run), objective)
    return next(((one.explanation, tuple(one.changes)) for one in findings if one.id == name), ("", ()))


def test_cost_returns_the_cards_that_throughput_fills_with_replicas() -> None:
    assert dict(steps(SPLIT_SMALL_MODEL, "throughput"))["--data-parallel-size"] == 4
    cheap = dict(steps(SPLIT_SMALL_MODEL, "cost"))
    assert cheap["--tensor-parallel-size"] == 1
    assert "--data-parallel-size" not in cheap
    assert any("return 3" in knob for knob in cheap)


def test_latency_raises_no_number_of_requests_and_says_why() -> None:
    assert "--max-num-seqs" in dict(steps(CAPPED_AND_EAGER, "throughput"))
    assert "--max-num-seqs" not in dict(steps(CAPPED_AND_EAGER, "latency"))
    assert "each request gets slower" in dict(plan(CAPPED_AND_EAGER, "latency").refused)["--max-num-seqs"]


def test_memory_takes_no_more_of_the_device_and_startup_keeps_eager_mode() -> None:
    assert "--enforce-eager" in dict(steps(CAPPED_AND_EAGER, "throughput"))
    assert "--enforce-eager" not in dict(steps(CAPPED_AND_EAGER, "memory"))
    assert "--enforce-eager" not in dict(steps(CAPPED_AND_EAGER, "startup"))


def test_what_repairs_a_failure_is_for_every_objective() -> None:
    shorter = Change("--max-model-len", "flag", 8192, 4096)
    failure = Finding(
        "kv-cache-too-small-for-max-model-len", "failure", "critical", "high", "", "", changes=(shorter,)
    )
    run = a_run(set={"max_model_len": 8192}, version="0.16.0")
    assert [item.change for item in plan_of(run, [failure], "long-context").changes] == [shorter]


def test_memory_sets_no_size_of_the_cache_that_the_engine_prints() -> None:
    sized = Change("--kv-cache-memory-bytes", "flag", None, 30 << 30, "needs-test")
    found = Finding("kv-cache-preemption", "performance", "high", "high", "", "", changes=(sized,))
    run = a_run(set={"max_num_seqs": 32}, version="0.16.0")
    assert [item.change for item in plan_of(run, [found], "throughput").changes] == [sized]
    refused = dict(plan_of(run, [found], "memory").refused)
    assert "takes more of the device" in refused["--kv-cache-memory-bytes"]
