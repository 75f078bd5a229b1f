"""Ids for drafted patterns, out of the words of their messages."""

from __future__ import annotations

import re
from collections.abc import Container

MOST_WORDS = 7
LONGEST = 60
_FILLER = re.compile(
    r"an?|the|is|are|was|were|be|been|to|of|for|and|or|in|on|at|by|as|its?|this|that|with|from|will|would|"
    r"has|have|had|can|could|should|may|might|please|we|your?|if|when|so|do|does"
)


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
