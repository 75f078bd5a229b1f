"""Whether a regex tells one number from another: where it does not, what it says of one line it says of all that differ in digits."""

from __future__ import annotations

from vllm_logdoctor.catalogue.regextree import Again, Chars, Choice, Look, Node, Repeat, tree

_DIGITS = frozenset(map(ord, "0123456789"))
_MANY = 9
"""Digits of the longest number that is looked for."""


def takes_any_number(regex: str) -> bool:
    """Say whether a regex takes any number wherever it takes one, however long.

    Example:
        >>> takes_any_number(r"Loop (?P<n>[0-9]+) of .{0,80} active")
        True
        >>> takes_any_number(r"signal 15"), takes_any_number(r"code \\d{3}")
        (False, False)
    """
    return _all_alike(tree(regex))


def _all_alike(nodes: tuple[Node, ...]) -> bool:
    # (?=(.*?, ))\1 takes what it looked at, and never less.
    return all(
        _is_alike(node) or _is_taken(node, before)
        for before, node in zip((None, *nodes), nodes, strict=False)
    )


def _is_taken(node: Node, before: Node | None) -> bool:
    return isinstance(node, Again) and isinstance(before, Look) and before.group == node.group


def _is_alike(node: Node) -> bool:
    match node:
        case Chars(allowed=allowed):
            return not allowed & _DIGITS
        case Repeat(body=(Chars(allowed=allowed),), least=least, most=most):
            return not allowed & _DIGITS or (allowed >= _DIGITS and least <= 1 and most >= _MANY)
        case Repeat(body=body) | Choice(bodies=(body,)) | Look(body=body, group=int()):
            return _all_alike(body)
        case Choice(bodies=bodies):
            return all(map(_all_alike, bodies))
        case _:
            # What a look ahead must not find is not in the tree; an earlier group may be a number.
            return False
