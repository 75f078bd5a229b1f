"""The weights of a rank: as the engine printed them, else by the number of parameters in the model's name."""

from __future__ import annotations

import re

from vllm_logdoctor.knowledge.dtypes import weight_bytes
from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.rules.capacity.memory import AS_PRINTED, GIB
from vllm_logdoctor.run.model import Run

# Qwen3.5-122B-A10B   Llama-2-13b-hf   Mistral-Large-Instruct-2407-123B
_PARAMETERS = lazy_pattern(r"(?<![\w.])(\d{1,4}(?:\.\d{1,2})?)[bB](?![a-zA-Z0-9])")
_QUANTIZED_NAME = lazy_pattern(
    r"awq|gptq|fp8|fp4|int[48]|w4a|w8a|[48]-?bit|gguf|mxfp|bnb|quant", re.IGNORECASE
)


def weights_of(run: Run) -> tuple[float | None, str]:
    """Return the weights of a rank in GiB and where the figure is from: printed, or computed from the model's name."""
    printed = run.measure("model_weights_gib")
    if printed:
        return printed, AS_PRINTED
    name = str(run.model.value).rstrip("/").rsplit("/", 1)[-1] if run.model else ""
    sizes = [float(size) for size in _PARAMETERS.findall(name)]
    if not sizes or _QUANTIZED_NAME.search(name):
        return None, ""
    each = weight_bytes(run.setting("quantization"), str(run.setting("dtype") or "bfloat16"))
    ranks = (run.setting("tensor_parallel_size") or 1) * (run.setting("pipeline_parallel_size") or 1)
    if each is None:
        return None, ""
    return max(sizes) * 1e9 * each.low / GIB / ranks, f"{max(sizes):g} billion parameters by the model's name"
