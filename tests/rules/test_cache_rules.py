"""Prefix caching, chunked prefill and fp8 KV caches."""

from __future__ import annotations

from typing import Any

import pytest

from tests.rules.making import a_run, advice, knobs, load
from tests.tables import for_each

BUSY = {"running": 8, "generation": 400.0, "prompt": 40.0, "kv": 3.0}
PROMPTS = {"running": 1, "generation": 14.5, "prompt": 4373.0, "kv": 1.5}
CACHE = {"model_weights_gib": 15.3, "available_kv_cache_gib": 57.5, "kv_cache_tokens": 418_720}


def test_prefix_caching_that_vllm_switched_off_matters_where_prompts_are_the_load() -> None:
    run = a_run(reported={"enable_prefix_caching": False}, samples=load((9, PROMPTS)), version="0.25.1")
    found = advice(run)
    assert next(iter(found)) == "prefix-caching-silently-off"
    assert found["prefix-caching-silently-off"].severity == "medium"


def test_it_comes_after_the_client_where_prompts_are_few() -> None:
    run = a_run(reported={"enable_prefix_caching": False}, samples=load((9, BUSY)))
    assert next(iter(advice(run))) == "client-concurrency-bound"


def test_what_the_user_switched_off_is_not_called_silent() -> None:
    found = advice(a_run(set={"enable_prefix_caching": False}, samples=load((9, PROMPTS))))
    assert "prefix-caching-silently-off" not in found
    assert knobs(found["prefix-caching-switched-off"]) == {"--enable-prefix-caching": True}


def test_v0_without_prefix_caching_is_its_default() -> None:
    run = a_run(
        reported={"enable_prefix_caching": False}, engine="V0", version="0.6.3", samples=load((9, PROMPTS))
    )
    found = advice(run)
    assert "prefix-caching-silently-off" not in found
    assert "the default of the V0 engine" in found["prefix-caching-switched-off"].explanation


def test_chunked_prefill_is_never_proposed_where_it_is_on() -> None:
    assert "chunked-prefill-off" not in advice(a_run(reported={"enable_chunked_prefill": True}))
    assert "chunked-prefill-off" in advice(a_run(set={"enable_chunked_prefill": False}))
    single = {"enable_chunked_prefill": False, "max_num_seqs": 1}
    assert "chunked-prefill-off" not in advice(a_run(set=single)), "no other request runs beside a prompt"


def test_chunked_prefill_is_not_proposed_where_one_request_runs_at_a_time() -> None:
    """A long prompt then holds up no other request."""
    run = a_run(set={"enable_chunked_prefill": False}, samples=load((9, {"running": 1, "generation": 40.0})))
    assert "chunked-prefill-off" not in advice(run)


def test_models_that_embed_have_their_own_reasons_for_both() -> None:
    settings = {"runner": "pooling", "enable_prefix_caching": False, "enable_chunked_prefill": False}
    assert not {"chunked-prefill-off", "prefix-caching-switched-off"} & set(advice(a_run(set=settings)))


def test_an_fp8_cache_is_worth_a_test_where_steps_read_more_cache_than_weights() -> None:
    run = a_run(
        set={"dtype": "bfloat16"},
        default={"kv_cache_dtype": "auto"},
        measured=CACHE,
        version="0.18.0",
        samples=load((9, {"running": 255, "generation": 8600.0, "kv": 38.6})),
    )
    found = advice(run)["kv-cache-reads-dominate"]
    assert knobs(found) == {"--kv-cache-dtype": "fp8"}
    assert found.confidence == "low"
    assert found.effect is not None
    assert found.effect.low < 1.0


@pytest.mark.parametrize(
    ("version", "kv", "platform"),
    [("0.9.0", 38.6, "cuda"), ("0.18.0", 10.0, "cuda"), ("0.18.0", 38.6, "rocm")],
    ids=["a release that falls back to V0", "little cache in use", "another platform"],
)
def test_an_fp8_cache_is_not_proposed_where_it_would_not_help(version: str, kv: float, platform: str) -> None:
    run = a_run(
        default={"kv_cache_dtype": "auto"},
        measured=CACHE,
        version=version,
        platform=platform,
        samples=load((9, {"running": 255, "generation": 8600.0, "kv": kv})),
    )
    assert "kv-cache-reads-dominate" not in advice(run)


def test_a_long_context_that_hardly_fits_gets_an_fp8_cache_when_that_is_the_objective() -> None:
    run = a_run(set={"max_model_len": 32768, "dtype": "bfloat16"}, measured={"max_concurrency": 1.3})
    assert knobs(advice(run)["few-full-length-requests-fit"]) == {}
    assert knobs(advice(run, "long-context")["few-full-length-requests-fit"]) == {"--kv-cache-dtype": "fp8"}


def test_a_small_batch_that_waits_for_nothing_keeps_the_type_of_its_cache() -> None:
    run = a_run(
        set={"dtype": "bfloat16"},
        default={"kv_cache_dtype": "auto"},
        measured=CACHE,
        version="0.18.0",
        samples=load((9, {"running": 24, "generation": 900.0, "kv": 38.6})),
    )
    assert knobs(advice(run)["kv-cache-reads-dominate"]) == {}
    assert knobs(advice(run, "throughput")["kv-cache-reads-dominate"]) == {"--kv-cache-dtype": "fp8"}


