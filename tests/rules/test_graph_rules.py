"""CUDA graphs and compilation: reported where the log shows that they are off, with a range that fits the load."""

from __future__ import annotations

import pytest

from tests.rules.making import a_run, advice, knobs, load
from vllm_logdoctor.report.effects import origin_words
from vllm_logdoctor.run.model import Value

EAGER = {"enforce_eager": True}
ACROSS = "tensor_parallel_size=4 is bigger than a reserved number of GPUs (1 GPUs) in a node ab12."


@pytest.mark.parametrize(
    ("running", "low", "high"),
    [(120, 1.0, 1.10), (1, 1.01, 4.10), (12, 1.0, 4.10)],
    ids=["a hundred requests", "one stream", "in between"],
)
def test_eager_mode_costs_what_was_measured_at_such_a_load(running: int, low: float, high: float) -> None:
    found = advice(a_run(set=EAGER, samples=load((9, {"running": running, "generation": 20.0 * running}))))[
        "eager-mode"
    ]
    assert knobs(found) == {"--enforce-eager": None}
    assert found.effect is not None
    assert (found.effect.low, found.effect.high) == (low, high)
    assert found.effect.origin == "published"


def test_a_burst_of_half_a_minute_is_no_single_stream() -> None:
    """Three lines with 2, 4 and 125 requests show no usual number of them."""
    lines = (load((1, {"running": number, "generation": 99.0})) for number in (4, 125, 2))
    found = advice(a_run(set=EAGER, samples=tuple(sample for one in lines for sample in one)))["eager-mode"]
    assert found.effect is None
    assert "in the median" not in found.explanation


def test_lines_at_whose_ends_no_request_ran_show_no_usual_number() -> None:
    found = advice(a_run(set=EAGER, samples=load((2, {"running": 0, "generation": 9.0}))))["eager-mode"]
    assert found.effect is None
    assert "running request" not in found.explanation


def test_where_half_of_the_lines_show_no_request_the_usual_number_is_none_and_the_most_is_said() -> None:
    lines = load((6, {"running": 0, "generation": 9.0}), (3, {"running": 2, "generation": 60.0}))
    found = advice(a_run(set=EAGER, samples=lines))["eager-mode"]
    assert "no running request, the others at most 2" in found.explanation


def test_eager_mode_needs_the_setting_not_a_hint_that_mentions_it() -> None:
    hint = (
        "Capturing the model for CUDA graphs. To run the model in eager mode, set 'enforce_eager=True' or use"
        " '--enforce-eager' in the CLI."
    )
    run = a_run(
        messages=(hint,),
        reported={"enforce_eager": False},
        samples=load((9, {"running": 1, "generation": 9.0})),
    )
    assert "eager-mode" not in advice(run)


def test_graphs_that_were_captured_refute_eager_mode() -> None:
    run = a_run(set=EAGER, messages=("Graph capturing finished in 12 secs, took 0.48 GiB",))
    assert "eager-mode" not in advice(run)


def test_eager_mode_is_left_alone_where_ranks_are_joined_by_a_network() -> None:
    assert "eager-mode" not in advice(a_run(set=EAGER, messages=(ACROSS,)))


def test_on_a_cpu_eager_mode_has_no_number_and_comes_after_the_client() -> None:
    found = advice(a_run(set=EAGER, platform="cpu", samples=load((9, {"running": 1, "generation": 300.0}))))
    assert list(found)[:2] == ["client-concurrency-bound", "eager-mode"]
    assert found["eager-mode"].effect is None
    assert found["eager-mode"].title == "torch.compile off (--enforce-eager)", "it has no CUDA graphs to lose"


@pytest.mark.parametrize("platform", ["xpu", "cpu"])
def test_graphs_switched_off_where_compilation_ran_are_no_eager_mode_without_cuda(platform: str) -> None:
    run = a_run(
        set={"compilation_config": {"cudagraph_mode": "NONE", "backend": "inductor"}},
        reported={"enforce_eager": False},
        messages=(
            "Skipping CUDA graph capture. To turn on CUDA graph capture, ensure `cudagraph_mode` was not manually set to `NONE`",
        ),
        platform=platform,
        version="0.23.0",
    )
    assert not {"eager-mode", "cuda-graphs-not-captured"} & set(advice(run))


def test_compilation_switched_off_on_an_xpu_is_named_by_its_own_flag() -> None:
    found = advice(a_run(set={"compilation_config": {"mode": 0}}, platform="xpu", version="0.23.0"))[
        "eager-mode"
    ]
    assert list(knobs(found)) == ["--compilation-config"]
    assert "enforce" not in found.title + found.explanation


def test_eager_mode_of_the_v0_engine_on_a_cpu_costs_nothing() -> None:
    served = load((9, {"running": 1, "generation": 300.0}))
    assert "eager-mode" not in advice(a_run(set=EAGER, platform="cpu", engine="V0", samples=served))


