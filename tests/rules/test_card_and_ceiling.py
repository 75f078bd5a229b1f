"""A card by its printed memory, and how fast it could decode: the figures of the formula, and what leaves none."""

from __future__ import annotations

from typing import Any

import pytest

from tests.rules.making import a_run, load, sample
from tests.tables import for_each
from vllm_logdoctor.rules.cache_to_give import takes_too_much
from vllm_logdoctor.rules.capacity.card import device_of
from vllm_logdoctor.rules.capacity.ceiling import ceiling_of, distance, has_experts, prefill_ceiling_of
from vllm_logdoctor.rules.capacity.defaults import (
    context_of_defaults,
    engines_in_a_line,
    least_max_num_seqs,
    slots_in_a_line,
)
from vllm_logdoctor.rules.capacity.memory import GIB
from vllm_logdoctor.rules.failure.facts import facts_of, holds
from vllm_logdoctor.rules.load import load_of
from vllm_logdoctor.run.model import Run, Value

H100 = "0, NVIDIA H100 80GB HBM3, 81559 MiB, 550.54"
DECODE = {"running": 4, "generation": 120.0, "kv": 10.0}


def printed(gib: float) -> str:
    return (
        f"Free memory on device ({gib - 1:g}/{gib:g} GiB) on startup. Desired GPU memory utilization is (0.86, 52.4 GiB). Actual usage:"
        " 27.5 GiB for weights, 0.26 GiB for peak activation, 0.18 GiB for non-torch memory"
    )


@for_each(
    ("platform", "gib", "card"),
    [
        ("cuda", 117.9, None), ("cuda", 118.0, "GB10"), ("cuda", 123.5, "GB10"), ("cuda", 123.6, None),
        ("cuda", 138.4, None), ("cuda", 138.5, "H200"), ("cuda", 140.5, "H200"), ("cuda", 140.6, None),
        ("cuda", 177.4, None), ("cuda", 177.5, "B200"), ("cuda", 179.5, "B200"), ("cuda", 179.6, None),
        ("rocm", 190.9, None), ("rocm", 191.0, "MI300X"), ("rocm", 192.1, "MI300X"), ("rocm", 192.2, None),
        ("rocm", 254.9, None), ("rocm", 255.0, "MI325X"), ("rocm", 256.1, "MI325X"), ("rocm", 256.2, None),
        ("rocm", 139.0, None), ("cuda", 191.5, None),
    ],
)  # fmt: skip
def test_a_printed_memory_names_a_card_within_what_drivers_report_of_it(
    platform: str, gib: float, card: str | None
) -> None:
    found = device_of(a_run(messages=(printed(gib),), platform=platform))
    assert (found and found.name.split(" by its ")[0].split()[0]) == card


def decoding(figures: dict[str, Any] | None = None, lines: int = 9, **more: Any) -> Run:
    measured = {"kv_cache_tokens": 40_000, "available_kv_cache_gib": 50.0, "model_weights_gib": 15.0}
    return a_run(
        **{"measured": measured, "samples": load((lines, figures or DECODE)), "messages": (H100,), **more}
    )


def test_a_decode_step_reads_weights_and_cache_once() -> None:
    """3,350 GB/s over 15 GiB of weights and a tenth of 50 GiB of cache make 156 steps a second, for 4 requests each."""
    run = decoding()
    found = ceiling_of(run)
    assert found is not None
    assert found.ceiling == pytest.approx(3350e9 / (20 * GIB) * 4)
    assert (found.measured, found.share) == (120.0, pytest.approx(120.0 / found.ceiling))
    assert "(15 GiB weights + 5.00 GiB cache) x 4 requests = 624 tokens/s" in found.formula
    assert (
        "120 of at most 624 tokens/s that the memory of the card allows at this number of requests (19 %)"
        in distance(run, load_of(run))
    )


