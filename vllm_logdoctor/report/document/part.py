"""What all parts of the JSON document share."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache
from inspect import get_annotations
from typing import Any, TypeVar

from msgspec import Meta, Struct

P = TypeVar("P", bound="Part")


class Part(Struct, forbid_unknown_fields=True):
    """A part of the document; names that are not declared are refused."""

    @classmethod
    def of(cls: type[P], source: object, **given: Any) -> P:
        """Take what is not given from the attribute of `source` with the field's name; empty text becomes null where it may."""
        may_be_null = _may_be_null(cls)
        for name in cls.__struct_fields__:
            if name not in given:
                value = getattr(source, name)
                given[name] = None if value == "" and name in may_be_null else value
        return cls(**given)


def means(description: str) -> Meta:
    """Return the meaning of a field, for the reference page and the JSON Schema."""
    return Meta(description=description)


@cache
def _may_be_null(cls: type[Part]) -> frozenset[str]:
    # Annotations are text here: to resolve them takes longer than to write a document.
    return frozenset(
        name
        for one in cls.__mro__
        for name, annotation in get_annotations(one).items()
        if "| None" in str(annotation)
    )


def rounded(value: float | None) -> float | None:
    """Return a figure with three decimals, or None where it is none."""
    return None if value is None or not math.isfinite(value) else round(value, 3)


def plain(value: Any) -> Any:
    """Return a value that JSON can hold: no NaN, no infinity, text for what JSON has no form for.

    Example:
        >>> plain({1: float("nan"), "a": (1, 2)})
        {'1': None, 'a': [1, 2]}
    """
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, set | frozenset):
        return sorted(str(item) for item in value)
    return str(value)
