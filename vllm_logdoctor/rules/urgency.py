"""What comes first for whoever reads: why a start did not come to its end, and what a server refuses while it runs."""

from __future__ import annotations

from collections.abc import Sequence

from vllm_logdoctor.rules.model import Finding
from vllm_logdoctor.run.model import Run

_FIRST = frozenset({"thread-or-process-limit", "disk-full-or-quota", "cpu-kernels-not-loaded"})
"""Limits of the host at which a server that runs turns requests away, and kernels without which no step runs."""


def is_urgent(run: Run, finding: Finding) -> bool:
    """Return whether no advice on speed helps before a finding: a start that nobody saw come up, a limit that turns requests away.

    Example:
        >>> cut = Finding("cause-not-in-log", "configuration", "medium", "low", "a log that ends", "", role="root")
        >>> is_urgent(Run(outcome="truncated"), cut), is_urgent(Run(outcome="running", startup_complete=True), cut)
        (True, False)
    """
    if finding.id in _FIRST:
        return True
    return finding.role == "root" and run.outcome == "truncated" and not run.startup_complete


def urgent_first(run: Run, findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Return findings with the urgent ones first; the others keep their order."""
    return tuple(sorted(findings, key=lambda finding: not is_urgent(run, finding)))
