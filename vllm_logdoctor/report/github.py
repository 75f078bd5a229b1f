"""Findings as GitHub workflow commands: each becomes an annotation at its decisive line."""

from __future__ import annotations

from vllm_logdoctor.catalogue.topics import Severity
from vllm_logdoctor.report.effects import change_words
from vllm_logdoctor.report.escape import visible
from vllm_logdoctor.report.model import Analysis
from vllm_logdoctor.report.reader import plain_words
from vllm_logdoctor.rules.model import Finding
from vllm_logdoctor.run.model import Evidence

COMMANDS: dict[Severity, str] = {
    "critical": "error",
    "high": "error",
    "medium": "warning",
    "low": "notice",
    "info": "notice",
}


def render(analysis: Analysis) -> str:
    """Return one workflow command per finding, one a line."""
    findings = [finding for diagnosis in analysis.runs for finding in diagnosis.findings]
    return "".join(annotation(finding) + "\n" for finding in findings)


def annotation(finding: Finding) -> str:
    """Return a finding as one workflow command.

    Example:
        >>> annotation(Finding("a-rule", "failure", "high", "high", "a: b", "100 %"))
        '::error title=a-rule%3A a%3A b::100 %25'
    """
    message = [finding.explanation or finding.title]
    message += [f"Change: {plain_words(change_words(change))}." for change in finding.changes]
    line = finding.evidence[0] if finding.evidence else None
    return command(finding.severity, f"{finding.id}: {finding.title}", " ".join(message), line)


def command(severity: Severity, title: str, message: str, line: Evidence | None = None) -> str:
    """Return one workflow command, at a line where there is one."""
    properties = {"file": line.file, "line": str(line.line)} if line else {}
    properties["title"] = title
    joined = ",".join(f"{name}={_property(value)}" for name, value in properties.items())
    return f"::{COMMANDS[severity]} {joined}::{_data(message)}"


def _data(text: str) -> str:
    return " ".join(visible(text).split()).replace("%", "%25")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
