"""What was read, what of it was recognized, and what is missing."""

from __future__ import annotations

from collections.abc import Sequence

from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.report.escape import code, inline, prose
from vllm_logdoctor.report.excerpt import excerpt
from vllm_logdoctor.report.figures import table
from vllm_logdoctor.report.model import Analysis
from vllm_logdoctor.report.page import Page
from vllm_logdoctor.report.sections.measure import saves_nothing
from vllm_logdoctor.rules.context import plural
from vllm_logdoctor.run.model import Evidence, Unknown

_GROUPS = 8
_WHOLE = 12
"""Characters of an exception's text that another line does not hold by chance."""
# JSON result file missing; falling back to stdout parse
_NO_RESULT = lazy_pattern(r"(?i)\bresults?\b.{0,40}\b(?:missing|not found|no such file|not exist)")
_WORD = lazy_pattern(r"[A-Za-z]{3}")


def missing(page: Page) -> list[str]:
    """Return what this run's log does not contain, each with the setting that would log it."""
    return [f"- {prose(unknown)}" for unknown in page.diagnosis.unknowns]


def what_was_read(analysis: Analysis, page: Page) -> list[str]:
    """Return every input with its kind, and how much of it was recognized."""
    coverage = analysis.coverage
    rows = [
        [
            inline(source.file, 200),
            f"{source.lines:,}" if source.kind == "log" else "",
            prose(source.note) or "vLLM log, used",
        ]
        for source in analysis.sources
    ]
    named = {source.file for source in analysis.sources}
    rows += [
        [
            inline(one.evidence.file, 200),
            "",
            prose(f"{one.evidence.kind or 'unknown kind'}, given beside the log"),
        ]
        for one in analysis.beside
        if one.evidence.file not in named
    ]
    several = len(rows) > 1 or any(source.note for source in analysis.sources)
    lines = [*table(["file", "lines", "kind"], rows), ""] if several else []
    lines.append(f"{plural(coverage.lines, 'line')} read.")
    if coverage.cut_characters:
        lines.append(f"{plural(coverage.cut_characters, 'character')} of overlong lines were cut.")
    lines += [line for note in coverage.notes for line in ("", prose(note))]
    unknown = _unexplained(analysis)
    if (unsaved := _unsaved_result(analysis, unknown)) is not None:
        command, missed = unsaved
        unknown.remove(missed)
        lines += [
            "",
            f"The command `vllm bench serve` of this log{page.cited([command])} has no `--save-result` and so writes no result"
            f" file; a later line says that it is missing{page.cited([missed.first])}.",
        ]
    if unknown:
        rows = [
            [
                inline(group.level),
                code(excerpt(group.first.text, limit=140), 140),
                f"{group.count:,}",
                page.cite([group.first]),
            ]
            for group in unknown[:_GROUPS]
        ]
        left = len(unknown) - len(rows)
        more = f"; {left:,} more kinds in the JSON report" if left > 0 else ""
        lines += [
            "",
            f"Warnings and errors that this report does not explain{more}:",
            "",
            *table(["level", "message", "times", "first"], rows),
        ]
    return lines


def _unsaved_result(analysis: Analysis, unknown: Sequence[Unknown]) -> tuple[Evidence, Unknown] | None:
    """Return a benchmark that saves no result with the later warning that its file is missing, or None."""
    return next(
        (
            (command, group)
            for diagnosis in analysis.runs
            for command in diagnosis.run.load_commands
            for group in unknown
            if saves_nothing(command)
            and _NO_RESULT.search(group.first.text)
            and group.first.file == command.file
            and group.first.line > command.line
        ),
        None,
    )


def _unexplained(analysis: Analysis) -> list[Unknown]:
    """Return the warnings and errors that no finding explains."""
    explained = {
        line for diagnosis in analysis.runs for finding in diagnosis.findings for line in finding.evidence
    }
    # IndexError('list index out of range'): some lines print the exception before its traceback.
    places = {(one.file, one.line) for one in explained}
    raised = [text for one in explained if len(text := one.text.partition("Error: ")[2]) >= _WHOLE]
    return [
        group
        for group in analysis.coverage.unknown
        if _WORD.search(group.template)
        and not (group.count == 1 and (group.first.file, group.first.line) in places)
        and not any(text in group.first.text for text in raised)
    ]
