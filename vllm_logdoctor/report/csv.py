"""Findings as CSV for spreadsheets; no cell is a formula."""

from __future__ import annotations

import csv
import io

from vllm_logdoctor.report.effects import change_words
from vllm_logdoctor.report.escape import visible
from vllm_logdoctor.report.model import Analysis, Diagnosis
from vllm_logdoctor.report.reader import plain_words
from vllm_logdoctor.rules.model import Finding

COLUMNS = (
    "run", "file", "line", "id", "kind", "role", "severity", "confidence", "title", "explanation", "changes",
    "effect_metric", "effect_low", "effect_high", "effect_origin", "evidence",
)  # fmt: skip
_FORMULA = ("=", "+", "-", "@", "|", "%", "\t", "\r")


def render(analysis: Analysis) -> str:
    """Return one row per finding."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow(COLUMNS)
    for diagnosis in analysis.runs:
        writer.writerows(_row(diagnosis, finding) for finding in diagnosis.findings)
    return out.getvalue().encode("utf-8", "replace").decode()


def cell(text: str) -> str:
    """Return text that no spreadsheet takes for a formula.

    Example:
        >>> cell("=1+1"), cell("--max-num-seqs"), cell("plain")
        ("'=1+1", "'--max-num-seqs", 'plain')
    """
    shown = " ".join(visible(text).split())
    return "'" + shown if shown.startswith(_FORMULA) else shown


def _row(diagnosis: Diagnosis, finding: Finding) -> list[str | int | float]:
    first = finding.evidence[0] if finding.evidence else None
    effect = finding.effect
    changes = "; ".join(plain_words(change_words(change)) for change in finding.changes)
    return [
        diagnosis.run.number,
        cell(first.file) if first else "",
        first.line if first else "",
        cell(finding.id),
        finding.kind,
        finding.role or "",
        finding.severity,
        finding.confidence,
        cell(finding.title),
        cell(finding.explanation),
        cell(changes),
        cell(effect.metric) if effect else "",
        effect.low if effect else "",
        effect.high if effect else "",
        effect.origin if effect else "",
        cell(first.text) if first else "",
    ]
