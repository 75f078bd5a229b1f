"""Every line that an analysis cites, by place."""

from __future__ import annotations

from collections.abc import Iterator

from vllm_logdoctor.report.model import Analysis, Diagnosis
from vllm_logdoctor.report.page import anchor
from vllm_logdoctor.run.model import Evidence


def lines_by_anchor(analysis: Analysis) -> dict[str, Evidence]:
    """Return all evidence of an analysis by its name in the HTML report."""
    found: dict[str, Evidence] = {}
    for evidence in _all(analysis):
        found.setdefault(anchor(analysis, evidence.file, evidence.line), evidence)
    return found


def _all(analysis: Analysis) -> Iterator[Evidence]:
    for diagnosis in analysis.runs:
        yield from _of_run(diagnosis)
        yield from _of_judgement(diagnosis)
    for group in analysis.coverage.unknown:
        yield group.first


def _of_run(diagnosis: Diagnosis) -> Iterator[Evidence]:
    run = diagnosis.run
    known = (*run.config.values(), *run.environment.values(), *run.measured.values())
    for value in (run.version, run.model, *known):
        if value is not None:
            yield from value.evidence
    yield from run.platform_evidence
    for phase in run.phases:
        yield from phase.evidence
    yield from (line.evidence for line in run.speculation)
    yield from (line.evidence for line in run.transfers)
    yield from (line.evidence for line in run.progress)
    for result in run.benchmarks:
        yield from result.evidence


def _of_judgement(diagnosis: Diagnosis) -> Iterator[Evidence]:
    for finding in diagnosis.findings:
        yield from finding.evidence
    yield from diagnosis.bottleneck.evidence
    for period in diagnosis.bottleneck.periods:
        yield from period.evidence
    for item in diagnosis.already_right:
        yield from item.evidence
    if diagnosis.ceiling is not None:
        yield from diagnosis.ceiling.evidence
    for message in diagnosis.messages:
        yield message.evidence
