"""Merging of releases into the package data: expand the histories, put one release in, compress again."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from vllm_logdoctor.knowledge.extract.release import CallSite, ReleaseFacts
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
    _read_call_sites(folder, versions, releases)
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
    return dict(sorted(merged.items(), key=lambda item: _order(item[0])))


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
            {name: compress(versions, history) for name, history in sorted(histories.items())},
        )
    packed = json.dumps(_call_site_table(versions, releases), separators=(",", ":"), ensure_ascii=False)
    (folder / "call_sites.json.gz").write_bytes(gzip.compress(packed.encode(), 9, mtime=0))


def compress(versions: list[str], history: Mapping[str, Any]) -> list[list[Any]]:
    """Join neighbouring releases with the same facts into [first, last, facts].

    >>> compress(["1", "2", "3", "4"], {"1": {"default": 1}, "2": {"default": 1}, "4": {"default": 2}})
    [['1', '2', {'default': 1}], ['4', '4', {'default': 2}]]
    """
    joined: list[list[Any]] = []
    previous: str | None = None
    for version in versions:
        if version in history:
            if previous in history and joined and joined[-1][2] == history[version]:
                joined[-1][1] = version
            else:
                joined.append([version, version, history[version]])
        previous = version
    return joined


def _order(version: str) -> Any:
    parsed = parse_version(version)
    assert parsed is not None
    return parsed.sort_key


def _write_text(path: Path, table: Mapping[str, Any]) -> None:
    # One entry per line: a new release then shows as a readable difference.
    lines = ",\n".join(
        f"{json.dumps(name)}:{json.dumps(entry, separators=(',', ':'), ensure_ascii=False)}"
        for name, entry in table.items()
    )
    path.write_text("{\n" + lines + "\n}\n", encoding="utf-8")


def _call_site_table(versions: list[str], releases: Mapping[str, ReleaseFacts]) -> Facts:
    histories: dict[CallSite, dict[str, list[int]]] = {}
    for release in releases.values():
        for site, lines in release.call_sites.items():
            histories.setdefault(site, {})[release.version] = list(lines)
    files: dict[str, list[Any]] = {}
    for site, history in sorted(histories.items()):
        # Release numbers instead of texts: this table is the big one.
        spans = [
            [versions.index(a), versions.index(b), *lines] for a, b, lines in compress(versions, history)
        ]
        files.setdefault(site.base, []).append([site.template, site.style, spans])
    return {"versions": versions, "files": files}


def _read_call_sites(folder: Path, versions: list[str], releases: Mapping[str, ReleaseFacts]) -> None:
    table = json.loads(gzip.decompress((folder / "call_sites.json.gz").read_bytes()))
    for base, sites in table["files"].items():
        for template, style, spans in sites:
            for first, last, *lines in spans:
                for version in versions[first : last + 1]:
                    releases[version].call_sites[CallSite(base, template, style)] = tuple(lines)
