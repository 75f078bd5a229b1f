"""Environment variables that vLLM declares: when each existed and what it means when unset."""

from __future__ import annotations

import ast
from typing import Any

from msgspec import Struct

from vllm_logdoctor.knowledge.history import Span, exists, facts_at, spans
from vllm_logdoctor.knowledge.store import read_table, runs
from vllm_logdoctor.knowledge.versions import VersionLike


class VariableEra(Struct, frozen=True):
    """Releases over which a variable kept its default: source text or None; `until` is included."""

    since: str
    until: str
    default: str | None


def variable_known(name: str, version: VersionLike) -> bool | None:
    """Does that version declare the variable; None when the version is not known.

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


def variable_history(name: str) -> tuple[VariableEra, ...]:
    """The variable through the known releases, oldest first; empty when no known release declares it."""
    return tuple(
        VariableEra(run.first, run.last, run.facts["default"])
        for run in runs(read_table("variables").get(name, []))
    )


def variable_spans(name: str) -> tuple[Span, ...]:
    """When the variable was declared.

    >>> variable_spans("VLLM_USE_V1")
    (Span(since='0.6.4', until='0.11.0'),)
    """
    return spans("variables", name)


def variables_of(version: VersionLike) -> frozenset[str]:
    """Every variable that version declares; empty when the version is not known."""
    return frozenset(name for name in read_table("variables") if exists("variables", name, version))