def test_a_skipped_capture_with_a_reason_proposes_no_setting() -> None:
    text = (
        "Skipping CUDA graph capture because pipeline parallel is enabled. Pipeline parallel is currently"
        " eager-only."
    )
    found = advice(a_run(messages=(text,)))["cuda-graphs-not-captured"]
    assert not found.changes
    assert found.effect is None


def test_batches_above_the_largest_graph_are_reported_with_a_flag_of_the_version() -> None:
    run = a_run(
        version="0.16.0",
        reported={"compilation_config": {"cudagraph_capture_sizes": [1, 2, 4, 8], "level": 3}},
        samples=load((9, {"running": 20, "generation": 99.0})),
    )
    found = advice(run)["cuda-graphs-smaller-than-batch"]
    assert knobs(found) == {"--max-cudagraph-capture-size": 32}


def test_a_release_without_the_flag_gets_no_such_flag() -> None:
    run = a_run(
        version="0.8.5",
        reported={"compilation_config": {"cudagraph_capture_sizes": [1, 2, 4, 8]}},
        samples=load((9, {"running": 20, "generation": 99.0})),
    )
    assert knobs(advice(run)["cuda-graphs-smaller-than-batch"]) == {}


def test_kernels_compiled_while_requests_waited_are_counted() -> None:
    line = (
        "Triton kernel JIT compilation during inference: _compute_slot_mapping_kernel. This causes a latency"
        " spike; consider extending warmup to cover this shape/config."
    )
    run = a_run(messages=(line, line), samples=load((9, {"running": 1, "generation": 9.0})))
    found = advice(run)["jit-compilation-while-serving"]
    assert "2 kernels compiled" in found.explanation
    assert found.changes
    run.accesses = {
        ("POST", "/v1/completions", 200): 2,
        ("POST", "/sleep", 200): 9,
        ("POST", "/v1/x", 404): 9,
    }
    assert not advice(run)["jit-compilation-while-serving"].changes, (
        "two requests are no traffic to prepare for"
    )


def test_a_smaller_graph_mode_is_information() -> None:
    line = (
        "CUDAGraphMode.FULL_AND_PIECEWISE is not supported with spec-decode for attention backend"
        " FlashInferBackend (support: AttentionCGSupport.NEVER); setting cudagraph_mode=PIECEWISE"
    )
    assert advice(a_run(messages=(line,)))["cudagraph-mode-reduced"].severity == "info"


def test_a_compile_cache_that_is_off_is_reported() -> None:
    assert "compile-cache-disabled" in advice(a_run(messages=("vLLM's torch.compile cache is disabled.",)))


def test_eager_mode_that_nobody_asked_for_is_not_dropped() -> None:
    run = a_run(set={"model": "org/m"}, reported={"enforce_eager": True}, samples=load((6, {"running": 4})))
    assert "eager-mode" not in advice(run)


def test_for_a_short_start_eager_mode_stays() -> None:
    run = a_run(set={"enforce_eager": True}, samples=load((6, {"running": 4})))
    assert knobs(advice(run)["eager-mode"]) == {"--enforce-eager": None}
    assert not advice(run, "startup")["eager-mode"].changes


@pytest.mark.parametrize(("platform", "told"), [("xpu", "XPU"), ("hpu", "enforce_eager")])
def test_what_was_measured_on_other_cards_is_no_number_for_eager_mode_here(platform: str, told: str) -> None:
    run = a_run(set=EAGER, platform=platform, samples=load((9, {"running": 1, "generation": 20.0})))
    found = advice(run)["eager-mode"]
    assert found.effect is None
    assert told in found.explanation


def test_of_graphs_on_a_platform_of_its_own_nothing_is_known() -> None:
    run = a_run(
        set=EAGER,
        platform=None,
        messages=("Platform plugin metal is activated",),
        samples=load((9, {"running": 1, "generation": 20.0})),
    )
    assert "eager-mode" not in advice(run)


def test_shapes_that_the_warm_up_left_out_are_compiled_while_requests_wait() -> None:
    run = a_run(
        platform="hpu",
        engine="V0",
        version="0.7.2",
        messages=("Configuration: (prompt, 3, 1152) was not warmed-up!",),
        samples=load((9, {"running": 4, "generation": 200.0})),
    )
    found = advice(run)
    assert "(prompt, 3, 1152)" in found["jit-compilation-while-serving"].explanation
    assert "slower-paths-taken" not in found


def test_the_engines_own_words_tell_eager_mode_where_no_setting_is_in_the_log() -> None:
    words = "Enforce eager set, overriding optimization level to -O0"
    assert "eager-mode" in advice(a_run(messages=(words,)))
    assert "eager-mode" not in advice(a_run(messages=(words,), reported={"enforce_eager": False}))


def test_every_setting_that_keeps_graphs_off_is_dropped_in_one_step() -> None:
    run = a_run(
        set={
            "enforce_eager": True,
            "optimization_level": "0",
            "compilation_config": {"cudagraph_mode": "NONE", "backend": "inductor"},
        },
        samples=load((5, {"running": 2, "kv": 3.0})),
        version="0.16.0",
    )
    assert knobs(advice(run)["eager-mode"]) == {
        "--enforce-eager": None,
        "--optimization-level": None,
        "--compilation-config": {"backend": "inductor"},
    }


