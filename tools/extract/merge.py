"""Merging of releases into the package data: expand the histories, put one release in, compress again."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tools.extract.message_table import (
    read_message_table,
    release_order,
    runs_of_releases,
    write_message_table,
)
from tools.extract.release import ReleaseFacts
from vllm_logdoctor.knowledge.store import Facts
from vllm_logdoctor.knowledge.versions import parse_version

TABLES = ("flags", "variables", "fields")
_Histories = dict[str, dict[str, Facts]]


def read_releases(folder: Path) -> dict[str, ReleaseFacts]:
    """Every release in the data folder; empty where the folder holds none yet."""
    if not (folder / "versions.json").is_file():
        return {}
    versions: list[str] = json.loads((folder / "versions.json").read_bytes())["versions"]
    releases = {version: ReleaseFacts(version) for version in versions}
    for table in TABLES:
        for name, entry in json.loads((folder / f"{table}.json").read_bytes()).items():
            for first, last, facts in entry:
                for version in versions[versions.index(first) : versions.index(last) + 1]:
                    getattr(releases[version], table)[name] = facts
    for message, history in read_message_table(folder):
        for version, lines in history:
            releases[version].messages[message] = lines
    return releases


def merge(known: Mapping[str, ReleaseFacts], new: Iterable[ReleaseFacts]) -> dict[str, ReleaseFacts]:
    """`known` with each new release put in or replaced, in release order.

    Raises ValueError for a version that is not one.
    """
    merged = dict(known)
    for release in new:
        if parse_version(release.version) is None:
            raise ValueError(f"not a version: {release.version!r}")
        merged[release.version] = release
    return dict(sorted(merged.items(), key=lambda item: release_order(item[0])))


def write_releases(folder: Path, releases: Mapping[str, ReleaseFacts]) -> None:
    """Write the data files; the same releases give the same bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    versions = list(releases)
    _write_text(folder / "versions.json", {"versions": versions})
    for table in TABLES:
        histories: _Histories = {}
        for release in releases.values():
            for name, facts in getattr(release, table).items():
                histories.setdefault(name, {})[release.version] = facts
        _write_text(
            folder / f"{table}.json",
            {name: runs_of_releases(versions, history) for name, history in sorted(histories.items())},
        )
    write_message_table(folder, releases)


def _write_text(path: Path, table: Mapping[str, Any]) -> None:
    # One entry per line: a new release then shows as a readable difference.
    lines = ",\n".join(
        f"{json.dumps(name)}:{json.dumps(entry, separators=(',', ':'), ensure_ascii=False)}"
        for name, entry in table.items()
    )
    path.write_text("{\n" + lines + "\n}\n", encoding="utf-8")
