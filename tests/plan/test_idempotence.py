"""Apply the plan, run again: none of the same advice comes back."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.rules.making import a_run, load
from vllm_logdoctor.plan import plan_of
from vllm_logdoctor.plan.whatif import what_if
from vllm_logdoctor.rules import configuration
from vllm_logdoctor.rules.bottleneck import bottleneck_of
from vllm_logdoctor.rules.engine import settings_findings
from vllm_logdoctor.rules.performance import performance_findings
from vllm_logdoctor.run.model import Run

PCIE = (
    "Custom allreduce is disabled because it's not supported on more than two PCIe-only GPUs. To silence this"
    " warning, specify disable_custom_all_reduce=True explicitly."
)
FORCED = (
    "Detected that the model can run with awq_marlin, however you specified quantization=awq explicitly, so"
    " forcing awq. Use quantization=awq_marlin for faster inference"
)

RUNS = st.fixed_dictionaries(
    {
        "running": st.integers(1, 300),
        "waiting": st.integers(0, 200),
        "kv": st.floats(0.5, 100.0),
        "prompt": st.floats(0.0, 9000.0),
        "max_num_seqs": st.sampled_from([1, 8, 64, 256]),
        "utilization": st.sampled_from([0.5, 0.8, 0.86, 0.9, 0.95]),
        "eager": st.booleans(),
        "ranks": st.sampled_from([1, 2, 4]),
        "tokens_a_step": st.sampled_from([512, 2048, 8192]),
        "awq": st.booleans(),
        "version": st.sampled_from(["0.9.2", "0.11.2", "0.16.0", "0.23.0"]),
    }
)


def log_of(
    given_settings: dict[str, Any], load_figures: dict[str, Any], case: dict[str, Any], room: float
) -> Run:
    """The log that a server with these settings writes under that load; `room` scales what the cache holds."""
    max_num_seqs = given_settings["max_num_seqs"]
    wanted = load_figures["running"] + load_figures["waiting"]
    running = min(wanted, max_num_seqs)
    usage = min(100.0, load_figures["kv"] * running / load_figures["running"] / room)
    figures = {
        "running": running,
        "waiting": wanted - running if usage < 90 else max(wanted - running, load_figures["waiting"]),
        "kv": round(usage, 1),
        "prompt": load_figures["prompt"],
        "generation": 40.0 * running,
    }
    ranks = given_settings.get("tensor_parallel_size", 1)
    messages = (PCIE,) if ranks > 1 else ()
    messages += (FORCED,) if given_settings.get("quantization") == "awq" else ()
    return a_run(
        set=given_settings,
        default={"kv_cache_dtype": "auto"} if "kv_cache_dtype" not in given_settings else {},
        measured={
            "kv_cache_tokens": 400_000 * room,
            "available_kv_cache_gib": 20.0 * (room if "kv_cache_dtype" not in given_settings else room / 2),
            "model_weights_gib": 4.0 / ranks,
        },
        messages=messages,
        samples=load((9, figures)),
        version=case["version"],
    )


def advised(run: Run) -> dict[str, Any]:
    findings = (*performance_findings(run, bottleneck_of(run)), *settings_findings(configuration.RULES, run))
    plan = plan_of(run, findings)
    return {item.change.knob: item.change.after for item in plan.changes if item.change.kind == "flag"}


@settings(max_examples=150, deadline=None)
@given(RUNS)
def test_with_the_plan_applied_the_same_advice_does_not_come_back(case: dict[str, Any]) -> None:
    figures = {name: case[name] for name in ("running", "waiting", "kv", "prompt")}
    before: dict[str, Any] = {
        "max_num_seqs": max(case["max_num_seqs"], 1),
        "gpu_memory_utilization": case["utilization"],
        "max_num_batched_tokens": case["tokens_a_step"],
        "max_model_len": 8192,
        "dtype": "bfloat16",
    }
    before |= {"enforce_eager": True} if case["eager"] else {}
    before |= {"quantization": "awq"} if case["awq"] else {}
    before |= {"tensor_parallel_size": case["ranks"]} if case["ranks"] > 1 else {}
    first = log_of(before, figures, case, 1.0)
    changes = advised(first)
    after = {**before, **{knob[2:].replace("-", "_"): value for knob, value in changes.items()}}
    after = {name: value for name, value in after.items() if value is not None}
    second = log_of(after, figures, case, grown(first, changes))
    for knob, value in advised(second).items():
        assert changes.get(knob, object()) != value, f"{knob} -> {value} is advised again"


def grown(run: Run, changes: dict[str, Any]) -> float:
    """How many times the tokens the cache holds with the plan, by the same laws that the plan is made with."""
    cache = {
        knob[2:].replace("-", "_"): value
        for knob, value in changes.items()
        if knob in ("--gpu-memory-utilization", "--kv-cache-dtype") and value is not None
    }
    found = what_if(run, cache).kv_cache_tokens if cache else None
    return found.after / found.before if found and found.after and found.before else 1.0
