"""What broke: the root cause, the lines that show it, what followed from it, and the remedy."""

from __future__ import annotations

import re

from vllm_logdoctor.parse import Record
from vllm_logdoctor.report.escape import code, fence, inline, prose
from vllm_logdoctor.report.excerpt import excerpt
from vllm_logdoctor.report.naming import BROKEN
from vllm_logdoctor.report.page import Page
from vllm_logdoctor.report.sections.advice import remedy
from vllm_logdoctor.rules.model import Finding
from vllm_logdoctor.run.model import Evidence

LINES = 6
_CUT = 500
# What an export of a platform writes around its records:     "severity": "ERROR",     },     ]
_MEMBER = re.compile(r"\s*(?:[\[\]{}]+,?|\"[^\"]{1,60}\"\s*:.*)")


def broke(page: Page) -> list[str]:
    """Return the section as Markdown lines; nothing where nothing broke."""
    failures = page.failures
    if not failures:
        return _unexplained(page)
    root = failures[0]
    lines = [*_cause(page, root), *remedy(page, root)]
    for other in failures[1:]:
        if other.role != "cascade":
            lines += [
                "",
                f"Also: {prose(other.title)}{page.cited(other.evidence)}. {prose(other.explanation)}",
            ]
            lines += ["", *remedy(page, other)]
    return [*lines, *_chain(page, failures)]


def _cause(page: Page, root: Finding) -> list[str]:
    lines = [f"{prose(root.title)}. Confidence: {root.confidence}."]
    if root.evidence:
        lines += ["", *fence("\n".join(_told(page, root.evidence[:LINES]))), ""]
    return [*lines, ""]


def _told(page: Page, evidence: tuple[Evidence, ...]) -> list[str]:
    places: dict[str, list[str]] = {}
    for one in evidence:
        places.setdefault(excerpt(one.text, limit=_CUT), []).append(page.place(one))
    return [f"{', '.join(where)}: {text}" for text, where in places.items()]


def _chain(page: Page, failures: tuple[Finding, ...]) -> list[str]:
    followed = [finding for finding in failures[1:] if finding.role == "cascade"]
    lines: list[str] = []
    if followed:
        lines += ["", "What followed from it, and is not the cause:", ""]
        lines += [f"- {prose(finding.title)}{page.cited(finding.evidence)}" for finding in followed]
    last = next((record for record in reversed(page.run.tail) if _says_something(record)), None)
    if last is not None and page.run.last_of_file:
        lines += ["", f"Last line seen: {code(last.message, 200)} [L{last.line}]."]
    return lines


def _says_something(record: Record) -> bool:
    return bool(record.message.strip()) and not _MEMBER.fullmatch(record.message)


def _unexplained(page: Page) -> list[str]:
    if page.run.outcome not in BROKEN or page.ended_by is not None:
        return []
    lines = ["The log does not hold the cause.", ""]
    tail = [record for record in page.run.tail if _says_something(record)][-LINES:]
    if tail:
        lines += ["Its last lines:", ""]
        lines += fence("\n".join(f"L{record.line}: {record.text[:_CUT]}" for record in tail))
    if page.run.outcome == "killed":
        lines += [
            "",
            inline("A kill leaves no line behind: ask the scheduler or the kernel log (dmesg) who sent it."),
        ]
    return lines
