"""Findings that are known or accepted do not count; every other does."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path

import pytest

from vllm_logdoctor.catalogue.topics import Severity
from vllm_logdoctor.cli.baseline import (
    known_fingerprints,
    only_new,
    reaches,
    severity_named,
    suppressed,
    without_known,
)
from vllm_logdoctor.cli.settings import Suppression, ToolSettings
from vllm_logdoctor.comparison.identity import fingerprint
from vllm_logdoctor.errors import LogdoctorError
from vllm_logdoctor.plan.model import Plan
from vllm_logdoctor.report.json import document
from vllm_logdoctor.report.model import Analysis, Diagnosis
from vllm_logdoctor.rules.model import Change, Finding
from vllm_logdoctor.run.model import Coverage, Evidence, Run, Value

TODAY = date(2026, 5, 1)


def finding(rule: str, knob: str = "", severity: Severity = "medium", line: int = 1) -> Finding:
    changes = (Change(knob, "flag", line, line + 1),) if knob else ()
    return Finding(
        rule,
        "performance",
        severity,
        "high",
        f"{rule} at {line}",
        "",
        evidence=(Evidence("a", line, "x"),),
        changes=changes,
    )


def analysis(*findings: Finding, model: str = "org/tiny") -> Analysis:
    run = Run(model=Value(model, "reported"))
    return Analysis((), (Diagnosis(run, tuple(findings)),), Coverage(0, 0, 0, 0, ()))


def ids(result: Analysis) -> list[str]:
    return [one.id for run in result.runs for one in run.findings]


def test_a_finding_is_the_same_on_other_lines_with_other_values() -> None:
    assert fingerprint(finding("a", "--x", line=3)) == fingerprint(finding("a", "--x", "low", line=9000))


def test_a_finding_about_another_knob_is_another() -> None:
    assert fingerprint(finding("a", "--x")) != fingerprint(finding("a", "--y"))


def test_only_what_the_baseline_does_not_hold_is_left(tmp_path: Path) -> None:
    path = tmp_path / "baseline.json"
    path.write_text(json.dumps(document(analysis(finding("a", "--x", line=3), finding("b")))))
    left = only_new(
        analysis(finding("a", "--x", line=70), finding("a", "--y"), finding("c")), known_fingerprints(path)
    )
    assert ids(left.analysis) == ["a", "c"]
    assert left.analysis.coverage.notes == ("1 finding of the baseline left out",)


def test_an_analysis_is_nothing_new_to_its_own_report(tmp_path: Path) -> None:
    whole = analysis(finding("a", "--x"), finding("b"), finding("b", "--z"))
    path = tmp_path / "baseline.json"
    path.write_text(json.dumps(document(whole)))
    assert ids(only_new(whole, known_fingerprints(path)).analysis) == []


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"runs": 3}', '{"runs": [{}]}', '{"runs": [{"findings": [1]}]}']
)
def test_a_baseline_that_is_no_report_is_said(text: str, tmp_path: Path) -> None:
    path = tmp_path / "baseline.json"
    path.write_text(text)
    with pytest.raises(LogdoctorError, match="baseline"):
        known_fingerprints(path)


def test_the_plan_is_made_again_without_what_was_left_out() -> None:
    seen: list[tuple[Finding, ...]] = []

    def replan(run: Run, findings: tuple[Finding, ...]) -> Plan:
        seen.append(findings)
        return Plan(command_after="again")

    left = only_new(analysis(finding("a"), finding("b")), frozenset({"a"}), replan)
    assert left.analysis.runs[0].plan.command_after == "again"
    assert [one.id for one in seen[0]] == ["b"]


def test_a_suppressed_finding_is_left_out_with_its_reason_on_record() -> None:
    entry = Suppression("a", "debugging", date(2026, 5, 1))
    left = suppressed(analysis(finding("a"), finding("b")), [entry], TODAY)
    assert ids(left.analysis) == ["b"]
    assert left.analysis.coverage.notes == ("suppressed until 2026-05-01: a (debugging)",)
    assert left.warnings == ()


def test_a_suppression_ends_on_its_day_and_says_so() -> None:
    entry = Suppression("a", "debugging", date(2026, 4, 30))
    left = suppressed(analysis(finding("a")), [entry], TODAY)
    assert ids(left.analysis) == ["a"]
    assert left.warnings == ("suppression of a ended on 2026-04-30: debugging",)
    assert left.analysis.coverage.notes == left.warnings


def test_a_suppression_that_fits_nothing_is_named_so_that_it_does_not_stay_for_ever() -> None:
    entries = [Suppression("a", "r", date(2020, 1, 1)), Suppression("c", "r", TODAY)]
    left = suppressed(analysis(finding("b")), entries, TODAY)
    assert left.warnings == (
        "suppression of a ended on 2020-01-01 and fits no finding of this log; drop it",
        "suppression of c fits no finding of this log; drop it once it is of no use",
    )
    assert left.analysis.coverage.notes == left.warnings


def test_a_suppression_for_another_model_is_not_worth_a_word() -> None:
    entry = Suppression("a", "r", TODAY, model="org/other")
    assert suppressed(analysis(finding("b")), [entry], TODAY).warnings == ()


@pytest.mark.parametrize(
    ("entry", "left"),
    [
        (Suppression("a", "r", TODAY, knob="--x"), ["a"]),
        (Suppression("a", "r", TODAY, knob="--z"), ["a", "a"]),
        (Suppression("a", "r", TODAY, model="org/other"), ["a", "a"]),
        (Suppression("a", "r", TODAY, model="org/tiny"), []),
    ],
)
def test_a_suppression_can_be_for_one_knob_or_one_model(entry: Suppression, left: list[str]) -> None:
    both = analysis(finding("a", "--x"), finding("a", "--y"))
    assert ids(suppressed(both, [entry], TODAY).analysis) == left


def test_fail_on_counts_its_own_severity_and_worse() -> None:
    found = analysis(finding("a", severity="medium"), finding("b", severity="info"))
    assert [reaches(found, severity) for severity in ("critical", "high", "medium", "low", "info")] == [
        False, False, True, True, True,
    ]  # fmt: skip
    assert not reaches(analysis(), "info")


def test_a_severity_is_named_by_its_word() -> None:
    assert severity_named("HIGH") == "high"
    with pytest.raises(LogdoctorError, match="critical, high, medium, low, info"):
        severity_named("bad")


def test_the_gate_fails_on_what_is_neither_known_nor_accepted(tmp_path: Path) -> None:
    path = tmp_path / "baseline.json"
    path.write_text(json.dumps(document(analysis(finding("known", severity="critical")))))
    settings = ToolSettings(baseline=path, suppressions=(Suppression("accepted", "r", TODAY),))
    passing = analysis(
        finding("known", severity="critical"), finding("accepted", severity="high"), finding("low")
    )
    failing = analysis(finding("new", severity="high"))
    left = without_known(passing, settings, TODAY).analysis
    assert ids(left) == ["low"]
    assert not reaches(left, "high")
    assert reaches(without_known(failing, settings, TODAY).analysis, "high")
