"""Warnings and errors in the log that matter and that no finding mentions."""

from __future__ import annotations

from vllm_logdoctor.report.escape import code, prose
from vllm_logdoctor.report.excerpt import excerpt
from vllm_logdoctor.report.figures import table
from vllm_logdoctor.report.page import Page
from vllm_logdoctor.rules.context import plural
from vllm_logdoctor.rules.failure.rule_ids import NOT_IN_LOG
from vllm_logdoctor.rules.model import Message

SHOWN = 8
_VERDICTS = {
    "cause-of-failure": "error",
    "will-break": "will break",
    "needs-attention": "to check",
    "costs-performance": "costs performance",
    "not-fatal": "error, not fatal",
}


def warnings_in_log(page: Page) -> list[str]:
    """Return the section; harmless messages, cited lines and repetitions of an earlier run are left out."""
    earlier = {message.pattern for diagnosis in page.earlier for message in diagnosis.messages}
    evidence = (page.diagnosis.bottleneck.evidence, *(finding.evidence for finding in page.findings))
    cited = {(one.file, one.line) for lines in evidence for one in lines}
    order = list(_VERDICTS)
    messages = sorted(
        (one for one in page.diagnosis.messages if _matters(page, one, cited) and one.pattern not in earlier),
        key=lambda message: order.index(message.verdict) if message.verdict in order else len(order),
    )
    rows = [_row(page, message) for message in messages[:SHOWN]]
    left = len(messages) - len(rows)
    more = ["", f"{plural(left, 'more')} in the JSON report."] if left > 0 else []
    return [*table(["verdict", "message", "meaning", "times", "first"], rows), *more] if rows else []


def _matters(page: Page, message: Message, cited: set[tuple[str, int]]) -> bool:
    if message.custom:
        return True
    if message.verdict not in _VERDICTS or (message.evidence.file, message.evidence.line) in cited:
        return False
    if page.root is None or message.verdict == "will-break":
        return True
    return page.root.id == NOT_IN_LOG and message.verdict == "needs-attention"


def _row(page: Page, message: Message) -> list[str]:
    return [
        _VERDICTS.get(message.verdict, message.verdict),
        code(excerpt(message.text, limit=110), 110),
        prose(message.meaning),
        f"{message.count:,}",
        page.cite([message.evidence]),
    ]
