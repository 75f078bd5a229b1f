"""The JSON document: names that others rely on, no NaN, times only when the year is known, and its schema."""

from __future__ import annotations

import json
import math
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.report.synthetic import make_analysis
from tests.report.test_markdown import hostile_text
from tools import schema_page
from vllm_logdoctor.report import json as json_report
from vllm_logdoctor.report.document.model import DocumentOut
from vllm_logdoctor.report.json import encoded
from vllm_logdoctor.run.model import Value

ROOT = Path(__file__).resolve().parents[2]
CORPUS = ROOT.parent / "shared" / "corpus" / "cpu"


def strict(text: str) -> dict:
    def refuse(name: str) -> None:
        raise AssertionError(name)

    return json.loads(text, parse_constant=refuse)


def test_holds_the_names_of_the_contract(analysis_of):
    run = strict(json_report.render(analysis_of(failure=True)))["runs"][0]
    assert run["vllm_version"]["value"] == "0.18.1"
    assert run["lines"] == [1, 200]
    assert run["config"]["tensor_parallel_size"]["provenance"] == "explicit"
    assert run["measured"]["kv_cache_tokens"]["value"] == 85760
    assert run["measured"]["graph_capture_seconds"] is None
    assert run["serving"]["generation_throughput"] == {
        "mean_busy": 775.0,
        "p50": 775.0,
        "p95": 1400.0,
        "max": 1450.0,
    }
    assert run["serving"]["requests"] == {
        "total": 100,
        "by_status": {"200": 90, "404": 10},
        "by_minute": [
            {"start": None, "clock": "10-27 22:13:00", "minutes": 1, "by_status": {"200": 80}},
            {"start": None, "clock": "10-27 22:14:00", "minutes": 1, "by_status": {"200": 10, "404": 10}},
        ],
        "by_endpoint": [
            {"method": "GET", "path": "Qwen", "status": 404, "count": 10},
            {"method": "POST", "path": "/v1/Qwen", "status": 200, "count": 90},
        ],
    }
    assert run["findings"][0]["role"] == "root"
    assert run["plan"]["changes"][0]["from"] == 1
    assert run["what_if"][0]["kv_cache_tokens"] == 171520


def test_times_need_a_year(analysis_of):
    known = strict(json_report.render(analysis_of(year_known=True)))["runs"][0]
    unknown = strict(json_report.render(analysis_of()))["runs"][0]
    assert known["started"] == "2000-10-27T22:13:20"
    assert unknown["started"] is None
    assert unknown["clock"]["started"] == "10-27 22:13:20"


@pytest.mark.parametrize(
    "value", [math.nan, math.inf, -math.inf, {"a": math.nan}, [math.inf], {1, 2}, object, b"x"]
)
def test_no_value_breaks_the_document(analysis, value):
    analysis.runs[0].run.config["odd"] = Value(value, "explicit")
    document = strict(json_report.render(analysis))
    msgspec.convert(document, DocumentOut)


@settings(max_examples=100, deadline=None)
@given(text=hostile_text, failure=st.booleans(), runs=st.integers(1, 2))
def test_round_trip_through_the_models(text, failure, runs):
    text = text.encode("utf-8", "replace").decode()
    rendered = json_report.render(make_analysis(text, failure=failure, runs=runs))
    model = msgspec.convert(strict(rendered), DocumentOut)
    assert msgspec.json.decode(msgspec.json.encode(model)) == strict(rendered)


@settings(max_examples=100, deadline=None)
@given(text=hostile_text)
def test_is_valid_utf8_without_control_characters(text):
    rendered = json_report.render(make_analysis(text))
    assert all(ord(c) >= 32 or c == "\n" for c in rendered.encode("utf-8").decode("utf-8"))


def test_the_same_analysis_gives_the_same_bytes(analysis_of):
    assert json_report.render(analysis_of()) == json_report.render(analysis_of())


def test_the_reference_is_up_to_date():
    folder = ROOT / "docs" / "reference"
    hint = "run: python -m tools.schema_page docs/reference"
    assert (folder / schema_page.PAGE).read_text(encoding="utf-8") == schema_page.page(), hint
    assert (folder / schema_page.SCHEMA).read_text(encoding="utf-8") == schema_page.schema_text(), hint


LOGS = [
    "healthy_serve",
    "kv_starved",
    "two_runs_one_log",
    "offline_batch",
    "dp2",
    "kill_enginecore",
    "fail_port_in_use",
]


@pytest.mark.parametrize("name", LOGS)
@pytest.mark.parametrize("version", ["0.8.5", "0.11.2", "0.32.0"])
def test_documents_of_real_logs_follow_the_schema(version, name):
    jsonschema = pytest.importorskip("jsonschema")
    log = CORPUS / version / f"{name}.log"
    if not log.exists():
        pytest.skip(f"no {log.name} of {version} beside the repository")
    from vllm_logdoctor.pipeline import analyse
    from vllm_logdoctor.source import inputs_from

    document = strict(json_report.render(analyse(inputs_from(str(log)))))
    jsonschema.Draft202012Validator(json.loads(schema_page.schema_text())).validate(document)
    msgspec.convert(document, DocumentOut)


def test_half_of_a_surrogate_pair_is_a_question_mark_wherever_it_is():
    part = {"a\ud800": ["b\ud800", ("c\udfff", 7)], "d": {"e": "f\ud800", "g": None}, "h": 1.5}
    assert json.loads(encoded(part)) == {"a?": ["b?", ["c?", 7]], "d": {"e": "f?", "g": None}, "h": 1.5}
    assert json.loads(encoded({"ä": "ü"})) == {"ä": "ü"}
