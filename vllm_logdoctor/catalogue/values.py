"""How a message is matched against an expression, and the typed values of its named groups."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from functools import lru_cache

from vllm_logdoctor.catalogue.index import Pattern

# torch.OutOfMemoryError: CUDA out of memory    RayTaskError(ValueError): text
EXCEPTION_TYPES = re.compile(
    r"(?:[A-Za-z_][\w.]{1,120}(?:Error|Exception|Warning|Interrupt|Exit|Timeout|Failure)"
    r"(?:\([^)]{0,80}\))?: ?)+"
)
# `Avg prompt throughput: ...     > INFO ...     (quoted in a message, a ticket, a table)
_QUOTING = " \t`'\"|>*]"

Value = str | int | float | bool | None
Search = Callable[[str], "re.Match[str] | None"]


def convert(text: str | None, kind: str) -> Value:
    """Return the value of a text; None where it is none of that kind.

    >>> convert("2,505,984", "int"), convert("12.50", "float"), convert("True", "bool"), convert("n/a", "int")
    (2505984, 12.5, True, None)
    """
    if text is None or kind == "str":
        return text
    if kind == "bool":
        return text.strip().lower() in {"true", "1", "yes", "on", "enabled"}
    try:
        number = float(text.replace(",", "").replace("_", ""))
    except ValueError:
        return None
    if not math.isfinite(number):
        return None
    return int(number) if kind == "int" else number


def field_values(pattern: Pattern, groups: Mapping[str, str | None]) -> dict[str, Value]:
    """Return the typed values of a match's named groups; groups without an entry are texts."""
    kinds = {field.name: field.type for field in pattern.fields}
    return {name: convert(text, kinds.get(name, "str")) for name, text in groups.items()}


def find(search: Search, message: str, anywhere: bool) -> re.Match[str] | None:
    """Match a message as it is, without the types of exceptions before it, or without the signs of a quotation.

    Args:
        search: searches an expression in a text where `anywhere` is true, else matches it from the start.
        message: the text.
        anywhere: whether the place in the message does not matter.
    """
    found = search(message)
    if found is not None or anywhere:
        return found
    bare = message.lstrip()
    types = EXCEPTION_TYPES.match(bare)
    text = bare[types.end() :] if types else message.lstrip(_QUOTING)
    return search(text) if len(text) != len(message) else None


@lru_cache(maxsize=2048)
def compiled(regex: str) -> re.Pattern[str]:
    """Return a compiled expression; a dot matches line ends too."""
    return re.compile(regex, re.DOTALL)


def match(pattern: Pattern, text: str) -> re.Match[str] | None:
    """Match a message against a pattern, as an analysis does."""
    expression = compiled(pattern.regex)
    return find(expression.search if pattern.anywhere else expression.match, text, pattern.anywhere)
