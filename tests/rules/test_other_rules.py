"""Caching, kernels, speculation, start-up, platforms: each rule speaks on its line, and is silent else."""

from __future__ import annotations

from collections import Counter

import pytest
from msgspec.structs import replace

from tests.rules.making import a_run, advice, knobs, load
from vllm_logdoctor.rules.unknowns import unknowns_of

BUSY = {"running": 8, "generation": 400.0, "prompt": 40.0, "kv": 3.0}
PROMPTS = {"running": 1, "generation": 14.5, "prompt": 4373.0, "kv": 1.5}


def test_prefix_caching_that_vllm_switched_off_matters_where_prompts_are_the_load() -> None:
    run = a_run(reported={"enable_prefix_caching": False}, samples=load((9, PROMPTS)), version="0.25.1")
    found = advice(run)
    assert next(iter(found)) == "prefix-caching-silently-off"
    assert found["prefix-caching-silently-off"].severity == "high"


def test_it_stands_behind_the_client_where_prompts_are_few() -> None:
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
    assert "as V0 does" in found["prefix-caching-switched-off"].explanation


def test_chunked_prefill_is_never_proposed_where_it_is_on() -> None:
    assert "chunked-prefill-off" not in advice(a_run(reported={"enable_chunked_prefill": True}))
    assert "chunked-prefill-off" in advice(a_run(set={"enable_chunked_prefill": False}))


def test_models_that_embed_have_their_own_reasons_for_both() -> None:
    settings = {"runner": "pooling", "enable_prefix_caching": False, "enable_chunked_prefill": False}
    assert not {"chunked-prefill-off", "prefix-caching-switched-off"} & set(advice(a_run(set=settings)))


CACHE = {"model_weights_gib": 15.3, "available_kv_cache_gib": 57.5, "kv_cache_tokens": 418_720}


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


def test_a_forced_kernel_is_replaced_by_the_better_one() -> None:
    line = (
        "Detected that the model can run with awq_marlin, however you specified quantization=awq explicitly,"
        " so forcing awq. Use quantization=awq_marlin for faster inference"
    )
    slow = "awq quantization is not fully optimized yet. The speed can be slower than non-quantized models."
    found = advice(a_run(set={"quantization": "awq"}, messages=(line, slow), version="0.10.1"))
    assert knobs(found["slow-quantization-kernel-selected"]) == {"--quantization": "awq_marlin"}
    assert "quantization-without-fast-kernel" not in found


def test_gguf_is_named_by_its_warning_or_by_the_setting() -> None:
    warning = (
        "gguf quantization is not fully optimized yet. The speed can be slower than non-quantized models."
    )
    assert "gguf-slow-path" in advice(a_run(messages=(warning,)))
    assert "gguf-slow-path" in advice(a_run(set={"quantization": "gguf"}))


def test_default_expert_sizes_promise_no_factor() -> None:
    line = (
        "Using default MoE config. Performance might be sub-optimal! Config file not found at"
        " ['/opt/E=128,N=384,device_name=NVIDIA_L4.json']"
    )
    effect = advice(a_run(messages=(line,)))["moe-kernel-untuned"].effect
    assert effect is not None
    assert effect.high <= 1.17


def test_a_missing_flashinfer_sampler_promises_nothing() -> None:
    line = (
        "FlashInfer is not available. Falling back to the PyTorch-native implementation of top-p & top-k"
        " sampling. For the best performance, please install FlashInfer."
    )
    found = advice(a_run(messages=(line,)))["sampler-in-pytorch"]
    assert found.severity == "info"
    assert found.effect is None


def test_drafts_that_are_thrown_away_are_cut_to_the_useful_positions() -> None:
    drafts = {"method": "ngram", "num_speculative_tokens": 5}
    line = (
        "SpecDecoding metrics: Mean acceptance length: 1.40, Accepted throughput: 9.0 tokens/s, Drafted"
        " throughput: 50.0 tokens/s, Accepted: 9 tokens, Drafted: 50 tokens, Per-position acceptance rate:"
        " 0.300, 0.200, 0.060, 0.020, 0.010, Avg Draft acceptance rate: 18.0%"
    )
    run = a_run(
        set={"speculative_config": drafts}, messages=(line,), samples=load((9, {**BUSY, "running": 30}))
    )
    found = advice(run)["spec-decode-not-profitable"]
    assert knobs(found) == {"--speculative-config": {"method": "ngram", "num_speculative_tokens": 2}}
    assert found.effect is not None
    assert "29 measured pairs" in found.effect.basis


