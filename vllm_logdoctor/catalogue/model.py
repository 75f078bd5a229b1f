"""The format of a pack file, as models: what a pack may say, and the closed lists it says it with."""

from __future__ import annotations

import json
from typing import Annotated, Literal

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, StringConstraints

from vllm_logdoctor.catalogue.topics import Severity, Topic, Verdict

Level = Literal["debug", "info", "warning", "error", "critical", "raise", "print", "foreign"]
FieldType = Literal["str", "int", "float", "bool"]
FieldValue = str | int | float | bool | None

Identifier = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$", max_length=80)]
FieldName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]*$", max_length=40)]
LiteralText = Annotated[str, StringConstraints(pattern=r"^[^\r\n]+$")]


class Strict(BaseModel):
    """A table of a pack file; a key that it does not know is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class PackHeader(Strict):
    """Table `[pack]`: the name and title of one pack file."""

    name: Identifier
    title: str
    description: str = ""


class FieldEntry(Strict):
    """One entry of `[pattern.fields]`: the type and unit of a named group."""

    type: FieldType = "str"
    unit: str | None = None
    sensitive: bool = False


class SampleEntry(Strict):
    """Table `[[pattern.samples]]`: a message that must match, and the values that must come out of it."""

    text: str
    values: dict[FieldName, FieldValue] = {}


class CounterSampleEntry(Strict):
    """Table `[[pattern.counter_samples]]`: a message that must not match."""

    text: str


class PatternEntry(Strict):
    """Table `[[pattern]]`: how one message is recognised and what it means.

    Every text that `regex` matches holds one of `literal`; files of earlier releases call that key `gate`.
    """

    id: Identifier
    literal: list[LiteralText] = Field(min_length=1, validation_alias=AliasChoices("literal", "gate"))
    regex: str
    anywhere: bool = False
    event: Identifier | None = None
    level: Level
    seen: str
    module: str = ""
    topic: Topic
    platform: str | None = None
    verdict: Verdict = "information"
    severity: Severity = "info"
    rule: Identifier | None = None
    knobs: list[str] = []
    meaning: str = ""
    fields: dict[FieldName, FieldEntry] = {}
    samples: list[SampleEntry] = []
    counter_samples: list[CounterSampleEntry] = []


class PackFile(Strict):
    """A whole pack file."""

    pack: PackHeader
    pattern: list[PatternEntry] = []


def schema_text() -> str:
    """Return the JSON Schema of pack files, for editors; the same text for the same models."""
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "https://vllm-logdoctor.invalid/schema/pack-1.json",
        "title": "Pattern pack of vllm_logdoctor",
    }
    return json.dumps({**head, **PackFile.model_json_schema(), **head}, indent=2) + "\n"
