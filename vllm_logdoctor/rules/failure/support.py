"""What speaks for and against the name of a failure: settings that rule it out, and how sure what supports it makes it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vllm_logdoctor.catalogue.pages import Signature
from vllm_logdoctor.knowledge.flags import flag_spans
from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.rules.failure.signatures import FailureRule
from vllm_logdoctor.rules.model import Confidence

# CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect.
_ASYNCHRONOUS = lazy_pattern(r"might be asynchronously reported")
# --max-model-len      max_num_seqs      VLLM_USE_V1
_SETTING = lazy_pattern(
    r"(?P<variable>\bVLLM_[A-Z0-9_]+\b)|(?:--|\b)(?P<name>[a-z][a-z0-9]*(?:[_-][a-z0-9]+)+)\b"
)
# AttributeError: PreTrainedTokenizerFast has no attribute lower
_NO_ATTRIBUTE = lazy_pattern(r"has no attribute '?(?P<name>\w{1,80})")
_PLAIN_TYPES = (str, dict, list, int)
_OFF = (None, False, "None", "none", "", "null", "disabled")
_ORDER: tuple[Confidence, ...] = ("low", "medium", "high")

# Rules of a feature, the setting that switches it on, and the words that show it in use anyway.
_FEATURES = (
    (lazy_pattern(r"spec-decode-|speculative-"), "speculative_config", lazy_pattern(r"(?i)spec|draft|eagle|medusa|mtp|ngram")),
    (lazy_pattern(r"kv-connector-"), "kv_transfer_config", lazy_pattern(r"(?i)connector|kv_transfer|nixl|lmcache|mooncake|offload")),
    (lazy_pattern(r"lora-"), "enable_lora", lazy_pattern(r"(?i)lora|punica|sgmv|bgmv")),
)  # fmt: skip
# Between devices: none of these can be where one device does all.
_SEVERAL_DEVICES = lazy_pattern(r"nccl-p2p-hang|tp-sharding-bug")
_SIZES = ("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size")


# What can break a build; all else takes a vLLM that runs.
_OF_BUILDS = frozenset({"environment", "host", "hardware", "compile", "lifecycle", "engine"})


def is_ruled_out(rule: FailureRule, facts: Mapping[str, Any], shown: str) -> bool:
    """Return whether the run itself excludes a failure: its feature is off, it takes several devices, nothing ran.

    Args:
        rule: the failure.
        facts: settings of the run by name.
        shown: the error with its places, which may show the feature in use although a setting says nothing of it.
    """
    if facts.get("kind") == "build" and rule.topic not in _OF_BUILDS:
        return True
    for rules, setting, words in _FEATURES:
        if rules.match(rule.id) and setting in facts and facts[setting] in _OFF and not words.search(shown):
            return True
    if rule.id.endswith("-version-mismatch") and is_of_wrong_type(shown):
        return True
    return bool(_SEVERAL_DEVICES.match(rule.id)) and is_one_device(facts)


def is_of_wrong_type(text: str) -> bool:
    """Return whether an object was used as a text, a dictionary, a list or a number that it is not: no release has such a name.

    >>> is_of_wrong_type("AttributeError: PreTrainedTokenizerFast has no attribute lower")
    True
    """
    missing = _NO_ATTRIBUTE.search(text[:2000])
    return missing is not None and any(hasattr(one, missing["name"]) for one in _PLAIN_TYPES)


def is_one_device(facts: Mapping[str, Any]) -> bool:
    """Return whether the settings say that one device does all the work; unknown sizes say nothing."""
    sizes = [facts.get(name) for name in _SIZES]
    return sizes[0] == 1 and all(size in (None, 1) for size in sizes[1:]) and not facts.get("ranks", 0) > 1


def names_a_setting(text: str) -> bool:
    """Return whether a message names a setting of vLLM: a flag, a field of its arguments, or a variable.

    >>> names_a_setting("max_num_seqs must be positive"), names_a_setting("expects 78 main cache specs")
    (True, False)
    """
    named = _SETTING.finditer(text[:2000])
    return any(one["variable"] or flag_spans(f"--{one['name'].replace('_', '-')}") for one in named)


def supported(signature: Signature, text: str, *, vague: bool, common: bool) -> Confidence:
    """Return how sure a match is: the signature's own word, less where only a place or common words support it.

    Args:
        signature: what matched.
        text: the error.
        vague: whether the signature takes any message, or common words.
        common: whether it knows a refusal by common words: then the message must name what is refused.
    """
    by_place = bool(signature.frames or signature.raised_in)
    most: Confidence = "medium" if vague or (by_place and _ASYNCHRONOUS.search(text)) else "high"
    if common and not names_a_setting(text):
        most = "low"
    return min(signature.confidence, most, key=_ORDER.index)
