"""vLLM's and PyTorch's collect_env, in its two layouts ("key: value" and "key      : value")."""

from __future__ import annotations

import re
from collections.abc import Iterator

from vllm_logdoctor.evidence.host import LSCPU
from vllm_logdoctor.evidence.model import Lines, Reading, number_or_text
from vllm_logdoctor.evidence.tables import first_of_each

_KEYS = {
    "PyTorch version": "torch",
    "CUDA used to build PyTorch": "cuda of torch",
    "ROCM used to build PyTorch": "rocm of torch",
    "OS": "os",
    "Nvidia driver version": "driver",
    "vLLM Version": "vllm version",
    "Neuron SDK Version": "neuron sdk",
    "CUDA runtime version": "cuda runtime",
    "GPU models and configuration": "gpu models",
    "HIP runtime version": "hip runtime",
    "vLLM Build Flags": "build flags",
    "CPU(s)": "cpus",
    "Model name": "cpu",
    "NUMA node(s)": "numa nodes",
    "Socket(s)": "sockets",
}
# "GPU 0: NVIDIA L40S", "GPU models and configuration : GPU 0: NVIDIA A100-PCIE-40GB"
_GPU = re.compile(r"\bGPU (\d+): (\S.*?)\s*$")
_PYTHON = re.compile(r"^Python version\s*: (\d+\.\d+[\w.]*)")
# "[pip3] vllm==0.9.2", "VLLM_USE_V1=1"
_PACKAGE = re.compile(
    r"^\[(?:pip3|conda)\] (torch|transformers|triton|flashinfer[\w-]*|nvidia-nccl-cu\d+|vllm|numpy)\s*(?:==|\s)\s*(\S+)"
)
_VARIABLE = re.compile(r"^((?:VLLM|NCCL|CUDA|HIP|ROCR|TORCH|PYTORCH|HF|RAY)_\w+)=(.*)$")


def read_environment(lines: Lines) -> Iterator[Reading]:
    """Yield versions, cards, driver, processors and variables."""
    yield from first_of_each(one for line, text in enumerate(lines, start=1) for one in _line(text, line))


def _line(text: str, line: int) -> Iterator[Reading]:
    if found := _PYTHON.match(text):
        yield Reading("python", found[1], line=line)
    elif found := _GPU.search(text):
        yield Reading("name", found[2], subject=f"gpu {found[1]}", line=line)
    elif found := _PACKAGE.match(text):
        yield Reading(f"package {found[1]}", found[2], line=line)
    elif found := _VARIABLE.match(text):
        yield Reading(found[1], found[2], subject="environment", line=line)
    else:
        key, colon, value = text.partition(":")
        name = _KEYS.get(key.strip()) or LSCPU.get(key.strip())
        if colon and name and value.strip():
            yield Reading(name, number_or_text(value), line=line)
