"""Defaults that vLLM computes, as rules per range of releases in data/default_rules.csv; the first whose condition holds decides."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, Final

from msgspec import Struct

from vllm_logdoctor.knowledge.context import Context
from vllm_logdoctor.knowledge.store import read_rows

UNSET: Final = object()
"""What a rule gives where the context lacks a number that the value is computed from."""
Condition = Callable[[Context], bool | None]
"""True, False, or None where the context does not decide."""
# memory_gib>=70      max_model_len>32768
_BOUND = re.compile(r"(?P<name>\w+)>(?P<equal>=?)(?P<number>\d+)")
_WORDS = {"true": True, "false": False, "?": UNSET}


class DefaultRule(Struct, frozen=True):
    """A row: where `when` holds in releases `since` to `until` (None: the newest known), `value` says what it is."""

    field: str
    since: str
    value: str
    sentence: str
    until: str | None = None
    when: str = ""

    @property
    def basis(self) -> str:
        """The rule in words, with the releases for which it was written down."""
        reach = f"{self.since} to {self.until}" if self.until else f"since {self.since}"
        return f"{self.sentence} ({reach})"

    def holds(self, context: Context) -> bool | None:
        """Return whether the condition holds, or None where the context does not decide."""
        return condition(self.when)(context)

    def value_in(self, context: Context) -> Any:
        """Return the value, or UNSET."""
        return _value(self.value)(context)


@cache
def default_rules() -> dict[str, list[DefaultRule]]:
    """Return the rules of each setting, in order."""
    found: dict[str, list[DefaultRule]] = {}
    for rule in read_rows("default_rules", DefaultRule):
        found.setdefault(rule.field, []).append(rule)
    return found


@cache
def condition(text: str) -> Condition:
    """Return what a row asks of the context: terms joined by "and", and those by "or"; "not" stands before a term.

    A term is a fact of the context ("pooling"), a fact with its values ("platform cuda/rocm"), or a bound ("memory_gib>=70").
    "device" asks for a part of the name; "surely" takes a platform that is not known for none of those that follow.

    >>> condition("platform cuda and not device a100")(Context(platform="cuda", device_name="NVIDIA H100"))
    True
    >>> condition("pooling or memory_gib>=70")(Context(pooling=False)) is None
    True
    """
    ways = [[_term(term) for term in way.split(" and ")] for way in text.split(" or ")] if text else [[]]

    def decide(context: Context) -> bool | None:
        answers = [_all(term(context) for term in way) for way in ways]
        return True if True in answers else None if None in answers else False

    return decide


def _all(terms: Iterable[bool | None]) -> bool | None:
    answers = list(terms)
    return False if False in answers else None if None in answers else True


def _term(text: str) -> Condition:
    name, _, words = text.removeprefix("not ").partition(" ")
    values, bound = words.split("/"), _BOUND.fullmatch(name)
    if name == "surely":
        return lambda context: context.platform in values

    def holds(known: Any) -> bool:
        if bound:
            number = int(bound["number"])
            return bool(known >= number if bound["equal"] else known > number)
        if name == "device":
            return any(part in known.lower() for part in values)
        return known in values if words else bool(known)

    def decide(context: Context) -> bool | None:
        known = getattr(context, "device_name" if name == "device" else bound["name"] if bound else name)
        return None if known is None else holds(known) != text.startswith("not ")

    return decide


@cache
def _value(text: str) -> Callable[[Context], Any]:
    """Return what computes the value of a row: the name of a function with its numbers, or the value itself."""
    name, *numbers = re.split(r" (?=\d+\b)", text)
    if name in _COMPUTED:
        return lambda context: _COMPUTED[name](context, *map(int, numbers))
    if text.startswith("of "):
        return lambda context: _known(getattr(context, text.removeprefix("of ")))
    value = int(text) if text.isdigit() else _WORDS.get(text, text)
    return lambda context: value


def _known(value: Any) -> Any:
    return UNSET if value is None else value


def _per_worker(context: Context, number: int) -> Any:
    return UNSET if context.world_size is None else number * context.world_size


def _sequences(context: Context, number: int) -> int:
    count = number * 2 if context.throughput_mode else number
    tokens = context.max_num_batched_tokens
    return count if tokens is None else min(count, tokens)


def _whole_prompts(context: Context, pooling: int, multimodal: int) -> Any:
    if context.max_model_len is None or (pooling and context.pooling is None):
        return UNSET
    if multimodal and context.multimodal is None:
        return UNSET
    floors = (pooling if context.pooling else 0, multimodal if context.multimodal else 0)
    return max(context.max_model_len, 2048, *floors)


def _chunks(context: Context, tokens: int, pooling: int, multimodal: int) -> Any:
    floors = [(context.pooling, pooling), (context.multimodal, multimodal)]
    if any(floor > tokens and known is None for known, floor in floors):
        return UNSET
    return max([tokens, *(floor for known, floor in floors if known)])


def _tokens(context: Context, number: int) -> Any:
    """Return the tokens of a step of V1, which newer releases adjust to model length and sequences."""
    wanted, length = number * 2 if context.throughput_mode else number, context.max_model_len
    if context.enable_chunked_prefill:
        if context.max_num_seqs is None or context.max_num_seqs >= wanted:
            return wanted
        return UNSET if length is None else min(wanted, context.max_num_seqs * length)
    if length is None:
        return UNSET
    return max(wanted, length) if context.enable_chunked_prefill is False or wanted >= length else UNSET


_COMPUTED: dict[str, Callable[..., Any]] = {
    "per worker": _per_worker,
    "sequences": _sequences,
    "whole prompts": _whole_prompts,
    "chunks": _chunks,
    "tokens": _tokens,
}
"""What a row computes of the context; numbers of the row follow: "chunks 512 32768 0"."""