def test_well_accepted_drafts_are_left_alone() -> None:
    line = (
        "SpecDecoding metrics: Mean acceptance length: 2.60, Per-position acceptance rate: 0.900, 0.700, Avg"
        " Draft acceptance rate: 80.0%"
    )
    assert "spec-decode-not-profitable" not in advice(a_run(messages=(line,)))


def test_draft_slots_that_eat_the_step_raise_the_budget() -> None:
    line = (
        "max_num_scheduled_tokens is set to 1024 based on the speculative decoding settings. This may lead to"
        " suboptimal performance. Consider increasing max_num_batched_tokens"
    )
    run = a_run(set={"max_num_batched_tokens": 2048}, messages=(line,), version="0.21.0")
    assert knobs(advice(run)["speculative-decoding-eats-token-budget"]) == {"--max-num-batched-tokens": 4096}


def test_slow_storage_is_told_with_its_rate_and_the_seconds_of_a_local_disk() -> None:
    run = a_run(
        set={"tensor_parallel_size": 4},
        measured={"model_weights_gib": 15.39},
        phases=(("read-weights", 1073.6),),
    )
    found = advice(run)["slow-weight-loading-storage"]
    assert "59 MiB/s" in found.explanation
    assert found.effect is not None
    assert found.effect.metric == "load_seconds"
    assert found.effect.high == pytest.approx(61.56 / 1073.6, abs=0.001)


def test_stages_and_replicas_read_their_own_part_of_the_weights() -> None:
    size, phases = {"model_weights_gib": 10.0}, (("read-weights", 100.0),)
    alone = advice(a_run(measured=size, phases=phases))
    staged = advice(a_run(set={"pipeline_parallel_size": 8}, measured=size, phases=phases))
    replicas = advice(a_run(set={"data_parallel_size": 8}, measured=size, phases=phases))
    assert "10.0 GiB" in alone["slow-weight-loading-storage"].explanation
    assert "slow-weight-loading-storage" not in staged | replicas


@pytest.mark.parametrize(("seconds", "gib"), [(20.0, 61.0), (100.0, 61.0)], ids=["soon over", "a fast disk"])
def test_a_usual_load_is_not_called_slow(seconds: float, gib: float) -> None:
    run = a_run(measured={"model_weights_gib": gib}, phases=(("read-weights", seconds),))
    assert "slow-weight-loading-storage" not in advice(run)


def test_a_download_is_not_blamed_on_the_disk() -> None:
    run = a_run(
        messages=("Time spent downloading weights for org/m: 500.0 seconds",),
        measured={"model_weights_gib": 15.0},
        phases=(("download", 500.0), ("load-weights", 600.0)),
    )
    found = advice(run)
    assert "slow-startup-model-download" in found
    assert "slow-weight-loading-storage" not in found


def test_a_cold_compile_cache_promises_the_measured_range() -> None:
    run = a_run(
        measured={"torch_compile_seconds": 210.0},
        messages=(
            "Compiling a graph for dynamic shape takes 180.00 s",
            "torch.compile takes 210.00 s in total",
        ),
        phases=(("inductor", 180.0),),
    )
    effect = advice(run)["slow-startup-torch-compile"].effect
    assert effect is not None
    assert effect.low < effect.high < 1.0


def test_graphs_and_tracing_that_take_half_of_a_long_start_are_told() -> None:
    run = a_run(
        measured={"init_engine_seconds": 34.1, "graph_capture_seconds": 17.0}, phases=(("dynamo", 7.5),)
    )
    assert "--enforce-eager" in advice(run)["slow-startup-graphs-and-dynamo"].avoid


def test_a_start_is_seldom_its_findings_stand_behind_those_of_serving() -> None:
    settings = {"measured": {"model_weights_gib": 15.0}, "phases": (("read-weights", 1000.0),)}
    serving = advice(a_run(samples=load((60, BUSY)), **settings))  # type: ignore[arg-type]
    assert list(serving)[-1] == "slow-weight-loading-storage"
    starting = advice(a_run(samples=load((60, BUSY)), **settings), "startup")  # type: ignore[arg-type]
    assert next(iter(starting)) == "slow-weight-loading-storage"


def test_graphs_that_take_the_memory_of_the_cache_give_back_the_difference() -> None:
    lines = (
        "Estimated CUDA graph memory: 6.24 GiB total",
        (
            "CUDA graph memory profiling is enabled (default since v0.21.0). The current"
            " --gpu-memory-utilization=0.6200 is equivalent to --gpu-memory-utilization=0.5413 without CUDA"
            " graph memory profiling. To maintain the same effective KV cache size as before, increase"
            " --gpu-memory-utilization to 0.6987. To disable"
        ),
    )
    run = a_run(measured={"available_kv_cache_gib": 5.16}, messages=lines, version="0.23.0")
    found = advice(run)["kv-cache-smaller-after-upgrade"]
    assert knobs(found)["--gpu-memory-utilization"] == pytest.approx(0.70)
    assert found.effect is not None
    assert found.effect.metric == "kv_cache_tokens"


