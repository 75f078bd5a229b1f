"""Bytes per element of weights and KV cache, by the names vLLM uses for dtypes and quantization formats: data/dtypes.csv."""

from __future__ import annotations

from functools import cache
from typing import Literal

from msgspec import Struct

from vllm_logdoctor.knowledge.store import read_rows

Use = Literal["plain", "kv cache", "weights"]
"""plain: a dtype of its own, for both; kv cache: a value of --kv-cache-dtype; weights: a quantization format."""


class Bytes(Struct, frozen=True):
    """Bytes per element from `low` to `high`, the two alike where the format has no varying overhead."""

    low: float
    high: float

    @property
    def exact(self) -> float | None:
        """The one value, or None where it is a range."""
        return self.low if self.low == self.high else None


class _DtypeRow(Struct, frozen=True):
    use: Use
    name: str
    low: float
    high: float
    basis: str = ""


@cache
def _bytes_of(use: Use) -> dict[str, Bytes]:
    return {row.name: Bytes(row.low, row.high) for row in read_rows("dtypes", _DtypeRow) if row.use == use}


def weight_bytes(quantization: str | None, dtype: str | None = None) -> Bytes | None:
    """Bytes per quantized weight (embeddings and norms usually stay in `dtype`); None where not known.

    >>> weight_bytes("mxfp4").exact
    0.53125
    """
    if quantization:
        # What a log states may be of any type.
        return _bytes_of("weights").get(str(quantization).lower())
    return None if dtype is None else _bytes_of("plain").get(_bare(dtype))


def kv_cache_bytes(kv_cache_dtype: str, dtype: str | None = None) -> Bytes | None:
    """Bytes per KV cache element; "auto" means the model's `dtype`, or None where that is not known.

    From 0.14.0 "auto" can also become what the checkpoint declares; the log then says so.

    >>> kv_cache_bytes("auto", "bfloat16").exact, kv_cache_bytes("fp8").exact
    (2.0, 1.0)
    """
    name = _bare(kv_cache_dtype)
    if name == "auto":
        return None if dtype is None else _bytes_of("plain").get(_bare(dtype))
    return _bytes_of("kv cache").get(name) or _bytes_of("plain").get(name)


def _bare(dtype: str) -> str:
    return dtype.strip().lower().removeprefix("torch.")
