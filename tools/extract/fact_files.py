"""Conversion of a folder of mined facts (flags.json, env-vars.json, ...) into facts per release."""

from __future__ import annotations

import ast
import gzip
import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from tools.extract.release import PrintedMessage, ReleaseFacts
from vllm_logdoctor.knowledge.store import Facts

_FORMS = {"BooleanOptionalAction": "switch-pair", "store_true": "switch", "StoreBoolean": "boolean"}
# {}   {0}   {name:?}
_RUST_PLACE = re.compile(r"\{(?!\{)[^{}]*\}")
_OWNERS = {"EngineArgs": "engine", "AsyncEngineArgs": "engine"}


def releases_from_fact_files(folder: Path) -> Iterator[ReleaseFacts]:
    """Facts of every release that `folder` describes, oldest first.

    Raises OSError where a file is missing, KeyError where one has another shape.
    """
    flags = _read(folder / "flags.json")
    variables = _read(folder / "env-vars.json")
    fields = _read(folder / "config-fields.json")
    versions: list[str] = flags["versions"]
    messages = _messages(folder, versions)
    for version in versions:
        yield ReleaseFacts(
            version,
            flags=_at(version, versions, flags["flags"].items(), _flag),
            variables=_at(
                version, versions, ((n, v["history"]) for n, v in variables["vars"].items()), _variable
            ),
            fields=_at(version, versions, _flat_fields(fields["classes"]), _field),
            messages=messages[version],
        )


def _read(path: Path) -> Facts:
    content: Facts = json.loads(path.read_bytes())
    return content


def _at(
    version: str, versions: list[str], histories: Iterable[tuple[str, list[Facts]]], convert: Any
) -> dict[str, Facts]:
    place = versions.index(version)
    return {
        name: convert(name, run)
        for name, history in histories
        for run in history
        if versions.index(run["from"]) <= place <= versions.index(run["to"])
    }


def _flag(name: str, run: Facts) -> Facts:
    action = run.get("action")
    facts: Facts = {"default": run.get("default"), "form": _FORMS.get(action or "", "value")}
    if run.get("default_is_expr"):
        facts["default_is_source"] = True
    for key in ("choices", "aliases"):
        if run.get(key):
            facts[key] = run[key]
    if run.get("deprecated") or run.get("deprecated_in_help"):
        facts["deprecated"] = True
    if run.get("config"):
        facts["field"] = run["config"]
    facts["owner"] = _OWNERS.get(run["source"], "server")
    return facts


def _variable(name: str, run: Facts) -> Facts:
    # The reader's own fallback is what an unset variable means; the declared default is second best.
    text = run.get("getenv_default")
    return {"default": text if text is not None and _is_expression(text) else run.get("default")}


def _is_expression(text: str) -> bool:
    # Some mined fallbacks end at the first closing bracket.
    try:
        ast.parse(text, mode="eval")
    except SyntaxError:
        return False
    return True


def _flat_fields(classes: Facts) -> Iterator[tuple[str, list[Facts]]]:
    for class_name, fields in classes.items():
        for field_name, history in fields.items():
            yield f"{class_name}.{field_name}", history


def _field(name: str, run: Facts) -> Facts:
    return {"default": run.get("default")}


def _messages(folder: Path, versions: list[str]) -> dict[str, dict[PrintedMessage, tuple[int, ...]]]:
    found: dict[str, dict[PrintedMessage, tuple[int, ...]]] = {version: {} for version in versions}
    lines = {row["id"]: row["lines"] for row in _rows(folder / "message-lines.jsonl.gz")}
    for row in [*_rows(folder / "messages.jsonl.gz"), *_rows(folder / "messages-rust.jsonl.gz")]:
        # Reasons are embedded in other messages; nothing prints them by themselves.
        if row["level"] == "reason":
            continue
        message = _printed(row)
        for version in row["versions"]:
            found[version].setdefault(message, ())
        if message.level in ("raise", "warn", "print"):
            continue
        for first, last, places in lines.get(row.get("id"), ()):
            for version in versions[versions.index(first) : versions.index(last) + 1]:
                known = found[version].get(message, ())
                found[version][message] = tuple(sorted({*known, *places}))
    return found


def _printed(row: Facts) -> PrintedMessage:
    template, style, level = row["template"], row["style"], row["level"]
    if style == "rust":
        # The front-end in Rust prints "text key=value ..." for the fields of an event.
        template, style = _RUST_PLACE.sub("{}", template) + "{}", "brace"
    if row.get("kind") in ("warnings.warn", "deprecated-decorator"):
        level = "warn"
    return PrintedMessage(row["file"], template, "brace" if "brace" in style else style, level)


def _rows(path: Path) -> Iterator[Facts]:
    with gzip.open(path, "rt", encoding="utf-8") as stream:
        for line in stream:
            yield json.loads(line)