def test_a_model_without_a_cache_has_none_that_is_too_small() -> None:
    run = a_run(set={"max_model_len": 8192}, measured={"max_concurrency": 0.0})
    assert "few-full-length-requests-fit" not in advice(run)


def test_a_model_of_encoder_and_decoder_has_no_prefix_cache_to_switch_on() -> None:
    def silent(architecture: str) -> bool:
        run = a_run(
            set={"model": "org/m"},
            reported={"enable_prefix_caching": False},
            messages=(f"Resolved architecture: {architecture}",),
            samples=load((9, BUSY)),
        )
        return "prefix-caching-silently-off" in advice(run)

    assert silent("GraniteMoeHybridForCausalLM")
    assert not silent("WhisperForConditionalGeneration")


@pytest.mark.parametrize(("platform", "reported"), [("cuda", True), ("neuron", False)])
def test_prefix_caching_is_not_proposed_to_v0_on_devices_that_had_none(platform: str, reported: bool) -> None:
    run = a_run(
        engine="V0",
        version="0.6.2",
        platform=platform,
        reported={"enable_prefix_caching": False},
        samples=load((9, {"running": 4, "generation": 80.0, "prompt": 900.0})),
    )
    assert ("prefix-caching-switched-off" in advice(run)) is reported


def full_cache(*messages: str) -> dict[str, Any]:
    """A full cache of a card with 0.85 of its memory taken: 0.9 adds a twelfth to it, fp8 doubles it."""
    run = a_run(
        set={"gpu_memory_utilization": 0.85, "max_num_seqs": 512},
        default={"kv_cache_dtype": "auto", "dtype": "bfloat16"},
        measured={"kv_cache_tokens": 400_000, "available_kv_cache_gib": 48.6, "model_weights_gib": 16.5},
        messages=messages,
        samples=load((20, {"running": 200, "waiting": 200, "kv": 99.0})),
        version="0.16.0",
    )
    return knobs(advice(run)["kv-cache-preemption"])


def test_what_doubles_the_cache_comes_before_what_leaves_it_the_limit() -> None:
    assert full_cache("0, NVIDIA H100 80GB HBM3, 81559 MiB, 550.54") == {"--kv-cache-dtype": "fp8"}


def test_where_the_card_is_not_known_the_answers_stay_as_they_are() -> None:
    assert full_cache() == {"--gpu-memory-utilization": 0.9}


@for_each(
    ("kept", "waiting", "seats", "falls_to_0", "stays_full"),
    [(0.85, 200, 512, False, True), (0.3, 50, 512, True, False), (0.3, 200, 256, False, False)],
)
def test_what_to_check_is_what_the_change_brings_and_not_an_empty_queue_at_any_price(
    kept: float, waiting: int, seats: int, falls_to_0: bool, stays_full: bool
) -> None:
    run = a_run(
        set={"gpu_memory_utilization": kept, "max_num_seqs": seats},
        measured={"kv_cache_tokens": 400_000, "available_kv_cache_gib": 80 * kept - 19.4, "model_weights_gib": 16.5},
        samples=load((20, {"running": 200, "waiting": waiting, "kv": 99.0})),
        version="0.16.0",
    )  # fmt: skip
    check = advice(run)["kv-cache-preemption"].verify
    assert ("`Waiting` drops to 0" in check) is falls_to_0
    assert ("stays full" in check) is stays_full


def test_preemptions_without_statistics_state_no_time_and_no_usage() -> None:
    preempted = (
        "Sequence group 101 is preempted by PreemptionMode.RECOMPUTE mode because there is not enough KV cache space."
        " This can affect the end-to-end performance. Increase gpu_memory_utilization or tensor_parallel_size to provide"
        " more KV cache memory. total_num_cumulative_preemption=51"
    )
    found = advice(a_run(messages=(preempted,), version="0.6.6"))["kv-cache-preemption"]
    assert "0 %" not in found.explanation
    assert "no statistics line" in found.explanation


@pytest.mark.parametrize(
    ("more", "off"),
    [
        ({"set": {"enable_chunked_prefill": False}}, True),
        ({"set": {"enable_chunked_prefill": True}}, False),
        ({"set": {"enable_chunked_prefill": False}, "engine": "V0"}, False),
        # What vLLM switched off itself has its reason.
        ({"reported": {"enable_chunked_prefill": False}}, False),
        ({"set": {"enable_chunked_prefill": False, "max_num_seqs": 1}}, False),
        ({"set": {"enable_chunked_prefill": False}, "samples": load((9, {**BUSY, "running": 1}))}, False),
        ({"set": {"enable_chunked_prefill": False}, "samples": load((9, {**BUSY, "running": 2}))}, True),
    ],
)
def test_chunked_prefill_that_an_argument_switched_off_is_switched_on(
    more: dict[str, Any], off: bool
) -> None:
    found = [
        one
        for one in advice(a_run(**more)).values()
        if "Chunked prefill is off by an argument" in one.explanation
    ]
    assert bool(found) is off
