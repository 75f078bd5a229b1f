"""All patterns of one analysis: those of the tool, those that the user names, those that packages bring.

Reading pack files takes longer than a small analysis. So the patterns of each folder are kept compiled: in a wheel
beside the packs, in a checkout and for packs of others in a file that is made anew when a pack file changes.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

import msgspec
from msgspec import Struct

from vllm_logdoctor.catalogue.errors import PackError, Problem
from vllm_logdoctor.catalogue.index import PackIndex, Pattern, build_index, join_indexes
from vllm_logdoctor.catalogue.locate import builtin_root, cache_directory, pack_files, page_files
from vllm_logdoctor.files import keep_bytes, kept_bytes

SHIPPED = "index.json"
COMPILED = ".index.json"
FORMAT = 5


class CompiledPacks(Struct):
    """The patterns of a folder or file, ready to use.

    Attributes:
        sources: size and time of change of each file that they were read from, by its name.
        index: the patterns that can be used.
        problems: a line for each pattern or file that can't.
    """

    format: int
    sources: dict[str, str]
    index: PackIndex
    problems: tuple[str, ...]


def load_index(extra: Sequence[Path] = ()) -> PackIndex:
    """Return the patterns of the tool and those in the directories or files in `extra` that can be used.

    >>> index = load_index()
    >>> len(index.literals) == len(index.patterns_by_literal)
    True
    """
    return load_all(extra, installed=False)[0]


def load_all(named: Sequence[Path] = (), *, installed: bool = True) -> tuple[PackIndex, tuple[str, ...]]:
    """Return the index over all packs, and a note for each pattern that is left out because it can't be used.

    Args:
        named: directories or files that the user names.
        installed: whether packs of installed packages are wanted too.
    """
    parts = [_builtin_at(builtin_root())]
    notes: list[str] = []
    for path in [*named, *(_installed(notes) if installed else ())]:
        part = _kept(path, [_cached(path)], trusted=False)
        parts.append(part)
        notes += [f"pattern left out: {problem}" for problem in part.problems]
    index = parts[0].index if len(parts) == 1 else join_indexes([part.index for part in parts])
    return index, tuple(notes)


def compile_folder(root: Path, *, trusted: bool) -> CompiledPacks:
    """Return the patterns below a directory, or in a file; what can't be used is named and left out."""
    return _compile(root, _sources(root), trusted=trusted)


def _installed(notes: list[str]) -> list[Path]:
    try:
        return installed_packs()
    except PackError as error:
        notes += [f"installed pack left out: {problem}" for problem in error.problems]
    except Exception as error:
        # An entry point runs the code of its package, which may fail in any way.
        notes.append(f"installed packs left out: {type(error).__name__}: {error}")
    return []


@cache
def _builtin_at(root: Path) -> CompiledPacks:
    """Read the patterns of the tool once in a process: they take a third of the time of a small analysis."""
    shipped = _read(root / SHIPPED)
    return shipped or _kept(root, [root / COMPILED, _cached(root)], trusted=True)


def _kept(root: Path, places: Sequence[Path], *, trusted: bool) -> CompiledPacks:
    """Return what is stored where that is still true, else compile, store where possible and return it."""
    sources = _sources(root)
    for place in places:
        stored = _read(place)
        if stored is not None and stored.sources == sources:
            return stored
    compiled = _compile(root, sources, trusted=trusted)
    any(keep_bytes(place, msgspec.json.encode(compiled)) for place in places)
    return compiled


def _compile(root: Path, sources: Mapping[str, str], *, trusted: bool) -> CompiledPacks:
    from vllm_logdoctor.catalogue.packs import usable_patterns
    from vllm_logdoctor.catalogue.pages import page_literals

    patterns: list[Pattern] = []
    literals: list[str] = []
    problems: list[str] = []
    for name in sources:
        file = root if root.is_file() else root / name
        if file.suffix == ".md":
            literals.extend(page_literals(file))
            continue
        found, wrong = usable_patterns(file, trusted=trusted)
        patterns += found
        problems += map(str, wrong)
    return CompiledPacks(FORMAT, dict(sources), build_index(patterns, literals), tuple(problems))


def _sources(root: Path) -> dict[str, str]:
    """Return size and time of change of every pack file and rule page below a directory."""
    files = [root] if root.is_file() else [*pack_files(root), *page_files(root)]
    states = {
        path.relative_to(root if root.is_dir() else root.parent).as_posix(): path.stat() for path in files
    }
    return {name: f"{state.st_size}-{state.st_mtime_ns}" for name, state in states.items()}


def _read(place: Path) -> CompiledPacks | None:
    with suppress(OSError, msgspec.MsgspecError):
        compiled = msgspec.json.decode(kept_bytes(place), type=CompiledPacks)
        return compiled if compiled.format == FORMAT else None
    return None


def _cached(root: Path) -> Path:
    """Return the place for the patterns of a directory in the user's cache directory."""
    from hashlib import blake2b

    key = blake2b(str(root.resolve()).encode(), digest_size=8).hexdigest()
    return cache_directory() / f"packs-{key}.json"


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
