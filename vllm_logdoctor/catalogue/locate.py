"""Where pack files are: in a checkout beside the package, in a wheel inside it."""

from __future__ import annotations

import os
import sys
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


def cache_directory() -> Path:
    """Return the directory for compiled packs when the pack directory itself can't be written."""
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "logdoctor"
