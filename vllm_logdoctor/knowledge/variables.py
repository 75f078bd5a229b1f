"""Environment variables that vLLM declares: when each existed and what it means when unset."""

from __future__ import annotations

import ast
from typing import Any

from vllm_logdoctor.knowledge.history import ReleaseSpan, exists, facts_at, spans
from vllm_logdoctor.knowledge.versions import VersionLike


def variable_known(name: str, version: VersionLike) -> bool | None:
    """Return whether that version declares the variable; None when the version is not known.

    >>> variable_known("VLLM_ATTENTION_BACKEND", "0.14.1"), variable_known("VLLM_ATTENTION_BACKEND", "0.15.0")
    (True, False)
    """
    return exists("variables", name, version)


def variable_default(name: str, version: VersionLike) -> Any:
    """Value when unset: a Python literal, or source text where it is computed; None where none or unknown.

    >>> variable_default("VLLM_USE_V1", "0.7.3"), variable_default("VLLM_USE_V1", "0.8.0")
    ('0', '1')
    """
    facts = facts_at("variables", name, version)
    if facts is None or facts["default"] is None:
        return None
    try:
        return ast.literal_eval(facts["default"])
    except (ValueError, SyntaxError):
        return facts["default"]


def variable_spans(name: str) -> tuple[ReleaseSpan, ...]:
    """When the variable was declared.

    >>> variable_spans("VLLM_USE_V1")
    (ReleaseSpan(since='0.6.4', until='0.11.0'),)
    """
    return spans("variables", name)
