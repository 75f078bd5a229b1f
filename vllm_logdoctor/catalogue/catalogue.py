"""Catalogues of messages: rows of JSON, one per message template that vLLM's sources hold."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from vllm_logdoctor.catalogue.templates import Piece, pieces_of

_LEVELS = {"exception": "error"}


class Message(Struct, frozen=True):
    """One message template, with what a catalogue says about it.

    Attributes:
        style: "plain", "percent", "brace", or several joined by "+"; says which placeholders count.
        level: level of a pack file; "reason" for texts that other messages embed.
        names: names of the values, in order, as far as known.
        versions: releases that print it, oldest first.
        module: file of the package that prints it.
        way: how it is printed where that matters: "warnings.warn", "assert", ...
        kind, topic, scope: of a row of performance messages ("" elsewhere).
        category, severity, slug: of a row of failure messages ("" elsewhere).
    """

    template: str
    style: str
    level: str
    names: tuple[str, ...]
    versions: tuple[str, ...]
    module: str
    way: str = ""
    kind: str = ""
    topic: str = ""
    scope: str = ""
    category: str = ""
    severity: str = ""
    slug: str = ""

    @property
    def pieces(self) -> list[Piece]:
        """The literal texts and places of the template."""
        return pieces_of(self.template, self.style, self.names)


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a catalogue; gzip is recognised by the name."""
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return [json.loads(line) for line in data.decode("utf-8").splitlines() if line.strip()]


def messages_of(rows: Iterable[dict[str, Any]]) -> Iterator[Message]:
    """Yield the messages of catalogue rows."""
    for row in rows:
        yield Message(
            template=row["template"],
            style=row.get("style") or guessed_style(row),
            level=_LEVELS.get(row["level"], row["level"]),
            names=tuple(row.get("args") or ()),
            versions=tuple(row.get("versions") or (row.get("first", ""), row.get("last", ""))),
            module=row.get("file", ""),
            way=row.get("kind", "") if "id" in row else "",
            kind=row.get("kind", "") if "topic" in row else "",
            topic=row.get("topic", ""),
            scope=row.get("scope", ""),
            category=row.get("category", ""),
            severity=row.get("severity", ""),
            slug=row.get("slug", ""),
        )


def annotated(messages: Iterable[Message], notes: Iterable[Message]) -> list[Message]:
    """Return messages with what other catalogues say about the same template."""
    by_template: dict[str, Message] = {}
    for note in notes:
        known = by_template.get(note.template)
        by_template[note.template] = _combined(known, note) if known else note
    return [
        _combined(message, by_template[message.template]) if message.template in by_template else message
        for message in messages
    ]


def guessed_style(row: dict[str, Any]) -> str:
    """Return the style of a row that does not say it: by its placeholders and by what printed it."""
    template = row["template"]
    found = [name for name, mark in (("percent", "%"), ("brace", "{")) if mark in template]
    if row.get("level") == "raise" and "brace" in found:
        return "brace"
    return "+".join(found) or "plain"


def _combined(message: Message, note: Message) -> Message:
    return replace(
        message,
        kind=message.kind or note.kind,
        topic=message.topic or note.topic,
        scope=message.scope or note.scope,
        category=message.category or note.category,
        severity=message.severity or note.severity,
        slug=message.slug or note.slug,
    )
