"""Cards and nodes: replicas where one card holds the model, tensor parallelism within a node."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from tests.rules.making import a_run, advice, knobs, load, sample
from vllm_logdoctor.rules.bottleneck import Bottleneck
from vllm_logdoctor.rules.capacity.memory import memory_of
from vllm_logdoctor.rules.context import RuleContext
from vllm_logdoctor.rules.load import load_of
from vllm_logdoctor.rules.performance.parallelism import OneCard, shorter_length
from vllm_logdoctor.run.model import Sample

PCIE = (
    "Custom allreduce is disabled because it's not supported on more than two PCIe-only GPUs. To silence this"
    " warning, specify disable_custom_all_reduce=True explicitly."
)
NO_P2P = (
    "Custom allreduce is disabled because your platform lacks GPU P2P capability or P2P test failed. To"
    " silence this warning, specify disable_custom_all_reduce=True explicitly."
)
SMALL = {"model_weights_gib": 1.1, "available_kv_cache_gib": 18.0, "kv_cache_tokens": 2_600_000}
LOADED = {"running": 8, "generation": 412.0, "kv": 1.6}


def small_model(**more: object) -> object:
    settings = {"tensor_parallel_size": 4, "max_model_len": 32768, **more.pop("set", {})}  # type: ignore[attr-defined]
    return advice(a_run(set=settings, measured=SMALL, messages=(PCIE,), **more))  # type: ignore[arg-type]


def test_a_small_model_over_pcie_becomes_replicas() -> None:
    found = small_model(samples=load((9, LOADED)))["small-model-split-over-cards"]  # type: ignore[index]
    assert knobs(found) == {"--tensor-parallel-size": 1, "--data-parallel-size": 4}
    assert (found.effect.low, found.effect.high) == (2.35, 3.40)
    assert "4.40 GiB" in found.explanation


@pytest.mark.parametrize(("running", "severity"), [(3, "medium"), (4, "high"), (5, "high")])
def test_a_split_matters_less_where_fewer_requests_run_than_there_are_ranks(
    running: int, severity: str
) -> None:
    found = small_model(samples=load((9, {**LOADED, "running": running})))["small-model-split-over-cards"]  # type: ignore[index]
    assert found.severity == severity


def test_a_single_stream_gets_no_promise_of_throughput() -> None:
    found = small_model(samples=load((9, {**LOADED, "running": 1})))["small-model-split-over-cards"]  # type: ignore[index]
    assert found.effect is None
    assert "stay empty" in found.explanation


def test_a_model_that_one_card_can_not_hold_stays_split() -> None:
    run = a_run(
        set={"tensor_parallel_size": 4, "max_model_len": 32768},
        measured={"model_weights_gib": 15.4, "available_kv_cache_gib": 5.2, "kv_cache_tokens": 85_760},
        messages=(PCIE,),
        samples=load((9, LOADED)),
    )
    assert "small-model-split-over-cards" not in advice(run)


def test_without_a_line_about_slow_links_nothing_is_said_about_the_split() -> None:
    run = a_run(
        set={"tensor_parallel_size": 4, "max_model_len": 32768}, measured=SMALL, samples=load((9, LOADED))
    )
    assert "small-model-split-over-cards" not in advice(run)


def test_two_ranks_have_the_range_of_two_replicas() -> None:
    run = a_run(
        set={"tensor_parallel_size": 2, "max_model_len": 32768},
        measured=SMALL,
        messages=(NO_P2P,),
        samples=load((9, LOADED)),
    )
    effect = advice(run)["small-model-split-over-cards"].effect
    assert effect is not None
    assert effect.high == pytest.approx(2 * 1.72)


def test_pcie_without_custom_allreduce_is_expected_and_proposes_nothing() -> None:
    found = advice(a_run(messages=(PCIE,)))["custom-allreduce-disabled"]
    assert found.severity == "info"
    assert not found.changes


def test_a_failed_peer_test_is_worth_a_look_and_not_a_workaround() -> None:
    found = advice(a_run(messages=(NO_P2P,)))["custom-allreduce-disabled"]
    assert found.severity == "medium"
    assert "NCCL_P2P_DISABLE" in found.avoid


def test_ranks_on_two_nodes_become_pipeline_stages() -> None:
    line = "tensor_parallel_size=8 is bigger than a reserved number of GPUs (4 GPUs) in a node ab12."
    found = advice(a_run(set={"tensor_parallel_size": 8}, messages=(line,)))["inter-node-network-bound"]
    assert knobs(found) == {"--tensor-parallel-size": 4, "--pipeline-parallel-size": 2}
    assert found.severity == "high"


def test_the_placement_warning_torn_by_a_terminal_still_counts() -> None:
    line = "s) in a node ad95. Tensor parallel workers can be spread out to 2+ nodes which can degrade the"
    assert "inter-node-network-bound" in advice(a_run(messages=(line,)))


def test_the_ranks_of_the_warning_count_where_the_arguments_are_not_in_the_log() -> None:
    warning = "tensor_parallel_size=4 is bigger than a reserved number of GPUs (2 GPUs) in a node ab12."
    run = a_run(default={"tensor_parallel_size": 1}, messages=(warning,))
    found = advice(run)["inter-node-network-bound"]
    assert knobs(found) == {"--tensor-parallel-size": 2, "--pipeline-parallel-size": 2}
    assert found.effect is None, "pipeline stages between nodes were not measured"


def test_a_reason_that_a_terminal_broke_is_read_as_the_whole() -> None:
    run = a_run(messages=("Custom allreduce is disabled because your platform lacks GPU",))
    assert "lacks GPU P2P capability" in advice(run)["custom-allreduce-disabled"].explanation


def engines(*loads: dict[str, float], moments: int = 5) -> list[Sample]:
    return [
        replace(sample(**figures, engine=engine, number=moment), line=10 * moment + engine)  # type: ignore[arg-type]
        for moment in range(moments)
        for engine, figures in enumerate(loads)
    ]


FULL = {"running": 50, "waiting": 40, "kv": 99.0}


def test_requests_that_wait_for_one_engine_while_another_has_room_are_reported() -> None:
    found = advice(a_run(samples=engines(FULL, {"running": 6, "kv": 9.0})))["engines-loaded-unevenly"]
    assert "engine 0 ran 50 with 40 waiting when engine 1 ran 6 with none" in found.explanation
    assert len(found.evidence) == 2


@pytest.mark.parametrize(
    "loads",
    [(FULL, FULL), (FULL, {"running": 45, "kv": 80.0}), ({"running": 50, "kv": 40.0}, {"running": 6})],
    ids=["all-full", "nearly-full", "nothing-waits"],
)
def test_engines_that_are_all_full_or_without_a_queue_are_not_uneven(loads: Any) -> None:
    assert "engines-loaded-unevenly" not in advice(a_run(samples=engines(*loads)))


def test_a_single_engine_is_never_uneven() -> None:
    assert "engines-loaded-unevenly" not in advice(a_run(samples=engines(FULL)))


def test_ranks_stay_where_single_streams_are_to_be_fast() -> None:
    settings = {"tensor_parallel_size": 4, "max_model_len": 32768}
    single = a_run(
        set=settings, measured=SMALL, messages=(PCIE,), samples=load((9, {**LOADED, "running": 1}))
    )
    many = a_run(set=settings, measured=SMALL, messages=(PCIE,), samples=load((9, {**LOADED, "running": 32})))
    assert not advice(single, "latency")["small-model-split-over-cards"].changes
    assert advice(single)["small-model-split-over-cards"].changes
    assert advice(many, "latency")["small-model-split-over-cards"].changes


def test_the_load_is_shared_out_before_one_full_engine_of_many_gets_more_memory() -> None:
    calm = {"running": 6, "kv": 9.0}
    found = advice(a_run(samples=engines(FULL, calm, calm, calm)))
    assert next(iter(found)) == "engines-loaded-unevenly"
    assert "kv-cache-preemption" in found


STAGES = {"pipeline_parallel_size": 4, "tensor_parallel_size": 1}


def test_a_single_stream_has_one_of_four_stages_at_work() -> None:
    found = advice(a_run(set=STAGES, samples=load((9, {"running": 1, "generation": 14.0}))))
    assert knobs(found["pipeline-stages-idle"]) == {
        "--tensor-parallel-size": 4,
        "--pipeline-parallel-size": 1,
    }
    assert list(found)[:2] == ["client-concurrency-bound", "pipeline-stages-idle"]


def test_stages_over_slow_links_stay() -> None:
    found = advice(a_run(set=STAGES, messages=(PCIE,), samples=load((9, {"running": 1, "generation": 14.0}))))
    assert not any(knob.startswith("--") for knob in knobs(found["pipeline-stages-idle"]))


@pytest.mark.parametrize("running", [4, 30])
def test_with_as_many_requests_as_stages_all_of_them_work(running: int) -> None:
    run = a_run(set=STAGES, samples=load((9, {"running": running, "generation": 90.0})))
    assert "pipeline-stages-idle" not in advice(run)


def listed(number: int) -> tuple[str, ...]:
    return tuple(f"{index}, NVIDIA H100, 65247 MiB, 535.86.10" for index in range(number))


def test_cards_of_the_job_that_no_rank_uses_are_counted_in_hours() -> None:
    run = a_run(messages=listed(4), samples=load((20, LOADED)), started=0.0, ended=7200.0)
    found = advice(run)["idle-cards"]
    assert "4 cards, and the engine uses 1" in found.explanation
    assert "6 GPU-hours" in found.explanation
    assert "ask for 1 card" in found.changes[0].knob
    assert next(iter(advice(run, "cost"))) == "idle-cards"


def test_a_server_at_its_limit_fills_idle_cards_with_replicas() -> None:
    full = {"running": 256, "waiting": 300, "kv": 30.0}
    run = a_run(set={"max_num_seqs": 256}, messages=listed(4), samples=load((20, full)))
    assert knobs(advice(run)["idle-cards"]) == {"--data-parallel-size": 4}
    (returned,) = advice(run, "cost")["idle-cards"].changes
    assert (returned.kind, returned.before, returned.after) == ("action", 4, 1)


def test_cards_that_all_have_a_rank_are_not_idle() -> None:
    run = a_run(set={"tensor_parallel_size": 4}, messages=listed(4), samples=load((20, LOADED)))
    assert "idle-cards" not in advice(run)


def test_ranks_on_several_nodes_have_no_all_reduce_of_vllms_and_nothing_to_repair() -> None:
    line = "Custom allreduce is disabled because this process group spans across nodes."
    found = advice(a_run(set={"tensor_parallel_size": 4}, messages=(line,)))["custom-allreduce-disabled"]
    assert not found.changes
    assert "there is nothing to switch on" in found.explanation


@pytest.mark.parametrize(
    ("kv", "tokens", "length"),
    [
        # The largest power of two that one card holds, from 8,192 tokens on and at least eight times what a request held.
        (0.1, 40_000.0, 32_768), (0.1, 32_768.0, 32_768), (0.1, 16_383.0, 8_192), (0.1, 8_191.0, None), (1.6, 40_000.0, 32_768), (1.64, 40_000.0, None), (1.64, 80_000.0, 65_536),
    ],
)  # fmt: skip
def test_a_shorter_context_fits_one_card_and_is_far_above_what_requests_held(
    kv: float, tokens: float, length: int | None
) -> None:
    run = a_run(
        measured={**SMALL, "kv_cache_tokens": 2_560_000}, samples=load((9, {"running": 10, "kv": kv}))
    )
    case = RuleContext(run, load_of(run), Bottleneck("none-clear", ""), ())
    memory = memory_of(run)
    assert memory is not None
    assert memory.tokens == 2_560_000
    assert shorter_length(case, memory, OneCard(1.0, 1.0, tokens)) == length
    idle = a_run(samples=load((9, {"running": 0})))
    unused = RuleContext(idle, load_of(idle), Bottleneck("none-clear", ""), ())
    assert shorter_length(unused, memory, OneCard(1.0, 1.0, tokens)) is None
