"""Kernels, platforms, memory, messages: each rule reports its case, and is silent otherwise."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from msgspec.structs import replace

from tests.rules.making import a_run, advice, knobs, load, record
from vllm_logdoctor.rules.unknowns import unknowns_of
from vllm_logdoctor.run.environment import Environment
from vllm_logdoctor.run.model import Benchmark, Evidence, Progress

BUSY = {"running": 8, "generation": 400.0, "prompt": 40.0, "kv": 3.0}


def test_a_forced_kernel_is_replaced_by_the_better_one() -> None:
    line = (
        "Detected that the model can run with awq_marlin, however you specified quantization=awq explicitly,"
        " so forcing awq. Use quantization=awq_marlin for faster inference"
    )
    slow = "awq quantization is not fully optimized yet. The speed can be slower than non-quantized models."
    found = advice(a_run(set={"quantization": "awq"}, messages=(line, slow), version="0.10.1"))
    assert knobs(found["slow-quantization-kernel-selected"]) == {"--quantization": "awq_marlin"}
    assert "quantization-without-fast-kernel" not in found


def test_16_bit_weights_are_advised_by_their_size_where_the_log_has_that_of_the_card() -> None:
    slow = "bitsandbytes quantization is not fully optimized yet. The speed can be slower than non-quantized models."
    small = a_run(
        messages=(slow,),
        measured={"model_weights_gib": 4.0, "available_kv_cache_gib": 65.0, "kv_cache_tokens": 150000},
        set={"gpu_memory_utilization": 0.9},
    )
    [change] = advice(small)["quantization-without-fast-kernel"].changes
    assert change.knob.startswith("use the 16-bit weights: they take at most 16 of the ")
    assert change.knob.endswith("and the KV cache loses up to 12 GiB")
    small.config["load_format"] = replace(small.config["gpu_memory_utilization"], value="bitsandbytes")
    [change] = advice(small)["quantization-without-fast-kernel"].changes
    assert "(leave out quantization and load_format, if the checkpoint holds them)" in change.knob
    [change] = advice(a_run(messages=(slow,)))["quantization-without-fast-kernel"].changes
    assert "if they fit on the card" in change.knob


def test_gguf_is_named_by_its_warning_or_by_the_setting() -> None:
    warning = (
        "gguf quantization is not fully optimized yet. The speed can be slower than non-quantized models."
    )
    warned = advice(a_run(messages=(warning,)))
    assert "gguf-slow-path" in warned
    assert "quantization-without-fast-kernel" not in warned
    assert "gguf-slow-path" in advice(a_run(set={"quantization": "gguf"}))


def test_default_expert_sizes_promise_no_factor() -> None:
    line = (
        "Using default MoE config. Performance might be sub-optimal! Config file not found at"
        " ['/opt/E=128,N=384,device_name=NVIDIA_L4.json']"
    )
    effect = advice(a_run(messages=(line,)))["moe-kernel-untuned"].effect
    assert effect is not None
    assert effect.high <= 1.17


@pytest.mark.parametrize(
    ("backend", "advised"), [("'MARLIN' NvFp4", False), ("TRITON Unquantized", True), ("AITER Fp8", False)]
)
def test_a_warning_on_block_sizes_is_the_drafts_where_the_served_experts_have_another_kernel(
    backend: str, advised: bool
) -> None:
    lines = (
        f"Using {backend} MoE backend out of potential backends: ['TRITON', 'MARLIN'].",
        "Using TRITON Unquantized MoE backend out of potential backends: ['TRITON', 'BATCHED_TRITON'].",
        "Using default MoE config. Performance might be sub-optimal! Config file not found at ['/opt/E=64.json']",
    )
    assert ("moe-kernel-untuned" in advice(a_run(messages=lines))) is advised


@pytest.mark.parametrize(("version", "named"), [("0.10.1", False), ("0.10.2", True)])
def test_the_folder_of_tuned_sizes_is_named_to_releases_that_read_it(version: str, named: bool) -> None:
    line = (
        "Using default MoE config. Performance might be sub-optimal! Config file not found at"
        " ['/opt/E=128,N=384,device_name=NVIDIA_L4.json']"
    )
    tune, *folder = advice(a_run(messages=(line,), version=version))["moe-kernel-untuned"].changes
    assert "benchmark_moe.py --tune" in tune.knob
    assert any("VLLM_TUNED_CONFIG_FOLDER" in change.knob for change in folder) is named


@pytest.mark.parametrize(
    ("messages", "named"),
    [
        (("Resolved architecture: ExampleMoeForCausalLM",), "ExampleMoeForCausalLM"),
        ((), "the model's architecture"),
    ],
)
def test_tuning_of_experts_has_the_condition_that_the_script_knows_the_model(
    messages: tuple[str, ...], named: str
) -> None:
    """vLLM's script has a list of architectures in each release and fails on most others."""
    line = "Using default MoE config. Performance might be sub-optimal! Config file not found at ['/opt/E=64.json']"
    found = advice(a_run(messages=(*messages, line)))["moe-kernel-untuned"]
    assert f"if the script of this release knows {named}" in found.changes[0].knob
    assert "fails on most others" in found.explanation
    assert len(found.evidence) == 1 + len(messages)


