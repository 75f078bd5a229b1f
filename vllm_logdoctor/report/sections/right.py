"""What is already right: optimizations that are on."""

from __future__ import annotations

from vllm_logdoctor.report.escape import prose
from vllm_logdoctor.report.figures import table
from vllm_logdoctor.report.page import Page


def already_right(page: Page) -> list[str]:
    """Return the section as Markdown lines; nothing where nothing is known to be on."""
    items = page.diagnosis.already_right
    if not items:
        return []
    rows = [[prose(i.name), prose(i.state), prose(i.brings), page.cite(i.evidence)] for i in items]
    return table(["", "state", "what it brings", "evidence"], rows)