def test_a_slow_cpu_backend_is_bound_to_cores() -> None:
    run = a_run(platform="cpu", samples=load((4, {"running": 1, "generation": 0.1})))
    found = advice(run)
    assert next(iter(found)) == "cpu-backend-thread-or-memory-binding"
    assert "client-concurrency-bound" not in found


def test_wsl_is_information_and_proposes_nothing() -> None:
    found = advice(
        a_run(messages=("Using 'pin_memory=False' as WSL is detected. This may slow down the performance.",))
    )
    assert not found["pinned-memory-off"].changes


def test_logged_requests_are_switched_off_by_the_flag_of_the_version() -> None:
    line = "Received request cmpl-1: prompt: 'x', params: SamplingParams(n=1), prompt_token_ids: None."
    run = a_run(messages=(line,) * 200, samples=load((12, BUSY)), version="0.8.5")
    assert "--disable-log-requests" in knobs(advice(run)["requests-logged"])


def test_a_run_that_crashed_at_its_start_gets_no_performance_advice() -> None:
    run = a_run(set={"enforce_eager": True})
    run.outcome = "crashed_at_startup"
    assert advice(run) == {}


def test_32_bit_weights_are_halved_as_a_change_of_results() -> None:
    found = advice(a_run(set={"dtype": "float32"}))["weights-in-32-bit"]
    assert knobs(found) == {"--dtype": "bfloat16"}
    assert found.changes[0].safety == "changes-results"
    assert "weights-in-32-bit" not in advice(a_run(set={"dtype": "float32"}, platform="cpu"))


def test_weights_on_the_host_come_back_where_the_cache_can_spare_the_room() -> None:
    measured = {"kv_cache_tokens": 400_000, "available_kv_cache_gib": 30.0}
    found = advice(a_run(set={"cpu_offload_gb": 8}, measured=measured))["weights-on-the-host"]
    assert knobs(found) == {"--cpu-offload-gb": None}
    tight = advice(a_run(set={"cpu_offload_gb": 8}, measured={**measured, "available_kv_cache_gib": 4.0}))
    assert "--cpu-offload-gb" not in knobs(tight["weights-on-the-host"])
    assert "quantized" in next(iter(knobs(tight["weights-on-the-host"])))


def test_a_context_that_hardly_fits_is_information() -> None:
    run = a_run(set={"max_model_len": 32768}, measured={"max_concurrency": 1.3})
    assert advice(run)["few-full-length-requests-fit"].severity == "info"
    assert "few-full-length-requests-fit" not in advice(a_run(measured={"max_concurrency": 2.6}))


def test_messages_without_a_rule_are_told_together_without_a_number() -> None:
    run = a_run(messages=("Using FlashInfer for top-p & top-k sampling.",))
    seen = run.messages["sampler-flashinfer"]
    slow = replace(seen.first[0].pattern, verdict="costs-performance", meaning="It is slow.", pack="x")
    seen.first[0] = seen.first[0]._replace(pattern=slow)
    found = advice(run)["slower-paths-taken"]
    assert "It is slow." in found.explanation
    assert found.effect is None
    assert not found.changes


def test_without_a_version_only_flags_of_every_possible_release_are_proposed() -> None:
    queue = load((5, {"running": 64, "waiting": 31, "kv": 9.9}))
    run = a_run(set={"max_num_seqs": 64}, version=None, samples=queue)
    assert "--max-num-seqs" in knobs(advice(run)["scheduler-limit-not-memory"])
    sizes = {"compilation_config": {"cudagraph_capture_sizes": [1, 2]}}
    graphs = a_run(reported=sizes, version=None, samples=load((9, {"running": 20, "generation": 9.0})))
    assert knobs(advice(graphs)["cuda-graphs-smaller-than-batch"]) == {}


def test_memory_is_given_back_only_when_memory_is_the_objective() -> None:
    run = a_run(
        set={"gpu_memory_utilization": 0.9, "max_model_len": 8192},
        measured={"kv_cache_tokens": 400_000, "available_kv_cache_gib": 50.0, "model_weights_gib": 16.0},
        samples=load((9, {**BUSY, "kv": 4.0})),
    )
    assert "cache-larger-than-load" not in advice(run)
    target = knobs(advice(run, "memory")["cache-larger-than-load"])["--gpu-memory-utilization"]
    assert 0.2 < target < 0.5


