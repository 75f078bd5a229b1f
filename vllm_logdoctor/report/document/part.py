"""What all parts of the JSON document share."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Mapping
from functools import cache
from inspect import get_annotations
from typing import Any, TypeVar

from msgspec import Meta, Struct

P = TypeVar("P", bound="Part")

_PART = re.compile(r"\b\w+Out\b")


class Part(Struct, forbid_unknown_fields=True):
    """A part of the document; names that are not declared are refused."""

    @classmethod
    def of(cls: type[P], source: object, **given: Any) -> P:
        """Take what is not given from the attribute of `source` with the field's name, in the form that the field has."""
        for name, (part, is_any, may_be_null) in _forms(cls).items():
            if name not in given:
                value = getattr(source, name)
                if part is not None:
                    value = _parts_of(part, value)
                elif is_any:
                    value = json_value(value)
                given[name] = None if value == "" and may_be_null else value
        return cls(**given)


def means(description: str) -> Meta:
    """Return the meaning of a field, for the reference page and the JSON Schema."""
    return Meta(description=description)


def _parts_of(part: type[Part], value: Any) -> Any:
    """Return a value, or each value of a list or a mapping, as a part."""
    if value is None or isinstance(value, part):
        return value
    if isinstance(value, Mapping):
        return {name: part.of(one) for name, one in value.items()}
    return [part.of(one) for one in value] if isinstance(value, list | tuple) else part.of(value)


@cache
def _forms(cls: type[Part]) -> dict[str, tuple[type[Part] | None, bool, bool]]:
    """Return the part that each field holds, whether it holds any value, and whether empty text is null in it.

    Annotations are text here: to resolve them takes longer than to write a document.
    """
    found: dict[str, tuple[type[Part] | None, bool, bool]] = {}
    for one in reversed(cls.__mro__):
        names = vars(sys.modules[one.__module__])
        for name, annotation in get_annotations(one).items():
            part = _PART.search(annotation)
            is_any = annotation == "Any" or annotation.startswith("Annotated[Any,")
            found[name] = names[part[0]] if part else None, is_any, "| None" in annotation
    return {name: found[name] for name in cls.__struct_fields__}


def three_decimals(value: float | None) -> float | None:
    """Return a figure with three decimals, or None where it is none."""
    return None if value is None or not math.isfinite(value) else round(value, 3)


def json_value(value: Any) -> Any:
    """Return a value that JSON can hold: no NaN, no infinity, text for what JSON has no form for.

    Example:
        >>> json_value({1: float("nan"), "a": (1, 2)})
        {'1': None, 'a': [1, 2]}
    """
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): json_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [json_value(item) for item in value]
    if isinstance(value, set | frozenset):
        return sorted(str(item) for item in value)
    return str(value)