def test_a_missing_flashinfer_sampler_promises_nothing() -> None:
    line = (
        "FlashInfer is not available. Falling back to the PyTorch-native implementation of top-p & top-k"
        " sampling. For the best performance, please install FlashInfer."
    )
    found = advice(a_run(messages=(line,)))["sampler-in-pytorch"]
    assert found.severity == "info"
    assert found.effect is None


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


def test_steps_faster_than_a_copy_of_all_offloaded_weights_show_that_a_part_is_read() -> None:
    """40 GiB take 0.86 s over PCIe 5; at 25 tokens/s of one request a step takes 40 ms."""
    offload = {"cpu_offload_gb": 40, "quantization": "compressed-tensors"}
    found = advice(a_run(set=offload, samples=load((9, {"running": 1, "generation": 25.0}))))[
        "weights-on-the-host"
    ]
    assert "at most 40 ms" in found.explanation
    assert "whatever the batch" not in found.explanation
    assert list(knobs(found)) == ["hold all weights on the cards: more cards (tensor parallelism)"]


def test_a_context_that_hardly_fits_is_information() -> None:
    run = a_run(set={"max_model_len": 32768}, measured={"max_concurrency": 1.3})
    assert advice(run)["few-full-length-requests-fit"].severity == "info"
    assert "few-full-length-requests-fit" not in advice(a_run(measured={"max_concurrency": 2.6}))


@pytest.mark.parametrize(
    ("output", "words"),
    [(2.4, "The 20 prompts had 250 tokens each in the mean, answers included: about 8 of them fit at once."), (0.6, "Requests that need more than half of the cache run one after the other")],
    ids=["more-than-the-cache", "all-fit"],
)  # fmt: skip
def test_an_offline_batch_says_how_many_of_its_own_prompts_a_small_cache_holds(
    output: float, words: str
) -> None:
    bar = Progress(Evidence("a.log", 9, "Processed prompts: 100%"), 20, 20, 2000.0, 0.1, output)
    run = a_run(
        set={"max_model_len": 1024},
        measured={"max_concurrency": 1.95, "kv_cache_tokens": 2000},
        progress=[bar],
        kind="offline",
    )
    assert words in advice(run)["few-full-length-requests-fit"].explanation


@pytest.mark.parametrize(("message", "severity"), [("high", "low"), ("medium", "low"), ("low", "info")])
def test_messages_without_a_rule_are_reported_together_without_a_number(message: Any, severity: str) -> None:
    run = a_run(messages=("Using FlashInfer for top-p & top-k sampling.",))
    seen = run.messages["sampler-flashinfer"]
    slow = replace(
        seen.first[0].pattern, verdict="costs-performance", meaning="It is slow.", pack="x", severity=message
    )
    seen.first[0] = replace(seen.first[0], pattern=slow)
    found = advice(run)["slower-paths-taken"]
    assert "It is slow." in found.explanation
    assert found.severity == severity
    assert found.effect is None
    assert not found.changes


def test_a_slower_way_taken_as_a_kernel_was_not_built_shows_the_first_error_of_its_build() -> None:
    run = a_run(
        messages=("Failed to initialize FlashInfer All Reduce workspace: Ninja build failed. Ninja output:",)
    )
    include = "/opt/env/lib/python3.12/site-packages/flashinfer/data/include/flashinfer/comm"
    output = (
        "FAILED: [code=4] /home/me/.cache/flashinfer/0.6.4/90a/cached_ops/comm/fusion.cuda.o",
        f'{include}/fusion.cuh(112): error: namespace "std" has no member "span"',
        f"{include}/fusion.cuh(113): error: expected a )",
        "2 errors detected in the compilation.",
    )
    other = record("/src/csrc/other.cu(3): error: of something earlier", 9, "WARNING")
    run.records = [other, *(record(text, 11 + n, "WARNING") for n, text in enumerate(output))]
    found = advice(run)["slower-paths-taken"]
    assert '`fusion.cuh(112): error: namespace "std" has no member "span"`' in found.explanation
    assert [line.line for line in found.evidence] == [10, 12]
    run.records = run.records[:1]
    assert "error:" not in advice(run)["slower-paths-taken"].explanation


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


@pytest.mark.parametrize(("platform", "tool"), [("cuda", "nvidia-smi"), ("rocm", "rocm-smi")])
def test_what_the_next_log_should_hold_is_asked_of_the_tool_of_the_card(platform: str, tool: str) -> None:
    texts = [
        text
        for text in unknowns_of(
            replace(a_run(set={"tensor_parallel_size": 2}), platform=platform), "parallelism"
        )
        if "GPU" in text
    ]
    assert len(texts) == 2
    assert all(tool in text for text in texts)
    alone = unknowns_of(replace(a_run(set={"tensor_parallel_size": 2}), platform=platform))
    assert not any("topology" in text for text in alone)