@pytest.mark.parametrize(
    "run",
    [
        decoding(lines=2),
        decoding(messages=()),
        decoding({**DECODE, "generation": 625.0}),
        decoding({**DECODE, "prompt": 600.0}),
        decoding(set={"speculative_config": {"method": "ngram"}}),
        decoding(set={"pipeline_parallel_size": 2}),
        decoding(model=Value("Qwen/Qwen3-30B-A3B", "explicit")),
        decoding(measured={"kv_cache_tokens": 40_000, "available_kv_cache_gib": 50.0}),
        decoding(measured={"kv_cache_tokens": 40_000, "model_weights_gib": 15.0}),
        decoding(measured={"available_kv_cache_gib": 50.0, "model_weights_gib": 15.0}),
    ],
    ids=["few lines", "no card", "faster", "prompts", "drafts", "stages", "experts", "no weights", "no cache", "no tokens"],
)  # fmt: skip
def test_without_one_of_its_figures_decode_has_no_ceiling(run: Run) -> None:
    assert ceiling_of(run) is None


def test_stages_of_one_are_none() -> None:
    assert ceiling_of(decoding(set={"pipeline_parallel_size": 1})) is not None
    assert ceiling_of(decoding(lines=4)) is not None


@pytest.mark.parametrize(
    ("quantization", "weights", "prompt", "ceiling"),
    [
        (None, 16e9, 30_900.0, 989e12 / 16e9),
        ("fp8", 8e9, 60_000.0, 1979e12 / 16e9),
        ("made-up", 8e9, 60_000.0, None),
        (None, 16e9, 3000.0, None),  # a twentieth of the card's arithmetic says nothing of it
        (None, 16e9, 3200.0, 989e12 / 16e9),
        (None, 16e9, 61_000.0, 989e12 / 16e9),
        (None, 16e9, 62_500.0, None),
        (None, 16e9, 0.0, None),
    ],
)
def test_prompts_take_two_operations_for_each_weight(
    quantization: str | None, weights: float, prompt: float, ceiling: float | None
) -> None:
    run = a_run(
        set={"quantization": quantization} if quantization else {},
        measured={"model_weights_gib": weights / GIB},
        samples=load((9, {"running": 8, "prompt": prompt})),
        messages=(H100,),
    )
    found = prefill_ceiling_of(run, load_of(run))
    assert (found and found.ceiling) == (ceiling and pytest.approx(ceiling, rel=0.01))
    if found is not None:
        assert found.share == pytest.approx(prompt / found.ceiling)
        assert f"Prefill made up to {prompt:,.0f} of at most" in distance(run, load_of(run))


@pytest.mark.parametrize(
    ("model", "experts"),
    [
        ("mistralai/Mixtral-8x7B", True), ("Qwen/Qwen3-30B-A3B", True), ("openai/gpt-oss-20b", True), ("deepseek-ai/DeepSeek-V3", True), ("deepseek-ai/DeepSeek-R1", True),
        ("zai-org/GLM-4.5-Air", True), ("Qwen/Qwen3-8B", False), ("zai-org/GLM-4-9B", False), ("deepseek-ai/deepseek-v1-7b", False), (None, False),
    ],
)  # fmt: skip
def test_a_mixture_of_experts_is_known_by_its_name(model: str | None, experts: bool) -> None:
    assert has_experts(Run(model=Value(model, "explicit") if model else None)) is experts


@pytest.mark.parametrize(
    ("advice", "cache", "longest", "much"),
    [
        # 10 GiB hold 100,000 tokens: one request of 95,000 leaves 0.5 GiB, which is little enough to keep.
        ("Lower `--gpu-memory-utilization` a little.", 10.0, 95_000, False),
        ("Lower `--gpu-memory-utilization` a little.", 10.0, 96_000, True),
        ("Capture fewer sizes.", 10.0, 96_000, False),
        ("Set `VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS=1`.", 10.0, 96_000, True),
        ("lower `--gpu-memory-utilization`", None, 96_000, False),
        ("lower `--gpu-memory-utilization`", 10.0, None, False),
    ],
)
def test_advice_takes_no_memory_from_a_cache_that_one_request_needs(
    advice: str, cache: float | None, longest: int | None, much: bool
) -> None:
    measured = {"kv_cache_tokens": 100_000, **({"available_kv_cache_gib": cache} if cache else {})}
    run = a_run(set={"max_model_len": longest} if longest else {}, measured=measured)
    assert takes_too_much(advice, run) is much


