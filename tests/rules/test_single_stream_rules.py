"""Single streams: weights that are read for each token, and answers that run on."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.rules.making import a_run, advice, load, sample
from vllm_logdoctor.knowledge.flags import flag_history
from vllm_logdoctor.rules.load import load_of
from vllm_logdoctor.rules.performance.drafters import FAMILIES, drafter_words
from vllm_logdoctor.rules.steps import step_seconds, tokens_per_answer
from vllm_logdoctor.run.model import Run, Value

ONE = {"running": 1, "kv": 0.5, "generation": 7.6}


def stream(generation: float = 7.6, **more: Any) -> Run:
    settings = {"dtype": "bfloat16", **more.pop("set", {})}
    return a_run(
        set=settings,
        measured={"model_weights_gib": 22.8},
        samples=load((6, {**ONE, "generation": generation})),
        **more,
    )


def test_a_slow_stream_of_16_bit_weights_asks_for_fewer_bytes_before_more_requests() -> None:
    found = advice(stream())
    assert next(iter(found)) == "decode-limited-by-weight-reads"
    assert "186 GB/s" in found["decode-limited-by-weight-reads"].explanation
    assert "on each card" not in found["decode-limited-by-weight-reads"].explanation


@pytest.mark.parametrize(
    "run",
    [
        stream(generation=80.0),
        stream(generation=3.0),
        stream(set={"quantization": "fp8"}),
        stream(set={"enforce_eager": True}),
        stream(platform="cpu"),
        stream(platform="rocm", set={"dtype": "float32"}),
        stream(set={"speculative_config": {"method": "ngram", "num_speculative_tokens": 3}}),
        stream(model=Value("org/model-8B-AWQ", "explicit")),
        a_run(
            set={"dtype": "bfloat16"},
            measured={"model_weights_gib": 22.8},
            samples=load((6, {**ONE, "running": 40, "generation": 300.0})),
        ),
        a_run(set={"dtype": "bfloat16"}, samples=load((6, ONE))),
    ],
    ids=[
        "fast",
        "slower-than-any-card",
        "quantized",
        "eager",
        "cpu",
        "32-bit",
        "drafts",
        "quantized-by-its-name",
        "many",
        "weights-unknown",
    ],
)
def test_other_streams_do_not(run: Run) -> None:
    assert "decode-limited-by-weight-reads" not in advice(run)


@pytest.mark.parametrize("more", [{"platform": "rocm"}, {"set": {"dtype": "half"}}, {"set": {"dtype": None}}])
def test_streams_of_16_bit_weights_on_any_gpu_do(more: dict[str, Any]) -> None:
    assert "decode-limited-by-weight-reads" in advice(stream(**more))


def climbing(lines: int, prompt: float = 0.0) -> Run:
    parts = [
        (1, {"running": 1, "kv": 30.0 + 3 * n, "generation": 150.0, "prompt": prompt}) for n in range(lines)
    ]
    return a_run(measured={"kv_cache_tokens": 51_000}, samples=load(*parts))


def test_one_answer_that_runs_on_is_capped_before_the_client_sends_more() -> None:
    found = advice(climbing(3))
    assert next(iter(found)) == "long-answers-hold-the-server"
    assert "max_tokens" in found["long-answers-hold-the-server"].changes[0].knob


def test_a_long_prompt_or_a_moment_is_no_long_answer() -> None:
    assert "long-answers-hold-the-server" not in advice(climbing(3, prompt=2000.0))
    assert "long-answers-hold-the-server" not in advice(climbing(1))


def test_an_answer_that_fills_the_context_is_said_to() -> None:
    run = climbing(8)
    run.config["max_model_len"] = Value(26_000, "explicit")
    assert "context limit of 26,000 tokens" in advice(run)["long-answers-hold-the-server"].explanation


def answers_in_a_large_cache(times: int, length: int) -> Run:
    """Answers of 32,000 tokens, one after the other, each of 1.6 % of a cache of two million tokens."""
    one = [
        sample(running=1, kv=round(0.4 + 0.2 * number, 1), generation=400.0, number=number)
        for number in range(7)
    ]
    parts = [
        msgspec.structs.replace(line, time=100.0 * again + (line.time or 0.0))
        for again in range(times)
        for line in one
    ]
    return a_run(
        set={"max_model_len": length},
        measured={"kv_cache_tokens": 2_000_000},
        samples=[msgspec.structs.replace(line, line=100 + number) for number, line in enumerate(parts)],
    )


def test_answers_that_end_at_the_context_again_and_again_are_capped_however_large_the_cache() -> None:
    found = advice(answers_in_a_large_cache(3, 32_768))
    assert next(iter(found)) == "long-answers-hold-the-server"
    explanation = found["long-answers-hold-the-server"].explanation
    assert "all of them up to the context limit of 32,768 tokens" in explanation
    assert "long-answers-hold-the-server" not in advice(answers_in_a_large_cache(2, 32_768))
    assert "long-answers-hold-the-server" not in advice(answers_in_a_large_cache(3, 131_072))


def test_the_tokens_of_an_answer_are_those_of_full_length_requests_where_layers_share_the_cache() -> None:
    """The printed tokens of such a cache are 600,000, and it holds 61 requests of 32,768: each answer ends at the context."""
    run = answers_in_a_large_cache(3, 32_768)
    run.measured["kv_cache_tokens"] = Value(600_000, "reported")
    assert "long-answers-hold-the-server" not in advice(run)
    run.measured["max_concurrency"] = Value(61.0, "reported")
    assert "all of them up to the context limit" in advice(run)["long-answers-hold-the-server"].explanation


def test_a_slow_answer_whose_growth_is_not_printed_in_each_line_is_one() -> None:
    parts = [
        (1, {"running": 1, "waiting": 14, "kv": 76.5 + 0.1 * (n // 3), "generation": 5.4}) for n in range(60)
    ]
    run = a_run(samples=load(*parts))
    text = advice(run)["long-answers-hold-the-server"].explanation
    assert "in 9 min 50 s" in text
    assert "happened" not in text


def test_a_decode_step_of_four_streams_at_200_tokens_is_20_ms() -> None:
    run = a_run(samples=load((5, {"running": 4, "generation": 200.0}), (5, {"running": 4, "prompt": 900.0})))
    assert step_seconds(run, load_of(run)) == pytest.approx(4 / 200)
    staged = a_run(set={"pipeline_parallel_size": 2}, samples=run.samples)
    assert step_seconds(staged, load_of(staged)) is None


def test_tokens_per_answer_need_answers_and_tokens() -> None:
    run = a_run(samples=load((10, {"running": 1, "generation": 50.0}), (1, {"running": 0})))
    run.startup_complete = True
    assert tokens_per_answer(run, load_of(run)) is None
    run.accesses = {("POST", "/v1/chat/completions", 200): 20, ("GET", "/health", 200): 900}
    assert tokens_per_answer(run, load_of(run)) == 10 * 10 * 50 / 20


def test_answers_and_tokens_of_different_times_give_no_length() -> None:
    """The 64 requests of the last statistics line are answered after it: their tokens are not in the lines."""
    run = a_run(samples=load((10, {"running": 64, "generation": 4000.0})))
    run.startup_complete = True
    run.accesses = {("POST", "/v1/completions", 200): 2500}
    assert tokens_per_answer(run, load_of(run)) is None


@pytest.mark.parametrize(
    ("model", "version", "words"),
    [
        ("Qwen/Qwen3.5-27B", "0.19.0", "method mtp): 1 to 1.47 x"),
        ("Qwen/Qwen3.5-27B", "0.11.0", "known to work since vLLM 0.17.0"),
        ("XiaomiMiMo/MiMo-7B-RL", "0.10.0", "method mimo_mtp)"),
        ("google/gemma-4-12B-it", "0.29.0", "published beside the model"),
        ("google/gemma-4-12B-it", "0.20.0", "method mtp, if the release supports this model's): "),
        ("deepseek-ai/DeepSeek-R1-Distill-Qwen-14B", "0.19.0", "0.52 to 1.37 x"),
    ],
)
def test_a_drafter_is_named_with_its_release_and_range(model: str, version: str, words: str) -> None:
    run = stream(version=version, model=Value(model, "explicit"))
    assert words in advice(run)["decode-limited-by-weight-reads"].alternatives[0]


def test_a_run_that_drafts_is_offered_no_drafter() -> None:
    run = stream(set={"speculative_config": {"method": "mtp"}}, model=Value("Qwen/Qwen3.5-27B", "explicit"))
    assert drafter_words(run) == ()


def test_methods_are_those_that_the_newest_release_takes() -> None:
    newest = flag_history("--spec-method")[-1].flag.choices
    assert {family.method for family in FAMILIES} <= set(newest)


def test_a_cache_that_the_lines_do_not_show_being_filled_may_hold_a_prompt() -> None:
    held = [
        (1, {"running": 1, "waiting": 14, "kv": usage, "generation": 5.4}) for usage in (76.5, 76.7, 76.8)
    ]
    assert "long-answers-hold-the-server" not in advice(a_run(samples=load(*held)))


def test_requests_that_come_and_go_within_the_intervals_show_no_speed_of_a_stream() -> None:
    seconds = ((1, 7.6), (0, 3.1), (1, 7.2), (3, 19.8), (1, 7.6), (0, 2.0))
    samples = [
        one for running, rate in seconds for one in load((1, {**ONE, "running": running, "generation": rate}))
    ]
    run = a_run(set={"dtype": "bfloat16"}, measured={"model_weights_gib": 22.8}, samples=samples)
    assert "decode-limited-by-weight-reads" not in advice(run)


def test_a_length_needs_the_tokens_behind_the_last_line() -> None:
    """12 requests of the last line, at the rate of all lines, go on until a line that the log lacks."""
    run = a_run(samples=load((10, {"running": 12, "generation": 4000.0})))
    run.startup_complete = True
    run.accesses = {("POST", "/v1/completions", 200): 2500}
    assert tokens_per_answer(run, load_of(run)) is None
