"""A real vLLM with a model of random weights: well-formed nonsense, all of it refused.

White space is forbidden, or such a model writes nothing else:

    vllm serve MODEL --served-model-name tiny --max-model-len 32768 --structured-outputs-config '{"backend": "xgrammar", "disable_any_whitespace": true}'
    LOGDOCTOR_TEST_ENDPOINT=http://127.0.0.1:8000/v1 LOGDOCTOR_TEST_MODEL=tiny python -m pytest tests/assistants/test_random_model.py
"""

from __future__ import annotations

import os

import pytest

from vllm_logdoctor import analyze
from vllm_logdoctor.assistants.endpoint import Endpoint

URL, MODEL = os.environ.get("LOGDOCTOR_TEST_ENDPOINT", ""), os.environ.get("LOGDOCTOR_TEST_MODEL", "")
pytestmark = pytest.mark.skipif(
    not (URL and MODEL), reason="LOGDOCTOR_TEST_ENDPOINT and LOGDOCTOR_TEST_MODEL name no vLLM"
)


@pytest.mark.parametrize("log", ["vllm-0.32.0-fail-port-in-use.log", "vllm-0.11.2-kv-starved.log"])
def test_nothing_of_its_answer_is_shown(log: str) -> None:
    report = analyze(f"fixtures/{log}")
    before = report.to_dict()
    said = report.ask(Endpoint(URL, MODEL, timeout=600))
    assert said.error == ""
    assert said.claims == ()
    assert report.to_dict() == before
