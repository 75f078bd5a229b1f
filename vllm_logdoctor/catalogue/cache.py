"""Keeps the compiled index beside the packs, or in the user's cache directory, until a pack file changes."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from vllm_logdoctor.catalogue.index import Pattern, parse_index
from vllm_logdoctor.catalogue.locate import builtin_root, cache_directory, states_of_files
from vllm_logdoctor.catalogue.stored import FORMAT

SHIPPED = "index.jsonl"
COMPILED = ".index.jsonl"

Sources = dict[str, str]


def builtin_index() -> bytes:
    """Return the compiled packs that come with the tool."""
    root = builtin_root()
    shipped = root / SHIPPED
    if shipped.is_file():
        return shipped.read_bytes()
    return _fresh(root, [lambda: root / COMPILED, lambda: _cached(root)])


def extra_index(path: Path) -> bytes:
    """Return the compiled packs of one pack file or directory that others wrote."""
    return _fresh(path, [lambda: _cached(path)])


def fingerprint(root: Path) -> Sources:
    """Return size and time of change of every pack file and rule page below a directory."""
    states = {root.name: root.stat()} if root.is_file() else states_of_files(root)
    return {name: f"{state.st_size}-{state.st_mtime_ns}" for name, state in states.items()}


def _fresh(root: Path, places: Sequence[Callable[[], Path]]) -> bytes:
    """Return the stored index where it is still true, else compile, store where possible and return it."""
    wanted = fingerprint(root)
    stale = b""
    for place in places:
        data = _read(place())
        if data and _sources(data) == wanted:
            return data
        stale = stale or data
    data = _compile(root, wanted, dict(_reusable(stale, wanted)))
    for place in places:
        if _store(place(), data):
            break
    return data


def _compile(root: Path, wanted: Sources, reusable: dict[str, list[Pattern]]) -> bytes:
    """Compile what changed and take the rest from the index before."""
    from vllm_logdoctor.catalogue.compile import index_bytes, patterns_of, read_pack
    from vllm_logdoctor.catalogue.pages import page_gates

    patterns: list[Pattern] = []
    sources: dict[str, tuple[str, int]] = {}
    gates: list[str] = []
    for name, state in wanted.items():
        file = root if root.is_file() else root / name
        if file.suffix == ".md":
            gates.extend(page_gates(file))
            sources[name] = (state, 0)
            continue
        found = reusable[name] if name in reusable else patterns_of(read_pack(file))
        patterns.extend(found)
        sources[name] = (state, len(found))
    return index_bytes(patterns, sources, gates)


def _reusable(data: bytes, wanted: Sources) -> Iterator[tuple[str, list[Pattern]]]:
    """Yield the files of a stale index that did not change, with their patterns."""
    head = _head(data)
    if head.get("format") != FORMAT:
        return
    patterns = parse_index(data, trusted=True).patterns
    start = 0
    for name, (state, count) in head["sources"].items():
        if wanted.get(name) == state:
            yield name, list(patterns[start : start + count])
        start += count


def _sources(data: bytes) -> Sources | None:
    head = _head(data)
    if head.get("format") != FORMAT:
        return None
    return {name: state for name, (state, _) in head["sources"].items()}


def _head(data: bytes) -> dict[str, Any]:
    """Return format and sources of a compiled file, without the rest of its head; {} for anything else."""
    end = data.find(b',"count":')
    try:
        head = json.loads(data[:end] + b"}") if end > 0 else {}
    except ValueError:
        return {}
    return head if isinstance(head, dict) else {}


def _read(place: Path) -> bytes:
    try:
        return place.read_bytes()
    except OSError:
        return b""


def _store(place: Path, data: bytes) -> bool:
    """Write a compiled file in one step, so that a reader at the same time sees the old or the new."""
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        import tempfile

        handle, name = tempfile.mkstemp(dir=place.parent, prefix=".index-")
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.chmod(name, 0o644)
        os.replace(name, place)
    except OSError:
        return False
    return True


def _cached(root: Path) -> Path:
    """Return the place for a compiled directory in the user's cache directory."""
    from hashlib import blake2b

    key = blake2b(str(root.resolve()).encode(), digest_size=8).hexdigest()
    return cache_directory() / f"packs-{key}.jsonl"
