"""What a finding is recognised by in another log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from vllm_logdoctor.rules.model import Finding


def fingerprint(finding: Finding) -> str:
    """Return what a finding is recognised by in another log: its rule and the knob it is about.

    Line numbers, values and words may change from run to run; these two do not.

    Example:
        >>> from vllm_logdoctor.rules.model import Change
        >>> change = Change("--max-num-seqs", "flag", 1, 32)
        >>> fingerprint(Finding("one-sequence", "performance", "high", "high", "", "", changes=(change,)))
        'one-sequence --max-num-seqs'
    """
    return _identity(finding.id, ((change.kind, change.knob) for change in finding.changes))


def fingerprint_of_document(finding: Mapping[str, Any]) -> str:
    """Return the same of a finding in a JSON report.

    Raises:
        KeyError, TypeError: the finding lacks its id or its changes.
    """
    return _identity(str(finding["id"]), ((change["kind"], change["knob"]) for change in finding["changes"]))


def fingerprints_of_document(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield the fingerprint of every finding of a JSON report."""
    for run in document["runs"]:
        for finding in run["findings"]:
            yield fingerprint_of_document(finding)


def _identity(rule: str, changes: Iterable[tuple[str, str]]) -> str:
    knob = next((knob for kind, knob in changes if kind != "action"), "")
    return f"{rule} {knob}".rstrip()
