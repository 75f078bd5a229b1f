"""Words that tell an engine generation or a platform where no line states it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.parse import Record
from vllm_logdoctor.texts import alike, text_of

_WORDS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("V1", re.compile(r"vllm/v1/|on V1 engine|EngineCore|vllm\.v1\.|VLLM_USE_V1=1 ")),
    (
        "V0",
        re.compile(
            r"MQLLMEngine|AsyncLLMEngine|vllm/engine/(?:multiprocessing|async_llm_engine)|Started engine process with PID|vllm/worker/|vllm/executor/"
            r"|Swapped: \d+ reqs|is preempted by|# \w+ blocks: \d+, # CPU"
        ),
    ),
    (
        "rocm",
        re.compile(
            r"HIP (?:error|out of memory)|libtorch_hip|libamdhip64|\brocm\b|hipError|\bROCm\b(?!: (?:Disabled|N/A))"
            r"|/dev/kfd|\bgfx\d{3,4}\b|HIP_VISIBLE_DEVICES|rocdevice\.cpp|\.hip:\d"
        ),
    ),
    (
        "cuda",
        re.compile(
            r"CUDA error|torch/cuda/|torch\.cuda\.|CUDA out of memory|NVIDIA|_cuda_setDevice|cudaGetDeviceCount|nvcc|FlashInfer"
        ),
    ),
    (
        "cpu",
        re.compile(
            r"doesn't include CPU backend|VLLM_CPU_|cpu_(?:worker|executor|model_runner)\.py|CPU backend"
            r"|Waiting: \d+ reqs, (?:\w+: \d+ reqs, )?CPU KV cache usage"
        ),
    ),
    ("no-gpu", re.compile(r"Triton is installed but 0 active driver")),
    ("no-cuda-runtime", re.compile(r"No CUDA runtime is found")),
    ("no-platform", re.compile(r"UnspecifiedPlatform|Failed to infer device type|No platform detected")),
    ("npu", re.compile(r"torch_npu|vllm[_-]ascend|\bNPU\b|Ascend")),
    ("tpu", re.compile(r"torch_xla|libtpu|TPU_|jax/_src")),
    ("hpu", re.compile(r"habana|\bHPU\b")),
    ("neuron", re.compile(r"neuronx|\bNEURON_")),
    ("xpu", re.compile(r"\bXPU\b|torch\.xpu")),
)
# What each of the expressions above needs: most records hold none of it, and a plain search costs next to nothing.
_NEEDED: dict[str, tuple[str, ...]] = {
    "V1": ("vllm/v1/", "on V1 engine", "EngineCore", "vllm.v1.", "VLLM_USE_V1=1 "),
    "V0": (
        "MQLLMEngine", "AsyncLLMEngine", "vllm/engine/", "Started engine process", "vllm/worker/", "vllm/executor/",
        "Swapped: ", "is preempted by", " blocks: ",
    ),
    "rocm": ("HIP ", "libtorch_hip", "libamdhip64", "rocm", "hipError", "ROCm", "/dev/kfd", "gfx", "HIP_VISIBLE_DEVICES", "rocdevice", ".hip:"),
    "cuda": ("CUDA ", "torch/cuda/", "torch.cuda.", "NVIDIA", "_cuda_setDevice", "cudaGetDeviceCount", "nvcc", "FlashInfer"),
    "cpu": ("CPU backend", "VLLM_CPU_", "cpu_", "CPU KV cache usage"),
    "no-gpu": ("Triton is installed",),
    "no-cuda-runtime": ("No CUDA runtime",),
    "no-platform": ("UnspecifiedPlatform", "Failed to infer device", "No platform detected"),
    "npu": ("torch_npu", "ascend", "NPU", "Ascend"),
    "tpu": ("torch_xla", "libtpu", "TPU_", "jax/_src"),
    "hpu": ("habana", "HPU"),
    "neuron": ("neuronx", "NEURON_"),
    "xpu": ("XPU", "torch.xpu"),
}  # fmt: skip
_CHECKED = tuple((hint, words, _NEEDED[hint]) for hint, words in _WORDS)
# Texts that differ in digits are searched once: where one of them holds a word, all of them hold it but for its digits.
_ALL_NEEDED = tuple(text_of(alike(word)) for _, _, needed in _CHECKED for word in needed)
_PROCESSES = {"VllmWorkerProcess": "V0", "VllmWorker": "V1", "EngineCore": "V1", "Worker": "V1"}


# Using cached vllm-0.6.3.post1.tar.gz      likely not a problem with poetry but with vllm (0.6.2)
# .../site-packages/vllm-0.2.6+rocm563-py3.10-linux-x86_64.egg/vllm/...      (from vllm==0.6.4.post2.dev359+g4863e5fb.d20241214.cu123)
_INSTALLED = lazy_pattern(
    r"\bvllm(?:-| \(|==)(?P<version>\d+\.\d+\.\d+(?:\.?(?:post|rc|dev)\d+)*(?:\+g[0-9a-f]{6,}(?:\.d\d{8})?)?)"
    r"(?=[\w.+-]*\.(?:tar\.gz|whl|egg|dist-info)|\) |[).]\w*\)|\.cu\d+\))"
)


def installed_in(text: str) -> str | None:
    """Return the release of vLLM that an installer or an installation path names, or None.

    >>> installed_in("  Using cached vllm-0.6.3.post1.tar.gz (2.7 MB)")
    '0.6.3.post1'
    >>> installed_in("try pip install vllm==0.8.5") is None
    True
    """
    found = _INSTALLED.search(text) if "vllm" in text else None
    return found["version"] if found else None


def hints_in(record: Record) -> Iterator[str]:
    """Yield the hints of a record: "V0", "V1", a platform, "no-gpu", "no-platform"."""
    name = record.process.name.split("_")[0].split(" ")[0]
    if name in _PROCESSES:
        yield _PROCESSES[name]
    yield from _hints_of(record.message[:1500])


@lru_cache(maxsize=1024)  # Every rank prints the same traceback.
def _hints_of(text: str) -> tuple[str, ...]:
    if not _may_hint(alike(text)):
        return ()
    hints = []
    for hint, words, needed in _CHECKED:
        for word in needed:
            if word in text:
                if words.search(text):
                    hints.append(hint)
                break
    return tuple(hints)


@lru_cache(maxsize=1024)
def _may_hint(same: bytes) -> bool:
    return any(map(text_of(same).__contains__, _ALL_NEEDED))