def test_a_long_context_that_hardly_fits_gets_an_fp8_cache_when_that_is_the_objective() -> None:
    run = a_run(set={"max_model_len": 32768, "dtype": "bfloat16"}, measured={"max_concurrency": 1.3})
    assert knobs(advice(run)["few-full-length-requests-fit"]) == {}
    assert knobs(advice(run, "long-context")["few-full-length-requests-fit"]) == {"--kv-cache-dtype": "fp8"}


WELL_TAKEN = (
    "SpecDecoding metrics: Mean acceptance length: 1.97, Accepted: 630 tokens, Drafted: 652 tokens,"
    " Per-position acceptance rate: 0.966, Avg Draft acceptance rate: 96.6%"
)


def test_accepted_drafts_of_a_single_stream_are_no_proof_that_drafting_pays() -> None:
    run = a_run(messages=(WELL_TAKEN,), samples=load((1, {"running": 1, "generation": 128.0})))
    found = advice(run)["speculation-not-compared"]
    assert "does not tell whether drafting pays" in found.explanation
    assert [change.kind for change in found.changes] == ["action"]
    crowd = a_run(messages=(WELL_TAKEN,), samples=load((9, {**BUSY, "running": 30})))
    assert "speculation-not-compared" not in advice(crowd)


def test_long_drafts_of_a_short_trial_come_before_the_client() -> None:
    rates = "0.660, 0.370, 0.210, 0.130, 0.030, 0.010"
    line = (
        "SpecDecoding metrics: Mean acceptance length: 2.41, Accepted: 300 tokens, Drafted: 1200 tokens,"
        f" Per-position acceptance rate: {rates}, Avg Draft acceptance rate: 23.5%"
    )
    one = {"running": 1, "generation": 26.0, "kv": 0.1}
    trial = advice(a_run(messages=(line,), samples=load((3, one))))
    long_run = advice(a_run(messages=(line,), samples=load((30, one))))
    assert next(iter(trial)) == "spec-decode-not-profitable"
    assert next(iter(long_run)) == "client-concurrency-bound"


def test_drafts_that_are_never_taken_come_before_a_client_that_sends_little() -> None:
    line = (
        "Speculative metrics: Draft acceptance rate: 0.000, System efficiency: 0.059, Number of speculative tokens: 16,"
        " Number of accepted tokens: 0, Number of draft tokens: 42272, Number of emitted tokens: 2642."
    )
    found = advice(a_run(messages=(line,), engine="V0", version="0.5.3", samples=load((9, BUSY))))
    assert next(iter(found)) == "spec-decode-not-profitable"
    assert "made for this model" in found["spec-decode-not-profitable"].explanation


def test_acceptance_is_judged_over_all_intervals_and_not_by_the_last_line() -> None:
    def line(accepted: int, rate: float) -> str:
        return (
            f"SpecDecoding metrics: Mean acceptance length: 2.5, Accepted: {accepted} tokens, Drafted: 1000 tokens,"
            f" Per-position acceptance rate: {rate}, {rate}, Avg Draft acceptance rate: {100 * rate:.1f}%"
        )

    poor_end = a_run(messages=(line(800, 0.8), line(700, 0.7), line(100, 0.1)), samples=load((9, BUSY)))
    assert "spec-decode-not-profitable" not in advice(poor_end)


def test_a_loading_that_the_log_leaves_unfinished_is_slow_already() -> None:
    bar = "Loading safetensors checkpoint shards:  80% Completed | 77/96 [11:44<01:40,  4.77s/it]"
    run = a_run(messages=(bar,), set={"tensor_parallel_size": 4})
    found = advice(run)["slow-weight-loading-storage"]
    assert "77 of 96 shards were loaded after 704 s" in found.explanation
    assert any("--safetensors-load-strategy eager" in way for way in found.alternatives)
    assert any("sharded_state" in way for way in found.alternatives)


def test_a_loading_that_has_just_begun_is_not_slow() -> None:
    bar = "Loading safetensors checkpoint shards:  10% Completed | 9/96 [00:44<06:40,  4.77s/it]"
    assert "slow-weight-loading-storage" not in advice(a_run(messages=(bar,)))


@pytest.mark.parametrize(("platform", "tool"), [("cuda", "nvidia-smi"), ("rocm", "rocm-smi")])
def test_what_the_next_log_should_hold_is_asked_of_the_tool_of_the_card(platform: str, tool: str) -> None:
    told = [
        text
        for text in unknowns_of(replace(a_run(set={"tensor_parallel_size": 2}), platform=platform))
        if "GPU" in text
    ]
    assert len(told) == 2
    assert all(tool in text for text in told)