def test_graphs_that_are_off_alone_leave_compilation_on() -> None:
    run = a_run(set={"compilation_config": {"cudagraph_mode": "NONE"}}, version="0.16.0")
    assert "torch.compile" not in advice(run)["eager-mode"].explanation
    assert "eager-mode" not in advice(a_run(set={"compilation_config": {"mode": 3}}, version="0.16.0"))
    assert "eager-mode" not in advice(a_run(set={"optimization_level": 2}, version="0.16.0"))


def test_graphs_make_a_single_stream_no_faster_than_the_card_reads_its_weights() -> None:
    """40 tokens/s of 15 GiB are 644 GB/s: a card of 24 GB reads 1,008 GB/s at most, whatever its name."""
    single = load((12, {"running": 1, "generation": 40.0, "kv": 1.0}))
    sizes = {"model_weights_gib": 15.0, "available_kv_cache_gib": 5.0, "kv_cache_tokens": 40_000}
    eager = {"enforce_eager": True, "gpu_memory_utilization": 0.9}
    effect = advice(a_run(set=eager, measured=sizes, samples=single))["eager-mode"].effect
    assert effect is not None
    assert effect.high == pytest.approx(1008 / 644, abs=0.02)
    assert "cut to 1.5" in origin_words(effect)  # Beside what was measured, in the short form as well.
    slow = load((12, {"running": 1, "generation": 5.5, "kv": 1.0}))
    unbounded = advice(a_run(set=eager, measured=sizes, samples=slow))["eager-mode"].effect
    assert unbounded is not None
    assert unbounded.high > 4


def test_graphs_make_a_mixture_of_experts_no_faster_than_the_card_reads_its_active_weights() -> None:
    """4 of 26 billion parameters: 50 tokens/s of 26 GiB read 215 GB/s, and the card reads 864 GB/s at most."""
    single = load((12, {"running": 1, "generation": 50.0, "kv": 1.0}))
    sizes = {"model_weights_gib": 26.0, "available_kv_cache_gib": 5.0, "kv_cache_tokens": 40_000}
    eager = {"enforce_eager": True, "gpu_memory_utilization": 0.9}
    card = (
        "Using default MoE config. Performance might be sub-optimal! Config file not found at /v/configs/E=8,N=704,device_name=NVIDIA_L40S.json",
    )
    named = a_run(
        set=eager, measured=sizes, samples=single, messages=card, model=Value("org/m-26B-A4B", "reported")
    )
    effect = advice(named)["eager-mode"].effect
    assert effect is not None
    assert effect.high == pytest.approx(864 / 215, abs=0.05)
    unnamed = a_run(
        set=eager, measured=sizes, samples=single, messages=card, model=Value("org/some-moe", "reported")
    )
    unbounded = advice(unnamed)["eager-mode"].effect
    assert unbounded is not None
    assert unbounded.high > 8


def test_without_torch_compile_in_v0_only_graphs_are_off() -> None:
    found = advice(a_run(set={"enforce_eager": True}, engine="V0"))["eager-mode"]
    assert "torch.compile" not in found.title


def test_a_run_that_crashed_and_results_without_statistics_promise_nothing_of_graphs() -> None:
    crashed = a_run(set=EAGER, samples=load((9, {"running": 1, "generation": 99.0})))
    crashed.outcome = "crashed_while_serving"
    assert advice(crashed)["eager-mode"].effect is None


def test_what_prompts_take_is_no_part_of_the_gain_from_graphs() -> None:
    """Half of the time the steps computed prompts alone: no more than twice the throughput."""
    prompts = {"running": 1, "generation": 0.1, "prompt": 900.0}
    run = a_run(set=EAGER, samples=load((9, {"running": 1, "generation": 99.0}), (9, prompts)))
    effect = advice(run)["eager-mode"].effect
    assert effect is not None
    assert effect.high <= 2.3
    assert "computed prompts alone" in effect.basis
    assert effect.low < effect.high


def test_two_lines_say_nothing_of_the_time_that_prompts_take() -> None:
    prompts = {"running": 1, "generation": 0.1, "prompt": 900.0}
    run = a_run(set=EAGER, samples=load((1, prompts), (1, {"running": 1, "generation": 99.0})))
    effect = advice(run)["eager-mode"].effect
    assert effect is not None
    assert "computed prompts alone" not in effect.basis


def test_graphs_do_not_help_where_a_step_takes_a_second() -> None:
    """Launching its kernels takes about ten milliseconds of it."""
    run = a_run(set=EAGER, samples=load((9, {"running": 1, "generation": 0.8})))
    found = advice(run)["eager-mode"]
    assert (found.changes, found.effect) == ((), None)
    assert "A decode step takes 1.2 s" in found.explanation


def test_a_crash_within_a_minute_of_load_gets_no_advice_on_speed() -> None:
    run = a_run(set=EAGER, samples=load((2, {"running": 1, "generation": 9.0})))
    assert advice(run)
    run.outcome = "crashed_while_serving"
    assert not advice(run)
