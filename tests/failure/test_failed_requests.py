"""Requests that fail lead the report when they are most of all."""

from __future__ import annotations

import pytest

from tests.run.lives_of_a_server import start, statistics
from vllm_logdoctor import RunView, analyze


def _served(good: int, bad: int, status: str) -> RunView:
    answers = ["200 OK"] * good + [status] * bad
    lines = [
        f'(APIServer pid=1) INFO:     127.0.0.1:5 - "POST /v1/completions HTTP/1.1" {one}' for one in answers
    ]
    return analyze([*start(), statistics(), *lines, statistics(clock="03-04 10:07:00")]).runs[0]


@pytest.mark.parametrize(
    ("status", "words"),
    [
        ("400 Bad Request", "75% of requests rejected with HTTP 4xx"),
        ("500 Internal Server Error", "75% of requests answered with HTTP 5xx"),
    ],
)
def test_the_share_is_the_headline_when_most_requests_fail(status: str, words: str) -> None:
    assert f"# LIMITED: {words}" in _served(10, 30, status).to_markdown()


def test_a_few_refused_requests_are_no_headline() -> None:
    assert "LIMITED" not in _served(30, 10, "400 Bad Request").to_markdown().split("\n")[0]


def test_an_exception_that_the_web_server_logged_is_no_refused_request() -> None:
    answered = [
        f'(APIServer pid=1) INFO:     127.0.0.1:5 - "POST /v1/embeddings HTTP/1.1" {status}'
        for status in ("400 Bad Request",) * 4 + ("500 Internal Server Error",)
    ]
    raised = [
        "(APIServer pid=1) ERROR:    Exception in ASGI application", "(APIServer pid=1) Traceback (most recent call last):",
        '(APIServer pid=1)   File "/opt/lib/python3.12/site-packages/starlette/responses.py", line 189, in render',
        "(APIServer pid=1)     return json.dumps(content)", "(APIServer pid=1) ValueError: Out of range float values are not JSON compliant",
    ]  # fmt: skip
    run = analyze([*start(), statistics(), *answered, *raised, statistics(clock="03-04 10:07:00")]).runs[0]
    fault, refused = [one for one in run.findings if one.id == "request-error-not-server-fault"]
    assert ["Out of range" in one.explanation for one in (fault, refused)] == [True, False]
    assert ["4 with 400" in one.explanation for one in (fault, refused)] == [False, True]
