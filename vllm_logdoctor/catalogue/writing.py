"""Pack files as text: the models of this room written as TOML that a person would have written."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from vllm_logdoctor.catalogue.model import FieldEntry, FieldValue, PackFile, PatternEntry


def pack_text(pack: PackFile) -> str:
    """Return a pack as TOML.

    >>> from vllm_logdoctor.catalogue.model import PackHeader
    >>> print(pack_text(PackFile(pack=PackHeader(name="site", title="Our site"))), end="")
    [pack]
    name = "site"
    title = "Our site"
    """
    lines = ["[pack]", f"name = {_string(pack.pack.name)}", f"title = {_string(pack.pack.title)}"]
    if pack.pack.description:
        lines.append(f"description = {_string(pack.pack.description)}")
    for entry in pack.pattern:
        lines += ["", *pattern_lines(entry)]
    return "\n".join(lines) + "\n"


_TEXTS = ("event", "level", "seen", "module", "topic", "platform", "verdict", "severity", "rule", "meaning")


def pattern_lines(entry: PatternEntry) -> Iterator[str]:
    """Yield the lines of one pattern; keys with their default value are left out."""
    yield "[[pattern]]"
    yield f"id = {_string(entry.id)}"
    yield f"literal = [{', '.join(map(_string, entry.literal))}]"
    yield f"regex = {_literal(entry.regex)}"
    if entry.anywhere:
        yield "anywhere = true"
    for key in _TEXTS:
        value = getattr(entry, key)
        if value:
            yield f"{key} = {_string(value)}"
    if entry.knobs:
        yield f"knobs = [{', '.join(map(_string, entry.knobs))}]"
    if entry.fields:
        yield "[pattern.fields]"
        for name, field in entry.fields.items():
            yield f"{name} = {{ {_field(field)} }}"
    for sample in entry.samples:
        yield "[[pattern.samples]]"
        yield f"text = {_string(sample.text)}"
        if sample.values:
            yield f"values = {{ {_values(sample.values)} }}"
    for counter in entry.counter_samples:
        yield "[[pattern.counter_samples]]"
        yield f"text = {_string(counter.text)}"


def _field(field: FieldEntry) -> str:
    parts = [f"type = {_string(field.type)}"]
    if field.unit:
        parts.append(f"unit = {_string(field.unit)}")
    if field.sensitive:
        parts.append("sensitive = true")
    return ", ".join(parts)


def _values(values: Mapping[str, FieldValue]) -> str:
    return ", ".join(f"{name} = {_value(value)}" for name, value in values.items())


def _value(value: FieldValue) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value) if isinstance(value, (int, float)) else _string(str(value))


def _string(text: str) -> str:
    """Return a TOML basic string; JSON's escapes are a part of TOML's, DEL is not among them."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _literal(text: str) -> str:
    """Return a TOML literal string where the text allows one, as regexes read best."""
    plain = all(character >= " " and character != "\x7f" for character in text)
    if plain and "'" not in text:
        return f"'{text}'"
    if plain and "'''" not in text and not text.endswith("'"):
        return f"'''{text}'''"
    return _string(text)
