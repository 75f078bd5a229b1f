"""Warnings and errors that were seen, with a verdict on each."""

from __future__ import annotations

from vllm_logdoctor.report.escape import code, inline, prose
from vllm_logdoctor.report.excerpt import excerpt
from vllm_logdoctor.report.figures import count, table
from vllm_logdoctor.report.page import Page

ORDER = ("cause-of-failure", "will-break", "costs-performance", "not-fatal", "harmless", "information")
SHOWN = 40


def warnings_seen(page: Page) -> list[str]:
    """Return the section as Markdown lines; unknown ones, and those an earlier run told, do not."""
    told = {message.pattern for diagnosis in page.earlier for message in diagnosis.messages}
    messages = sorted(
        (m for m in page.diagnosis.messages if m.verdict != "unknown" and m.pattern not in told),
        key=lambda message: ORDER.index(message.verdict) if message.verdict in ORDER else len(ORDER),
    )
    if not messages:
        return []
    rows = [
        [
            inline(message.verdict.replace("-", " ")),
            code(excerpt(message.text, limit=160), 160),
            prose(message.meaning, 400) or "not known",
            f"{message.count:,}",
            page.cite([message.evidence]),
        ]
        for message in messages[:SHOWN]
    ]
    lines = table(["verdict", "message", "what it means", "times", "first"], rows)
    left = len(messages) - len(rows)
    return [*lines, "", f"{count(left, 'further message')} in the JSON document."] if left > 0 else lines
