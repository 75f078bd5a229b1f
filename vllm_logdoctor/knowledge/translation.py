"""What a flag or variable of one release is called in another: kept, renamed, removed, or not there yet."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from vllm_logdoctor.knowledge.flags import Flag, flag_at, long_name
from vllm_logdoctor.knowledge.history import exists, first_with, first_without
from vllm_logdoctor.knowledge.renames import Rename, removal_note, renames
from vllm_logdoctor.knowledge.store import read_table
from vllm_logdoctor.knowledge.versions import VersionLike, release_number


class Kept(Struct, frozen=True):
    """The variable is declared in that version under its own name."""

    name: str


class Renamed(Struct, frozen=True):
    """Another knob does the job in that version.

    `to`: its name, present in that version; `kind`: flag or env; `key`: JSON key inside its value, if any;
    `value`: fixed value to give, if any; `inverted`: its meaning is the opposite; `note`: what else to know.
    """

    name: str
    to: str
    kind: Literal["flag", "env"]
    key: str | None
    value: str | None
    inverted: bool
    note: str


class Removed(Struct, frozen=True):
    """Gone, with nothing in its place: since which release, and what is known of the reason."""

    name: str
    since: str
    note: str


class NotYet(Struct, frozen=True):
    """Comes with a later release, and that version has nothing in its place."""

    name: str
    since: str


class UnknownKnob(Struct, frozen=True):
    """No known release has it, or the version is not known."""

    name: str


FlagTranslation = Flag | Renamed | Removed | NotYet | UnknownKnob
VariableTranslation = Kept | Renamed | Removed | NotYet | UnknownKnob


def translate_flag(flag: str, version: VersionLike) -> FlagTranslation:
    """What to write in that version for a flag of any version; a returned name always exists in that version.

    >>> answer = translate_flag("--speculative-model", "0.9.1"); answer.to, answer.key
    ('--speculative-config', 'model')
    """
    # A short form that the version lacks is the long one that it abbreviates elsewhere.
    name = _long_name_anywhere(flag)
    kept = flag_at(flag, version) or flag_at(name, version)
    if kept is not None:
        return kept
    if release_number(version) is None:
        return UnknownKnob(name)
    renamed = _renamed(name, version)
    return renamed or _gone("flags", name, version)


def translate_variable(name: str, version: VersionLike) -> VariableTranslation:
    """What to set in that version for an environment variable of any version.

    >>> translate_variable("VLLM_USE_V1", "0.12.0").since
    '0.11.1'
    """
    if release_number(version) is None:
        return UnknownKnob(name)
    if exists("variables", name, version):
        return Kept(name)
    return _renamed(name, version) or _gone("variables", name, version)


def _long_name_anywhere(flag: str) -> str:
    name = long_name(flag)
    if name.startswith("--"):
        positive = "--" + name.removeprefix("--no-")
        return positive if name not in read_table("flags") and positive in read_table("flags") else name
    for owner, entry in read_table("flags").items():
        if any(name in facts.get("aliases", ()) for _, _, facts in entry):
            return owner
    return name


def _renamed(name: str, version: VersionLike) -> Renamed | None:
    # Renames of one name are in order of preference; the first that this version has is the answer.
    for rename in renames():
        if rename.name != name or not rename.to:
            continue
        kind: Literal["flag", "env"] = "flag" if rename.to.startswith("--") else "env"
        if _available(rename, kind, version):
            key = None if rename.key is None else rename.key.rpartition(".")[2]
            return Renamed(name, rename.to, kind, key, rename.value, rename.inverted, rename.note)
    return None


def _available(rename: Rename, kind: Literal["flag", "env"], version: VersionLike) -> bool:
    if not exists("flags" if kind == "flag" else "variables", rename.to, version):
        return False
    owned = rename.key is not None and "." in rename.key
    return not owned or bool(exists("fields", rename.key or "", version))


def _gone(table: str, name: str, version: VersionLike) -> Removed | NotYet | UnknownKnob:
    removed = first_without(table, name, version)
    if removed is not None:
        return Removed(name, removed, removal_note(name))
    coming = first_with(table, name, version)
    return NotYet(name, coming) if coming is not None else UnknownKnob(name)
