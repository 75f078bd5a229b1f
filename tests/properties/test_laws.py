"""Laws of the whole way."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from vllm_logdoctor import LogdoctorError, analyze
from vllm_logdoctor.pipeline import Options, analyse
from vllm_logdoctor.report.json import render
from vllm_logdoctor.source import Input

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
MIXED = (
    "vllm-0.11.2-two-runs-one-log",
    "vllm-0.32.0-kill-worker-tp2",
    "vllm-0.32.0-json-logging-fields",
    "vllm-0.8.5-kv-starved",
    "vllm-0.32.0-request-logging",
)
slow = settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))


def document(data: bytes, **options: object) -> str:
    return render(analyse([Input("vllm.log", data=data)], Options(**options)))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", MIXED)
@pytest.mark.parametrize("chunk_bytes", [997, 65_536])
def test_the_same_bytes_give_the_same_report_whatever_the_chunks(name: str, chunk_bytes: int) -> None:
    data = (FIXTURES / f"{name}.log").read_bytes()
    assert document(data, chunk_bytes=chunk_bytes) == document(data)


@pytest.mark.parametrize("name", MIXED[:2])
def test_the_same_bytes_give_the_same_report_without_hyperscan(name: str) -> None:
    data = (FIXTURES / f"{name}.log").read_bytes()
    assert document(data, pure_python=True) == document(data)


def test_the_same_bytes_give_the_same_report_twice() -> None:
    data = (FIXTURES / f"{MIXED[0]}.log").read_bytes()
    assert document(data) == document(data)


@slow
@given(st.binary(max_size=2000))
def test_any_bytes_give_a_report_or_one_line(data: bytes) -> None:
    try:
        report = analyze(data)
    except LogdoctorError as error:
        told = str(error)
    else:
        told = ""
        for text in (report.to_markdown(), report.to_text(), report.to_json(), report.to_html()):
            text.encode("utf-8")
    assert "\n" not in told


@slow
@given(st.data())
def test_a_real_log_with_damage_gives_a_report(data: st.DataObject) -> None:
    log = bytearray((FIXTURES / "vllm-0.32.0-kv-starved.log").read_bytes())
    for _ in range(data.draw(st.integers(1, 5))):
        at = data.draw(st.integers(0, len(log)))
        log[at : at + data.draw(st.integers(0, 3000))] = data.draw(st.binary(max_size=200))
    try:
        report = analyze(bytes(log))
    except LogdoctorError:
        return
    assert json.loads(report.to_json()) == report.to_dict()
    report.to_markdown().encode("utf-8")


def test_a_log_cut_anywhere_gives_a_report() -> None:
    whole = (FIXTURES / "vllm-0.32.0-fail-max-model-len-exceeds-kv-cache.log").read_bytes()
    for end in range(2000, len(whole), 2500):
        for run in analyze(whole[:end]).runs:
            assert [note for note in run.diagnosis.unknowns if "defect" in note] == []
