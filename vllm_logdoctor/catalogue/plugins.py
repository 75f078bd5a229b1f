"""Packs that other packages bring: entry points of the group `vllm_logdoctor.catalogue`.

An entry point names a module, or an attribute with the path of a directory or file of packs:

    [project.entry-points."vllm_logdoctor.packs"]
    our-site = "our_package.packs"
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from vllm_logdoctor.catalogue.errors import PackError, Problem

GROUP = "vllm_logdoctor.packs"
_METADATA = (".dist-info", ".egg-info")


def installed_packs() -> list[Path]:
    """Return the directories and files of packs that installed packages bring.

    Raises PackError for an entry point that names nothing usable.
    """
    if not _brings_packs(tuple(sys.path)):
        return []
    from importlib.metadata import entry_points

    return [_path_of(point.name, point.load()) for point in entry_points(group=GROUP)]


@cache
def _brings_packs(search_path: tuple[str, ...]) -> bool:
    """Return whether a package there names the group: reading all entry points through importlib takes longer than a small log."""
    return any(_mentions_group(folder) for folder in _metadata_folders(search_path))


def _metadata_folders(search_path: Iterable[str]) -> Iterator[str]:
    for place in search_path:
        try:
            with os.scandir(place or ".") as entries:
                yield from (entry.path for entry in entries if entry.name.endswith(_METADATA))
        except OSError:
            continue


def _mentions_group(folder: str) -> bool:
    try:
        with open(os.path.join(folder, "entry_points.txt"), "rb") as file:
            return GROUP.encode() in file.read()
    except OSError:
        return False


def _path_of(name: str, found: object) -> Path:
    """Return the path that an entry point names: a path, or the folder of a module or package."""
    if isinstance(found, (str, Path)):
        path = Path(found)
    else:
        path = Path(str(getattr(found, "__file__", "") or "")).parent
    if not path.exists() or path == Path("."):
        advice = "names no directory, file or module; let it point to one that holds *.toml"
        raise PackError([Problem(path, 1, f"entry point {name}", advice)])
    return path
