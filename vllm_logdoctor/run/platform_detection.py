"""Words that identify an engine generation or a platform where no line states it."""

from __future__ import annotations

import re
from functools import lru_cache

from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.parse import Record
from vllm_logdoctor.texts import asked_once, with_equal_digits

# Hint, literals, and an expression where a literal alone says too little: most records hold none of the literals.
_CHECKED: tuple[tuple[str, tuple[str, ...], re.Pattern[str] | None], ...] = (
    ("V1", ("vllm/v1/", "on V1 engine", "EngineCore", "vllm.v1.", "VLLM_USE_V1=1 "), None),
    ("V0", (
        "MQLLMEngine", "AsyncLLMEngine", "vllm/engine/multiprocessing", "vllm/engine/async_llm_engine", "Started engine process with PID",
        "vllm/worker/", "vllm/executor/", "Swapped: ", "is preempted by", " blocks: ",
    ), re.compile(
        r"MQLLMEngine|AsyncLLMEngine|vllm/engine/(?:multiprocessing|async_llm_engine)|Started engine process with PID|vllm/worker/|vllm/executor/"
        r"|Swapped: \d+ reqs|is preempted by|# \w+ blocks: \d+, # CPU"
    )),
    ("rocm", (
        "HIP ", "libtorch_hip", "libamdhip64", "rocm", "hipError", "ROCm", "/dev/kfd", "gfx", "HIP_VISIBLE_DEVICES", "rocdevice", ".hip:",
        "librccl",
    ), re.compile(
        r"HIP (?:error|out of memory)|libtorch_hip|libamdhip64|\brocm\b|hipError|(?<!CUDA, )(?<!CUDA or )(?<!on )"
        r"\bROCm\b(?!: (?:Disabled|N/A)|, | or )|/dev/kfd|\bgfx\d{3,4}\b"
        r"|HIP_VISIBLE_DEVICES|\.hip:\d|rocdevice\.cpp|\blibrccl\b|\bROCmFlashAttention\b"
    )),
    ("cuda", ("CUDA error", "CUDA out of memory", "NVIDIA", "cudaGetDeviceCount", "nvcc", "FlashInfer"), None),
    # PyTorch for ROCm has its devices there, too.
    ("torch-cuda", ("torch/cuda/", "torch.cuda.", "_cuda_setDevice"), None),
    ("cpu", ("VLLM_CPU_", "cpu_", "CPU backend", "CPU KV cache usage"), re.compile(
        r"VLLM_CPU_|cpu_(?:worker|executor|model_runner)\.py|CPU backend|Waiting: \d+ reqs, (?:\w+: \d+ reqs, )?CPU KV cache usage"
    )),
    ("no-gpu", ("Triton is installed but 0 active driver",), None),
    ("no-cuda-runtime", ("No CUDA runtime is found",), None),
    ("no-platform", ("UnspecifiedPlatform", "Failed to infer device type", "No platform detected"), None),
    ("npu", ("torch_npu", "vllm_ascend", "vllm-ascend", "Ascend", "NPU"), re.compile(r"torch_npu|vllm[_-]ascend|\bNPU\b|Ascend")),
    ("tpu", ("torch_xla", "libtpu", "TPU_", "jax/_src", "JAX_TRACEBACK_FILTERING", "tpu_inference", "has no TPU available"), None),
    ("hpu", ("habana", "HPU"), re.compile(r"habana|\bHPU\b")),
    ("neuron", ("neuronx", "NEURON_"), re.compile(r"neuronx|\bNEURON_")),
    ("xpu", ("XPU", "torch.xpu"), re.compile(r"\bXPU\b|torch\.xpu")),
)  # fmt: skip
# In the digits of a text that is asked once.
_WORDS = tuple(with_equal_digits(word).decode() for _, words, _ in _CHECKED for word in words)
_PROCESSES = {"VllmWorkerProcess": "V0", "VllmWorker": "V1", "EngineCore": "V1", "Worker": "V1"}


# Using cached vllm-0.6.3.post1.tar.gz      likely not a problem with poetry but with vllm (0.6.2)
# .../site-packages/vllm-0.2.6+rocm563-py3.10-linux-x86_64.egg/vllm/...      /opt/vllm-0.6.2.post1/vllm/utils.py
# /src/vllm-0.3.3/benchmarks/benchmark_throughput.py
#    (from vllm==0.6.4.post2.dev359+g4863e5fb.d20241214.cu123)
_INSTALLED = lazy_pattern(
    r"\bvllm(?:-| \(|==)(?P<version>\d+\.\d+\.\d+(?:\.?(?:post|rc|dev)\d+)*"
    r"(?:\+(?:g[0-9a-f]{6,}(?:\.d\d{8})?|gaudi\d*))?)"
    r"(?=[\w.+-]*\.(?:tar\.gz|whl|egg|dist-info)|/(?:vllm|benchmarks|examples|tests)/|\) |[).]\w*\)|\.cu\d+\))"
)


def installed_in(text: str) -> str | None:
    """Return the release of vLLM that an installer or an installation path names, or None.

    >>> installed_in("  Using cached vllm-0.6.3.post1.tar.gz (2.7 MB)")
    '0.6.3.post1'
    >>> installed_in("/opt/lib/python3.10/dist-packages/vllm-0.7.2+gaudi000-py3.10.egg/vllm/scripts.py")
    '0.7.2+gaudi000'
    >>> installed_in("try pip install vllm==0.8.5") is None
    True
    """
    found = _INSTALLED.search(text) if "vllm" in text else None
    return found["version"] if found else None


def hints_in(record: Record) -> tuple[str, ...]:
    """Return the hints of a record: "V0", "V1", a platform, "no-gpu", "no-platform"."""
    return _hints_of(record.process.name, record.message[:1500])


@lru_cache(maxsize=1024)  # Every rank prints the same traceback.
def _hints_of(name: str, text: str) -> tuple[str, ...]:
    engine = _PROCESSES.get(name.split("_")[0].split(" ")[0])
    hints = _hints_in_text(text) if _may_hint(text) else ()
    return hints if engine is None else (engine, *hints)


@asked_once
def _may_hint(text: str) -> bool:
    return any(map(text.__contains__, _WORDS))


def _hints_in_text(text: str) -> tuple[str, ...]:
    return tuple(
        hint
        for hint, words, expression in _CHECKED
        if any(map(text.__contains__, words)) and (expression is None or expression.search(text))
    )
