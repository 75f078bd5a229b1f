"""Security finding: keys and tokens that a log holds."""

from __future__ import annotations

from vllm_logdoctor.catalogue.pages import rule_page
from vllm_logdoctor.rules.model import Change, Finding
from vllm_logdoctor.run.model import Run

MOST_LINES = 5


def security_findings(run: Run) -> tuple[Finding, ...]:
    """Return one finding for all secrets that were masked in a run's lines, or nothing."""
    if not run.secrets:
        return ()
    page = rule_page("secret-in-log")
    kinds = sorted({kind for _, found in run.secrets for kind in found})
    lines = tuple({(line.file, line.line): line for line, _ in run.secrets}.values())
    text = (
        f"{len(lines):,} {'line holds' if len(lines) == 1 else 'lines hold'} what looks like a live secret"
        f" ({', '.join(kinds)}). It is masked here and nowhere kept; the log itself still has it."
    )
    changes = (
        Change("revoke the key and make a new one", "action"),
        Change("give keys by environment variable or file, not on the command line", "action"),
    )
    return (
        Finding(
            page.id,
            "security",
            "high",
            "medium",
            page.title,
            text,
            evidence=lines[:MOST_LINES],
            changes=changes,
            verify="no finding of this kind in the next log",
            topic=page.topic,
        ),
    )
