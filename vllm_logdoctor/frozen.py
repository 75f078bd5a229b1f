"""Slotted data classes, frozen or not, that cost little to define.

`@dataclass(frozen=True, slots=True)` compiles six functions for a class while its module is imported: 0.8 ms on Python
3.11, and a diagnosis has a hundred such classes, so that a third of the time for a small log went into defining them.
A class under `@frozen` or `@slotted` is such a data class to its users (`fields`, `replace`, `asdict`, `match`, `copy` and `pickle`
know it); its `__init__` is compiled once for all classes with as many fields, all else is shared code over their names.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import MISSING, Field, FrozenInstanceError, dataclass, field, fields
from functools import cache
from operator import attrgetter
from types import CodeType, FunctionType
from typing import Any, NoReturn, TypeVar

if sys.version_info >= (3, 11):
    from typing import dataclass_transform
else:
    from typing_extensions import dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(cls: type[T]) -> type[T]:
    """Make a frozen, slotted data class of a class with annotated names and words on what it is.

    What few classes need is left to `@dataclass`: inheritance, order, `__post_init__`, `ClassVar`, fields that `__init__`
    does not take or that comparisons leave out.

    Example:
        >>> @frozen
        ... class Place:
        ...     '''Where a line stands.'''
        ...     file: str
        ...     line: int = 1
        >>> Place("vllm.log"), Place("a", 2) == Place("a", line=2)
        (Place(file='vllm.log', line=1), True)
    """
    refusing = {"__setattr__": _refuse_to_set, "__delattr__": _refuse_to_delete}
    return _defined(cls, _PAST_SETATTR, refusing, _frozen_comparison, _pickling)


@dataclass_transform(field_specifiers=(field,))
def slotted(cls: type[T]) -> type[T]:
    """Make a slotted data class whose fields may be set, as `@dataclass(slots=True)` does.

    Example:
        >>> @slotted
        ... class Tally:
        ...     '''How many were seen.'''
        ...     count: int = 0
        >>> tally = Tally()
        >>> tally.count += 1
        >>> tally
        Tally(count=1)
    """
    return _defined(cls, _AS_ATTRIBUTE, {"__hash__": None}, _comparison)


_PAST_SETATTR = "set_{number}(self, {value})"
_AS_ATTRIBUTE = "self.field_{number} = {value}"
"""How `__init__` fills a field: the second way is the quicker one, where no `__setattr__` refuses it."""


def _defined(
    cls: type[T],
    filling: str,
    methods: dict[str, Any],
    *by_names: Callable[[tuple[str, ...]], dict[str, Callable[..., Any]]],
) -> type[T]:
    """Make a data class with these methods and those that are made for the names of its fields, but for its own ones."""
    # For a class without words on it `dataclass` reads its signature, which takes longer than all the rest.
    cls.__doc__ = cls.__doc__ or cls.__name__
    written = cls.__annotations__
    # Annotations that are text would be searched for ClassVar and InitVar, field by field.
    cls.__annotations__ = dict.fromkeys(written, object)
    made = dataclass(init=False, repr=False, eq=False, slots=True)(cls)
    made.__annotations__ = written
    members = fields(made)  # type: ignore[arg-type]
    for member in members:
        member.type = written[member.name]
    names = tuple(member.name for member in members)
    methods = {
        "__init__": _initialiser(made, members, filling),
        "__repr__": _representation(names),
        **methods,
    }
    for more in by_names:
        methods.update(more(names))
    for name, method in methods.items():
        if name not in cls.__dict__:
            setattr(made, name, method)
    return made


def _initialiser(made: type[Any], members: tuple[Field[Any], ...], filling: str) -> Callable[..., None]:
    """Make `__init__` from the code that classes of one shape share: only names are put in."""
    known: dict[str, Any] = {"missing": MISSING}
    defaults: list[Any] = []
    for number, member in enumerate(members):
        known[f"set_{number}"] = made.__dict__[member.name].__set__
        if member.default_factory is not MISSING:
            known[f"make_{number}"] = member.default_factory
            defaults.append(MISSING)
        elif member.default is not MISSING:
            defaults.append(member.default)
        elif defaults:
            raise TypeError(f"field {member.name!r} has no default and follows one that has")
    code = _filled(tuple(member.default_factory is not MISSING for member in members), filling)
    names = [member.name for member in members]
    attributes = {f"field_{number}": name for number, name in enumerate(names)}
    named = code.replace(
        co_varnames=("self", *names), co_names=tuple(attributes.get(name, name) for name in code.co_names)
    )
    written = FunctionType(named, known, "__init__", tuple(defaults))
    written.__qualname__ = f"{made.__qualname__}.__init__"
    return written


@cache
def _filled(made: tuple[bool, ...], filling: str) -> CodeType:
    """Compile an `__init__` for so many fields, of which some are made by a factory: classes of one shape share it."""
    values = [
        f"make_{number}() if value_{number} is missing else value_{number}" if is_made else f"value_{number}"
        for number, is_made in enumerate(made)
    ]
    body = ["    " + filling.format(number=number, value=value) for number, value in enumerate(values)]
    parameters = ", ".join(["self", *(f"value_{number}" for number in range(len(made)))])
    written: dict[str, Any] = {}
    exec("\n".join([f"def __init__({parameters}):", *body]), written)
    code: CodeType = written["__init__"].__code__
    return code


def _comparison(names: tuple[str, ...]) -> dict[str, Callable[..., Any]]:
    values = _values(names)

    def equals(self: Any, other: object) -> Any:
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    return {"__eq__": equals}


def _frozen_comparison(names: tuple[str, ...]) -> dict[str, Callable[..., Any]]:
    values = _values(names)
    return {**_comparison(names), "__hash__": lambda self: hash(values(self))}


def _values(names: tuple[str, ...]) -> Callable[[Any], tuple[Any, ...]]:
    single = attrgetter(names[0])
    return attrgetter(*names) if len(names) > 1 else lambda one: (single(one),)


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
