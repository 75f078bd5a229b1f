"""Pack files to the compiled index: read, validated by the models, written as JSON lines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from vllm_logdoctor.catalogue.errors import PackError, Problem
from vllm_logdoctor.catalogue.index import Field, Pattern, gates_digest
from vllm_logdoctor.catalogue.model import FieldEntry, PackFile, PatternEntry
from vllm_logdoctor.catalogue.positions import Positions
from vllm_logdoctor.catalogue.stored import FORMAT, stored
from vllm_logdoctor.catalogue.toml import TOMLDecodeError, loads
from vllm_logdoctor.catalogue.values import compiled


def read_pack(path: Path) -> PackFile:
    """Return the pack in a file; raises PackError that names file, line and key of each problem."""
    return parse_pack(path, path.read_text(encoding="utf-8"))


def parse_pack(path: Path, text: str) -> PackFile:
    """Return the pack that a text holds; `path` is only for the problems' place."""
    try:
        document = loads(text)
    except TOMLDecodeError as error:
        raise PackError([_toml_problem(path, error)]) from error
    try:
        return PackFile.model_validate(document)
    except ValidationError as error:
        positions = Positions(text)
        problems = [
            Problem(path, positions.line_of(each["loc"]), _key_name(each["loc"]), _advice(each))
            for each in error.errors()
        ]
        raise PackError(problems) from error


def patterns_of(pack: PackFile) -> list[Pattern]:
    """Return the patterns of a pack as the runtime knows them."""
    return [runtime_pattern(entry, pack.pack.name) for entry in pack.pattern]


def runtime_pattern(entry: PatternEntry, pack: str, *, trusted: bool = True) -> Pattern:
    """Return one pattern as the runtime knows it."""
    return Pattern(
        id=entry.id,
        gates=tuple(entry.gate),
        regex=entry.regex,
        anywhere=entry.anywhere,
        fields=_fields(entry),
        event=entry.event or entry.id,
        level=entry.level,
        seen=entry.seen,
        module=entry.module,
        topic=entry.topic,
        platform=entry.platform,
        verdict=entry.verdict,
        severity=entry.severity,
        rule=entry.rule,
        meaning=entry.meaning,
        pack=pack,
        trusted=trusted,
    )


def _fields(entry: PatternEntry) -> tuple[Field, ...]:
    """Return the fields in the order of their groups; a group without an entry is a text."""
    plain = FieldEntry()
    try:
        names = compiled(entry.regex).groupindex
    except (re.error, OverflowError, RecursionError):
        # The checks name it; in an analysis it is reported once and left out.
        return ()
    entries = ((name, entry.fields.get(name, plain)) for name in names)
    return tuple(Field(name, each.type, each.unit, each.sensitive) for name, each in entries)


def index_bytes(
    patterns: Iterable[Pattern], sources: Mapping[str, tuple[str, int]], more_gates: Iterable[str] = ()
) -> bytes:
    """Return the compiled file of patterns.

    Args:
        patterns: all patterns in the order of their files.
        sources: for each file its fingerprint and number of patterns, in the same order.
        more_gates: literals that select a line without a pattern behind them (signatures of rule pages).
    """
    shared: dict[str, int] = {}
    signatures = frozenset(more_gates)
    by_gate: dict[str, list[int]] = {gate: [] for gate in signatures}
    rows = []
    for number, pattern in enumerate(patterns):
        rows.append(_encode(pattern, shared))
        for gate in pattern.gates:
            by_gate.setdefault(gate, []).append(number)
    gates = sorted(by_gate)
    head = {
        "format": FORMAT,
        "sources": {name: list(value) for name, value in sources.items()},
        "count": len(rows),
        "digest": gates_digest(gates),
        "signatures": [number for number, gate in enumerate(gates) if gate in signatures],
    }
    return stored(head, {gate: by_gate[gate] for gate in gates}, rows, list(shared))


def _encode(pattern: Pattern, shared: dict[str, int]) -> list[Any]:
    """Return the line of a pattern; strings that many patterns share stand once, in the head."""

    def number(text: str) -> int:
        return shared.setdefault(text, len(shared))

    return [
        pattern.id,
        pattern.gates,
        pattern.regex,
        int(pattern.anywhere),
        [_encode_field(field) for field in pattern.fields],
        None if pattern.event == pattern.id else pattern.event,
        pattern.rule,
        number(pattern.level),
        number(pattern.seen),
        number(pattern.module),
        number(pattern.topic),
        number(pattern.platform or ""),
        number(pattern.verdict),
        number(pattern.severity),
        number(pattern.meaning),
        number(pattern.pack),
    ]


def _encode_field(field: Field) -> str | list[str | int | None]:
    if field.type == "str" and field.unit is None and not field.sensitive:
        return field.name
    return [field.name, field.type, field.unit, int(field.sensitive)]


def _toml_problem(path: Path, error: Exception) -> Problem:
    text = str(error)
    place = text.rpartition("(at line ")[2].partition(",")[0]
    line = int(place) if place.isdigit() else 1
    return Problem(path, line, "TOML", f"{text.partition(' (at ')[0]}; write regexes between single quotes")


def _key_name(location: Sequence[int | str]) -> str:
    return ".".join(str(part) for part in location)


def _advice(error: Mapping[str, Any]) -> str:
    """Say in one sentence what is wrong with a value and what to write instead."""
    kind, given, context = error["type"], error.get("input"), error.get("ctx", {})
    if kind == "missing":
        return "is missing; add it"
    if kind == "extra_forbidden":
        return "is no key of the pack format; remove it or correct its name (logdoctor patterns schema)"
    if kind == "literal_error":
        return f"is {given!r}; write one of {context.get('expected')}"
    if kind == "string_pattern_mismatch":
        return f"is {given!r}; write small letters, digits and single hyphens (fields: underscores)"
    if kind == "too_short":
        return "is empty; write at least one entry"
    return f"is {given!r}: {error['msg'].lower()}"