def test_answers_with_server_errors_are_counted_although_the_server_went_on() -> None:
    run = a_run(samples=load((9, BUSY)))
    chat = "/v1/chat/completions"
    run.accesses = Counter({("POST", chat, 200): 90, ("POST", chat, 500): 8, ("GET", "/health", 503): 40})
    found = advice(run)["answered-with-server-errors"]
    assert "8 of 98" in found.explanation
    assert found.kind == "configuration"
    assert next(iter(advice(run))) == "answered-with-server-errors"


def test_most_of_a_few_requests_are_enough() -> None:
    run = a_run(samples=load((9, BUSY)))
    run.accesses = Counter({("POST", "/v1/completions", 200): 1, ("POST", "/v1/completions", 500): 2})
    assert advice(run)["answered-with-server-errors"].severity == "high"
    run.accesses = Counter({("POST", "/v1/completions", 200): 9, ("POST", "/v1/completions", 500): 2})
    assert "answered-with-server-errors" not in advice(run)


def test_server_errors_that_follow_from_a_crash_are_not_reported_again() -> None:
    run = a_run(samples=load((9, BUSY)))
    run.accesses = Counter({("POST", "/v1/completions", 500): 8})
    run.outcome = "crashed_while_serving"
    assert "answered-with-server-errors" not in advice(run)


def test_weights_that_do_not_fit_have_a_remedy_before_more_requests_have_one() -> None:
    run = a_run(set={"cpu_offload_gb": 40}, samples=load((9, {"running": 1, "generation": 1.6})))
    first = next(iter(advice(run).values()))
    assert first.id == "weights-on-the-host"
    assert first.changes


def test_untuned_block_sizes_are_reported_and_change_nothing() -> None:
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


@pytest.mark.parametrize(
    ("version", "seconds", "answered", "expected"),
    [
        ("0.11.2", 5.0, False, ""),
        ("0.11.2", 60.0, False, "An idle engine prints them at DEBUG only"),
        ("0.11.2", 60.0, True, ""),
        ("0.5.4", 60.0, False, ""),
    ],
)
def test_missing_statistics_have_one_true_reason_or_are_not_mentioned(
    version: str, seconds: float, answered: bool, expected: str
) -> None:
    run = replace(
        a_run(version=version), startup_complete=True, kind="server", started=0.0, ended=seconds, samples=[]
    )
    if answered:
        run.accesses = Counter({("POST", "/v1/completions", 200): 3})
    found = " ".join(text for text in unknowns_of(run) if text.startswith("Load:"))
    assert (expected in found) if expected else not found
    assert "VLLM_LOG_STATS_INTERVAL" not in found


def test_variables_before_a_typed_command_are_set() -> None:
    environment = Environment()
    line = "$ CUDA_LAUNCH_BLOCKING=1 VLLM_USE_V1=0 vllm serve org/m --port 8000"
    environment.read(record(line, level=""), Evidence("a.log", 1, line), begun=False)
    assert {name: value.value for name, value in environment.values.items()} == {
        "CUDA_LAUNCH_BLOCKING": "1",
        "VLLM_USE_V1": "0",
    }


def test_a_model_that_is_published_in_mxfp4_has_no_larger_weights_to_take() -> None:
    line = "mxfp4 quantization is not fully optimized yet. The speed can be slower than non-quantized models."
    assert "quantization-without-fast-kernel" not in advice(a_run(messages=(line,)))


@pytest.mark.parametrize(
    ("engine", "version", "works"), [("V1", "0.10.1", False), ("V1", "0.11.2", True), ("V0", "0.8.5", True)]
)
def test_statistics_of_an_offline_engine_are_offered_where_its_release_prints_them(
    engine: str, version: str, works: bool
) -> None:
    said = " ".join(unknowns_of(a_run(kind="offline", engine=engine, version=version)))
    assert ("disable_log_stats=False" in said) is works
    assert ("Load:" in said) is works


@pytest.mark.parametrize(("seconds", "said"), [(19.9, False), (20.0, True)])
def test_statistics_are_missed_once_two_intervals_are_over(seconds: float, said: bool) -> None:
    run = a_run(started=100.0, ended=100.0 + seconds)
    assert any("no statistics lines and no request" in one for one in unknowns_of(run)) is said


def test_a_log_with_the_result_of_a_benchmark_is_not_said_to_show_no_request() -> None:
    run = a_run(started=100.0, ended=200.0)
    run.benchmarks = [Benchmark("serve", {"Successful requests": 80.0}, ())]
    assert not any("no request" in one for one in unknowns_of(run))
