"""logdoctor.toml: defaults of the command line and suppressions, each with a reason and an expiry."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, Struct, ValidationError, convert, field
from msgspec.structs import replace

from vllm_logdoctor.catalogue.topics import Severity
from vllm_logdoctor.errors import LogdoctorError, unknown_choice
from vllm_logdoctor.pipeline import OBJECTIVES
from vllm_logdoctor.report.writers import format_named

FILE_NAME = "logdoctor.toml"


Words = Annotated[str, Meta(pattern=r"\S")]
MOST_BYTES = 1 << 20


class Suppression(Struct, frozen=True, forbid_unknown_fields=True):
    """A finding that is known and accepted for a time: one `[[suppress]]` table.

    Attributes:
        finding: rule id.
        reason: why it is accepted.
        until: last day on which it is.
        knob: only where this is the finding's first knob; "" for any.
        model: only for this model; "" for any.
    """

    finding: Words
    reason: Words
    until: date
    knob: str = ""
    model: str = ""


class AskSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """The model that `--ask config` asks: the `[ask]` table. It alone makes nothing ask.

    Attributes:
        url: base address of an OpenAI-compatible endpoint.
        model: its name.
        timeout: seconds for one answer.
    """

    url: Words
    model: Words
    timeout: Annotated[float, Meta(ge=1, le=600)] = 120.0


class ToolSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """What a settings file says; empty where it says nothing.

    Attributes:
        objective: what advice is for.
        format: format of the report.
        patterns: directories with more pattern packs.
        fail_on: severity from which findings end in exit code 1.
        baseline: report whose findings are known.
        suppressions: findings that are accepted for a time.
        fleet: what `fleet add --cluster` needs here: queue, account, walltime ...
        ask: the model that `--ask config` asks.
        path: the file, or None without one.
    """

    objective: str | None = None
    format: str | None = None
    patterns: tuple[Path, ...] = ()
    fail_on: Severity | None = None
    baseline: Path | None = None
    suppressions: tuple[Suppression, ...] = field(default=(), name="suppress")
    fleet: dict[str, Any] = field(default_factory=dict)
    ask: AskSettings | None = None
    path: Path | None = None


def find_settings(folder: Path | None, environ: Mapping[str, str]) -> Path | None:
    """Return the settings file that holds here, or None.

    LOGDOCTOR_CONFIG names it; else it is logdoctor.toml in `folder`, else in the user's configuration
    directory.
    """
    named = environ.get("LOGDOCTOR_CONFIG")
    if named:
        return Path(named)
    home = environ.get("HOME", "")
    base = environ.get("XDG_CONFIG_HOME") or (f"{home}/.config" if home else "")
    places = [
        *([folder / FILE_NAME] if folder else []),
        *([Path(base) / "logdoctor" / FILE_NAME] if base else []),
    ]
    return next((place for place in places if os.path.isfile(place)), None)


def read_settings(path: Path) -> ToolSettings:
    """Read a settings file; paths in it are relative to its directory.

    Raises:
        LogdoctorError: can't be read (exit code 3), or says what is not known (2); names file and key.
    """
    return _settings(path, _parsed(path))


def with_known_findings(settings: ToolSettings) -> ToolSettings:
    """Return settings whose suppressions name findings by their present ids.

    Args:
        settings: what a file says; the messages of its packs are findings too.

    Raises:
        LogdoctorError: a suppression names a finding that nobody knows (exit code 2).
    """
    if not settings.suppressions:
        return settings
    from vllm_logdoctor.rules.explaining import known_ids, present_id, unknown

    ids = known_ids(settings.patterns)
    present = []
    for number, entry in enumerate(settings.suppressions):
        finding = present_id(entry.finding, ids)
        if finding is None:
            place = f"{settings.path}: suppress.{number}.finding"
            raise LogdoctorError(f"{place}: {unknown(entry.finding, list(ids))}", 2)
        present.append(replace(entry, finding=finding))
    return replace(settings, suppressions=tuple(present))


def _parsed(path: Path) -> Mapping[str, Any]:
    from vllm_logdoctor.catalogue.toml import TOMLDecodeError, loads

    try:
        # What is no file may have no end (/dev/zero) or wait for ever (a pipe).
        if path.exists() and not path.is_file():
            raise LogdoctorError(f"{path} is no file: settings are read from a file", 2)
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise LogdoctorError(f"{path} is larger than 1 MiB: this is no settings file", 2)
        return loads(data.decode("utf-8"))
    except OSError as error:
        raise LogdoctorError(f"can't read {path}: {error.strerror or error}") from error
    except RecursionError as error:
        raise LogdoctorError(f"{path}: nested too deep for a settings file", 2) from error
    except (TOMLDecodeError, UnicodeDecodeError) as error:
        raise LogdoctorError(f"{path}: {error}", 2) from error


def _settings(path: Path, parsed: Mapping[str, Any]) -> ToolSettings:
    folder = path.parent

    def resolved(kind: type, value: Any) -> Any:
        if kind is Path and isinstance(value, str):
            return folder / value
        raise ValidationError(f"Expected `str`, got `{type(value).__name__}`")

    if "path" in parsed:
        raise LogdoctorError(f"{path}: path: no such key", 2)
    try:
        settings = convert(parsed, ToolSettings, dec_hook=resolved)
    except ValidationError as error:
        raise LogdoctorError(f"{path}: {_mistake(str(error))}", 2) from error
    try:
        if settings.format is not None:
            settings = replace(settings, format=format_named(settings.format))
        if settings.objective not in (None, *OBJECTIVES):
            raise unknown_choice("objective", str(settings.objective), OBJECTIVES)
    except LogdoctorError as error:
        raise LogdoctorError(f"{path}: {error}", 2) from error
    for number, place in enumerate(settings.patterns):
        if not place.exists():
            raise LogdoctorError(f"{path}: patterns.{number}: no such pattern pack: {place}", 2)
    return replace(settings, path=path)


def _mistake(message: str) -> str:
    """Return a message of msgspec with the key first: "Expected `array`, got `int` - at `$.patterns`"."""
    words, _, place = message.partition(" - at `$")
    key = place.rstrip("`").replace("[", ".").replace("]", "").strip(".")
    if field_of := re.search(r"(unknown|required) field `(.*)`", words):
        key = f"{key}.{field_of[2]}".strip(".")
        return f"{key}: no such key" if field_of[1] == "unknown" else f"{key}: missing"
    if key.endswith("until"):
        words = "write a day as 2027-01-31"
    return f"{key}: {words[:1].lower()}{words[1:]}"
