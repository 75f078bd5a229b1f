"""Experts on several cards: each rule speaks on the engine's own lines only."""

from __future__ import annotations

import pytest

from tests.rules.making import a_run, advice, knobs, load
from vllm_logdoctor.plan import plan_of
from vllm_logdoctor.plan.launch import changed, launch_of

DECODING = load((12, {"running": 32, "kv": 20.0, "prompt": 200.0}))
GRAPHS_OFF = (
    "DeepEP: Disabling CUDA Graphs since DeepEP high-throughput kernels are optimized for prefill and are incompatible"
    " with CUDA Graphs. In order to use CUDA Graphs for decode-optimized workloads, use --all2all-backend with another"
    " option, such as deepep_low_latency or allgather_reducescatter."
)
FORCED_EAGER = (
    "Data Parallel: Forcing enforce eager to be True since DP with DeepEP high-throughput kernels are not CUDA Graph"
    " compatible. The DeepEP low-latency kernels are CUDA Graph compatible. Set the all_to_all backend to"
    " deepep_low_latency to use those kernels instead."
)
DEEPEP = {"all2all_backend": "deepep_high_throughput", "enable_expert_parallel": True}


def balance(share: float, tokens: float = 512.0) -> str:
    return f"EPLB step: 3000 for model m: avg_tokens={tokens:.2f}, max_tokens={tokens / share:.0f}, balancedness={share:.4f}"


def moved(seconds: float, mode: str = "") -> str:
    return f"Rearranged experts {mode} in {seconds:.2f} s."


def test_a_decoding_engine_gets_the_kernels_that_can_be_captured() -> None:
    run = a_run(set=DEEPEP, messages=(GRAPHS_OFF,), samples=DECODING, version="0.20.1")
    found = advice(run)["graphs-off-for-expert-exchange"]
    assert knobs(found) == {"--all2all-backend": "deepep_low_latency"}
    assert found.alternatives == ("prompts and answers on engines of their own, each with its kernels",)


def test_releases_without_the_flag_have_a_variable() -> None:
    run = a_run(reported={"enforce_eager": True}, messages=(FORCED_EAGER,), samples=DECODING, version="0.9.2")
    found = advice(run)
    assert knobs(found["graphs-off-for-expert-exchange"]) == {"VLLM_ALL2ALL_BACKEND": "deepep_low_latency"}
    assert "eager-mode" not in found, "no argument asked for it"


@pytest.mark.parametrize(
    ("more", "figures"),
    [
        ({"kv_transfer_config": {"kv_connector": "NixlConnector", "kv_role": "kv_producer"}}, {}),
        ({}, {"prompt": 9000.0, "generation": 30.0}),
    ],
    ids=["computes-prompts-for-others", "prompts-are-the-work"],
)
def test_where_prompts_are_the_work_the_kernels_for_prompts_are_right(
    more: dict[str, object], figures: dict[str, float]
) -> None:
    samples = load((12, {"running": 8, "kv": 20.0, **figures}))
    run = a_run(set={**DEEPEP, **more}, messages=(GRAPHS_OFF,), samples=samples, version="0.20.1")
    assert "graphs-off-for-expert-exchange" not in advice(run)


def test_unbalanced_experts_are_reported_in_steps_of_many_tokens_only() -> None:
    uneven = a_run(messages=(balance(0.31), balance(0.35)), samples=DECODING, version="0.20.1")
    small = a_run(messages=(balance(0.31, 4.0),), samples=DECODING, version="0.20.1")
    better = a_run(messages=(balance(0.31), balance(0.85)), samples=DECODING, version="0.20.1")
    assert "experts-unbalanced" in advice(uneven)
    assert "experts-unbalanced" not in advice(small)
    assert "experts-unbalanced" not in advice(better)


def test_moving_experts_is_reported_with_what_it_takes_of_the_time() -> None:
    run = a_run(
        messages=(moved(9.0, "(profile)"), moved(3.0), moved(3.0)), samples=DECODING, version="0.20.1"
    )
    found = advice(run)["expert-rebalancing-stalls"]
    assert found.effect is not None
    assert found.effect.high == pytest.approx(1 / (1 - 6 / 120), abs=0.001)
    assert found.effect.basis == "2 x 3 s of 120 s, if all of it is saved"
    assert "moved experts 2 times, about 3 s each" in found.explanation
    assert "about 5 % of the time with requests" in found.explanation


def test_a_short_move_in_a_long_load_is_not_worth_a_change() -> None:
    run = a_run(messages=(moved(0.4),), samples=DECODING, version="0.20.1")
    assert "expert-rebalancing-stalls" not in advice(run)


def test_the_variable_is_in_the_command_after() -> None:
    run = a_run(
        set={"model": "org/m", "data_parallel_size": 8, "enable_expert_parallel": True},
        messages=(FORCED_EAGER,),
        samples=DECODING,
        version="0.9.2",
    )
    launch = launch_of(run)
    assert launch is not None
    after = changed(launch, (item.change for item in plan_of(run, tuple(advice(run).values())).changes))
    assert after.environment == {"VLLM_ALL2ALL_BACKEND": "deepep_low_latency"}
