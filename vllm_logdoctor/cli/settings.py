"""logdoctor.toml: defaults of the command line and suppressions, each with a reason and an expiry."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from vllm_logdoctor.catalogue.topics import Severity
from vllm_logdoctor.errors import LogdoctorError

FILE_NAME = "logdoctor.toml"


class Suppression(Struct, frozen=True):
    """A finding that is known and accepted for a time.

    Attributes:
        finding: rule id.
        reason: why it is accepted.
        until: last day on which it is.
        knob: only where this is the finding's first knob; "" for any.
        model: only for this model; "" for any.
    """

    finding: str
    reason: str
    until: date
    knob: str = ""
    model: str = ""


class Settings(Struct, frozen=True):
    """What a settings file says; empty where it says nothing.

    Attributes:
        path: the file, or None without one.
        objective: what advice is for.
        format: format of the report.
        patterns: directories with more pattern packs.
        fail_on: severity from which findings end in exit code 1.
        baseline: report whose findings are known.
        suppressions: findings that are accepted for a time.
    """

    path: Path | None = None
    objective: str | None = None
    format: str | None = None
    patterns: tuple[Path, ...] = ()
    fail_on: Severity | None = None
    baseline: Path | None = None
    suppressions: tuple[Suppression, ...] = ()


def find_settings(folder: Path, environ: Mapping[str, str]) -> Path | None:
    """Return the settings file that holds here, or None.

    LOGDOCTOR_CONFIG names it; else it is logdoctor.toml in `folder`, else in the user's configuration
    directory.

    Args:
        folder: the working directory.
        environ: environment.
    """
    named = environ.get("LOGDOCTOR_CONFIG")
    if named:
        return Path(named)
    home = environ.get("HOME", "")
    base = environ.get("XDG_CONFIG_HOME") or (f"{home}/.config" if home else "")
    places = [folder / FILE_NAME, *([Path(base) / "logdoctor" / FILE_NAME] if base else [])]
    return next((place for place in places if place.is_file()), None)


def read_settings(path: Path) -> Settings:
    """Read a settings file; paths in it are relative to its directory.

    Raises:
        LogdoctorError: can't be read (exit code 3), or says what is not known (2); names file and key.
    """
    return _settings(path, _parsed(path))


def with_known_findings(settings: Settings) -> Settings:
    """Return settings whose suppressions name findings by their present ids.

    Args:
        settings: what a file says; the messages of its packs are findings too.

    Raises:
        LogdoctorError: a suppression names a finding that nobody knows (exit code 2).
    """
    if not settings.suppressions:
        return settings
    from vllm_logdoctor.catalogue.explaining import known_ids, unknown

    ids = known_ids(settings.patterns)
    for number, entry in enumerate(settings.suppressions):
        if entry.finding not in ids:
            place = f"{settings.path}: suppress.{number}.finding"
            raise LogdoctorError(f"{place}: {unknown(entry.finding, list(ids))}", 2)
    present = tuple(replace(entry, finding=ids[entry.finding]) for entry in settings.suppressions)
    return replace(settings, suppressions=present)


def _parsed(path: Path) -> Mapping[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib

    try:
        return tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise LogdoctorError(f"can't read {path}: {error.strerror or error}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise LogdoctorError(f"{path}: {error}", 2) from error


def _settings(path: Path, parsed: Mapping[str, Any]) -> Settings:
    from pydantic import ValidationError

    from vllm_logdoctor.cli.settings_file import SettingsFile

    try:
        checked = SettingsFile.model_validate(parsed)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        raise LogdoctorError(f"{path}: {key}: {_mistake(first['type'], first['msg'])}", 2) from error
    folder = path.parent
    for number, place in enumerate(checked.patterns):
        if not (folder / place).exists():
            raise LogdoctorError(f"{path}: patterns.{number}: no such pattern pack: {folder / place}", 2)
    return Settings(
        path=path,
        objective=checked.objective,
        format=checked.format,
        patterns=tuple(folder / place for place in checked.patterns),
        fail_on=checked.fail_on,
        baseline=folder / checked.baseline if checked.baseline else None,
        suppressions=tuple(
            Suppression(entry.finding, entry.reason, entry.until, entry.knob, entry.model)
            for entry in checked.suppress
        ),
    )


def _mistake(kind: str, message: str) -> str:
    if kind == "extra_forbidden":
        return "no such key"
    if kind.startswith("date"):
        return "write a day as 2027-01-31"
    return message[:1].lower() + message[1:]
