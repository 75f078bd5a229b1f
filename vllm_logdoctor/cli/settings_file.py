"""The form of logdoctor.toml."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, StringConstraints

from vllm_logdoctor.catalogue.topics import Severity

Words = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]


class SuppressEntry(BaseModel):
    """One `[[suppress]]` table: a finding that is accepted until a day, for a reason."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    finding: Words
    reason: Words
    until: date
    knob: str = ""
    model: str = ""


class SettingsFile(BaseModel):
    """All of logdoctor.toml."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    objective: Literal["balanced", "throughput", "latency", "long-context", "memory", "startup"] | None = None
    format: (
        Literal["markdown", "json", "text", "html", "sarif", "junit", "github", "csv", "terminal"] | None
    ) = None
    patterns: list[str] = []
    fail_on: Severity | None = None
    baseline: str | None = None
    suppress: list[SuppressEntry] = []
