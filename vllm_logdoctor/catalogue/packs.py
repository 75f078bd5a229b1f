"""Pack files: read, checked by the models, turned into the patterns that an analysis uses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from vllm_logdoctor.catalogue.errors import PackError, Problem
from vllm_logdoctor.catalogue.expressions import problems_of_expression, regex_error
from vllm_logdoctor.catalogue.index import Field, Pattern
from vllm_logdoctor.catalogue.model import FieldEntry, PackFile, PatternEntry
from vllm_logdoctor.catalogue.positions import Positions
from vllm_logdoctor.catalogue.toml import TOMLDecodeError, loads, toml_problem
from vllm_logdoctor.catalogue.values import compiled


def read_pack(path: Path) -> PackFile:
    """Return the pack in a file; raises PackError that names file, line and key of each problem."""
    return parse_pack(path, path.read_text(encoding="utf-8"))


def parse_pack(path: Path, text: str) -> PackFile:
    """Return the pack that a text holds; `path` is only for the problems' place."""
    pack, problems = parse_valid_patterns(path, text)
    if problems:
        raise PackError(problems)
    return pack


def parse_valid_patterns(path: Path, text: str) -> tuple[PackFile, list[Problem]]:
    """Return the pack that a text holds without the patterns that break the format, and what is wrong with those.

    Raises PackError for a text that is no pack at all.
    """
    try:
        document = loads(text)
    except TOMLDecodeError as error:
        raise PackError([toml_problem(path, error)]) from error
    positions = Positions(text)
    tables = document.pop("pattern", [])
    try:
        header = PackFile.model_validate(document).pack
    except ValidationError as error:
        raise PackError(_problems(path, positions, (), error)) from error
    if not isinstance(tables, list):
        raise PackError([Problem(path, positions.line_of(("pattern",)), "pattern", "write [[pattern]]")])
    entries, problems = [], []
    for number, table in enumerate(tables):
        try:
            entries.append(PatternEntry.model_validate(table))
        except ValidationError as error:
            problems += _problems(path, positions, ("pattern", number), error)
    return PackFile.model_construct(pack=header, pattern=entries), problems


def usable_patterns(path: Path, *, trusted: bool) -> tuple[list[Pattern], list[Problem]]:
    """Return the patterns of a file that an analysis can use, and a problem for each that it can't.

    Args:
        path: the pack file.
        trusted: the pack comes with the tool, whose tests validate it; expressions of others are checked here.
    """
    try:
        text = path.read_text(encoding="utf-8")
        pack, problems = parse_valid_patterns(path, text)
    except PackError as error:
        return [], list(error.problems)
    except (OSError, UnicodeDecodeError) as error:
        return [], [Problem(path, 1, "file", f"can't be read: {error}")]
    if trusted:
        return [runtime_pattern(entry, pack.pack.name) for entry in pack.pattern], problems
    positions = Positions(text)
    patterns = []
    for entry in pack.pattern:
        wrong = problems_of_expression(entry.regex, entry.literal, anywhere=entry.anywhere)
        if wrong:
            line = positions.line_of_id(entry.id)
            problems += [Problem(path, line, f"{entry.id}: {each.key[0]}", each.message) for each in wrong]
        else:
            patterns.append(runtime_pattern(entry, pack.pack.name, trusted=False))
    return patterns, problems


def runtime_pattern(entry: PatternEntry, pack: str, *, trusted: bool = True) -> Pattern:
    """Return one pattern as the runtime knows it."""
    return Pattern(
        id=entry.id,
        literals=tuple(entry.literal),
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
    if regex_error(entry.regex):
        # The validation names it.
        return ()
    entries = ((name, entry.fields.get(name, plain)) for name in compiled(entry.regex).groupindex)
    return tuple(Field(name, each.type, each.unit, each.sensitive) for name, each in entries)


def _problems(
    path: Path, positions: Positions, place: tuple[int | str, ...], error: ValidationError
) -> list[Problem]:
    found = []
    for each in error.errors():
        location = (*place, *each["loc"])
        found.append(Problem(path, positions.line_of(location), _key_name(location), _advice(each)))
    return found


def _key_name(location: Sequence[int | str]) -> str:
    return ".".join(str(part) for part in location)


def _advice(error: Mapping[str, Any]) -> str:
    """Return in one sentence what is wrong with a value and what to write instead."""
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
