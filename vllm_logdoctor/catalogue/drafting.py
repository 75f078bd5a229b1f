"""A pattern from a message: literal, regex in linear time, and fields."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

LONGEST_LITERAL = 40
SHORTEST_LITERAL = 6
ENOUGH_LITERAL = 90
"""A regex stops behind this much literal text: what follows tells no two messages apart."""
_CLOSING = {"'": "'", '"': '"', "`": "`", "[": "]", "<": ">"}
# Literals that any value may hold: two places with only this between them are one.
_WEAK = re.compile(r"[\s,.:;=/_|-]{0,2}$")
_NUMBERS = {
    "int": (r"-?\d+", "int"),
    "count": (r"-?\d[\d,]*", "int"),
    # 12.5   1e-05   nan   -inf
    "float": (r"[-+.\dainfe]+", "float"),
    "hex": (r"[0-9a-fA-Fx]+", "str"),
}


class Place(Struct, frozen=True):
    """A place for a value: its name, and its kind: "text", "int", "count" (with commas), "float" or "hex"."""

    name: str
    kind: str


Piece = str | Place


class Draft(Struct, frozen=True):
    """How to recognise messages; `fields` has (name, type) of each named group."""

    literal: str
    regex: str
    fields: tuple[tuple[str, str], ...]


def draft(pieces: Sequence[Piece]) -> Draft | None:
    """Return the draft for the first line of a message; None where it has too little literal text.

    >>> draft(["Loaded in ", Place("seconds", "float"), " s"]).regex
    'Loaded in (?P<seconds>[-+.\\\\dainfe]+) s'
    """
    line = _shortened(_merged(_first_line(pieces)))
    literal = _literal(line)
    if literal is None:
        return None
    return Draft(literal, *_regex(line))


def literal_text(pieces: Sequence[Piece]) -> str:
    """Return the literal text of a template without its places."""
    return "".join(piece for piece in pieces if isinstance(piece, str))


def _first_line(pieces: Sequence[Piece]) -> list[Piece]:
    """Return what the first printed line holds; vLLM prints a header before every further line."""
    found: list[Piece] = []
    for piece in pieces:
        if isinstance(piece, str) and not found:
            piece = piece.lstrip("\n")
        if isinstance(piece, str) and "\n" in piece:
            found.append(piece.partition("\n")[0])
            break
        found.append(piece)
    # The frame takes white space off the end of a message.
    if found and isinstance(found[-1], str):
        found[-1] = found[-1].rstrip()
    return [piece for piece in found if piece != ""]


def _merged(pieces: Sequence[Piece]) -> list[Piece]:
    """Make one place of a text and a value that no literal tells apart."""
    found: list[Piece] = []
    for piece in pieces:
        value = isinstance(piece, Place)
        before = found[-1] if found else ""
        if value and isinstance(before, Place):
            found[-1] = Place(before.name, "text")
            continue
        if value and len(found) > 1 and _is_text(found[-2]) and _WEAK.match(str(found[-1])):
            found.pop()
            continue
        found.append(piece)
    return found


def _shortened(pieces: Sequence[Piece]) -> list[Piece]:
    """Leave out what stands behind enough literal text."""
    found: list[Piece] = []
    length = 0
    for piece in pieces:
        if isinstance(piece, str):
            room = ENOUGH_LITERAL - length
            if len(piece) > room:
                cut = piece.rfind(" ", 0, room + 1)
                return [*found, piece[: cut if cut > SHORTEST_LITERAL else len(piece)]]
            length += len(piece)
        found.append(piece)
    return found


def _is_text(piece: Piece) -> bool:
    return isinstance(piece, Place) and piece.kind == "text"


def _literal(pieces: Sequence[Piece]) -> str | None:
    """Return the longest literal; its end rather than its start, which messages share more often."""
    longest = max((piece for piece in pieces if isinstance(piece, str)), key=len, default="")
    if len(longest.strip()) < SHORTEST_LITERAL:
        return None
    return longest if len(longest) <= LONGEST_LITERAL else longest[:LONGEST_LITERAL].rstrip()


def _regex(pieces: Sequence[Piece]) -> tuple[str, tuple[tuple[str, str], ...]]:
    parts: list[str] = []
    fields: list[tuple[str, str]] = []
    groups = 0
    taken = -1
    many = sum(map(_is_text, pieces[:-1])) > 1
    for number, piece in enumerate(pieces):
        if isinstance(piece, str):
            parts.extend([escape(piece)] if number != taken else [])
            continue
        pattern, kind = _group(piece, pieces, number)
        fields.append((piece.name, kind))
        named = f"(?P<{piece.name}>{pattern})"
        groups += 1
        if many and _open_ended(pieces, number) and number < len(pieces) - 2:
            # A look ahead takes place and literal for good; its own group stands before the named one.
            parts.append(rf"(?=({named}{escape(str(pieces[number + 1]))}))\{groups}")
            groups += 1
            taken = number + 1
        else:
            parts.append(named)
    return "".join(parts), tuple(fields)


def _group(place: Place, pieces: Sequence[Piece], number: int) -> tuple[str, str]:
    """Return the pattern inside a place's group, and its type."""
    if place.kind in _NUMBERS:
        return _NUMBERS[place.kind]
    before = pieces[number - 1] if number else ""
    after = pieces[number + 1] if number + 1 < len(pieces) else ""
    quote = _CLOSING.get(before[-1:]) if isinstance(before, str) else None
    if quote and isinstance(after, str) and after.startswith(quote):
        return f"[^{re.escape(quote)}]*", "str"
    if isinstance(after, Place):
        return r"\S*?", "str"
    return (".*" if number >= len(pieces) - 2 else ".*?"), "str"


def _open_ended(pieces: Sequence[Piece], number: int) -> bool:
    """Return whether a place can run over the literal behind it."""
    place = pieces[number]
    if isinstance(place, str) or number == len(pieces) - 1:
        return False
    return _group(place, pieces, number)[0] in (".*?", ".*")


def escape(text: str) -> str:
    """Escape a literal for a regex, without the escapes that `re.escape` makes for nothing.

    >>> escape("KV cache: (1.5 GiB) #2")
    'KV cache: \\\\(1\\\\.5 GiB\\\\) #2'
    """
    return re.sub(r"[\\.^$*+?{}\[\]|()]", r"\\\g<0>", text)
