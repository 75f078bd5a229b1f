"""The text of a message as its source expression writes it, with what is no literal as a placeholder."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from itertools import product

from msgspec import Struct

from vllm_logdoctor.knowledge.templates import PERCENT_PLACEHOLDER, Style

Assignments = Callable[[str], Sequence[ast.expr]]
"""Gives every expression that a name was set to above the place in question, oldest first."""

_DEEPEST = 8
_MOST_VARIANTS = 12


class Text(Struct, frozen=True):
    """Text in which `{}` stands for what is computed when `has_holes`, literal braces then being doubled."""

    template: str
    has_holes: bool = False

    def joined(self, other: Text) -> Text:
        """This text followed by the other, in one way of writing."""
        if self.has_holes == other.has_holes:
            return Text(self.template + other.template, self.has_holes)
        return Text(self._with_holes() + other._with_holes(), True)

    def _with_holes(self) -> str:
        return self.template if self.has_holes else _doubled(self.template)


_HOLE = Text("{}", True)


def texts_of(expression: ast.expr, names: Assignments) -> tuple[Text, ...]:
    """Every text that an expression can give, newest assignment last; () where nothing of it is literal.

    More than one where a branch decides: `"a" if x else "b"`, or a name set in several places.
    """
    texts = dict.fromkeys(_texts(expression, names, 0))
    return tuple(text for text in texts if _has_words(text))


def _has_words(text: Text) -> bool:
    return any(character.isalpha() for character in PERCENT_PLACEHOLDER.sub("", text.template))


def _texts(node: ast.expr, names: Assignments, depth: int) -> list[Text]:
    if depth > _DEEPEST:
        return [_HOLE]
    match node:
        case ast.Constant(value=str(value)):
            return [Text(value)]
        case ast.JoinedStr(values=values):
            return [_formatted(values)]
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            pairs = product(_texts(left, names, depth + 1), _texts(right, names, depth + 1))
            return [before.joined(after) for before, after in pairs][:_MOST_VARIANTS]
        case ast.BinOp(left=ast.Constant(value=str(value)), op=ast.Mod()):
            return [Text(value)]
        case ast.IfExp(body=body, orelse=other):
            return [*_texts(body, names, depth + 1), *_texts(other, names, depth + 1)]
        case ast.Call(func=ast.Attribute(value=owner, attr="format")):
            return [Text(_emptied(text.template), True) for text in _texts(owner, names, depth + 1)]
        case ast.Call(func=ast.Attribute(value=owner, attr="strip" | "lstrip" | "rstrip")):
            return _texts(owner, names, depth + 1)
        case ast.Name(id=name):
            texts = [text for value in names(name) for text in _texts(value, names, depth + 1)]
            return texts[-_MOST_VARIANTS:] or [_HOLE]
    return [_HOLE]


def _formatted(values: list[ast.expr]) -> Text:
    text = Text("")
    for value in values:
        match value:
            case ast.Constant(value=str(literal)):
                text = text.joined(Text(literal))
            case _:
                text = text.joined(_HOLE)
    return text


def _emptied(template: str) -> str:
    """The template of str.format with all field names and formats taken out of its braces."""
    kept, depth, place = [], 0, 0
    while place < len(template):
        pair = template[place : place + 2]
        if depth == 0 and pair in ("{{", "}}"):
            kept.append(pair)
            place += 2
            continue
        character = template[place]
        if character == "{":
            kept.append("{" * (depth == 0))
            depth += 1
        elif character == "}":
            depth -= 1
            kept.append("}" * (depth == 0))
        elif depth == 0:
            kept.append(character)
        place += 1
    return "".join(kept)


def _doubled(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


def style_of(text: Text, has_arguments: bool) -> Style:
    """How the placeholders of the text are written.

    >>> style_of(Text("GPU KV cache size: %s tokens"), has_arguments=True)
    'percent'
    """
    if text.has_holes:
        return "brace"
    return "percent" if has_arguments and PERCENT_PLACEHOLDER.search(text.template) else "plain"