def test_drafts_of_which_hardly_the_first_token_is_taken_are_given_up() -> None:
    drafts = {"method": "ngram", "num_speculative_tokens": 3}
    line = (
        "SpecDecoding metrics: Mean acceptance length: 1.09, Accepted: 9 tokens, Drafted: 300 tokens,"
        " Per-position acceptance rate: 0.050, 0.020, 0.010, Avg Draft acceptance rate: 2.7%"
    )
    found = advice(
        a_run(
            set={"speculative_config": drafts}, messages=(line,), samples=load((9, {**BUSY, "running": 30}))
        )
    )
    assert next(iter(found)) == "spec-decode-not-profitable"
    assert knobs(found["spec-decode-not-profitable"]) == {"--speculative-config": None}
    assert "made for this model" not in found["spec-decode-not-profitable"].explanation


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


def test_answers_with_server_errors_are_counted_although_the_server_went_on() -> None:
    run = a_run(samples=load((9, BUSY)))
    chat = "/v1/chat/completions"
    run.accesses = Counter({("POST", chat, 200): 90, ("POST", chat, 500): 8, ("GET", "/health", 503): 40})
    found = advice(run)["answered-with-server-errors"]
    assert "8 of 98" in found.explanation
    assert found.kind == "configuration"
    assert next(iter(advice(run))) == "answered-with-server-errors"


def test_server_errors_that_follow_from_a_crash_are_not_told_again() -> None:
    run = a_run(samples=load((9, BUSY)))
    run.accesses = Counter({("POST", "/v1/completions", 500): 8})
    run.outcome = "crashed_while_serving"
    assert "answered-with-server-errors" not in advice(run)


def test_with_the_compile_cache_switched_off_there_is_nothing_to_keep() -> None:
    run = a_run(
        measured={"torch_compile_seconds": 210.0},
        messages=("vLLM's torch.compile cache is disabled.",),
    )
    found = advice(run)
    assert "slow-startup-torch-compile" not in found
    assert found["compile-cache-disabled"].severity == "medium"


def test_weights_that_do_not_fit_have_a_remedy_before_more_requests_have_one() -> None:
    run = a_run(set={"cpu_offload_gb": 40}, samples=load((9, {"running": 1, "generation": 1.6})))
    first = next(iter(advice(run).values()))
    assert first.id == "weights-on-the-host"
    assert first.changes


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


@pytest.mark.parametrize(("platform", "told"), [("cuda", True), ("neuron", False)])
def test_prefix_caching_is_not_proposed_to_v0_on_devices_that_had_none(platform: str, told: bool) -> None:
    run = a_run(
        engine="V0",
        version="0.6.2",
        platform=platform,
        reported={"enable_prefix_caching": False},
        samples=load((9, {"running": 4, "generation": 80.0, "prompt": 900.0})),
    )
    assert ("prefix-caching-switched-off" in advice(run)) is told


@pytest.mark.parametrize(("seconds", "told"), [(90.0, True), (12.0, False)])
def test_a_start_that_waits_for_made_up_images_says_what_shortens_it(seconds: float, told: bool) -> None:
    found = advice(a_run(phases=(("encoder-profiling", seconds),)))
    assert ("slow-startup-encoder-profiling" in found) is told


def test_untuned_block_sizes_are_told_and_change_nothing() -> None:
    line = (
        "Using default W8A8 Block FP8 kernel config. Performance might be sub-optimal! Config file not found at"
        " /opt/configs/N=1536,K=4096.json"
    )
    found = advice(a_run(messages=(line,)))["block-kernel-untuned"]
    assert "block-quantized" in found.explanation
    assert found.severity == "low"
    assert not found.changes


def test_libraries_that_the_cpu_backend_misses_are_named() -> None:
    line = "libtcmalloc is not found in LD_PRELOAD. For best performance, please follow the section"
    found = advice(a_run(messages=(line,), platform="cpu"))["cpu-libraries-not-preloaded"]
    assert "libtcmalloc" in found.explanation
    assert "LD_PRELOAD" in found.changes[0].knob


def test_the_fast_image_processor_is_proposed_as_a_change_of_results() -> None:
    line = (
        "Using a slow image processor as `use_fast` is unset and a slow processor was saved with this model."
    )
    found = advice(a_run(messages=(line,)))["slow-image-processor"]
    assert knobs(found) == {"--mm-processor-kwargs": '{"use_fast": true}'}
    assert found.changes[0].safety == "changes-results"
