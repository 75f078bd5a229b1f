"""What counts in continuous integration: new findings, not suppressed, at or above a severity."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import date
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from vllm_logdoctor.catalogue.topics import SEVERITIES, Severity
from vllm_logdoctor.cli.settings import Suppression, ToolSettings
from vllm_logdoctor.comparison.identity import fingerprint, fingerprints_of_document
from vllm_logdoctor.comparison.snapshot import Snapshot
from vllm_logdoctor.errors import LogdoctorError, unknown_choice
from vllm_logdoctor.plan.model import Plan
from vllm_logdoctor.report.model import Analysis, Diagnosis
from vllm_logdoctor.rules.context import plural
from vllm_logdoctor.rules.model import Finding
from vllm_logdoctor.run.model import Run

Replan = Callable[[Run, tuple[Finding, ...]], Plan]
"""How a plan is made again of the findings that are left."""


class Filtered(Struct, frozen=True):
    """An analysis without some of its findings.

    Attributes:
        analysis: what is left; what was left out is counted in its coverage notes.
        warnings: suppressions that no longer hold or fit nothing, one line each.
        notes: what was left out, one line each.
    """

    analysis: Analysis
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def known_fingerprints(path: Path) -> frozenset[str]:
    """Return the fingerprints in an earlier report (`--format json`).

    Raises:
        LogdoctorError: can't be read, or is no such report (exit code 3).
    """
    try:
        if path.exists() and not path.is_file():
            raise LogdoctorError(f"the baseline {path} is no file")
        document = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise LogdoctorError(f"can't read the baseline {path}: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise LogdoctorError(f"the baseline {path} is no JSON report: {error}") from error
    try:
        return frozenset(fingerprints_of_document(document))
    except (TypeError, KeyError, AttributeError) as error:
        raise LogdoctorError(
            f"the baseline {path} is no report of logdoctor: no runs with findings"
        ) from error


def only_new(analysis: Analysis, known: frozenset[str], replan: Replan | None = None) -> Filtered:
    """Leave out findings whose fingerprint is known.

    Args:
        analysis: what was found.
        known: fingerprints of the baseline.
        replan: makes the plan anew for a run that lost findings; without it the plan stays.
    """
    left, dropped = _without(analysis, lambda _, finding: fingerprint(finding) in known, replan)
    return Filtered(
        _noted(left, [f"{plural(dropped, 'finding')} of the baseline left out"] if dropped else [])
    )


def suppressed(
    analysis: Analysis, suppressions: Sequence[Suppression], today: date, replan: Replan | None = None
) -> Filtered:
    """Leave out findings that are accepted today."""
    holding = [entry for entry in suppressions if entry.until >= today]

    def accepted(run: Run, finding: Finding) -> bool:
        return any(_fits(entry, run, finding) for entry in holding)

    left, _ = _without(analysis, accepted, replan)
    notes = tuple(_note(entry) for entry in holding if _occurs(entry, analysis))
    warnings = [
        warning for entry in suppressions if (warning := _stale(entry, analysis, holds=entry in holding))
    ]
    return Filtered(_noted(left, [*notes, *warnings]), tuple(warnings), notes)


def without_accepted(
    snapshot: Snapshot, suppressions: Sequence[Suppression], today: date
) -> tuple[Snapshot, tuple[str, ...]]:
    """Leave findings that are accepted today, and what only they would change, out of a run that is compared.

    Returns:
        what is left, and one line for each suppression that took something away.
    """
    holding = [
        entry
        for entry in suppressions
        if entry.until >= today and entry.model in ("", snapshot.what.get("model"))
    ]
    dropped = {
        one.identity: entry for one in snapshot.findings for entry in holding if _names(entry, one.identity)
    }
    left = tuple(one for one in snapshot.findings if one.identity not in dropped)
    gone = {entry.finding for entry in dropped.values()} - {one.rule for one in left}
    planned = tuple(one for one in snapshot.planned if not one.rules or not gone.issuperset(one.rules))
    notes = tuple(_note(entry) for entry in holding if entry in dropped.values())
    return replace(snapshot, findings=left, planned=planned), notes


def without_known(
    analysis: Analysis, settings: ToolSettings, today: date, replan: Replan | None = None
) -> Filtered:
    """Leave out what is accepted today and what is in the baseline.

    Raises:
        LogdoctorError: the baseline can't be read (exit code 3).
    """
    left = suppressed(analysis, settings.suppressions, today, replan)
    if settings.baseline is None:
        return left
    new = only_new(left.analysis, known_fingerprints(settings.baseline), replan)
    return replace(left, analysis=new.analysis)


def reaches(analysis: Analysis, severity: Severity) -> bool:
    """Return whether a finding is as severe as `severity`, or more."""
    limit = SEVERITIES.index(severity)
    return any(
        SEVERITIES.index(finding.severity) <= limit for one in analysis.runs for finding in one.findings
    )


def severity_named(text: str) -> Severity:
    """Return the severity of that name.

    Raises:
        LogdoctorError: no such severity (exit code 2).
    """
    for severity in SEVERITIES:
        if severity == text.lower():
            return severity
    raise unknown_choice("severity", text, SEVERITIES)


def _note(entry: Suppression) -> str:
    return f"suppressed until {entry.until}: {entry.finding} ({entry.reason})"


def _fits(entry: Suppression, run: Run, finding: Finding) -> bool:
    return _names(entry, fingerprint(finding)) and _is_for(entry, run)


def _names(entry: Suppression, identity: str) -> bool:
    """Return whether an entry names what has a fingerprint; one without a knob names the rule with any."""
    return (
        identity == f"{entry.finding} {entry.knob}" if entry.knob else identity.split(" ")[0] == entry.finding
    )


def _is_for(entry: Suppression, run: Run) -> bool:
    return not entry.model or (run.model is not None and entry.model == str(run.model.value))


def _stale(entry: Suppression, analysis: Analysis, *, holds: bool) -> str:
    """Return what is wrong with a suppression, "" for nothing: entries that do nothing must not be kept for ever."""
    if _occurs(entry, analysis):
        return "" if holds else f"suppression of {entry.finding} ended on {entry.until}: {entry.reason}"
    if not any(_is_for(entry, one.run) for one in analysis.runs):
        return ""
    if holds:
        return f"suppression of {entry.finding} fits no finding of this log; drop it once it is of no use"
    return f"suppression of {entry.finding} ended on {entry.until} and fits no finding of this log; drop it"


def _without(
    analysis: Analysis, drop: Callable[[Run, Finding], bool], replan: Replan | None
) -> tuple[Analysis, int]:
    runs = [_diagnosis_without(one, drop, replan) for one in analysis.runs]
    dropped = sum(len(one.findings) for one in analysis.runs) - sum(len(one.findings) for one in runs)
    return replace(analysis, runs=tuple(runs)), dropped


def _diagnosis_without(
    diagnosis: Diagnosis, drop: Callable[[Run, Finding], bool], replan: Replan | None
) -> Diagnosis:
    hidden = tuple(finding for finding in diagnosis.findings if drop(diagnosis.run, finding))
    if not hidden:
        return diagnosis
    left = tuple(finding for finding in diagnosis.findings if finding not in hidden)
    plan = replan(diagnosis.run, left) if replan else diagnosis.plan
    return replace(diagnosis, findings=left, plan=plan, hidden=(*diagnosis.hidden, *hidden))


def _noted(analysis: Analysis, notes: list[str]) -> Analysis:
    coverage = replace(analysis.coverage, notes=(*analysis.coverage.notes, *notes))
    return replace(analysis, coverage=coverage) if notes else analysis


def _occurs(entry: Suppression, analysis: Analysis) -> bool:
    return any(_fits(entry, one.run, finding) for one in analysis.runs for finding in one.findings)
