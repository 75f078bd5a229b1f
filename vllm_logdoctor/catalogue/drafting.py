"""A draft pattern out of a real line of a log, as TOML that a person completes."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Container, Mapping
from pathlib import Path

from vllm_logdoctor.catalogue.message_ids import pattern_id
from vllm_logdoctor.catalogue.values import Value, convert
from vllm_logdoctor.errors import LogdoctorError

SHORTEST_LITERAL = 6
LONGEST_LITERAL = 40
# What changes from line to line: quoted texts, paths and addresses, then numbers.
_CHANGING = re.compile(
    r"'(?P<single>[^']*)'|\"(?P<double>[^\"]*)\"|(?P<address>\w+://\S+|(?:/[\w.@+-]+){2,}/?)"
    r"|(?P<float>(?<![\w.])-?\d+\.\d+(?![\w.]*\w))|(?P<int>(?<![\w.])-?\d+(?:,\d{3})*(?![\w.]*\w))"
)
_GROUPS = {
    "float": ("number", r"[-+.\dainfe]+"),
    "int": ("count", r"-?[\d,]+"),
    "address": ("place", r"\S+"),
    "single": ("text", "[^']*"),
    "double": ("text", '[^"]*'),
}


def read_line(reference: str) -> str:
    """Return the line that FILE:LINE names, the line counted from 1; raises LogdoctorError without one."""
    name, _, number = reference.rpartition(":")
    if not name or not number.isdigit():
        raise LogdoctorError(f"{reference!r} is no place in a file; write FILE:LINE", 2)
    if os.path.exists(name) and not os.path.isfile(name):
        raise LogdoctorError(f"{name}: no regular file; name a line of a log on disk")
    try:
        with Path(name).open("rb") as file:
            for count, line in enumerate(file, start=1):
                if count == int(number):
                    return line.decode("utf-8", "replace").rstrip("\r\n")
    except OSError as error:
        raise LogdoctorError(f"{name}: {error.strerror}") from error
    raise LogdoctorError(f"{name} has no line {number}")


def draft(message: str, level: str, module: str, pack: str, taken: Container[str] = frozenset()) -> str:
    """Return a pack with a draft pattern for a message, which is its sample; the words to judge it by are missing.

    Raises LogdoctorError for a message with too little text of its own.
    """
    regex, literals, kinds = _expression(message)
    literal = max(literals, key=len)[:LONGEST_LITERAL]
    if len(literal.strip()) < SHORTEST_LITERAL:
        raise LogdoctorError("the line holds too little text of its own to be recognised by", 2)
    found = re.match(regex, message, re.DOTALL)
    values = {name: convert(found[name], kind) for name, kind in kinds.items()} if found else {}
    lines = [
        "[pack]",
        f"name = {_string(pack)}",
        'title = "Lines of our own programs"',
        "",
        "[[pattern]]",
        f"id = {_string(pattern_id(' '.join(literals), taken))}",
        f"literal = [{_string(literal)}]",
        f"regex = {_raw(regex)}",
        f"level = {_string(level)}",
        'seen = "any"',
        *([f"module = {_string(module)}"] if module else []),
        'topic = "other"',
        'verdict = "information"',
        'severity = "low"',
        'meaning = "Say here in one sentence what the message means and whether it harms."',
        *(
            ["[pattern.fields]", *(f'{name} = {{ type = "{kind}" }}' for name, kind in kinds.items())]
            if kinds
            else []
        ),
        "[[pattern.samples]]",
        f"text = {_string(message)}",
        *([f"values = {{ {_table(values)} }}"] if values else []),
    ]
    return "\n".join(lines) + "\n"


def _expression(message: str) -> tuple[str, list[str], dict[str, str]]:
    """Return a regex for a message, the texts between what changes, and the types of the numbers by group.

    >>> _expression("took 12.5 s for 'x'")
    ("took (?P<number>[-+.\\\\dainfe]+) s for '(?P<text>[^']*)'", ['took ', " s for '", "'"], {'number': 'float'})
    """
    parts: list[str] = []
    literals: list[str] = []
    kinds: dict[str, str] = {}
    used: dict[str, int] = {}
    position = 0
    for found in _CHANGING.finditer(message):
        kind = str(found.lastgroup)
        name, group = _GROUPS[kind]
        used[name] = used.get(name, 0) + 1
        name = name if used[name] == 1 else f"{name}_{used[name]}"
        if kind in ("int", "float"):
            kinds[name] = kind
        literals.append(message[position : found.start(kind)])
        parts += (_escaped(literals[-1]), f"(?P<{name}>{group})")
        position = found.end(kind)
    literals.append(message[position:])
    return "".join(parts) + _escaped(literals[-1]), literals, kinds


def _escaped(text: str) -> str:
    """Escape a text for a regex, without the escapes that `re.escape` makes for nothing.

    >>> _escaped("KV cache: (1.5 GiB) #2")
    'KV cache: \\\\(1\\\\.5 GiB\\\\) #2'
    """
    return re.sub(r"[\\.^$*+?{}\[\]|()]", r"\\\g<0>", text)


def _table(values: Mapping[str, Value]) -> str:
    return ", ".join(f"{name} = {json.dumps(value)}" for name, value in values.items())


def _string(text: str) -> str:
    """Return a TOML basic string; JSON's escapes are a part of TOML's, DEL is not among them."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _raw(text: str) -> str:
    """Return a TOML literal string where the text allows one, as regexes read best."""
    plain = all(character >= " " and character != "\x7f" for character in text)
    if plain and "'" not in text:
        return f"'{text}'"
    return f"'''{text}'''" if plain and "'''" not in text and not text.endswith("'") else _string(text)
