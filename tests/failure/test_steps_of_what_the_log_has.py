"""A remedy does not ask for what the log has already, and leaves out what the log rules out."""

from __future__ import annotations

from tests.failure.judging import failures, raised, root
from tests.failure.records import framed, traceback
from tests.tables import for_each

SITE = "/opt/env/lib/python3.12/site-packages"
CORE = "EngineCore pid=9"
DEVICE_ERROR = "RuntimeError: Failed to infer device type, please set the environment variable `VLLM_LOGGING_LEVEL=DEBUG` to turn on verbose logging to help debug the issue."


def _said(text: str) -> str:
    found = root(text)
    return " ".join(
        [found.title, found.explanation, *found.alternatives, *(str(one) for one in found.changes)]
    )


@for_each(
    ("said", "words", "absent"),
    [
        (
            "RuntimeError: NUMA binding was requested, but vLLM could not detect the GPU-to-NUMA topology automatically.",
            "which NUMA node each GPU belongs to",
            "VLLM_CPU_OMP_THREADS_BIND",
        ),
        (
            "RuntimeError: numactl is required for NUMA binding but is not installed or not available on PATH.",
            "Install `numactl`",
            "nvidia-smi topo",
        ),
    ],
)
def test_a_failed_numa_binding_says_what_was_missing(said: str, words: str, absent: str) -> None:
    found = _said(
        raised((f"{SITE}/vllm/utils/numa_utils.py", 60, "configure", "raise RuntimeError("), error=said)
    )
    assert words in found
    assert absent not in found


def test_a_cuda_build_without_driver_is_named_where_no_device_type_is_found() -> None:
    frame = (f"{SITE}/vllm/config/device.py", 60, "__post_init__", "raise RuntimeError(")
    above = "WARNING 05-01 10:00:00 [interface.py:229] Failed to import from vllm._C: ImportError('libcuda.so.1: cannot open shared object file: No such file or directory')"
    assert root(raised(frame, error=DEVICE_ERROR, above=above)).title == "No NVIDIA driver found"
    assert root(raised(frame, error=DEVICE_ERROR)).title != "No NVIDIA driver found"


def test_an_old_package_is_no_step_where_the_log_does_not_show_it() -> None:
    frame = (f"{SITE}/vllm/config/device.py", 60, "__post_init__", "raise RuntimeError(")
    assert "pynvml" not in _said(raised(frame, error=DEVICE_ERROR))


def test_a_whole_weight_in_an_adapter_is_no_matter_of_its_modules() -> None:
    frame = (f"{SITE}/vllm/lora/utils.py", 104, "parse_fine_tuned_lora_name", "raise ValueError(")
    said = _said(raised(frame, error="ValueError: base_model.model.score.weight is unsupported LoRA weight"))
    assert "no LoRA matrix" in said
    assert "target_modules" not in said
    assert "the message lists" not in said


def test_a_sentencepiece_tokenizer_without_its_file_leads_to_the_class_of_the_tokenizer() -> None:
    frame = (
        f"{SITE}/sentencepiece/__init__.py",
        316,
        "LoadFromFile",
        "return _sentencepiece.LoadFromFile(self, arg)",
    )
    said = _said(raised(frame, error="TypeError: not a string"))
    assert "tokenizer_class" in said
    assert "into the directory" not in said


FAULT = """\
Fatal Python error: Aborted

Current thread 0x00007f52e6fc4740 (most recent call first):
  File "/opt/env/lib/python3.12/site-packages/torch/xpu/graphs.py", line 107 in replay
  File "/opt/env/lib/python3.12/site-packages/vllm/v1/worker/gpu_worker.py", line 833 in sample_tokens"""
INTEL = "Abort was called at 91 line in file:\n../../neo/shared/source/os_interface/wait.cpp"


def test_a_stack_that_the_log_has_is_not_asked_for() -> None:
    assert "PYTHONFAULTHANDLER" not in _said(FAULT)
    assert "PYTHONFAULTHANDLER" in _said("*** SIGSEGV received at time=1743139179 on cpu 62 ***")


def test_an_abort_of_intels_runtime_is_named_with_its_stack_below() -> None:
    said = _said(f"{INTEL}\n{FAULT}")
    assert "Intel" in said
    assert not any(name in said for name in ("PYTHONFAULTHANDLER", "aws-ofi-nccl", "libibverbs"))


def _without_memory(above: str) -> str:
    lines = [
        f"({CORE}) INFO 05-01 10:00:00 [core.py:105] Initializing a V1 LLM engine (v0.23.0) with config: model='org/m'",
        above,
        f"({CORE}) INFO 05-01 10:00:40 [gpu_worker.py:480] Available KV cache memory: -1.75 GiB",
    ]
    error = "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine."
    block = framed(
        CORE, ["EngineCore failed to start.", *traceback(("check", "x()"), ends=error)], "core.py:708"
    )
    return "\n".join([*lines, *block])


def test_memory_that_a_profiled_video_takes_is_the_first_to_give_back() -> None:
    profiled = f"({CORE}) INFO 05-01 10:00:20 [gpu_model_runner.py:6200] Encoder cache will be initialized with a budget of 8192 tokens, and profiled with 1 video items of the maximum feature size."
    found, plain = failures(_without_memory(profiled))[0], failures(_without_memory(""))[0]
    assert "video" in found.alternatives[0]
    assert "--limit-mm-per-prompt" in found.alternatives[0]
    assert "-1.75 GiB" in found.explanation
    assert "--limit-mm-per-prompt" not in plain.alternatives[0]
