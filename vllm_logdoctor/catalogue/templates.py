"""Message templates as vLLM's sources hold them: literal text with places for values."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

# %s %d %.2f %5.1f %-10s %(name)s %%
_PERCENT = re.compile(r"%(?:\((?P<name>\w+)\))?[-+ #0]*(?:\d+|\*)?(?:\.\d+)?(?P<kind>[sdrifFeEgGxXoca%])")
# {} {0} {name:.2f} and the doubled braces that stand for themselves
_BRACE = re.compile(r"\{\{|\}\}|\{(?P<name>[^{}:!]*)(?:![rsa])?(?::(?P<format>[^{}]*))?\}")
_KINDS = {"d": "int", "i": "int", "x": "hex", "X": "hex", "o": "int"} | dict.fromkeys("fFeEgG", "float")


class Place(Struct, frozen=True):
    """A place for a value: its name, and its kind: "text", "int", "count" (with commas), "float" or "hex"."""

    name: str
    kind: str


Piece = str | Place


def pieces_of(template: str, style: str, names: Sequence[str] = ()) -> list[Piece]:
    """Return the literal texts and places of a template, in order.

    Args:
        template: as it stands in the source.
        style: "plain", "percent", "brace", or several of them joined by "+".
        names: names of the values, in order, as a hint; may be shorter.

    >>> pieces_of("took %.2f s on {}", "brace+percent", ["seconds", "device"])
    ['took ', Place(name='seconds', kind='float'), ' s on ', Place(name='device', kind='text')]
    """
    pieces: list[Piece] = [template]
    for part, placeholder in (("percent", _PERCENT), ("brace", _BRACE)):
        if part in style:
            pieces = [each for piece in pieces for each in _split(piece, placeholder)]
    return _named(_joined(pieces), names)


def _split(text: Piece, placeholder: re.Pattern[str]) -> Iterator[Piece]:
    if isinstance(text, Place):
        yield text
        return
    position = 0
    for found in placeholder.finditer(text):
        yield text[position : found.start()]
        position = found.end()
        if found[0] in ("%%", "{{", "}}"):
            yield found[0][0]
        else:
            yield Place(found["name"] or "", _kind(found))
    yield text[position:]


def _kind(found: re.Match[str]) -> str:
    groups = found.groupdict()
    letter = groups.get("kind") or (groups.get("format") or "s")[-1]
    return _KINDS.get(letter, "text")


def _joined(pieces: Sequence[Piece]) -> list[Piece]:
    found: list[Piece] = []
    for piece in pieces:
        if isinstance(piece, str) and found and isinstance(found[-1], str):
            found[-1] += piece
        elif piece != "":
            found.append(piece)
    return found


def _named(pieces: Sequence[Piece], names: Sequence[str]) -> list[Piece]:
    """Give each place a field name of its own."""
    hints = iter(names)
    taken: set[str] = set()
    found: list[Piece] = []
    for piece in pieces:
        if isinstance(piece, Place):
            name = field_name(next(hints, "") or piece.name)
            number = 2
            unique = name
            while unique in taken:
                unique = f"{name}_{number}"
                number += 1
            taken.add(unique)
            piece = replace(piece, name=unique)
        found.append(piece)
    return found


def field_name(hint: str) -> str:
    """Return a name for a field from the name of a variable, attribute or function.

    >>> field_name("self.max_model_len"), field_name("__name__"), field_name("expr")
    ('max_model_len', 'name', 'value')
    """
    plain = re.sub(r"\W+", "_", hint.rpartition(".")[2]).strip("_").lower()[:40].rstrip("_")
    if plain in _NO_NAMES or not plain or not plain[0].isalpha():
        return _NO_NAMES.get(plain, "value")
    return plain


_NO_NAMES = {
    "expr": "value",
    "str": "value",
    "repr": "value",
    "int": "number",
    "len": "number",
    "sum": "number",
    "join": "list",
    "e": "error",
    "ex": "error",
    "exc": "error",
    "err": "error",
    "x": "value",
    "msg": "message",
    "s": "value",
    "type": "type_name",
}
