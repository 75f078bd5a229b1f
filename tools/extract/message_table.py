"""The table of all messages that vLLM prints or raises: written release by release, read back for the next merge.

The file holds JSON lines in two gzip members: what is logged, by module, which most analyses ask for; and what is raised,
each with its longest literal, by which it is looked up. `vllm_logdoctor.knowledge.messages` reads it.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tools.extract.release import PrintedMessage, ReleaseFacts
from vllm_logdoctor.knowledge.templates import literal_parts
from vllm_logdoctor.knowledge.versions import parse_version

NAME = "messages.jsonl.gz"
_Row = list[Any]


def write_message_table(folder: Path, releases: Mapping[str, ReleaseFacts]) -> None:
    """Write the table; the same releases give the same bytes."""
    versions = list(releases)
    rows = _rows(versions, releases)
    logged = [[versions], *_by_module(row for row in rows if row[3] != "raise")]
    raised = sorted(
        [longest_literal(template, style), module, template, style, spans]
        for module, template, style, level, spans in rows
        if level == "raise"
    )
    (folder / NAME).write_bytes(_packed(logged) + _packed(raised))


def read_message_table(folder: Path) -> Iterable[tuple[PrintedMessage, list[tuple[str, tuple[int, ...]]]]]:
    """Yield each message with the releases that print it and its lines there."""
    lines = gzip.decompress((folder / NAME).read_bytes()).decode("utf-8").splitlines()
    [versions] = json.loads(lines[0])
    for row in map(json.loads, lines[1:]):
        raised = len(row) > 2
        messages = [[row[2], row[3], "raise", row[4]]] if raised else row[1]
        for template, style, level, spans in messages:
            history = [
                (version, tuple(places))
                for first, last, *places in spans
                for version in versions[first : last + 1]
            ]
            yield PrintedMessage(row[raised], template, style, level), history


def longest_literal(template: str, style: str) -> str:
    """Return the longest text without a placeholder in the first line that a template prints.

    >>> longest_literal("took {} s to load", "brace")
    ' s to load'
    """
    line = template.lstrip("\n").split("\n", 1)[0]
    return max(literal_parts(line, style), key=len)


def runs_of_releases(versions: list[str], history: Mapping[str, Any]) -> list[list[Any]]:
    """Join neighbouring releases with the same facts into [first, last, facts].

    >>> runs_of_releases(["1", "2", "3", "4"], {"1": {"default": 1}, "2": {"default": 1}, "4": {"default": 2}})
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


def release_order(version: str) -> Any:
    """Return a key under which releases sort."""
    parsed = parse_version(version)
    assert parsed is not None
    return parsed.sort_key


def _rows(versions: list[str], releases: Mapping[str, ReleaseFacts]) -> list[_Row]:
    """Return [module, template, style, level, spans] of each message; a file that moved keeps its newest path."""
    histories: dict[tuple[str, str, str, str], dict[str, list[int]]] = {}
    modules: dict[tuple[str, str, str, str], str] = {}
    for version, release in releases.items():
        for message, lines in release.messages.items():
            # Files in Python move between folders; those in Rust are many of one name.
            file = message.module if message.module.endswith(".rs") else message.base
            key = (file, message.template, message.style, message.level)
            modules[key] = message.module
            known = histories.setdefault(key, {}).get(version, ())
            histories[key][version] = sorted({*known, *lines})
    # Release numbers instead of texts: this table is the big one.
    return sorted(
        [modules[key], *key[1:], [[versions.index(a), versions.index(b), *lines] for a, b, lines in spans]]
        for key, history in histories.items()
        for spans in [runs_of_releases(versions, history)]
    )


def _by_module(rows: Iterable[_Row]) -> list[_Row]:
    modules: dict[str, list[_Row]] = {}
    for module, *row in rows:
        modules.setdefault(module, []).append(row)
    return [[module, found] for module, found in modules.items()]


def _packed(rows: Iterable[_Row]) -> bytes:
    text = "".join(json.dumps(row, separators=(",", ":"), ensure_ascii=False) + "\n" for row in rows)
    return gzip.compress(text.encode("utf-8"), 9, mtime=0)
