"""Compiles the pages of failures into one JSON text, kept until a page changes."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from vllm_logdoctor.catalogue.locate import builtin_root, cache_directory, page_files, states_of_pages
from vllm_logdoctor.rules.failure.signatures import ChangeTemplate, Signature

FORMAT = 2
SHIPPED = "failures.json"
COMPILED = ".failures.json"
_SIGNATURE_KEYS = frozenset(Signature.__struct_fields__) - {"gates"} | {"gate"}
_CHANGE_KEYS = frozenset(ChangeTemplate.__struct_fields__)
_BULLET = re.compile(r"^(?:[-*]|\d+\.) +", re.MULTILINE)
_SPOKEN_OF = ("lifecycle", "serving")
_FENCE = re.compile(r"^```.*?^```\s*", re.MULTILINE | re.DOTALL)


def rules_text() -> str:
    """Return the compiled rules as JSON text."""
    root = builtin_root()
    shipped = root / SHIPPED
    if shipped.is_file():
        return shipped.read_text(encoding="utf-8")
    places = [root / COMPILED, cache_directory() / "failures.json"]
    wanted = _fingerprint(root)
    for place in places:
        stored = _stored(place, wanted)
        if stored is not None:
            return stored
    text = json.dumps(compile_pages(page_files(root)), ensure_ascii=False, separators=(",", ":"))
    for place in places:
        if _store(place, wanted, text):
            break
    return text


def compile_pages(files: Iterable[Path]) -> list[dict[str, Any]]:
    """Return the rows of all pages that hold signatures or tell of a failure."""
    rows = [page_row(path.read_text(encoding="utf-8")) for path in files]
    return [row for row in rows if row is not None]


def page_row(text: str) -> dict[str, Any] | None:
    """Return what a page says, or None for a page of another kind without signatures."""
    from vllm_logdoctor.catalogue.pages import split_sections
    from vllm_logdoctor.catalogue.toml import loads

    parts = text.split("+++\n", 2)
    front = loads(parts[1])
    if front["kind"] != "failure" and "signature" not in front and front["topic"] not in _SPOKEN_OF:
        return None
    sections = split_sections(_FENCE.sub("", parts[2]))
    return {
        "id": front["id"],
        "kind": front["kind"],
        "title": front["title"],
        "severity": front["severity"],
        "topic": front["topic"],
        "exhausts": front.get("exhausts"),
        "explain": front.get("explain", ""),
        "avoid": front.get("avoid", ""),
        "verify": _first_paragraph(sections.get("How to see that it worked", "")),
        "meaning": _first_paragraph(sections.get("What it means", "")),
        "changes": [_checked(change, _CHANGE_KEYS, front["id"]) for change in front.get("change", ())],
        "alternatives": _bullets(sections.get("What to do", "")),
        "signatures": [_signature_row(table, front["id"]) for table in front.get("signature", ())],
    }


def _signature_row(table: Mapping[str, Any], rule_id: str) -> dict[str, Any]:
    row = _checked(table, _SIGNATURE_KEYS, rule_id)
    row["gates"] = row.pop("gate")
    return row


def _checked(table: Mapping[str, Any], known: frozenset[str], rule_id: str) -> dict[str, Any]:
    strange = sorted(set(table) - known)
    if strange:
        raise ValueError(f"{rule_id}: {strange[0]} is no key here; write one of {', '.join(sorted(known))}")
    return dict(table)


def _first_paragraph(text: str) -> str:
    return " ".join(text.split("\n\n", 1)[0].split())


def _bullets(text: str) -> list[str]:
    """Return the points of a list, each as one line; without a list, the first paragraph."""
    if not _BULLET.search(text):
        return [_first_paragraph(text)] if text else []
    return [" ".join(piece.split("\n\n", 1)[0].split()) for piece in _BULLET.split(text)[1:]]


def _fingerprint(root: Path) -> str:
    states = states_of_pages(root).items()
    pages = (f"{name}:{state.st_size}:{state.st_mtime_ns}" for name, state in states)
    return f"{FORMAT} " + " ".join(pages)


def _stored(place: Path, wanted: str) -> str | None:
    try:
        head, _, text = place.read_text(encoding="utf-8").partition("\n")
    except (OSError, UnicodeDecodeError):
        return None
    return text if head == wanted else None


def _store(place: Path, wanted: str, text: str) -> bool:
    """Write in one step, so that a reader at the same time sees the old or the new."""
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        import tempfile

        handle, name = tempfile.mkstemp(dir=place.parent, prefix=".failures-")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(f"{wanted}\n{text}")
        os.chmod(name, 0o644)
        os.replace(name, place)
    except OSError:
        return False
    return True
