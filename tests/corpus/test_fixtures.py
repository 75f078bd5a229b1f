"""Each bundled log against what is known of its run from outside the log.

What is expected comes from the command line, the exit status and what the load generator counted, never from
a report: see fixtures/ORIGINS.md.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.corpus.snapshot import FIXTURES, report_of
from tests.tables import for_each
from vllm_logdoctor import RunView

NAMES = sorted(path.name.removesuffix(".expect.json") for path in FIXTURES.glob("*.expect.json"))


def expected_runs(name: str) -> list[dict[str, Any]]:
    expectation: dict[str, Any] = json.loads((FIXTURES / f"{name}.expect.json").read_text())
    return list(expectation["runs"])


def runs_with(key: str) -> list[Any]:
    found = []
    for name in NAMES:
        for number, expected in enumerate(expected_runs(name)):
            if key in expected:
                found.append(pytest.param(name, number, expected[key], id=f"{name}-{number + 1}"))
    return found


def run_of(name: str, number: int) -> RunView:
    return report_of(name).runs[number]


def test_every_log_has_an_expectation_and_an_origin() -> None:
    logs = {path.name.removesuffix(".log") for path in FIXTURES.glob("*.log")}
    origins = (FIXTURES / "ORIGINS.md").read_text()
    assert logs == set(NAMES)
    assert [name for name in NAMES if f"`{name}`" not in origins] == []


@for_each("name", NAMES)
def test_as_many_runs_as_were_started(name: str) -> None:
    assert len(report_of(name).runs) == len(expected_runs(name))


@for_each("name", NAMES)
def test_every_rule_works(name: str) -> None:
    notes = [note for run in report_of(name).runs for note in run.diagnosis.unknowns]
    assert [note for note in notes if "defect" in note] == []


@for_each(("name", "number", "outcome"), runs_with("outcome"))
def test_outcome(name: str, number: int, outcome: str) -> None:
    assert run_of(name, number).outcome == outcome


@for_each(("name", "number", "version"), runs_with("version"))
def test_version(name: str, number: int, version: str | None) -> None:
    assert (run_of(name, number).version or "").split("+")[0] == (version or "")


@for_each(("name", "number", "config"), runs_with("config"))
def test_configuration(name: str, number: int, config: dict[str, Any]) -> None:
    found = run_of(name, number).config
    assert {field: found.get(field) for field in config} == config


@for_each(("name", "number", "tokens"), runs_with("kv_cache_tokens"))
def test_size_of_the_kv_cache(name: str, number: int, tokens: int) -> None:
    assert run_of(name, number).measured.get("kv_cache_tokens") == tokens


@for_each(("name", "number", "requests"), runs_with("requests"))
def test_requests_are_those_that_the_client_sent(name: str, number: int, requests: dict[str, int]) -> None:
    counted = {
        f"{method} {path} {status}": count for method, path, status, count in run_of(name, number).requests
    }
    assert {request: counted.get(request) for request in requests} == requests


@for_each(("name", "number", "accepted"), runs_with("root"))
def test_root_cause(name: str, number: int, accepted: list[str]) -> None:
    roots = [finding.id for finding in run_of(name, number).findings if finding.role == "root"]
    assert len(roots) == 1
    assert roots[0] in accepted


@for_each(("name", "number", "failures"), runs_with("failures"))
def test_no_failure_is_reported_where_nothing_failed(name: str, number: int, failures: list[str]) -> None:
    assert [finding.id for finding in run_of(name, number).findings if finding.kind == "failure"] == failures


@pytest.mark.parametrize(("name", "number", "findings"), runs_with("findings"))
def test_what_limits_it_is_found(name: str, number: int, findings: list[str]) -> None:
    found = {finding.id for finding in run_of(name, number).findings}
    assert set(findings) <= found


@for_each("name", NAMES)
def test_every_line_number_of_the_evidence_is_in_the_log(name: str) -> None:
    lines = (FIXTURES / f"{name}.log").read_bytes().split(b"\n")
    for run in report_of(name).runs:
        for evidence in (e for finding in run.findings for e in finding.evidence):
            assert 1 <= evidence.line <= len(lines)
