"""Bytes per element of weights and KV cache, by the names vLLM uses for dtypes and quantization formats."""

from __future__ import annotations

from msgspec import Struct


class Bytes(Struct, frozen=True):
    """Bytes per element from `low` to `high`, the two alike where the format has no varying overhead."""

    low: float
    high: float

    @property
    def exact(self) -> float | None:
        """The one value, or None where it is a range."""
        return self.low if self.low == self.high else None


def _exactly(number: float) -> Bytes:
    return Bytes(number, number)


_PLAIN: dict[str, Bytes] = {
    "float32": _exactly(4.0),
    "float": _exactly(4.0),
    "tf32": _exactly(4.0),
    "float16": _exactly(2.0),
    "half": _exactly(2.0),
    "bfloat16": _exactly(2.0),
    "float8_e4m3fn": _exactly(1.0),
    "float8_e5m2": _exactly(1.0),
    "int8": _exactly(1.0),
}

_KV_CACHE: dict[str, Bytes] = {
    "fp8": _exactly(1.0),
    "fp8_e4m3": _exactly(1.0),
    "fp8_e5m2": _exactly(1.0),
    "fp8_inc": _exactly(1.0),
    # One 2- or 4-byte scale per token and head of 64 to 256 elements.
    "fp8_per_token_head": Bytes(1.007, 1.063),
    "int8_per_token_head": Bytes(1.007, 1.063),
    "int4_per_token_head": Bytes(0.507, 0.625),
    # A latent of 512 fp8 elements, 4 fp32 scales and 64 bf16 rotary elements: 656 bytes for 576 elements.
    "fp8_ds_mla": _exactly(656 / 576),
    # 4 bits, one 1-byte scale per 16 elements.
    "nvfp4": _exactly(0.5625),
}

_WEIGHTS: dict[str, Bytes] = {
    "fp8": Bytes(1.0, 1.01),
    "fbgemm_fp8": Bytes(1.0, 1.01),
    "ptpc_fp8": Bytes(1.0, 1.01),
    "modelopt": Bytes(1.0, 1.01),
    "experts_int8": Bytes(1.0, 1.01),
    # 4 bits, a 2-byte scale and a zero point per group of 32 to 128 weights.
    "awq": Bytes(0.515, 0.58),
    "awq_marlin": Bytes(0.515, 0.58),
    # 3 to 8 bits by checkpoint; 4 with groups of 128 is the usual one.
    "gptq": Bytes(0.39, 1.08),
    "gptq_marlin": Bytes(0.5, 1.08),
    # 4 bits with a 4-byte (or doubly quantized) scale per 64, or 8 bits.
    "bitsandbytes": Bytes(0.5, 1.01),
    # 4 bits, one 1-byte scale per 32 elements.
    "mxfp4": _exactly(0.53125),
    # 4 bits, one 1-byte scale per 16 elements, one 4-byte scale per tensor.
    "nvfp4": Bytes(0.5625, 0.57),
    "modelopt_fp4": Bytes(0.5625, 0.57),
    # From 1.5 to 8.5 bits by file.
    "gguf": Bytes(0.19, 1.07),
    # The checkpoint's own scheme decides: 4-bit groups to 8-bit.
    "compressed-tensors": Bytes(0.5, 1.01),
    "quark": Bytes(0.5, 1.01),
    "torchao": Bytes(0.5, 1.01),
}


def weight_bytes(quantization: str | None, dtype: str | None = None) -> Bytes | None:
    """Bytes per quantized weight (embeddings and norms usually stay in `dtype`); None where not known.

    >>> weight_bytes(None, "torch.bfloat16").exact
    2.0
    >>> weight_bytes("mxfp4").exact
    0.53125
    """
    if quantization:
        # What a log states may be of any type.
        return _WEIGHTS.get(str(quantization).lower())
    return None if dtype is None else _PLAIN.get(_bare(dtype))


def kv_cache_bytes(kv_cache_dtype: str, dtype: str | None = None) -> Bytes | None:
    """Bytes per KV cache element; "auto" means the model's `dtype`, or None where that is not known.

    From 0.14.0 "auto" can also become what the checkpoint declares; the log then says so.

    >>> kv_cache_bytes("auto", "bfloat16").exact, kv_cache_bytes("fp8").exact
    (2.0, 1.0)
    """
    name = _bare(kv_cache_dtype)
    if name == "auto":
        return None if dtype is None else _PLAIN.get(_bare(dtype))
    return _KV_CACHE.get(name) or _PLAIN.get(name)


def _bare(dtype: str) -> str:
    return dtype.strip().lower().removeprefix("torch.")
