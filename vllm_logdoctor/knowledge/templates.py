"""Message templates as vLLM's sources write them, and the texts that they can print."""

from __future__ import annotations

import re
from typing import Literal

Style = Literal["plain", "percent", "brace"]
"""How placeholders are written: none, as %s and %d, or as {} (literal braces doubled; {} and %s can mix)."""

_PERCENT = r"%(?:\(\w+\))?[-+ #0]*(?:\d+|\*)?(?:\.(?:\d+|\*))?[diouxXeEfFgGcrsa]"
PERCENT_PLACEHOLDER = re.compile(_PERCENT)
"""One conversion of a %-format."""

_PIECES = {
    "percent": re.compile(rf"(?P<hole>{_PERCENT})|(?P<literal>%%)"),
    # An f-string can be given to a logger with arguments, so %s counts beside {}.
    "brace": re.compile(rf"(?P<hole>\{{\}}|{_PERCENT})|(?P<literal>\{{\{{|\}}\}}|%%)"),
}
_ESCAPED = {"%%": "%", "{{": "{", "}}": "}"}


def literal_parts(template: str, style: str) -> tuple[str, ...]:
    """The texts between the placeholders, in order; always one more than there are placeholders.

    >>> literal_parts("Using %s with %d%% of memory", "percent")
    ('Using ', ' with ', '% of memory')
    >>> literal_parts("chosen: {} of {{a, b}}", "brace")
    ('chosen: ', ' of {a, b}')
    """
    pieces = _PIECES.get(style)
    if pieces is None:
        return (template,)
    parts, text, end = [], "", 0
    for match in pieces.finditer(template):
        text += template[end : match.start()]
        end = match.end()
        if match["hole"]:
            parts.append(text)
            text = ""
        else:
            text += _ESCAPED[match["literal"]]
    return (*parts, text + template[end:])


def could_print(parts: tuple[str, ...], message: str) -> bool:
    """Return whether a template with these literal parts can have printed `message`.

    Placeholders match any text. A message of several lines may be given by its first line alone.

    >>> could_print(("Using ", " backend."), "Using Flash Attention backend.")
    True
    >>> could_print(("Using ", " backend."), "Using Flash Attention.")
    False
    """
    # Records lose the white space at their end.
    stripped = parts[-1].rstrip()
    return _fits(parts, message) or (stripped != parts[-1] and _fits((*parts[:-1], stripped), message))


def could_begin(parts: tuple[str, ...], message: str, least: int) -> bool:
    """Return whether `message` could be the begin of what a template prints: cut off, or broken by a line end in a value.

    Args:
        parts: the texts between the placeholders.
        message: the line.
        least: characters before the first placeholder that the line must share.

    >>> could_begin(("Failed to start the workspace: ", ". It is disabled."), "Failed to start the workspace: build failed", 24)
    True
    """
    first = parts[0]
    if len(message) < len(first):
        return len(message) >= least and first.startswith(message)
    return len(first) >= least and len(parts) > 1 and message.startswith(first)


def _fits(parts: tuple[str, ...], message: str) -> bool:
    first = parts[0].lstrip("\n")
    if "\n" in first and "\n" not in message:
        return message == _first_line(first)
    if not message.startswith(_first_line(first)):
        return False
    place = len(first)
    for number, part in enumerate(parts[1:], start=2):
        line = _first_line(part)
        last = number == len(parts)
        found = len(message) - len(line) if last and line == part else message.find(line, place)
        if found < place or not message.startswith(line, found):
            return False
        if line != part:
            return True
        place = found + len(part)
    return len(parts) > 1 or message == first


def _first_line(text: str) -> str:
    """Return a text, or the first of its lines as a log prints it, without white space at its end."""
    line, end, _ = text.partition("\n")
    return line.rstrip() if end else text
