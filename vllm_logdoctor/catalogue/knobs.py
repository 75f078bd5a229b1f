"""Do the flags and variables that a pack names exist in the releases that it states?"""

from __future__ import annotations

from collections.abc import Sequence

from vllm_logdoctor.catalogue.versions import VersionRange, version_key
from vllm_logdoctor.knowledge.flags import flag_spans
from vllm_logdoctor.knowledge.history import Span
from vllm_logdoctor.knowledge.variables import variable_spans


def knob_exists(knob: str, ranges: Sequence[VersionRange]) -> bool:
    """Say whether a flag or a variable of vLLM exists in a release of some ranges; true for any other knob.

    >>> from vllm_logdoctor.catalogue.versions import parse_ranges
    >>> knob_exists("--swap-space", parse_ranges("0.8.0-0.9.2"))
    True
    >>> knob_exists("--swap-space", parse_ranges("0.20.0"))
    False
    """
    name = knob.partition("=")[0].partition(" ")[0]
    if name.startswith("VLLM_"):
        return _overlap(variable_spans(name), ranges)
    return _overlap(flag_spans(name), ranges) if name.startswith("--") else True


def _overlap(spans: Sequence[Span], ranges: Sequence[VersionRange]) -> bool:
    return any(
        version_key(each.first) <= version_key(span.until or each.first)
        and version_key(span.since) <= version_key(each.last)
        for span in spans
        for each in ranges
    )
