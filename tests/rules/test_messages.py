"""The verdict on a message is settled in the judgement of its run, and is the same in every format."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

import vllm_logdoctor
from tests.rules.making import a_run
from vllm_logdoctor.rules.messages import messages_of
from vllm_logdoctor.rules.model import Finding
from vllm_logdoctor.run.model import Run

FATAL = "EngineCore encountered a fatal error."
FAILURE = Finding("engine-code-bug", "failure", "critical", "high", "an error in vLLM's own code", "", "root")


def a_run_with(text: str, outcome: str) -> Run:
    run = a_run(messages=(text,), outcome=outcome)
    for seen in run.messages.values():
        seen.first[0] = replace(seen.first[0], record=replace(seen.first[0].record, level="ERROR"))
    return run


@pytest.mark.parametrize(
    ("outcome", "findings", "verdict"),
    [
        ("running", (), "not-fatal"),
        ("clean_shutdown", (), "not-fatal"),
        ("running", (FAILURE,), "cause-of-failure"),
        ("crashed_while_serving", (), "cause-of-failure"),
    ],
)
def test_what_can_end_a_run_did_not_end_one_that_went_on(outcome, findings, verdict) -> None:
    (message,) = messages_of(a_run_with(FATAL, outcome), findings)
    assert message.verdict == verdict


@pytest.mark.parametrize(("platform", "verdict"), [("cuda", "needs-attention"), ("tpu", "harmless")])
def test_compiled_kernels_are_missed_where_the_platform_uses_them(platform: str, verdict: str) -> None:
    run = a_run_with(
        "Failed to import from vllm._C: ModuleNotFoundError(\"No module named 'vllm._C'\")", "running"
    )
    run.platform = platform
    (message,) = messages_of(run, ())
    assert message.verdict == verdict


def test_an_error_that_no_pack_judges_is_listed_where_the_server_went_on() -> None:
    lines = [
        "INFO 05-01 10:00:01 [api_server.py:1043] vLLM API server version 0.8.2",
        "INFO:     Application startup complete.",
        "ERROR 05-01 10:01:54 [serving_chat.py:200] Error in preprocessing prompt inputs",
        'INFO:     10.0.0.1:3210 - "POST /v1/chat/completions HTTP/1.1" 200 OK',
    ]
    assert (
        "| error, not fatal | `Error in preprocessing prompt inputs` | vLLM went on after it. |"
        in vllm_logdoctor.analyze(lines).to_markdown()
    )


def test_a_release_that_refuses_requests_does_not_run_them() -> None:
    run = a_run(messages=("min_p and logit_bias parameters won't work with speculative decoding.",))
    (message,) = messages_of(run, ())
    assert "logit_bias are refused; others" in message.meaning


@pytest.mark.parametrize(("outcome", "led_on"), [("clean_shutdown", False), ("crashed_while_serving", True)])
def test_a_lost_engine_core_leads_to_an_earlier_cause_unless_the_run_was_stopped(
    outcome: str, led_on: bool
) -> None:
    (message,) = messages_of(a_run_with("AsyncLLM output_handler failed.", outcome), ())
    assert "After a stop signal this is normal" in message.meaning
    assert ("the cause is logged earlier" in message.meaning) is led_on
