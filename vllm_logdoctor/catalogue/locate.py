"""Where pack files are: in a checkout beside the package, in a wheel inside it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent


def builtin_root() -> Path:
    """Return the directory of the packs that come with the tool."""
    checkout = PACKAGE.parent / "patterns"
    if checkout.is_dir() and (PACKAGE.parent / "pyproject.toml").is_file():
        return checkout
    return PACKAGE / "_patterns"


def pack_files(root: Path) -> list[Path]:
    """Return the pack files below a directory, or the file itself, in a stable order."""
    if root.is_file():
        return [root] if root.suffix != ".md" else []
    files = (path for path in root.rglob("*.toml") if not path.name.startswith("."))
    return sorted(files, key=lambda path: (_turn(path.relative_to(root).parts[0]), path))


def _turn(folder: str) -> int:
    """Return when the packs of a folder are tried: what other rooms read by name first, foreign text last."""
    return {"core": 0, "plugins": 2, "foreign": 3}.get(folder, 1)


def page_files(root: Path) -> list[Path]:
    """Return the rule pages of a directory of packs, of a directory of pages, or the page itself, in a stable order."""
    if root.suffix == ".md":
        return [root]
    return sorted((root if root.resolve().name == "rules" else root / "rules").glob("*.md"))


def states_of_files(root: Path) -> dict[str, os.stat_result]:
    """Return what the file system says of each pack file and rule page, by its name below the root, in their order.

    Every start asks this of a checkout, for hundreds of files: it is made for speed.
    """
    packs = {
        name: entry.stat()
        for name, entry in _entries(str(root), "")
        if name.endswith(".toml") and not entry.name.startswith(".")
    }
    ordered = sorted(packs, key=lambda name: (_turn(name.split("/")[0]), name.split("/")))
    return {**{name: packs[name] for name in ordered}, **states_of_pages(root)}


def states_of_pages(root: Path) -> dict[str, os.stat_result]:
    """Return what the file system says of each rule page, in their order."""
    try:
        with os.scandir(root / "rules") as entries:
            pages = {f"rules/{entry.name}": entry.stat() for entry in entries if entry.name.endswith(".md")}
    except (FileNotFoundError, NotADirectoryError):
        return {}
    return {name: pages[name] for name in sorted(pages)}


def _entries(folder: str, prefix: str) -> Iterator[tuple[str, os.DirEntry[str]]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            name = prefix + entry.name
            if entry.is_dir(follow_symlinks=False):
                yield from _entries(entry.path, name + "/")
            else:
                yield name, entry


def cache_directory() -> Path:
    """Return the directory for compiled packs when the pack directory itself can't be written."""
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "logdoctor"
