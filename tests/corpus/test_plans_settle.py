"""A plan is made once: with it applied, a run gets none of the same advice, and no value goes back.

Over the bundled logs, and over the collected ones where they lie beside the repository. Of these every seventh is
read; with LOGDOCTOR_WHOLE_CORPUS=1 all of them.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.tables import for_each
from vllm_logdoctor import analyze
from vllm_logdoctor.diagnose import judge
from vllm_logdoctor.errors import LogdoctorError
from vllm_logdoctor.plan import advice_on
from vllm_logdoctor.plan.compose import new_findings, planned_findings
from vllm_logdoctor.plan.feasible import requests_held
from vllm_logdoctor.plan.planned import planned_run
from vllm_logdoctor.report.model import Diagnosis

ROOT = Path(__file__).resolve().parents[2]
CORPUS = ROOT.parent / "shared" / "corpus"
BUNDLED = sorted((ROOT / "fixtures").glob("*.log"))
COLLECTED = sorted(
    path
    for folder in ("cases", "public", "cpu", "ab/logs", "unseen")
    for path in (CORPUS / folder).glob("**/*.log")
)
READ = COLLECTED if os.environ.get("LOGDOCTOR_WHOLE_CORPUS") else COLLECTED[::7]


def asked(diagnosis: Diagnosis) -> dict[str, tuple[Any, Any, str]]:
    """The plan's flags and variables: from, to, and the kind of the finding that asks for them."""
    kinds = {finding.id: finding.kind for finding in diagnosis.findings}
    return {
        item.change.knob: (item.change.before, item.change.after, kinds[item.findings[0]])
        for item in diagnosis.plan.changes
        if item.change.kind in ("flag", "env")
    }


def returning(path: Path) -> list[str]:
    """What the plan of the planned run asks for, although the first plan has settled it."""
    found = []
    try:
        diagnoses = analyze(path).analysis.runs
    except LogdoctorError:
        return []
    for first in diagnoses:
        wanted = asked(first)
        again = (
            asked(judge(planned_run(first.run, [item.change for item in first.plan.changes]).run))
            if wanted
            else {}
        )
        for knob in wanted.keys() & again.keys():
            before, after, kind = wanted[knob]
            _, next_after, _ = again[knob]
            # The lines of a failure are still in the planned log: a next step of the same knob is right then.
            # What is unset by hand shows in no log.
            settled = kind == "failure" and (after is None or next_after not in (before, after))
            if not settled:
                found.append(f"run {first.run.number}: {knob} {before} -> {after} -> {next_after}")
    return found


@for_each("path", BUNDLED)
def test_the_plan_of_a_bundled_log_is_made_once(path: Path) -> None:
    assert returning(path) == []


@pytest.mark.skipif(not COLLECTED, reason=f"no collected logs in {CORPUS}")
def test_the_plan_of_a_collected_log_is_made_once() -> None:
    found = {path.name: said for path in READ if (said := returning(path))}
    assert found == {}


def defects_of_the_planned_run(path: Path) -> list[str]:
    """What the run of a plan would have that this run has not: a finding, or a cache below one request."""
    found = []
    try:
        diagnoses = analyze(path).analysis.runs
    except LogdoctorError:
        return []
    for first in diagnoses:
        if not asked(first):
            continue
        planned = planned_run(first.run, [item.change for item in first.plan.changes])
        known = {finding.id for finding in (*first.findings, *advice_on(first.run))}
        judged = planned_findings(advice_on(planned.run), known)
        found += [f"brings {finding.id}" for finding in new_findings(judged, known)]
        # With one limit gone another is next: it is no finding of the planned run, but the plan must name it.
        named = {limit.name for limit in first.plan.next_limits}
        if missing := set(judged.next_limits) - named:
            found.append(f"does not name the next limit: {missing}")
        held = requests_held(planned.before, planned.after)
        if planned.fails or (held and held[1] < 1):
            found.append(f"run {first.run.number}: holds {held} requests, {planned.fails}")
    return found


@for_each("path", BUNDLED)
def test_the_planned_run_of_a_bundled_log_has_no_new_defect(path: Path) -> None:
    assert defects_of_the_planned_run(path) == []


@pytest.mark.skipif(not COLLECTED, reason=f"no collected logs in {CORPUS}")
def test_the_planned_run_of_a_collected_log_has_no_new_defect() -> None:
    found = {path.name: said for path in READ if (said := defects_of_the_planned_run(path))}
    assert found == {}
