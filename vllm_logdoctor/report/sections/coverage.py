"""What was not understood, and what this log can't tell."""

from __future__ import annotations

from vllm_logdoctor.report.escape import code, inline, prose
from vllm_logdoctor.report.figures import count, share, table
from vllm_logdoctor.report.model import Analysis
from vllm_logdoctor.report.page import Page

GROUPS = 15


def cannot_tell(page: Page) -> list[str]:
    """Return what this run's log can't tell and which setting would, as Markdown lines."""
    return [f"- {prose(unknown)}" for unknown in page.diagnosis.unknowns]


def not_understood(analysis: Analysis, page: Page) -> list[str]:
    """Return how much of the log was understood, as Markdown lines."""
    coverage = analysis.coverage
    known = share(coverage.recognised, coverage.vllm_lines) or "none"
    lines = [
        f"{count(coverage.lines, 'line')} read; vLLM wrote {coverage.vllm_lines:,} of them, "
        f"{coverage.recognised:,} are understood ({known}).",
    ]
    if coverage.cut_characters:
        lines += ["", f"{count(coverage.cut_characters, 'character')} of overlong lines were cut."]
    lines += [line for note in coverage.notes for line in ("", prose(note))]
    if coverage.unknown:
        rows = [
            [inline(group.level), code(group.template, 200), f"{group.count:,}", page.cite([group.first])]
            for group in coverage.unknown[:GROUPS]
        ]
        lines += ["", "Warnings and errors that no pattern knows:", ""]
        lines += table(["level", "message", "times", "first"], rows)
        left = len(coverage.unknown) - len(rows)
        if left > 0:
            lines += ["", f"{count(left, 'further kind')} in the JSON document."]
    return lines
