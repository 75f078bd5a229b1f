"""Regexes as trees: the standard library's own parser, turned into a few plain node types.

The checks of this package reason over what a regex can match; they need the tree, not the text.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from importlib import import_module
from typing import Any

from msgspec import Struct

_RENAMED = sys.version_info >= (3, 11)
constants: Any = import_module("re._constants" if _RENAMED else "sre_constants")
parser: Any = import_module("re._parser" if _RENAMED else "sre_parse")

_INLINE_CASE = re.compile(r"\(\?[a-zA-Z]*i[a-zA-Z]*[:)-]")

OTHER = -1
"""Stands for every character outside ASCII."""
ALPHABET = frozenset(range(128)) | {OTHER}
UNLIMITED = 1 << 30


class Chars(Struct, frozen=True):
    """One character out of a set of ASCII codes, with OTHER for all further characters."""

    allowed: frozenset[int]
    literal: str | None = None


class Repetition(Struct, frozen=True):
    """A body, `least` to `most` times."""

    body: tuple[Node, ...]
    least: int
    most: int


class Choice(Struct, frozen=True):
    """One of several bodies."""

    bodies: tuple[tuple[Node, ...], ...]


class Look(Struct, frozen=True):
    """A look at what follows (or went before) without moving on; it never gives back what it found.

    `group` is the number of the group that its body consists of, None where it is no single group.
    """

    body: tuple[Node, ...]
    group: int | None = None


class Again(Struct, frozen=True):
    """The text of an earlier group once more."""

    group: int


Node = Chars | Repetition | Choice | Look | Again


def tree(regex: str) -> tuple[Node, ...]:
    """Return the nodes of a regex; raises re.error where it is none.

    >>> tree("a?")
    (Repetition(body=(Chars(allowed=frozenset({97}), literal='a'),), least=0, most=1),)
    """
    return _nodes(parser.parse(regex))


def ignores_case(regex: str) -> bool:
    """Return whether a regex, or a part of it, ignores case.

    >>> ignores_case("(?i:a)b")
    True
    """
    return bool(re.compile(regex).flags & re.IGNORECASE) or bool(_INLINE_CASE.search(regex))


def _nodes(items: Iterable[Any]) -> tuple[Node, ...]:
    found: list[Node] = []
    for operation, argument in items:
        found.extend(_node(operation, argument))
    return tuple(found)


def _node(operation: Any, argument: Any) -> tuple[Node, ...]:
    if operation is constants.LITERAL:
        return (Chars(frozenset({_code(argument)}), chr(argument)),)
    if operation is constants.NOT_LITERAL:
        return (Chars(ALPHABET - {argument}),)
    if operation is constants.ANY:
        return (Chars(ALPHABET),)
    if operation is constants.IN:
        return (_set(argument),)
    if operation is constants.SUBPATTERN:
        return _nodes(argument[-1])
    if operation is constants.BRANCH:
        return (Choice(tuple(_nodes(body) for body in argument[1])),)
    if operation in _REPEATS:
        least, most, body = argument
        return (Repetition(_nodes(body), int(least), min(int(most), UNLIMITED)),)
    return _rarer(operation, argument)


def _rarer(operation: Any, argument: Any) -> tuple[Node, ...]:
    if operation is constants.ASSERT:
        return (Look(_nodes(argument[1]), _single_group(argument[1])),)
    if operation is constants.ASSERT_NOT:
        return (Look(()),)
    if operation is constants.GROUPREF:
        return (Again(int(argument)),)
    if operation is constants.GROUPREF_EXISTS:
        bodies = [_nodes(body) if body else () for body in argument[1:]]
        return (Choice(tuple(bodies)),)
    if operation is constants.AT:
        return ()
    return _nodes(argument)


def _single_group(items: Any) -> int | None:
    if len(items) == 1 and items[0][0] is constants.SUBPATTERN:
        group = items[0][1][0]
        return int(group) if group is not None else None
    return None


_REPEATS = tuple(
    getattr(constants, name)
    for name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT")
    if hasattr(constants, name)
)
_WORD = frozenset(code for code in range(128) if chr(code).isalnum() or chr(code) == "_")

_CATEGORIES = {
    constants.CATEGORY_DIGIT: frozenset(map(ord, "0123456789")) | {OTHER},
    constants.CATEGORY_SPACE: frozenset(map(ord, " \t\n\r\f\v\x1c\x1d\x1e\x1f")) | {OTHER},
    constants.CATEGORY_WORD: _WORD | {OTHER},
}
_NEGATED = {
    constants.CATEGORY_NOT_DIGIT: constants.CATEGORY_DIGIT,
    constants.CATEGORY_NOT_SPACE: constants.CATEGORY_SPACE,
    constants.CATEGORY_NOT_WORD: constants.CATEGORY_WORD,
}


def _set(items: Iterable[Any]) -> Chars:
    allowed: set[int] = set()
    negate = False
    for operation, argument in items:
        if operation is constants.NEGATE:
            negate = True
        elif operation is constants.LITERAL:
            allowed.add(_code(argument))
        elif operation is constants.RANGE:
            low, high = argument
            allowed.update(range(low, min(high, 127) + 1))
            allowed.update({OTHER} if high > 127 else ())
        elif argument in _NEGATED:
            # Some characters outside ASCII are digits, spaces or letters and some are not: OTHER is in both.
            allowed |= (ALPHABET - _CATEGORIES[_NEGATED[argument]]) | {OTHER}
        else:
            allowed |= _CATEGORIES[argument]
    if negate:
        allowed = set((ALPHABET - allowed) | {OTHER})
    literal = chr(next(iter(allowed))) if len(allowed) == 1 and OTHER not in allowed else None
    return Chars(frozenset(allowed), literal)


def _code(code: int) -> int:
    return code if code < 128 else OTHER
