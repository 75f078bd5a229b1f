"""Adapters, processor cores, tokenizers, images: each rule speaks on its own evidence only."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.rules.making import a_run, advice, knobs, load
from vllm_logdoctor.events import Event
from vllm_logdoctor.run.model import Occurrences, Run, Sample

QUEUE = {"running": 2, "waiting": 6, "kv": 4.0}
SLOW_TOKENIZER = "Using a slow tokenizer. This might cause a significant slowdown. Consider using a fast tokenizer instead."
WINDOW = (
    "Hybrid KV cache manager is disabled for this hybrid model, This means we do not enable any optimizations"
)


def cores(number: int) -> str:
    return (
        f"Reducing Torch parallelism from {number} threads to 1 to avoid unnecessary CPU contention."
        " Set OMP_NUM_THREADS in the external environment to tune this value as needed."
    )


def test_adapters_beyond_the_slots_wait_for_each_other() -> None:
    modules = ["law=/a/law", "sport=/a/sport", "food=/a/food"]
    run = a_run(
        set={"enable_lora": True, "lora_modules": modules, "max_num_seqs": 64}, samples=load((6, QUEUE))
    )
    assert knobs(advice(run)["adapters-take-turns"]) == {"--max-loras": 3}


@pytest.mark.parametrize(
    "settings",
    [
        {"enable_lora": True, "lora_modules": ["law=/a/law"]},
        {"enable_lora": True, "lora_modules": ["law=/a/law", "sport=/a/sport"], "max_loras": 2},
        {"lora_modules": ["law=/a/law", "sport=/a/sport"]},
    ],
    ids=["one-adapter", "slots-for-all", "adapters-off"],
)
def test_without_more_adapters_than_slots_they_are_not_the_reason(settings: dict[str, object]) -> None:
    assert "adapters-take-turns" not in advice(a_run(set=settings, samples=load((6, QUEUE))))


def test_adapters_do_not_explain_a_queue_behind_prompts() -> None:
    settings = {"enable_lora": True, "lora_modules": ["law=/a/law", "sport=/a/sport"]}
    run = a_run(set=settings, samples=load((6, {**QUEUE, "prompt": 5000.0})))
    assert "adapters-take-turns" not in advice(run)


def test_each_card_and_both_front_processes_need_a_core() -> None:
    run = a_run(set={"tensor_parallel_size": 2}, messages=(cores(2),))
    (change,) = advice(run)["few-processor-cores"].changes
    assert (change.before, change.after) == (2, 4)


def test_a_single_worker_inside_the_engine_core_needs_no_core_of_its_own() -> None:
    inside = "Reducing Torch threads from {} to 1 for serving. Set OMP_NUM_THREADS in the external environment to override."
    assert "few-processor-cores" not in advice(a_run(messages=(inside.format(2),), version="0.29.0"))
    found = advice(a_run(messages=(inside.format(1),), version="0.29.0"))["few-processor-cores"]
    assert "1 core in this job. API server and engine core each" in found.explanation
    assert "`Reducing Torch threads from N`" in found.verify


@pytest.mark.parametrize(("number", "platform"), [(4, "cuda"), (64, "cuda"), (2, "cpu"), (2, None)])
def test_enough_cores_or_another_platform_say_nothing(number: int, platform: str | None) -> None:
    run = a_run(set={"tensor_parallel_size": 2}, messages=(cores(number),), platform=platform)
    assert "few-processor-cores" not in advice(run)


def test_a_slow_tokenizer_that_was_asked_for_is_dropped() -> None:
    run = a_run(set={"tokenizer_mode": "slow"}, messages=(SLOW_TOKENIZER,))
    assert knobs(advice(run)["slow-tokenizer"]) == {"--tokenizer-mode": None}


def test_a_checkpoint_without_a_fast_tokenizer_needs_one_and_no_flag() -> None:
    found = advice(a_run(messages=(SLOW_TOKENIZER,)))["slow-tokenizer"]
    assert [change.kind for change in found.changes] == ["action"]


def images(**figures: float) -> list[Sample]:
    return [replace(one, mm_hit=0.0) for one in load((12, figures))]


def test_images_that_come_slowly_may_be_held_up_before_the_engine() -> None:
    found = advice(a_run(samples=images(running=1, prompt=900.0, generation=20.0, kv=2.0)))
    assert next(iter(found)) == "client-concurrency-bound"
    assert found["multimodal-preprocessing-bound"].confidence == "low"


def requests_added(seconds_apart: float, count: int = 14) -> Run:
    run = a_run(messages=("Added request cmpl-1.", "Added request cmpl-2."))
    seen = run.messages["request-added"]
    first, last = seen.first[0], seen.first[1]
    end = seconds_apart * (count - 1)
    run.messages["request-added"] = Occurrences(
        [Event(first.name, first.fields, first.pattern, replace(first.record, time=0.0))],
        Event(last.name, last.fields, last.pattern, replace(last.record, time=end)),
        count,
    )
    return run


@pytest.mark.parametrize(("apart", "said"), [(0.25, True), (0.01, False), (8.0, False)])
def test_requests_that_reach_the_engine_one_by_one_point_at_preprocessing(apart: float, said: bool) -> None:
    found = advice(requests_added(apart))
    assert ("multimodal-preprocessing-bound" in found) is said
    if said:
        assert found["multimodal-preprocessing-bound"].title.startswith(
            "Requests reach the engine one by one"
        )


def test_an_engine_that_writes_is_not_held_up_by_images() -> None:
    found = advice(a_run(samples=images(running=1, prompt=20.0, generation=90.0, kv=2.0)))
    assert "multimodal-preprocessing-bound" not in found


def test_text_alone_is_not_called_images() -> None:
    found = advice(a_run(samples=load((12, {"running": 1, "prompt": 900.0, "generation": 20.0}))))
    assert "multimodal-preprocessing-bound" not in found


def test_asynchronous_scheduling_is_missed_only_where_it_is_the_default() -> None:
    off = {"async_scheduling": False}
    assert knobs(advice(a_run(set=off, version="0.20.0"))["async-scheduling-off"]) == {
        "--async-scheduling": None
    }
    assert "async-scheduling-off" not in advice(a_run(set=off, version="0.11.2"))
    assert "async-scheduling-off" not in advice(a_run(version="0.20.0"))


def test_the_hybrid_cache_manager_is_given_back_where_an_argument_took_it() -> None:
    asked = a_run(set={"disable_hybrid_kv_cache_manager": True}, messages=(WINDOW,), version="0.20.0")
    assert knobs(advice(asked)["window-layers-keep-whole-cache"]) == {
        "--disable-hybrid-kv-cache-manager": None
    }
    assert advice(a_run(messages=(WINDOW,)))["window-layers-keep-whole-cache"].changes == ()


@pytest.mark.parametrize(("rate", "severity"), [(2.8, "high"), (3.2, "low")])
def test_missing_cores_matter_most_where_the_host_is_the_limit(rate: float, severity: str) -> None:
    run = a_run(messages=(cores(1),), samples=load((9, {"running": 2, "generation": rate, "kv": 5.0})))
    assert advice(run)["few-processor-cores"].severity == severity
