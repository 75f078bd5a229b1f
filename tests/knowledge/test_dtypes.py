"""Bytes per element by dtype and quantization format."""

import pytest

from vllm_logdoctor.knowledge.dtypes import kv_cache_bytes, weight_bytes


@pytest.mark.parametrize(
    ("kv_cache_dtype", "dtype", "exact"),
    [
        ("auto", "torch.bfloat16", 2.0),
        ("fp8", None, 1.0),
        ("fp8_e5m2", "float16", 1.0),
        ("bfloat16", None, 2.0),
    ],
)
def test_kv_cache(kv_cache_dtype: str, dtype: str | None, exact: float) -> None:
    known = kv_cache_bytes(kv_cache_dtype, dtype)
    assert known is not None
    assert known.exact == exact


def test_auto_without_a_dtype_and_unknown_formats_say_nothing() -> None:
    assert kv_cache_bytes("auto") is None
    assert kv_cache_bytes("something_new") is None
    assert weight_bytes("something_new") is None
    assert weight_bytes(None) is None


def test_formats_with_overhead_are_ranges_around_their_bits() -> None:
    for quantization, bits in [("awq", 4), ("nvfp4", 4), ("fp8", 8), ("mxfp4", 4)]:
        known = weight_bytes(quantization)
        assert known is not None
        assert bits / 8 <= known.low <= known.high < bits / 8 * 1.25
