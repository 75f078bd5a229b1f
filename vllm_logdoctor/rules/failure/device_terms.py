"""Tools and variables by platform: pages name NVIDIA's, a run on other devices gets its own."""

from __future__ import annotations

from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.run.model import Run

WITHOUT_NCCL = frozenset({"npu", "hpu", "tpu", "xpu", "neuron", "cpu"})
"""Platforms whose ranks talk over another library: variables of NCCL do nothing there."""

_FAULTS = "dmesg -T | grep -i xid"
_OWN: dict[str, dict[str, str]] = {
    "rocm": {
        "nvidia-smi": "rocm-smi",
        "CUDA_VISIBLE_DEVICES": "HIP_VISIBLE_DEVICES",
        "/dev/nvidia*": "/dev/kfd",
        "TORCH_CUDA_ARCH_LIST": "PYTORCH_ROCM_ARCH",
        "CUDA_LAUNCH_BLOCKING=1": "AMD_SERIALIZE_KERNEL=3",
        _FAULTS: "dmesg -T | grep -i amdgpu",
    },
    "npu": {
        "nvidia-smi": "npu-smi info",
        "CUDA_VISIBLE_DEVICES": "ASCEND_RT_VISIBLE_DEVICES",
        "/dev/nvidia*": "/dev/davinci*",
        "CUDA_LAUNCH_BLOCKING=1": "ASCEND_LAUNCH_BLOCKING=1",
        "NCCL_SOCKET_IFNAME": "HCCL_SOCKET_IFNAME",
        _FAULTS: "npu-smi info",
    },
    "xpu": {
        "nvidia-smi": "xpu-smi",
        "CUDA_VISIBLE_DEVICES": "ZE_AFFINITY_MASK",
        "/dev/nvidia*": "/dev/dri/*",
        _FAULTS: "xpu-smi",
    },
    "hpu": {
        "nvidia-smi": "hl-smi",
        "CUDA_VISIBLE_DEVICES": "HABANA_VISIBLE_MODULES",
        "/dev/nvidia*": "/dev/accel/*",
        _FAULTS: "hl-smi",
    },
    "tpu": {},
    "cpu": {},
    "neuron": {},
}
# nvidia-smi -q -d COMPUTE      nvidia-smi topo -m      With MIG, name the instance ...
_NVIDIA_ONLY = lazy_pattern(r"nvidia-smi (?:-\w|topo)|\bMIG\b")
# What is left after the platform's own words were put in: Set `CUDA_LAUNCH_BLOCKING=1`      `NCCL_DEBUG=INFO`
_NVIDIA = lazy_pattern(
    r"\bnvidia-smi\b|/dev/nvidia|CUDA_VISIBLE_DEVICES|CUDA_LAUNCH_BLOCKING|TORCH_CUDA_ARCH_LIST|(?i:\bxid\b)"
)
# Install torch and vLLM in their builds for CUDA      point `CUDA_HOME` to it      but: the build for the device (CUDA, ROCm, CPU)
_CUDA_BUILD = lazy_pattern(
    r"^(?!.*(?:ROCm|HIP)).*(?:\bbuil(?:ds?|t)\b[^.;]{0,40} (?:for|with) (?:a |an older )?CUDA\b|\bCUDA (?:toolkit|release|wheel)|\bnvcc\b|CUDA_HOME)"
)
_NCCL = lazy_pattern(r"\bNCCL_[A-Z]")
_INTERFACE = lazy_pattern(
    r"`NCCL_SOCKET_IFNAME`, | \(and `NCCL_SOCKET_IFNAME`\)|, `NCCL_SOCKET_IFNAME`(?! and)"
)
_ON_ROCM = "On ROCm "
_UNITS = {"npu": "NPU", "xpu": "XPU", "hpu": "HPU", "tpu": "TPU", "neuron": "Neuron core"}
_GPU = lazy_pattern(r"(?<![\w-])GPU(?P<several>s?)(?![\w-])")
# A failed assertion aborts the process on ROCm, without an exception; from level 3 on HIP logs the kernels that it starts.
_SHOWN_BY_TRACEBACK = lazy_pattern(
    r"`CUDA_LAUNCH_BLOCKING=1`(?P<switch> and `--enforce-eager`)?: the traceback then (?:shows|ends at)[^.]*"
)
_SHOWN_BY_KERNELS = (
    r"`AMD_SERIALIZE_KERNEL=3`, `AMD_LOG_LEVEL=3`\g<switch>:"
    r" the last `ShaderName` lines above the abort name the kernel that failed and those before it"
)
_ORDER = lazy_pattern(r"; set `CUDA_DEVICE_ORDER=[^.]*")


def device_named(text: str, run: Run) -> str:
    """Return words of a page with the run's own kind of device where they say GPU.

    Example:
        >>> device_named("needs that many GPUs", Run(platform="npu"))
        'needs that many NPUs'
        >>> device_named("a driver process without GPU", Run(platform="rocm"))
        'a driver process without GPU'
    """
    unit = _UNITS.get(run.platform or "")
    return _GPU.sub(lambda found: unit + found["several"], text) if unit else text


def in_words_of_device(text: str, run: Run) -> str | None:
    """Return a piece of advice with the tools of the run's platform, None where only NVIDIA's cards can take it.

    Example:
        >>> in_words_of_device("Stop it: `nvidia-smi` names it.", Run(platform="npu"))
        'Stop it: `npu-smi info` names it.'
        >>> in_words_of_device("Run once with `CUDA_LAUNCH_BLOCKING=1`.", Run(platform="rocm"))
        'Run once with `AMD_SERIALIZE_KERNEL=3`.'
        >>> in_words_of_device("See whether a card failed: `dmesg -T | grep -i xid`.", Run(platform="npu"))
        'See whether a card failed: `npu-smi info`.'
        >>> in_words_of_device("Run once with `CUDA_LAUNCH_BLOCKING=1`.", Run(platform="tpu")) is None
        True
        >>> in_words_of_device("With MIG, name the instance.", Run(platform="rocm")) is None
        True
        >>> in_words_of_device("Install torch in its build for CUDA.", Run(platform="rocm")) is None
        True
        >>> in_words_of_device("`nvidia-smi` names it.", Run(platform="cuda"))
        '`nvidia-smi` names it.'
    """
    text = device_named(text, run)
    if text.startswith(_ON_ROCM) and run.platform not in (None, "rocm"):
        return None
    own = _OWN.get(run.platform or "")
    if own is None or any(word in text for word in own.values()):
        return text
    if _NVIDIA_ONLY.search(text) or (run.kind != "build" and _CUDA_BUILD.search(text)):
        return None
    text = _ORDER.sub("", text)
    if run.platform == "rocm":
        text = _SHOWN_BY_TRACEBACK.sub(_SHOWN_BY_KERNELS, text)
    for theirs, ours in own.items():
        text = text.replace(theirs, ours)
    if run.platform not in WITHOUT_NCCL:
        return None if _NVIDIA.search(text) else text
    text = _INTERFACE.sub("", text)
    return None if _NVIDIA.search(text) or _NCCL.search(text) else text
