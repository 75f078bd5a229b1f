"""Distance to the limit: the decode speed that memory bandwidth allows, beside the measured one."""

from __future__ import annotations

from vllm_logdoctor.report.escape import prose
from vllm_logdoctor.report.figures import number, percent
from vllm_logdoctor.report.page import Page


def distance(page: Page) -> list[str]:
    """Return the section as Markdown lines; nothing where card, weights or a steady decode load are not known."""
    limit = page.diagnosis.ceiling
    if limit is None:
        return []
    share = percent(100 * limit.share)
    told = f"Decode makes {number(limit.measured)} of at most {number(limit.ceiling)} tokens/s, {share}"
    return [
        f"{told}{page.cited(limit.evidence)}.",
        "",
        f"A step of decode reads all weights and the cache in use once: {prose(limit.formula)}.",
    ]
