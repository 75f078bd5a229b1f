"""What comes first for whoever reads: where a start did not come to its end, how to find out why."""

from __future__ import annotations

from collections.abc import Sequence

from vllm_logdoctor.findings.model import Finding
from vllm_logdoctor.run.model import Run


def is_urgent(run: Run, finding: Finding) -> bool:
    """Tell whether a finding says how a start ended that nobody saw come up: no advice on speed helps before that.

    Example:
        >>> cut = Finding("cause-not-in-log", "configuration", "medium", "low", "a log that ends", "", role="root")
        >>> is_urgent(Run(outcome="truncated"), cut), is_urgent(Run(outcome="running", startup_complete=True), cut)
        (True, False)
    """
    return finding.role == "root" and run.outcome == "truncated" and not run.startup_complete


def urgent_first(run: Run, findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Return findings with the urgent ones first; the others keep their order."""
    return tuple(sorted(findings, key=lambda finding: not is_urgent(run, finding)))
