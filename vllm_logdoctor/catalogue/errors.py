"""Problems of pack files and rule pages, each with its place and what to write instead."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from msgspec import Struct, ValidationError

from vllm_logdoctor.catalogue.model import FieldType, Level
from vllm_logdoctor.catalogue.topics import Safety, Severity, Topic, Verdict
from vllm_logdoctor.errors import LogdoctorError

Location = tuple[int | str, ...]
# Object contains unknown field `priorty` - at `$.signature[0]`      Expected `str` ... - at `key` in `$.fields`
_WRONG = re.compile(r"(?P<what>.*?)(?: - at (?:`key` in )?`\$\.?(?P<place>[^`]*)`)?", re.DOTALL)
_NAMED = re.compile(r"(?P<wrong>unknown|required) field `(?P<name>[^`]+)`")
_LISTS = {
    "topic": Topic,
    "verdict": Verdict,
    "severity": Severity,
    "level": Level,
    "safety": Safety,
    "type": FieldType,
}
"""Keys whose values are of a closed list."""


class Problem(Struct, frozen=True, order=True):
    """One problem in a pack file or rule page: where it is, what is wrong and what to write instead."""

    file: Path
    line: int
    key: str
    message: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.key}: {self.message}"


class PackError(LogdoctorError):
    """A pack can't be used; `problems` says why, one line each."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.lines = tuple(map(str, problems))
        self.problems = tuple(problems)


def misfit(error: ValidationError) -> tuple[Location, str]:
    """Return the key of a table that does not fit its record, and in one line what is wrong and what to write instead.

    Example:
        >>> misfit(ValidationError("Object missing required field `text` - at `$.samples[0]`"))
        (('samples', 0, 'text'), 'is missing; add it')
    """
    found = _WRONG.fullmatch(str(error))
    what, place = (found["what"], found["place"] or "") if found else (str(error), "")
    key = [int(part) if part.isdigit() else part for part in re.findall(r"\w+", place)]
    if named := _NAMED.search(what):
        what = (
            "is missing; add it"
            if named["wrong"] == "required"
            else f"{named[0]}: no key of the pack format, nor of a rule page; remove it or correct its name"
        )
        return (*key, named["name"]), what
    if "matching regex" in what:
        what += "; write small letters, digits and single hyphens (fields: underscores)"
    elif "of length >= 1" in what:
        what += "; write at least one entry"
    elif "enum value" in what and (choices := get_args(_LISTS.get(str(key[-1])))):
        what = f"{what.replace('Invalid enum value', 'is')}; write one of {', '.join(choices)}"
    return tuple(key), what
