"""Ids out of the words of a message: for drafts, and those that messages of the table had as patterns."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable

from vllm_logdoctor.knowledge.messages import VllmMessage, message_table

PREFIX = "catalogue:"
MOST_WORDS = 7
LONGEST = 60
_FILLER = re.compile(
    r"an?|the|is|are|was|were|be|been|to|of|for|and|or|in|on|at|by|as|its?|this|that|with|from|will|would|"
    r"has|have|had|can|could|should|may|might|please|we|your?|if|when|so|do|does"
)


def message_of_id(name: str) -> VllmMessage | None:
    """Return the message of vLLM with an id, also with the id that its pattern had up to release 0.1; None without one.

    Example:
        >>> message_of_id("catalogue:core.py:00000000") is None
        True
    """
    table = message_table()
    if name.startswith(PREFIX):
        return next((message for message in table if message.id == name), None)
    # Ids were the first words of the text, with a number where several messages begin alike.
    stem = re.sub(r"-\d+$", "", name)
    return _named(name, table) or (_named(stem, table) if stem != name else None)


def _named(name: str, messages: Iterable[VllmMessage]) -> VllmMessage | None:
    first = name.partition("-")[0]
    for message in messages:
        text = "".join(message.parts)
        if first in text.lower() and pattern_id(text, ()) == name:
            return message
    return None


def pattern_id(literal: str, taken: Container[str]) -> str:
    """Return an id that is not taken, from the literal text of a message.

    >>> pattern_id("Using the default MoE config. Performance might be sub-optimal!", {"moe"})
    'using-default-moe-config-performance-sub-optimal'
    """
    words = re.findall(r"[a-z]+[0-9]*|[0-9]+", literal.lower())
    chosen: list[str] = []
    for word in words:
        if _FILLER.fullmatch(word):
            continue
        if len(chosen) == MOST_WORDS or len("-".join([*chosen, word])) > LONGEST:
            break
        chosen.append(word)
    name = "-".join(chosen) or "message"
    unique, number = name, 2
    while unique in taken:
        unique = f"{name}-{number}"
        number += 1
    return unique
