"""Texts of named groups to typed values."""

from __future__ import annotations

import re
from collections.abc import Mapping

from vllm_logdoctor.catalogue.index import Pattern

# torch.OutOfMemoryError: CUDA out of memory    RayTaskError(ValueError): text
EXCEPTION_TYPES = re.compile(
    r"(?:[A-Za-z_][\w.]{1,120}(?:Error|Exception|Warning|Interrupt|Exit|Timeout|Failure)"
    r"(?:\([^)]{0,80}\))?: ?)+"
)

Value = str | int | float | bool | None


def convert(text: str | None, kind: str) -> Value:
    """Return the value that a text stands for; None where it doesn't stand for one of that kind.

    >>> convert("2,505,984", "int"), convert("12.50", "float"), convert("True", "bool"), convert("n/a", "int")
    (2505984, 12.5, True, None)
    """
    if text is None or kind == "str":
        return text
    if kind == "bool":
        return {"true": True, "1": True, "false": False, "0": False}.get(text.strip().lower())
    plain = text.replace(",", "").replace("_", "")
    try:
        return int(plain) if kind == "int" else float(plain)
    except ValueError:
        return None


def field_values(pattern: Pattern, groups: Mapping[str, str | None]) -> dict[str, Value]:
    """Return the typed values of a match's named groups; groups without an entry are texts."""
    kinds = {field.name: field.type for field in pattern.fields}
    return {name: convert(text, kinds.get(name, "str")) for name, text in groups.items()}


def compiled(regex: str) -> re.Pattern[str]:
    """Return a regex, compiled as patterns are matched: a dot takes line ends too."""
    return re.compile(regex, re.DOTALL)


def match(pattern: Pattern, text: str) -> re.Match[str] | None:
    """Match a message against a pattern.

    A pattern with `anywhere` is searched; all others start where the message starts, behind white space,
    or behind the type of an exception: `ValueError: No available memory for the cache blocks`.
    """
    regex = compiled(pattern.regex)
    if pattern.anywhere:
        return regex.search(text)
    found = regex.match(text)
    if found:
        return found
    bare = text.lstrip()
    types = EXCEPTION_TYPES.match(bare)
    if types:
        return regex.match(bare[types.end() :])
    return regex.match(bare) if len(bare) != len(text) else None