@for_each(
    ("condition", "value", "met"),
    [
        (">1", 2, True), (">1", 1, False), (">=1", 1, True), (">=1", 0.9, False), ("<1", 0.9, True), ("<1", 1, False), ("<=1", 1, True), ("<=1", 2, False),
        ("=AWQ", "awq", True), ("awq", "awq", True), ("=awq", "gptq", False), ("!=awq", "gptq", True), ("!=awq", "AWQ", False), ("!=awq", None, False),
        (">1", "many", False), (" = true ", True, True), ("", 1, False),
    ],
)  # fmt: skip
def test_a_condition_of_a_page(condition: str, value: object, met: bool) -> None:
    assert holds(condition, value) is met


@pytest.mark.parametrize(
    ("model", "kind"),
    [("org/name", "repository"), ("/models/x", "path"), ("./run-7", "path"), ("~/m", "path"), ("a/b/c", "path"), ("checkpoints/run-7", "path"), ("C:\\m", "path"), ("gpt2", "repository")],
)  # fmt: skip
def test_a_model_is_a_path_or_the_name_of_a_repository(model: str, kind: str) -> None:
    assert facts_of(Run(model=Value(model, "explicit")))["model_kind"] == kind


def test_facts_are_settings_figures_and_arguments() -> None:
    run = a_run(
        set={"seed": 3}, reported={"dtype": "half"}, measured={"kv_cache_tokens": 5}, version="0.11.2"
    )
    run.arguments["port"] = 8000
    run.arguments["dtype"] = "auto"
    found = facts_of(run)
    names = ("seed", "dtype", "kv_cache_tokens", "port", "kind", "engine", "platform", "version", "ranks")
    assert [found[name] for name in names] == [3, "half", 5, 8000, "server", "V1", "cuda", "0.11.2", 0]


@pytest.mark.parametrize(
    ("given", "platform", "least"),
    [
        ({"seed": 0}, "cuda", 256),
        ({"seed": 0, "max_num_batched_tokens": 64}, "cuda", 64),
        ({"seed": 0, "max_num_batched_tokens": 8192}, "rocm", 256),
        ({"seed": 0}, "cpu", 1),
        ({"max_num_seqs": 64}, "cuda", 1),
        ({}, "cuda", 1),
    ],
)
def test_without_the_argument_a_card_runs_256_requests_at_least(
    given: dict[str, Any], platform: str, least: int
) -> None:
    assert least_max_num_seqs(a_run(set=given, platform=platform)) == least


@pytest.mark.parametrize(
    ("engines", "given", "lines", "slots"),
    [
        ([-1], {"max_num_seqs": 32, "data_parallel_size": 4}, 4, 128),
        ([-1, 0], {"max_num_seqs": 32, "data_parallel_size": 4}, 1, 32),
        ([0], {"max_num_seqs": 32, "data_parallel_size": 4}, 1, 32),
        ([-1], {"max_num_seqs": 32}, 1, 32),
        ([], {"max_num_seqs": 32, "data_parallel_size": 4}, 1, 32),
        ([-1], {"data_parallel_size": 4}, 4, None),
    ],
)
def test_a_line_that_adds_up_all_ranks_has_the_slots_of_all(
    engines: list[int], given: dict[str, Any], lines: int, slots: int | None
) -> None:
    run = a_run(set=given, samples=[sample(running=3, engine=one) for one in engines], version=None)
    assert (engines_in_a_line(run), slots_in_a_line(run)) == (lines, slots)


@pytest.mark.parametrize(("estimated", "much"), [("0.90", False), ("1.10", True)])
def test_counting_the_memory_of_graphs_takes_what_vllm_estimated_for_them(estimated: str, much: bool) -> None:
    # 10 GiB hold 100,000 tokens: one request of 90,000 leaves 1 GiB.
    run = a_run(
        set={"max_model_len": 90_000},
        measured={"kv_cache_tokens": 100_000, "available_kv_cache_gib": 10.0},
        messages=(f"Estimated CUDA graph memory: {estimated} GiB total",),
    )
    assert takes_too_much("Set `VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS=1`.", run) is much


@pytest.mark.parametrize(("kind", "asked"), [("server", "server"), ("offline", "offline"), ("client", None)])
def test_defaults_are_those_of_a_server_or_of_an_offline_engine(kind: str, asked: str | None) -> None:
    assert context_of_defaults(Run(kind=kind)).kind == asked
