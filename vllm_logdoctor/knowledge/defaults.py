"""The value of a setting when nothing in the log says otherwise, as far as version and context decide it."""

from __future__ import annotations

from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from vllm_logdoctor.knowledge.context import Context
from vllm_logdoctor.knowledge.default_rules import UNSET, DefaultRule, default_rules
from vllm_logdoctor.knowledge.flags import flag_for_field
from vllm_logdoctor.knowledge.versions import (
    VersionLike,
    is_older_than_known,
    known_versions,
    number_of,
    release_number,
)

# Settings for which "not given" is itself the value. Not quantization: a checkpoint may bring its own.
_MEANS_NONE = frozenset(
    {
        "speculative_config",
        "kv_transfer_config",
        "num_gpu_blocks_override",
        "kv_cache_memory_bytes",
        "revision",
        "tokenizer_revision",
        "code_revision",
        "chat_template",
        "hf_config_path",
        "reasoning_parser",
        "tool_call_parser",
        "download_dir",
        "attention_backend",
    }
)
# Settings whose defaults were the same from the first releases on: the oldest known one answers for all before it.
_SINCE_THE_FIRST = frozenset(
    {
        "block_size",
        "gpu_memory_utilization",
        "max_num_seqs",
        "pipeline_parallel_size",
        "swap_space",
        "tensor_parallel_size",
    }
)


class DefaultValue(Struct, frozen=True):
    """A default and why it is that: `basis` is a sentence with the releases it was written down for."""

    value: Any
    basis: str


def default_of(
    engine_arg_field: str, version: VersionLike, context: Context | None = None
) -> DefaultValue | None:
    """Value of an EngineArgs field in a run that does not set it.

    None where version and context leave more than one value possible, or the version has no such setting.
    A `DefaultValue` with value None means that the setting is unset and stays so.

    >>> default_of("max_num_seqs", "0.11.2", Context(platform="cuda", device_name="NVIDIA H200")).value
    1024
    """
    if engine_arg_field in _SINCE_THE_FIRST and is_older_than_known(version):
        version = known_versions()[0]
    number = release_number(version)
    if number is None:
        return None
    known = _filled(version, context or Context(), engine_arg_field)
    rules = [rule for rule in default_rules().get(engine_arg_field, ()) if _in_force(rule, number)]
    if rules:
        return _decided(rules, known)
    return _static(engine_arg_field, version)


def _filled(version: VersionLike, context: Context, asked: str) -> Context:
    # Rules lean on a few other settings; where the log is silent on those, their own defaults are used.
    for name in ("engine", "enable_prefix_caching", "enable_chunked_prefill"):
        if name == asked:
            break
        if getattr(context, name) is None:
            default = default_of(name, version, context)
            if default is not None:
                context = replace(context, **{name: default.value})
    return context


def _in_force(rule: DefaultRule, number: int) -> bool:
    return number_of(rule.since) <= number and (rule.until is None or number <= number_of(rule.until))


def _decided(rules: list[DefaultRule], context: Context) -> DefaultValue | None:
    """First rule that holds; an undecided one before it must agree with it, else nothing can be said."""
    possible: list[DefaultValue] = []
    for rule in rules:
        holds = rule.holds(context)
        if holds is False:
            continue
        value = rule.value_in(context)
        if value is UNSET:
            return None
        possible.append(DefaultValue(value, rule.basis))
        if holds:
            agree = all(default.value == value for default in possible)
            return possible[-1] if agree else None
    return None


def _static(field: str, version: VersionLike) -> DefaultValue | None:
    flag = flag_for_field(field, version)
    if flag is None or flag.default_is_source:
        return None
    if flag.default is None and field not in _MEANS_NONE:
        return None
    return DefaultValue(flag.default, f"default of {flag.name} in that release")
