"""The kernel that failed: the kind of its layer, and which backend has another one for the same weights."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from vllm_logdoctor.knowledge.flags import flag_exists
from vllm_logdoctor.knowledge.versions import at_least
from vllm_logdoctor.lazy import lazy_pattern

# vllm/_custom_ops.py:cutlass_scaled_sparse_mm      vllm/v1/attention/backends/flashinfer.py:forward
_LAYERS = (
    ("attention", lazy_pattern(r"Batch(?:Prefill|Decode)With|attention/|_attn\b|/mla/")),
    ("experts", lazy_pattern(r"fused_moe|_moe\b|moe_")),
    (
        "linear",
        lazy_pattern(
            r"cutlass_(?:scaled|sparse|gemm_caller)|scaled_mm|_?mm_fp[48]|(?:kernels|layers)/linear"
        ),
    ),
)
_FIRST_WITH_MARLIN_FOR_BLOCKS = "0.9.0"
"""Marlin's kernels take FP8 weights that are scaled by blocks from this release on."""


def failed_kernel(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the kind of layer whose kernel failed, and which backend of linear layers was requested.

    Where no kernel accepts a linear layer, all were tried that the settings allow.
    """
    none_accepts, version = str(values.get("linear") or ""), values.get("version")
    place = " ".join(str(values.get(name)) for name in ("what", "attention", "raised_in", "place"))
    layer = "linear" if none_accepts else next((name for name, known in _LAYERS if known.search(place)), "")
    asked = values.get("linear_backend") if none_accepts else None
    has_setting = values.get("engine") != "V0" and flag_exists("--linear-backend", version) is not False
    other = (
        _other_linear(place, str(values.get("linear_kernels"))) if not none_accepts and has_setting else None
    )
    of_fp8 = re.search("fp8|scaledmm", none_accepts, re.IGNORECASE) or (
        layer == "linear"
        and not other
        and values.get("quantization") == "fp8"
        and at_least(version, _FIRST_WITH_MARLIN_FOR_BLOCKS)
    )
    return {
        "forced_linear": asked if isinstance(asked, str) and asked != "auto" else None,
        "attention_kernel": True if layer == "attention" else None,
        "experts_kernel": True if layer == "experts" else None,
        "linear_kernel": other if layer == "linear" else None,
        "backend_open": None if layer or values.get("deep_gemm") else True,
        "fp8_linear": True if of_fp8 else None,
        # PyTorch calls the devices of ROCm CUDA, too.
        "target": "ROCm" if (values.get("platform"), values.get("target")) == ("rocm", "CUDA") else None,
    }


def _other_linear(place: str, selected: str) -> str | None:
    """Return the backend whose kernels do the work of a linear layer's kernel that failed, None where the log does not tell the weights.

    Marlin has kernels for FP4 on every card; for FP8 it refuses cards that compute in FP8 (from capability 8.9 on), and no other can
    have run the kernel that failed. Triton has FP8 kernels for weights that are scaled by blocks alone, torch for the others.

    >>> _other_linear("vllm/utils/flashinfer.py:flashinfer_mm_fp4", ""), _other_linear("cutlass_scaled_mm", "CutlassFp8BlockScaledMMKernel")
    ('marlin', 'triton')
    """
    if re.search("fp4", place, re.IGNORECASE):
        return "marlin"
    if re.search("fp8block", selected, re.IGNORECASE):
        return "triton"
    return "torch" if re.search("fp8", selected, re.IGNORECASE) else None
