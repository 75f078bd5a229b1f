"""What a side of a comparison of engines takes from a benchmark, a report of vLLM or a log of another engine: every field."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engines.logs import LLAMA_BENCH
from tests.tables import for_each
from vllm_logdoctor.engine_comparison.reading import sides_of
from vllm_logdoctor.engine_comparison.side import Cell, Side, same_model, side_of_benchmark, weight_format
from vllm_logdoctor.errors import LogdoctorError
from vllm_logdoctor.evidence.read import read_evidence

ONE_BATCH = (
    "Prefill. latency: 0.05000 s, throughput:   2345.60 token/s\n"
    "Decode.  median latency: 0.00800 s, median throughput:    124.93 token/s\n"
)
BATCHES = (
    "|    PP |     TG |    B |   N_KV |   T_PP s | S_PP t/s |   T_TG s | S_TG t/s |      T s |    S t/s |\n"
    "|-------|--------|------|--------|----------|----------|----------|----------|----------|----------|\n"
    "|   128 |     64 |    4 |    768 |    0.108 |  1186.64 |    3.079 |   166.28 |    3.187 |   321.32 |\n"
    "|   128 |     64 |    8 |   1536 |    0.208 |  1286.64 |    4.079 |   266.28 |    4.287 |   421.32 |\n"
)
ROWS = (
    "build_commit,build_number,model_filename,model_type,model_size,gpu_info,n_prompt,n_gen,avg_ts,stddev_ts\n"
    '"8cf","5163","/m/tiny-1b-q8_0.gguf","tiny 1B Q8_0","1073741824","NVIDIA T","512","0","7100.0","140.3"\n'
    '"8cf","5163","/m/tiny-1b-q8_0.gguf","tiny 1B Q8_0","1073741824","NVIDIA T","0","128","100.0",""\n'
)


@for_each(
    ("text", "expected"),
    [
        (ONE_BATCH, Side(
            "sglang", "SGLang (benchmark)", "f", None, None, drafts="", devices=1,
            tests={"Prefill throughput": Cell(2345.6, 1), "decode, one batch": Cell(124.93, 2)},
        )),
        (BATCHES, Side(
            "llama.cpp", "llama.cpp (benchmark)", "f", None, None, drafts="", devices=1,
            tests={
                "S_PP, batch 4, 128 prompt and 64 generated tokens": Cell(1186.64, 3), "S_TG, batch 4, 128 prompt and 64 generated tokens": Cell(166.28, 3),
                "S_PP, batch 8, 128 prompt and 64 generated tokens": Cell(1286.64, 4), "S_TG, batch 8, 128 prompt and 64 generated tokens": Cell(266.28, 4),
            },
        )),
        (LLAMA_BENCH, Side(
            "llama.cpp", "llama.cpp 308f61c31 (9536) (benchmark)", "f", None, "q8_0", 1.0, card="NVIDIA T", drafts="", devices=1,
            tests={"pp512": Cell(9000.0, 4, "± 15"), "tg128": Cell(150.0, 5, "± 0.5")},
        )),
        (ROWS, Side(
            "llama.cpp", "llama.cpp 8cf 5163 (benchmark)", "f", "/m/tiny-1b-q8_0.gguf", "q8_0", 1.0, card="NVIDIA T", drafts="", devices=1,
            tests={"pp512": Cell(7100.0, 2, "± 140.3"), "tg128": Cell(100.0, 3)},
        )),
    ],
)  # fmt: skip
def test_the_side_of_a_benchmark(text: str, expected: Side) -> None:
    assert side_of_benchmark(read_evidence("f", text.encode())) == expected


def test_the_first_of_two_results_of_a_test_stands() -> None:
    again = LLAMA_BENCH + LLAMA_BENCH.splitlines()[4].replace("150.00 ± 0.50", "90.00 ± 9.00") + "\n"
    assert side_of_benchmark(read_evidence("f", again.encode())).tests["tg128"].value == 150.0


SERVING = {
    "acceptance_length": None, "prefix_cache_hit_rate": {"last": None}, "levels": (), "step_levels": (),
}  # fmt: skip
LEVEL = {"low": 2, "high": 2, "running": 2.0, "samples": 3, "generation": (90.0, 95.0, 99.0), "prompt": 0.5}


def vllm(**changed: Any) -> dict[str, Any]:
    run: dict[str, Any] = {
        "server": "vllm", "files": ["a.log", "b.log"], "config": {}, "vllm_version": None, "model": None, "measured": {}, "phases": [],
        "startup_complete": True, "serving": SERVING, "engine_log": None,
    }  # fmt: skip
    return run | changed


def setting(value: object, line: int) -> dict[str, object]:
    return {"value": value, "evidence": [{"line": line}]}


def side(run: dict[str, Any], **more: Any) -> Side:
    return sides_of(["no file"], lambda _: {"runs": [run], **more})[0]


def test_the_side_of_a_run_of_vllm() -> None:
    found = side(vllm(
        config={
            "model": setting("org/tiny", 2), "dtype": setting("torch.bfloat16", 3), "kv_cache_dtype": setting("fp8", 3), "tensor_parallel_size": setting(4, 3),
            "data_parallel_size": setting(2, 3), "pipeline_parallel_size": setting(3, 3), "max_model_len": setting(4096, 7), "enforce_eager": setting(True, 3),
            "speculative_config": setting({"method": "ngram", "model": "org/draft"}, 3),
        },
        vllm_version={"value": "0.11.2"}, model={"value": "org/tiny"},
        measured={"kv_cache_tokens": setting(950_420, 9), "model_weights_gib": setting(2.5, 8)},
        phases=[{"name": "loading", "seconds": 5.0}, {"name": "startup", "seconds": 61.26, "evidence": [{"line": 11}]}],
        serving={"acceptance_length": 2.5, "prefix_cache_hit_rate": {"last": 12.5}, "levels": (LEVEL,), "step_levels": (LEVEL, LEVEL)},
    ))  # fmt: skip
    assert (found.engine, found.label, found.file, found.model) == (
        "vllm",
        "vLLM 0.11.2",
        "a.log",
        "org/tiny",
    )
    assert (found.weights, found.weight_gib, found.kv_dtype, found.devices) == ("bf16", 2.5, "fp8", 24)
    assert (found.drafts, found.acceptance, found.hit_rate) == ("ngram", 2.5, 12.5)
    assert found.handicaps == ("--enforce-eager",)
    assert (len(found.levels), len(found.step_levels), found.levels[0].generation[1]) == (1, 2, 95.0)
    assert found.single == {
        "kv tokens": Cell(950_420, 9), "context per request": Cell(4096, 7), "ready": Cell(61.3, 11),
    }  # fmt: skip


def test_what_a_run_of_vllm_does_not_show_stays_open() -> None:
    found = side(vllm(phases=[{"name": "startup", "seconds": None}]))
    assert found == Side("vllm", "vLLM (release not in the log)", "a.log", None, None, devices=1)


@for_each(
    ("config", "drafts"),
    [
        ({}, None),
        ({"model": "org/m"}, ""),
        ({"model": "org/m", "speculative_config": {"model": "org/draft"}}, "org/draft"),
        ({"model": "org/m", "speculative_config": {"num_speculative_tokens": 3}}, "on"),
        ({"model": "org/m", "speculative_config": "SpeculativeConfig(...)"}, "SpeculativeConfig(...)"),
    ],
)
def test_how_a_run_of_vllm_drafts(config: dict[str, object], drafts: str | None) -> None:
    assert side(vllm(config={name: setting(value, 1) for name, value in config.items()})).drafts == drafts


@for_each(
    ("config", "weights", "devices"),
    [
        ({"quantization": "awq", "dtype": "torch.float16"}, "awq", 1),
        ({"dtype": "auto"}, None, 1),
        ({"tensor_parallel_size": "2", "data_parallel_size": None}, None, 2),
        ({"tensor_parallel_size": "of the node"}, None, None),
    ],
)
def test_format_of_the_weights_and_number_of_devices(
    config: dict[str, object], weights: str | None, devices: int | None
) -> None:
    found = side(vllm(config={name: setting(value, 1) for name, value in config.items()}))
    assert (found.weights, found.devices) == (weights, devices)


def test_a_start_that_never_ended_has_no_time_to_ready() -> None:
    started = [{"name": "startup", "seconds": 61.26}]
    assert "ready" in side(vllm(phases=started)).single
    assert "ready" not in side(vllm(phases=started, startup_complete=False)).single


def engine(server: str, facts: dict[str, tuple[object, str]], **changed: Any) -> dict[str, Any]:
    listed = [
        {"name": name, "value": value, "line": line, "unit": unit}
        for line, (name, (value, unit)) in enumerate(facts.items(), start=1)
    ]
    return vllm(server=server, engine_log={"facts": listed}, **changed)


def test_the_side_of_a_log_of_sglang() -> None:
    found = side(engine("sglang", {
        "build": ("0.5.2", ""), "model_path": ("org/tiny-1b", ""), "weights dtype": ("torch.float16", ""), "weights mem usage": (2.5, ""), "kv_cache_dtype": ("auto", ""),
        "tp_size": (2, ""), "dp_size": (2, ""), "disaggregation_mode": ("decode", ""), "speculative_algorithm": ("EAGLE", ""),
        "prefix hits": (75, "of 300 prompt tokens"), "kv tokens": (1000, ""), "context": (4096, ""), "ready s": (41.0, ""), "disable_cuda_graph": (True, ""),
    }))  # fmt: skip
    assert found == Side(
        "sglang", "SGLang 0.5.2", "a.log", "org/tiny-1b", "f16", 2.5, "auto", 4, "decode", None, "EAGLE", None, 25.0, ("--disable-cuda-graph",),
        single={"kv tokens": Cell(1000, 11), "context per request": Cell(4096, 12), "ready": Cell(41.0, 13)},
    )  # fmt: skip


def test_the_side_of_a_log_of_llama_cpp() -> None:
    found = side(engine("llama.cpp", {
        "model file": ("/m/tiny-1b-Q4_K_M.gguf", ""), "size": ("1.50 GiB", ""), "kv type": ("f16", ""), "device": ("NVIDIA T", ""), "offload": ("20/33", ""),
        "kv cells": (8192, ""), "context per slot": (2048, ""), "decode tok/s per request": (32.0, "median of 7"),
    }))  # fmt: skip
    assert found == Side(
        "llama.cpp", "llama.cpp (release not in the log)", "a.log", "/m/tiny-1b-Q4_K_M.gguf", "q4_k_m", 1.5, "f16", card="NVIDIA T", drafts="",
        handicaps=("20 of 33 layers on the GPU",),
        single={"kv tokens": Cell(8192, 6), "context per request": Cell(2048, 7), "decode tok/s per request": Cell(32.0, 8, "median of 7")},
    )  # fmt: skip


@for_each(
    ("server", "facts", "expected"),
    [
        ("sglang", {}, {"drafts": None, "devices": None, "hit_rate": None, "handicaps": (), "part": ""}),
        ("sglang", {"model_path": "m"}, {"drafts": "", "devices": 1}),
        ("sglang", {"model_path": "m", "tp_size": 8}, {"devices": 8}),
        ("sglang", {"disaggregation_mode": "null", "disable_cuda_graph": "False"}, {"part": "", "handicaps": ()}),
        ("llama.cpp", {"offload": "33/33"}, {"drafts": "", "handicaps": ()}),
        ("llama.cpp", {"offload": "0/33"}, {"handicaps": ("0 of 33 layers on the GPU",)}),
        ("llama.cpp", {"quantization": "Q8_0", "model": "tiny"}, {"weights": "q8_0", "model": "tiny"}),
        ("ollama", {}, {"drafts": None}),
    ],
)  # fmt: skip
def test_what_other_engines_say_of_themselves(
    server: str, facts: dict[str, object], expected: dict[str, object]
) -> None:
    found = side(engine(server, {name: (value, "") for name, value in facts.items()}))
    assert {name: getattr(found, name) for name in expected} == expected


@for_each(
    ("hits", "rate"),
    [((0, "of 300 prompt tokens"), 0.0), ((100, "of 300 prompt tokens"), 33.3), ((0, "of 0 prompt tokens"), None)],
)  # fmt: skip
def test_the_share_of_prompt_tokens_from_the_prefix_cache(hits: tuple[int, str], rate: float | None) -> None:
    assert side(engine("sglang", {"prefix hits": hits})).hit_rate == rate


def test_the_last_run_that_came_up_or_served_is_the_side() -> None:
    """A start that failed afterwards is no side, as long as another run is one."""
    up, served, failed = (
        vllm(files=[name], startup_complete=up, serving={**SERVING, "levels": (LEVEL,) if load else ()})
        for name, up, load in (("up", True, False), ("served", False, True), ("failed", False, False))
    )
    for runs, expected in (
        ([up, failed], "up"), ([up, served, failed], "served"), ([served, up], "up"), ([failed, failed | {"files": ["last"]}], "last"),
    ):  # fmt: skip
        assert sides_of(["no file"], lambda _, runs=runs: {"runs": runs})[0].file == expected  # type: ignore[misc]
    with pytest.raises(LogdoctorError, match="no run of an engine"):
        sides_of(["no file"], lambda _: {"runs": []})


def share(subject: str, value: float, line: int) -> dict[str, object]:
    return {"name": "share", "subject": subject, "value": value, "line": line, "where": "k.csv"}


def test_kernel_time_of_experts_is_one_share_and_the_busiest_thread_is_the_servers_own() -> None:
    threads = [
        {"name": "load average", "subject": "", "value": 300.0, "line": 1},
        {"name": "cpu of stranger", "subject": "thread 99", "value": 99.9, "line": 2},
        {"name": "cpu of python", "subject": "thread 8", "value": 30.0, "line": 3},
        {"name": "cpu of VLLM::EngineCor", "subject": "thread 7", "value": 61.0, "line": 4},
    ]
    kernels = [
        share("MoE, Triton", 10.26, 5), share("attention", 20.0, 6), share("MoE, CUTLASS", 15.5, 7), {"name": "calls", "subject": "MoE", "value": 4, "line": 8},
    ]  # fmt: skip
    run = vllm(beside={"kernels": kernels, "host": threads}, processes=[{"pid": 7}, {"pid": 8}])
    assert side(run).shares == {
        "MoE": Cell(25.8, 7, "k.csv"), "attention": Cell(20.0, 6, "k.csv"), "CPU of the busiest thread": Cell(61.0, 4, "cpu of VLLM::EngineCor"),
    }  # fmt: skip
    assert side(vllm(beside={"host": threads[:2]})).shares == {
        "CPU of the busiest thread": Cell(99.9, 2, "cpu of stranger")
    }
    assert side(vllm(beside=None)).shares == {}


@for_each(
    ("readings", "card"),
    [
        ([("product", "NVIDIA T", "GPU 0000:01:00.0")], "NVIDIA T"),
        ([("name", "NVIDIA U", "gpu 0"), ("name", "NVIDIA T", "gpu 1")], "NVIDIA U"),
        ([("name", "eth0", "nic 0"), ("driver", "570", "gpu 0")], None),
    ],
)
def test_the_card_is_the_first_that_a_file_beside_the_log_names(
    readings: list[tuple[str, str, str]], card: str | None
) -> None:
    listed = [{"name": name, "value": value, "subject": subject} for name, value, subject in readings]
    assert side(vllm(), evidence=[{"readings": listed}]).card == card


@for_each(
    ("text", "format"),
    [
        (None, None), ("", None), ("None", None), ("none", None), ("auto", None), ("torch.bfloat16", "bf16"), ("torch.float16", "f16"), ("half", "f16"),
        ("float32", "f32"), ("mostly Q8_0", "q8_0"), ("Q4_K - Medium", "q4_k_m"), ("Q4_K - Small", "q4_k_s"), ("Q3_K - Large", "q3_k_l"), ("compressed-tensors", "compressed-tensors"),
    ],
)  # fmt: skip
def test_formats_of_weights_have_one_name(text: str | None, format: str | None) -> None:
    assert weight_format(text) == format


@for_each(
    ("file", "format"),
    [
        ("tiny-1b-q4_k_m.gguf", "q4_k_m"), ("tiny.IQ2_XXS.gguf", "iq2_xxs"), ("tiny_bf16.gguf", "bf16"), ("tiny-F32.gguf", "f32"), ("tiny-mxfp4.gguf", "mxfp4"), ("tiny.gguf", None), ("tiny-q4_0.bin", None),
    ],
)  # fmt: skip
def test_a_file_of_weights_is_named_after_their_format(file: str, format: str | None) -> None:
    assert side(engine("llama.cpp", {"model file": (file, "")})).weights == format


@for_each(
    ("one", "other", "same"),
    [
        ("org/Tiny-1B", "/models/tiny-1b-q4_k_m.gguf", True), ("org/Tiny-1B-Instruct", "tiny_1b", True), ("org/Tiny-1B/", "other/Tiny-1B", True),
        ("org/Tiny-1B", "org/Tiny-7B", False), ("org/Tiny-1B-Instruct", "org/Tiny-1B-Base", False), ("q4_0.gguf", "org/Tiny-1B", False),
    ],
)  # fmt: skip
def test_names_of_one_model(one: str, other: str, same: bool) -> None:
    assert same_model(one, other) is same_model(other, one) is same
