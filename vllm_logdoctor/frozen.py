"""Frozen, slotted data classes that cost little to define.

`@dataclass(frozen=True, slots=True)` compiles six functions for a class while its module is imported: 0.8 ms on Python
3.11, and a diagnosis has a hundred such classes, so that a third of the time for a small log went into defining them.
A class under `@frozen` is such a data class to its users (`fields`, `replace`, `asdict`, `match`, `copy` and `pickle`
know it); only its `__init__` is compiled, all else is shared code over the names of its fields.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import MISSING, Field, FrozenInstanceError, dataclass, field, fields
from operator import attrgetter
from typing import Any, NoReturn, TypeVar

if sys.version_info >= (3, 11):
    from typing import dataclass_transform
else:
    from typing_extensions import dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(cls: type[T]) -> type[T]:
    """Make a frozen, slotted data class of a class with annotated names and words on what it is.

    What few classes need is left to `@dataclass`: inheritance, order, `__post_init__`, fields that `__init__` does not
    take or that comparisons leave out.

    Example:
        >>> @frozen
        ... class Place:
        ...     '''Where a line stands.'''
        ...     file: str
        ...     line: int = 1
        >>> Place("vllm.log"), Place("a", 2) == Place("a", line=2)
        (Place(file='vllm.log', line=1), True)
    """
    made = dataclass(init=False, repr=False, eq=False, slots=True)(cls)
    members = fields(made)  # type: ignore[arg-type]
    names = tuple(member.name for member in members)
    methods: dict[str, Callable[..., Any]] = {
        "__init__": _initialiser(made, members),
        "__setattr__": _refuse_to_set,
        "__delattr__": _refuse_to_delete,
        "__repr__": _representation(names),
        **_comparison(names),
        **_pickling(names),
    }
    for name, method in methods.items():
        if name not in cls.__dict__:
            setattr(made, name, method)
    return made


def _initialiser(made: type[Any], members: tuple[Field[Any], ...]) -> Callable[..., None]:
    """Compile `__init__`, which fills the slots past `__setattr__`."""
    known: dict[str, Any] = {"missing": MISSING}
    parameters, body = ["self"], []
    for member in members:
        name = value = member.name
        known[f"set_{name}"] = made.__dict__[name].__set__
        if member.default_factory is not MISSING:
            known[f"make_{name}"] = member.default_factory
            parameters.append(f"{name}=missing")
            value = f"make_{name}() if {name} is missing else {name}"
        elif member.default is not MISSING:
            known[f"default_{name}"] = member.default
            parameters.append(f"{name}=default_{name}")
        else:
            parameters.append(name)
        body.append(f"    set_{name}(self, {value})")
    exec("\n".join([f"def __init__({', '.join(parameters)}):", *body]), known)
    written: Callable[..., None] = known["__init__"]
    written.__qualname__ = f"{made.__qualname__}.__init__"
    return written


def _comparison(names: tuple[str, ...]) -> dict[str, Callable[..., Any]]:
    single = attrgetter(names[0])
    values = attrgetter(*names) if len(names) > 1 else lambda one: (single(one),)

    def equals(self: Any, other: object) -> Any:
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    return {"__eq__": equals, "__hash__": lambda self: hash(values(self))}


def _pickling(names: tuple[str, ...]) -> dict[str, Callable[..., Any]]:
    def restore(self: Any, state: list[Any]) -> None:
        for name, value in zip(names, state, strict=True):
            object.__setattr__(self, name, value)

    return {"__getstate__": lambda self: [getattr(self, name) for name in names], "__setstate__": restore}


def _representation(names: tuple[str, ...]) -> Callable[[Any], str]:
    def represent(self: Any) -> str:
        shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
        return f"{self.__class__.__qualname__}({shown})"

    return represent


def _refuse_to_set(self: Any, name: str, value: object) -> NoReturn:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_to_delete(self: Any, name: str) -> NoReturn:
    raise FrozenInstanceError(f"cannot delete field {name!r}")
