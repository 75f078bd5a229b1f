"""What vLLM offers or says it leaves out: kernels, backends, caches of images, profiles, traced calls."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.rules.making import a_run, advice, knobs, load, record
from vllm_logdoctor.rules import configuration
from vllm_logdoctor.rules.already_set import _prints
from vllm_logdoctor.rules.engine import settings_findings
from vllm_logdoctor.run.model import Evidence, Value

BUSY = load((12, {"running": 16, "kv": 20.0, "prompt": 300.0}))
BLOCK_SIZE = (
    "--block-size 16 precluded higher-priority backend(s) ['FLASHINFER_MLA']. Using TRITON_MLA instead, which may result"
    " in reduced performance. Consider removing --block-size to auto-select the optimal block size."
)
TRTLLM = (
    "FlashInfer TRTLLM MoE is available but not enabled, consider setting VLLM_USE_FLASHINFER_MOE_FP16=1 and"
    " VLLM_FLASHINFER_MOE_BACKEND=latency to enable it for better performance."
)
MXFP8 = (
    "Using FlashInfer MXFP4 BF16 backend for SM100, For faster performance on SM100, consider setting"
    " VLLM_USE_FLASHINFER_MOE_MXFP4_MXFP8=1, though this may impact accuracy."
)
FP8_CACHE = (
    "Please use FlashInfer backend with FP8 KV Cache for better performance by setting environment variable"
    " VLLM_ATTENTION_BACKEND=FLASHINFER"
)
VISION_PART = (
    "Current `vllm-flash-attn` has a bug inside vision module, so we use xformers backend instead. You can run `pip install"
    " flash-attn` to use flash-attention backend."
)
V0_FALLBACK = "--kv-cache-dtype is not supported by the V1 Engine. Falling back to V0. "
TRACED = (
    "VLLM_TRACE_FUNCTION is enabled. It will record every function executed by Python. This will slow down the code. It is"
    " suggested to be used for debugging hang or crashes only."
)
TOO_LARGE = (
    "Skipping multi-modal processor cache insert for an item of 5.25 GiB because it exceeds --mm-processor-cache-gb=4.0."
    " The item will be processed uncached; increase --mm-processor-cache-gb to cache items of this size."
)
CACHE_OFF = (
    "Multi-modal processor cache is disabled because it is not compatible with `api_server_count > 1`."
)
RAY = "Async scheduling will be disabled because it is not supported with the `ray` distributed executor backend. "
LORA = "Using default LoRA kernel configs"


def test_a_block_size_that_excludes_backends_is_left_to_vllm() -> None:
    run = a_run(set={"block_size": 16}, messages=(BLOCK_SIZE,), samples=BUSY, version="0.20.1")
    found = advice(run)
    assert knobs(found["block-size-excludes-backends"]) == {"--block-size": None}
    assert "FLASHINFER_MLA" in found["block-size-excludes-backends"].explanation
    assert "slower-paths-taken" not in found, "it is reported once"


def test_the_variables_of_an_offer_are_those_of_its_line() -> None:
    run = a_run(messages=(TRTLLM,), samples=BUSY, version="0.18.0")
    assert knobs(advice(run)["faster-expert-kernel-offered"]) == {
        "VLLM_USE_FLASHINFER_MOE_FP16": "1",
        "VLLM_FLASHINFER_MOE_BACKEND": "latency",
    }


def test_an_offer_that_costs_accuracy_says_so() -> None:
    found = advice(a_run(messages=(MXFP8,), samples=BUSY, version="0.11.2"))["faster-expert-kernel-offered"]
    assert [change.safety for change in found.changes] == ["changes-results"]
    assert "answers can differ" in found.explanation


def test_an_fp8_cache_wants_its_backend_unless_it_cost_the_engine() -> None:
    settings = {"kv_cache_dtype": "fp8"}
    run = a_run(set=settings, messages=(FP8_CACHE,), samples=BUSY, version="0.7.3", engine="V0")
    fallen = a_run(
        set=settings, messages=(V0_FALLBACK, FP8_CACHE), samples=BUSY, version="0.9.0.1", engine="V0"
    )
    found = advice(run)["fp8-cache-without-flashinfer"]
    assert knobs(found) == {"VLLM_ATTENTION_BACKEND": "FLASHINFER"}
    assert ["--kv-cache-dtype auto" in one for one in found.alternatives] == [True]
    assert [line.line for line in found.evidence] == [10, 2]
    assert "fp8-cache-without-flashinfer" not in advice(fallen)


@pytest.mark.parametrize(
    ("model", "messages"),
    [
        ("Qwen/Qwen2-VL-7B-Instruct", ()),
        ("/models/qwen2.5-vl-3b", ()),
        ("THUDM/GLM-4.1V-9B-Thinking", ()),
        ("/models/mine", (VISION_PART,)),
    ],
)
def test_an_fp8_cache_leaves_the_backend_alone_where_a_vision_encoder_takes_it_too(
    model: str, messages: tuple[str, ...]
) -> None:
    run = a_run(
        set={"kv_cache_dtype": "fp8", "model": model}, messages=(*messages, FP8_CACHE), samples=BUSY,
        version="0.6.5", engine="V0",
    )  # fmt: skip
    found = advice(run)["fp8-cache-without-flashinfer"]
    assert "VLLM_ATTENTION_BACKEND" not in knobs(found)
    assert all("--kv-cache-dtype auto" in change.knob for change in found.changes)
    assert found.alternatives == (), "the change is the other way already"


def test_traced_calls_come_first() -> None:
    run = a_run(set={"enforce_eager": True}, messages=(TRACED,), samples=BUSY)
    found = advice(run)
    assert next(iter(found)) == "every-call-traced"
    assert [line.line for line in found["every-call-traced"].evidence] == [10]


@pytest.mark.parametrize(
    ("said", "printed"),
    [
        ("--block-size 16", True),
        ("block_size=16", True),
        ("the `block_size` argument", True),
        ("{'block_size': 16}", True),
        ("block size of 16", False),
        ("--max-num-seqs 16", False),
    ],
)
def test_a_log_speaks_of_a_setting_in_the_ways_that_vllm_writes_it(said: str, printed: bool) -> None:
    run = a_run(records=[record(said)])
    assert _prints(run, "--block-size") is printed


@pytest.mark.parametrize(("status", "speaks"), [(200, True), (404, False)])
def test_a_profile_that_was_answered_is_reported(status: int, speaks: bool) -> None:
    run = a_run(samples=BUSY, accesses=Counter({("POST", "/start_profile", status): 1}))
    assert ("profiled-while-serving" in advice(run)) is speaks


def test_a_profiler_that_fails_is_no_failed_request_to_the_model() -> None:
    accesses = Counter({("POST", "/v1/completions", 200): 99, ("POST", "/stop_profile", 500): 9})
    assert "answered-with-server-errors" not in advice(a_run(samples=BUSY, accesses=accesses))


def test_inputs_too_large_for_their_cache_get_twice_their_size() -> None:
    run = a_run(messages=(TOO_LARGE,), samples=BUSY, version="0.30.0")
    assert knobs(advice(run)["multimodal-items-larger-than-cache"]) == {"--mm-processor-cache-gb": 11}


@pytest.mark.parametrize(
    ("message", "version", "rule"),
    [
        (CACHE_OFF, "0.10.2", "multimodal-cache-off"),
        (RAY, "0.20.1", "async-scheduling-unavailable"),
        (LORA, "0.20.1", "lora-kernel-untuned"),
    ],
)
def test_what_vllm_leaves_out_is_reported_and_changes_nothing(message: str, version: str, rule: str) -> None:
    found = advice(a_run(messages=(message,), samples=BUSY, version=version))
    assert found[rule].severity == "info"
    assert not found[rule].changes
    assert "slower-paths-taken" not in found


def test_a_variable_of_another_release_is_reported_without_a_warning() -> None:
    line = Evidence("vllm.log", 1, "+ export VLLM_ALL2ALL_BACKEND=pplx")
    shown = {
        "VLLM_ALL2ALL_BACKEND": Value("pplx", "explicit", (line,)),
        "VLLM_LOGGING_LEVEL": Value("INFO", "explicit", (line,)),
    }
    (found,) = settings_findings(configuration.RULES, a_run(version="0.16.0", environment=shown))
    assert found.id == "environment-variable-ignored"
    assert "VLLM_LOGGING_LEVEL" not in found.explanation
    assert found.evidence == (line,)


@pytest.mark.parametrize(
    "message",
    [
        (
            "Using OCP_MXQuantizationEmulationTritonExperts MOE backend. This will dequantize weights on the fly and may be"
            " slower than native quantized MOE. Consider using a device with native OCP MX quantization support for better"
            " performance."
        ),
        "[W4A8 MXFP4+FP8] Aiter Triton kernel not found. Using emulation mode.",
    ],
)
def test_each_format_says_in_its_own_words_that_weights_are_unpacked(message: str) -> None:
    found = advice(a_run(messages=(message,), samples=BUSY, version="0.24.0"))
    assert next(iter(found)) == "quantization-emulated"
    assert "slower-paths-taken" not in found
