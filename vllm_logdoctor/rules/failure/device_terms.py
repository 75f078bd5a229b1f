"""Tools and variables by platform: pages name NVIDIA's, a run on other devices gets its own."""

from __future__ import annotations

from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.run.model import Run

_NVIDIA = (
    "nvidia-smi",
    "CUDA_VISIBLE_DEVICES",
    "/dev/nvidia*",
    "TORCH_CUDA_ARCH_LIST",
    "CUDA_LAUNCH_BLOCKING=1",
)
_OWN = {
    "rocm": ("rocm-smi", "HIP_VISIBLE_DEVICES", "/dev/kfd", "PYTORCH_ROCM_ARCH", "AMD_SERIALIZE_KERNEL=3"),
    "npu": ("npu-smi info", "ASCEND_RT_VISIBLE_DEVICES", "/dev/davinci*"),
    "xpu": ("xpu-smi", "ZE_AFFINITY_MASK", "/dev/dri/*"),
    "hpu": ("hl-smi", "HABANA_VISIBLE_MODULES", "/dev/accel/*"),
}
# nvidia-smi -q -d COMPUTE      nvidia-smi topo -m      With MIG, name the instance ...
_NVIDIA_ONLY = lazy_pattern(r"nvidia-smi (?:-\w|topo)|\bMIG\b")
_ON_ROCM = "On ROCm "
_UNITS = {"npu": "NPU", "xpu": "XPU", "hpu": "HPU", "tpu": "TPU", "neuron": "Neuron core"}
_GPU = lazy_pattern(r"(?<![\w-])GPU(?P<several>s?)(?![\w-])")
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
        >>> in_words_of_device("With MIG, name the instance.", Run(platform="rocm")) is None
        True
        >>> in_words_of_device("`nvidia-smi` names it.", Run(platform="cuda"))
        '`nvidia-smi` names it.'
    """
    text = device_named(text, run)
    if text.startswith(_ON_ROCM) and run.platform not in (None, "rocm"):
        return None
    own = _OWN.get(run.platform or "")
    if own is None or any(word in text for word in own):
        return text
    if _NVIDIA_ONLY.search(text):
        return None
    text = _ORDER.sub("", text)
    if run.platform == "rocm":
        # A failed assertion ends the process there, without an exception.
        text = text.replace("the traceback then shows", "a traceback, where one follows, then shows")
    for theirs, ours in zip(_NVIDIA, own, strict=False):
        text = text.replace(theirs, ours)
    return text
