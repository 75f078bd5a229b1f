"""Findings as JUnit XML: one suite per run, one case per finding.

A failure of the run and a finding of critical or high severity fail their case; lower ones pass and say what
they found in `system-out`. A run without findings has one case that passes.
"""

from __future__ import annotations

from collections.abc import Sequence
from xml.sax.saxutils import escape, quoteattr

from vllm_logdoctor.report.effects import change_words
from vllm_logdoctor.report.escape import visible
from vllm_logdoctor.report.model import Analysis, Diagnosis
from vllm_logdoctor.report.naming import run_title
from vllm_logdoctor.report.reader import plain_words
from vllm_logdoctor.rules.model import Finding

_LINES = 6


def render(analysis: Analysis) -> str:
    """Return the findings as JUnit XML."""
    suites = [line for diagnosis in analysis.runs for line in _suite(diagnosis)]
    cases = [finding for diagnosis in analysis.runs for finding in diagnosis.findings]
    total = sum(max(1, len(diagnosis.findings)) for diagnosis in analysis.runs)
    head = f'<testsuites name="logdoctor" tests="{total}" failures="{_failed(cases)}" errors="0">'
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', head, *suites, "</testsuites>"]
    return "\n".join(lines).encode("utf-8", "replace").decode() + "\n"


def fails(finding: Finding) -> bool:
    """Return whether a finding fails its case."""
    return finding.kind == "failure" or finding.severity in ("critical", "high")


def _failed(findings: Sequence[Finding]) -> int:
    return sum(fails(finding) for finding in findings)


def _suite(diagnosis: Diagnosis) -> list[str]:
    name = plain_words(f"run {diagnosis.run.number}: {run_title(diagnosis.run)}")
    tests = max(1, len(diagnosis.findings))
    failures = _failed(diagnosis.findings)
    lines = [
        f'  <testsuite name={attribute_value(name)} tests="{tests}" failures="{failures}" errors="0" skipped="0">'
    ]
    for finding in diagnosis.findings:
        lines += _case(finding)
    if not diagnosis.findings:
        lines.append('    <testcase name="no findings" classname="logdoctor"/>')
    return [*lines, "  </testsuite>"]


def _case(finding: Finding) -> list[str]:
    body = escape("\n".join(_said(finding)))
    opened = f'    <testcase name={attribute_value(finding.id)} classname="logdoctor.{finding.kind}">'
    if not fails(finding):
        return [opened, f"      <system-out>{body}</system-out>", "    </testcase>"]
    head = f"<failure message={attribute_value(finding.title)} type={attribute_value(finding.severity)}>"
    return [opened, f"      {head}{body}</failure>", "    </testcase>"]


def _said(finding: Finding) -> list[str]:
    lines = [visible(f"{finding.title}. {finding.explanation}".strip())]
    lines += [f"{visible(one.file)}:{one.line}: {visible(one.text)}" for one in finding.evidence[:_LINES]]
    lines += [f"change: {plain_words(change_words(change))}" for change in finding.changes]
    return lines


def attribute_value(text: str) -> str:
    """Return text as the value of an attribute, quotes and all.

    Example:
        >>> print(attribute_value('a "b" <c>'))
        'a "b" &lt;c&gt;'
    """
    return quoteattr(" ".join(visible(text).split()))
