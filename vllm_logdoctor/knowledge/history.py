"""Lookup in the tables of package data: what held for a name in a release, when it came and when it went."""

from __future__ import annotations

from msgspec import Struct

from vllm_logdoctor.knowledge.store import Facts, eras, read_table
from vllm_logdoctor.knowledge.versions import VersionLike, known_versions, number_of, release_number


class ReleaseSpan(Struct, frozen=True):
    """Known releases `since` to `until`, included; `until` None: the newest known one still has it."""

    since: str
    until: str | None


def names(table: str) -> frozenset[str]:
    """Every name that any known release has in `table`."""
    return frozenset(read_table(table))


def facts_at(table: str, name: str, version: VersionLike) -> Facts | None:
    """What `table` says of `name` in the release nearest to `version`; None when absent or not known."""
    number = release_number(version)
    if number is None:
        return None
    for era in eras(table, name):
        if number_of(era.first) <= number <= number_of(era.last):
            return era.facts
    return None


def exists(table: str, name: str, version: VersionLike) -> bool | None:
    """Return whether `name` is in `table` for `version`; None when the version is not known."""
    if release_number(version) is None:
        return None
    return facts_at(table, name, version) is not None


def spans(table: str, name: str) -> tuple[ReleaseSpan, ...]:
    """When `name` was there, whatever its facts; more than one span where it went and came back."""
    last_known = str(known_versions()[-1])
    joined: list[tuple[str, str]] = []
    for era in eras(table, name):
        if joined and number_of(joined[-1][1]) + 1 == number_of(era.first):
            joined[-1] = (joined[-1][0], era.last)
        else:
            joined.append((era.first, era.last))
    return tuple(ReleaseSpan(first, None if last == last_known else last) for first, last in joined)


def first_without(table: str, name: str, version: VersionLike) -> str | None:
    """The release up to `version` that removed `name`; None when it was never there before, or still is."""
    number = release_number(version)
    if number is None:
        return None
    ends = [number_of(era.last) for era in eras(table, name)]
    gone = [end for end in ends if end < number]
    if not gone or facts_at(table, name, version) is not None:
        return None
    return str(known_versions()[max(gone) + 1])


def first_with(table: str, name: str, version: VersionLike) -> str | None:
    """The release after `version` that brings `name`; None when none does or it is there already."""
    number = release_number(version)
    if number is None or facts_at(table, name, version) is not None:
        return None
    coming = [n for era in eras(table, name) if (n := number_of(era.first)) > number]
    return str(known_versions()[min(coming)]) if coming else None
