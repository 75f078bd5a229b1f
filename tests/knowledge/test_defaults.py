"""Defaults that vLLM computes: told where version and context decide them, otherwise not."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vllm_logdoctor.knowledge.context import Context
from vllm_logdoctor.knowledge.default_rules import default_rules
from vllm_logdoctor.knowledge.defaults import default_of
from vllm_logdoctor.knowledge.versions import known_versions, number_of

H100 = "NVIDIA H100 80GB HBM3"
A100 = "NVIDIA A100-SXM4-80GB"


def _value(field: str, version: str, **known: Any) -> Any:
    default = default_of(field, version, Context(**known))
    return None if default is None else default.value


@pytest.mark.parametrize(
    ("version", "known", "value"),
    [
        ("0.6.0", {}, 256),
        ("0.7.3", {"engine": "V1", "platform": "cuda"}, 1024),
        ("0.9.0", {"platform": "cuda", "device_name": H100}, 1024),
        ("0.9.0", {"platform": "cuda", "device_name": A100}, 256),
        ("0.9.0", {"platform": "cuda", "gpu_memory_gib": 23.6}, 256),
        ("0.9.0", {"platform": "cuda", "gpu_memory_gib": 79.2}, None),
        ("0.28.0", {"platform": "rocm", "device_name": "AMD Instinct MI300X"}, 1024),
        ("0.33.0", {"platform": "cuda", "device_name": "NVIDIA GB10"}, 256),
        ("0.11.2", {"platform": "cpu", "kind": "server", "world_size": 2}, 256),
    ],
)
def test_max_num_seqs(version: str, known: dict[str, Any], value: int | None) -> None:
    assert _value("max_num_seqs", version, **known) == value


_TEXT_MODEL = {"pooling": False, "hybrid": False, "encoder_decoder": False, "max_model_len": 4096}


@pytest.mark.parametrize(
    ("version", "known", "value"),
    [
        ("0.11.2", {"platform": "cuda", "device_name": H100, "kind": "server"}, 8192),
        ("0.11.2", {"platform": "cuda", "device_name": H100, "kind": "offline"}, 16384),
        ("0.11.2", {"platform": "cuda", "device_name": A100, "kind": "server"}, 2048),
        ("0.11.2", {"platform": "cuda", "device_name": H100}, None),
        ("0.28.0", {"platform": "cuda", "device_name": "NVIDIA B200", "kind": "server"}, 16384),
        ("0.16.0", {"platform": "cuda", "device_name": H100, "kind": "server", "max_num_seqs": 1}, 4096),
        ("0.11.0", {"platform": "tpu", "device_name": "TPU v6 lite", "kind": "server"}, 1024),
    ],
)
def test_max_num_batched_tokens_of_v1(version: str, known: dict[str, Any], value: int | None) -> None:
    assert _value("max_num_batched_tokens", version, **_TEXT_MODEL, **known) == value


def test_max_num_batched_tokens_of_v0_without_chunks_is_the_longest_prompt() -> None:
    known = {"engine": "V0", "platform": "cuda", "pooling": False, "multimodal": False}
    assert _value("max_num_batched_tokens", "0.6.5", max_model_len=8192, **known) == 8192


@pytest.mark.parametrize(
    ("version", "known", "value"),
    [
        ("0.6.4", {"engine": "V0"}, False),
        ("0.8.5", {"engine": "V0"}, False),
        ("0.8.5", {"engine": "V1", "pooling": False, "hybrid": False}, True),
        ("0.12.0", {"pooling": False, "hybrid": True}, False),
        ("0.28.0", {"pooling": False, "hybrid": True, "encoder_decoder": False}, True),
        ("0.12.0", {"pooling": True}, None),
        ("0.12.0", {}, None),
    ],
)
def test_prefix_caching(version: str, known: dict[str, Any], value: bool | None) -> None:
    assert _value("enable_prefix_caching", version, **known) is value


def test_chunked_prefill_of_v0_depends_on_the_context_length() -> None:
    known = {"engine": "V0", "platform": "cuda", "speculative": False, "lora": False}
    assert _value("enable_chunked_prefill", "0.6.6", max_model_len=4096, **known) is False
    assert _value("enable_chunked_prefill", "0.6.6", max_model_len=131072, **known) is None


def test_async_scheduling_is_on_from_0_14() -> None:
    plain = {"pipeline_parallel_size": 1, "ray": False, "speculative": False, "pooling": False}
    assert _value("async_scheduling", "0.13.0", **plain) is False
    assert _value("async_scheduling", "0.14.0", **plain) is True
    assert _value("async_scheduling", "0.14.0", **{**plain, "pipeline_parallel_size": 2}) is False


def test_the_engine_generation() -> None:
    assert _value("engine", "0.7.3") == "V0"
    assert _value("engine", "0.8.5", platform="cuda") == "V1"
    assert _value("engine", "0.8.5") is None
    assert _value("engine", "0.11.0") == "V1"


@pytest.mark.parametrize(
    ("field", "version", "value"),
    [
        ("gpu_memory_utilization", "0.19.1", 0.9),
        ("gpu_memory_utilization", "0.20.0", 0.92),
        ("tensor_parallel_size", "0.4.1", 1),
        ("pipeline_parallel_size", "0.33.0", 1),
        ("data_parallel_size", "0.9.0", 1),
        ("kv_cache_dtype", "0.11.2", "auto"),
        ("dtype", "0.11.2", "auto"),
        ("swap_space", "0.8.5", 4),
        ("optimization_level", "0.12.0", 2),
    ],
)
def test_static_defaults(field: str, version: str, value: object) -> None:
    assert _value(field, version) == value


def test_a_checkpoint_may_bring_its_quantization() -> None:
    assert default_of("quantization", "0.11.2") is None


def test_a_setting_that_the_release_lacks_has_no_default() -> None:
    assert default_of("swap_space", "0.18.0") is None
    assert default_of("data_parallel_size", "0.8.0") is None
    assert default_of("max_num_seqs", None) is None


def test_every_rule_says_why_and_for_which_releases_and_asks_for_what_a_context_holds() -> None:
    for rules in default_rules().values():
        for rule in rules:
            assert rule.holds(Context()) in (None, True, False)
            assert rule.value_in(Context()) is not None
            assert rule.sentence
            assert rule.since in rule.basis
            assert rule.until is None or number_of(rule.since) <= number_of(rule.until)


_MAYBE = st.sampled_from([None, True, False])


@given(
    field=st.sampled_from(sorted(default_rules())),
    version=st.sampled_from([str(version) for version in known_versions()]),
    engine=st.sampled_from(["V0", "V1"]),
    platform=st.sampled_from(["cuda", "rocm", "cpu", "tpu"]),
    kind=st.sampled_from(["server", "offline"]),
    memory=st.sampled_from([16.0, 79.0, 180.0]),
    device=st.sampled_from([H100, A100, "NVIDIA L4", "TPU v6 lite"]),
    answers=st.tuples(*[_MAYBE] * 4),
)
def test_more_knowledge_never_contradicts(
    field: str,
    version: str,
    engine: Any,
    platform: Any,
    kind: Any,
    memory: float,
    device: str,
    answers: tuple[bool | None, ...],
) -> None:
    """What is told from part of the context stays so when all of it is known."""
    names = ("pooling", "hybrid", "encoder_decoder", "multimodal")
    part: dict[str, Any] = dict(zip(names, answers, strict=True))
    base: dict[str, Any] = {"engine": engine, "platform": platform, "max_model_len": 4096, "world_size": 1}
    told = default_of(field, version, Context(**base, **part))
    whole: dict[str, Any] = {
        name: bool(value) if value is not None else False for name, value in part.items()
    }
    more = Context(**base, **whole, kind=kind, gpu_memory_gib=memory, device_name=device)
    known = default_of(field, version, more)
    if told is not None and known is not None:
        assert told.value == known.value
