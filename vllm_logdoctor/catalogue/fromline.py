"""A draft pattern out of a real line of a log."""

from __future__ import annotations

import re
from collections.abc import Container
from pathlib import Path

from vllm_logdoctor.catalogue.drafting import Piece, Place, draft, literal_text
from vllm_logdoctor.catalogue.model import FieldEntry, PatternEntry, SampleEntry
from vllm_logdoctor.catalogue.naming import pattern_id
from vllm_logdoctor.catalogue.values import convert
from vllm_logdoctor.errors import LogdoctorError

# What changes from line to line: quoted texts, paths and addresses, then numbers.
_CHANGING = re.compile(
    r"'(?P<single>[^']*)'|\"(?P<double>[^\"]*)\"|(?P<address>\w+://\S+|(?:/[\w.@+-]+){2,}/?)"
    r"|(?P<float>(?<![\w.])-?\d+\.\d+(?![\w.]*\w))|(?P<int>(?<![\w.])-?\d+(?:,\d{3})*(?![\w.]*\w))"
)
_NAMES = {"single": "text", "double": "text", "address": "place", "float": "number", "int": "count"}


def read_line(reference: str) -> str:
    """Return the line that FILE:LINE names, the line counted from 1; raises LogdoctorError without one."""
    name, _, number = reference.rpartition(":")
    if not name or not number.isdigit():
        raise LogdoctorError(f"{reference!r} is no place in a file; write FILE:LINE", 2)
    path = Path(name)
    try:
        with path.open("rb") as file:
            for count, line in enumerate(file, start=1):
                if count == int(number):
                    return line.decode("utf-8", "replace").rstrip("\r\n")
    except OSError as error:
        raise LogdoctorError(f"{name}: {error.strerror}") from error
    raise LogdoctorError(f"{name} has no line {number}")


def pieces_of_message(message: str) -> list[Piece]:
    """Return a message with places where it holds numbers, quoted texts, paths and addresses.

    >>> pieces_of_message("took 12.5 s for 'x'")
    ['took ', Place(name='number', kind='float'), " s for '", Place(name='text', kind='text'), "'"]
    """
    pieces: list[Piece] = []
    counts: dict[str, int] = {}
    position = 0
    for found in _CHANGING.finditer(message):
        kind = str(found.lastgroup)
        quote = message[found.start()] if kind in ("single", "double") else ""
        pieces.append(message[position : found.start()] + quote)
        counts[kind] = counts.get(kind, 0) + 1
        number = counts[kind]
        name = _NAMES[kind] if number == 1 else f"{_NAMES[kind]}_{number}"
        pieces.append(Place(name, {"int": "count", "float": "float"}.get(kind, "text")))
        position = found.end() - len(quote)
    pieces.append(message[position:])
    return [piece for piece in pieces if piece != ""]


def draft_entry(message: str, level: str, module: str, taken: Container[str] = frozenset()) -> PatternEntry:
    """Return a draft pattern for a message, with the message as its sample.

    What a person must still judge (topic, verdict, meaning) is filled with words that say so. Raises
    LogdoctorError for a message with too little text of its own.
    """
    pieces = pieces_of_message(message)
    drafted = draft(pieces)
    if drafted is None:
        raise LogdoctorError("the line holds too little text of its own to be recognised by", 2)
    found = re.compile(drafted.regex, re.DOTALL).match(message)
    kinds = {name: kind for name, kind in drafted.fields if kind != "str"}
    values = {name: convert(found[name], kind) for name, kind in kinds.items()} if found else {}
    return PatternEntry(
        id=pattern_id(literal_text(pieces), taken),
        literal=[drafted.literal],
        regex=drafted.regex,
        level=level,  # type: ignore[arg-type]
        seen="any",
        module=module,
        topic="other",
        verdict="information",
        severity="low",
        meaning="Say here in one sentence what the message means and whether it harms.",
        fields={name: FieldEntry(type=kind) for name, kind in kinds.items()},  # type: ignore[arg-type]
        samples=[SampleEntry(text=message, values=values)],
    )
