"""Pack files: read, checked by their records, turned into the patterns that an analysis uses."""

from __future__ import annotations

from pathlib import Path

from msgspec import ValidationError, convert

from vllm_logdoctor.catalogue.errors import Location, PackError, Problem, misfit
from vllm_logdoctor.catalogue.expressions import problems_of_expression, regex_error
from vllm_logdoctor.catalogue.index import Field, Pattern
from vllm_logdoctor.catalogue.model import FieldEntry, PackFile, PatternEntry
from vllm_logdoctor.catalogue.positions import Positions
from vllm_logdoctor.catalogue.toml import TOMLDecodeError, loads
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
        raise PackError([_toml_problem(path, error)]) from error
    positions = Positions(text)
    tables = document.pop("pattern", [])
    try:
        header = convert(document, PackFile).pack
    except ValidationError as error:
        raise PackError([_problem(path, positions, (), error)]) from error
    if not isinstance(tables, list):
        raise PackError([Problem(path, positions.line_of(("pattern",)), "pattern", "write [[pattern]]")])
    entries, problems = [], []
    for number, table in enumerate(tables):
        try:
            entries.append(_entry(table))
        except ValidationError as error:
            problems.append(_problem(path, positions, ("pattern", number), error))
    return PackFile(header, tuple(entries)), problems


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
    same = {name: getattr(entry, name) for name in Pattern.__struct_fields__ if hasattr(entry, name)}
    return Pattern(
        **{**same, "fields": _fields(entry), "event": entry.event or entry.id},
        literals=entry.literal,
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


def _entry(table: object) -> PatternEntry:
    if isinstance(table, dict) and "gate" in table:
        table = {"literal": table["gate"], **{key: value for key, value in table.items() if key != "gate"}}
    return convert(table, PatternEntry)


def _problem(path: Path, positions: Positions, place: Location, error: ValidationError) -> Problem:
    key, message = misfit(error)
    location = (*place, *key)
    return Problem(path, positions.line_of(location), ".".join(map(str, location)), message)


def _toml_problem(path: Path, error: Exception) -> Problem:
    text = str(error)
    place = text.rpartition("(at line ")[2].partition(",")[0]
    line = int(place) if place.isdigit() else 1
    return Problem(path, line, "TOML", f"{text.partition(' (at ')[0]}; write regexes between single quotes")
