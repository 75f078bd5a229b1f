"""Findings as SARIF 2.1.0, for code scanning and for editors."""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from typing import Any
from urllib.parse import quote

from vllm_logdoctor.catalogue.topics import Severity
from vllm_logdoctor.report.clock import iso
from vllm_logdoctor.report.effects import change_words
from vllm_logdoctor.report.escape import shorten, visible
from vllm_logdoctor.report.model import Analysis, Diagnosis
from vllm_logdoctor.report.reader import plain_words
from vllm_logdoctor.rules.model import Finding
from vllm_logdoctor.run.model import Evidence

SCHEMA_ADDRESS = "https://json.schemastore.org/sarif-2.1.0.json"
LEVELS: dict[Severity, str] = {
    "critical": "error",
    "high": "error",
    "medium": "warning",
    "low": "note",
    "info": "note",
}
_LINES = 10
_SNIPPET = 500

Node = dict[str, Any]


def render(analysis: Analysis) -> str:
    """Return the findings of all runs as one SARIF run."""
    findings = [(diagnosis, finding) for diagnosis in analysis.runs for finding in diagnosis.findings]
    rules = list(dict.fromkeys(finding.id for _, finding in findings))
    first = {finding.id: finding for _, finding in reversed(findings)}
    log = {
        "$schema": SCHEMA_ADDRESS,
        "version": "2.1.0",
        "runs": [
            {
                "tool": driver([_rule(first[rule]) for rule in rules]),
                "artifacts": [{"location": {"uri": address(source.file)}} for source in analysis.sources],
                "columnKind": "unicodeCodePoints",
                "results": [
                    _result(diagnosis, finding, rules.index(finding.id)) for diagnosis, finding in findings
                ],
            }
        ],
    }
    return log_text(log)


def log_text(log: Node) -> str:
    """Return a SARIF log as text."""
    text = json.dumps(log, indent=2, ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8", "replace").decode() + "\n"


def address(file: str) -> str:
    """Return a file name as a URI: relative to where the tool was called, or absolute.

    Example:
        >>> address("my logs/a#b.log"), address("/scratch/vllm.log")
        ('my%20logs/a%23b.log', 'file:///scratch/vllm.log')
    """
    quoted = quote(file.encode("utf-8", "replace"), safe="/.-_~") or "unknown"
    return f"file://{quoted}" if quoted.startswith("/") else quoted


def driver(rules: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the part of a log that names the tool, its version where it is installed, and its rules."""
    named: dict[str, Any] = {"name": "logdoctor"}
    with suppress(PackageNotFoundError):
        named["version"] = version("vllm-logdoctor")
    return {"driver": {**named, "rules": rules}}


def spoken(text: str) -> str:
    """Return text for a message: nothing acts, and nothing reads as a link of SARIF's own.

    Example:
        >>> spoken("[x](http://a)")
        '[x] (http://a)'
    """
    return " ".join(visible(text).split()).replace("](", "] (")


def _rule(finding: Finding) -> Node:
    return {
        "id": finding.id,
        "shortDescription": {"text": spoken(finding.title)},
        "defaultConfiguration": {"level": LEVELS[finding.severity]},
        "properties": {"tags": [finding.kind, *([finding.topic] if finding.topic else [])]},
    }


def _result(diagnosis: Diagnosis, finding: Finding, rule: int) -> Node:
    locations = [location_of(evidence) for evidence in finding.evidence[:_LINES]]
    return {
        "ruleId": finding.id,
        "ruleIndex": rule,
        "level": LEVELS[finding.severity],
        "message": {"text": _message(finding)},
        "locations": locations[:1],
        "relatedLocations": [
            {**location, "id": number} for number, location in enumerate(locations[1:], start=1)
        ],
        "partialFingerprints": {"finding/v1": _fingerprint(diagnosis, finding)},
        "properties": {
            "run": diagnosis.run.number,
            "started": iso(diagnosis.run.started, diagnosis.run.year_known),
            "role": finding.role,
            "severity": finding.severity,
            "confidence": finding.confidence,
        },
    }


def _message(finding: Finding) -> str:
    parts = [f"{finding.title}.", finding.explanation]
    parts += [f"Change: {plain_words(change_words(change))}." for change in finding.changes]
    return spoken(" ".join(part for part in parts if part))


def location_of(evidence: Evidence) -> Node:
    """Return a line as a location."""
    return {
        "physicalLocation": {
            "artifactLocation": {"uri": address(evidence.file)},
            "region": {
                "startLine": max(1, evidence.line),
                "snippet": {"text": shorten(visible(evidence.text), _SNIPPET)},
            },
        }
    }


def _fingerprint(diagnosis: Diagnosis, finding: Finding) -> str:
    model = diagnosis.run.model.value if diagnosis.run.model else ""
    identity = "\0".join((finding.id, str(model), *(change.knob for change in finding.changes)))
    return hashlib.sha256(identity.encode("utf-8", "replace")).hexdigest()[:32]
