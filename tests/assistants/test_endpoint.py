"""Whatever an endpoint does, there is one line that says so, within bounds; the key goes nowhere else."""

from __future__ import annotations

import json
import shutil
import ssl
import subprocess
import threading
import time
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from tests.assistants.answering import Handler, answer, claim, completion, reply, serving
from tests.tables import for_each
from vllm_logdoctor.assistants.endpoint import Endpoint, EndpointError, split_url
from vllm_logdoctor.assistants.question import schema
from vllm_logdoctor.errors import LogdoctorError

MESSAGES = [{"role": "user", "content": "why?"}]
GOOD = completion(answer(claim()))


def endpoint(url: str, **more: Any) -> Endpoint:
    return Endpoint(url, "tiny", **{"timeout": 20.0, "pause": lambda _: None, **more})


def asked(url: str, **more: Any) -> str:
    return endpoint(url, **more).complete(MESSAGES, schema(True))


def failure(*handlers: Handler, **more: Any) -> str:
    with serving(*handlers) as (url, _), pytest.raises(EndpointError) as caught:
        asked(url, **more)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_request_asks_for_json_by_schema_and_carries_the_key() -> None:
    with serving(reply(GOOD)) as (url, seen):
        assert json.loads(asked(url, key="k3y"))["claims"]
    body = json.loads(seen[0]["body"])
    assert seen[0]["path"] == "/v1/chat/completions"
    assert seen[0]["headers"]["Authorization"] == "Bearer k3y"
    assert body["response_format"]["json_schema"]["schema"] == schema(True)
    assert (body["model"], body["temperature"], body["stream"], body["messages"]) == (
        "tiny",
        0,
        False,
        MESSAGES,
    )


def test_without_a_key_none_is_sent() -> None:
    with serving(reply(GOOD)) as (url, seen):
        asked(url)
    assert "Authorization" not in seen[0]["headers"]


def test_nobody_listens() -> None:
    with serving(reply(GOOD)) as (url, _):
        pass
    with pytest.raises(EndpointError, match="no connection to http://127"):
        asked(url)


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_what_may_pass_is_tried_again_a_few_times(status: int) -> None:
    pauses: list[float] = []
    busy = reply(b'{"error": {"message": "too\\nbusy"}}', status, Retry_After="3")
    with serving(busy, busy, reply(GOOD)) as (url, seen):
        assert asked(url, pause=pauses.append)
    assert (len(seen), pauses) == (3, [3.0, 3.0])
    with serving(busy) as (url, seen), pytest.raises(EndpointError, match=f"status {status}: too busy"):
        asked(url)
    assert len(seen) == 3


def test_a_long_pause_is_not_kept() -> None:
    pauses: list[float] = []
    with serving(reply(b"", 429, Retry_After="86400"), reply(GOOD)) as (url, _):
        assert asked(url, pause=pauses.append)
    assert pauses == [10.0]


@for_each(
    ("handler", "words"),
    [
        (reply(b'{"error": {"message": "bad key"}}', 401), "status 401: bad key; set LOGDOCTOR_ASK_KEY"),
        (reply(b"<html>", 404), "status 404"),
        (reply(b'{"message": "maximum context length is 4096"}', 400), "status 400: maximum context length is 4096"),
        (reply(b"<p>hello", kind="text/html"), "'text/html', not JSON"),
        (reply(b"{never mind"), "the answer is not JSON"),
        (reply(b"[" * 100_000), "the answer is not JSON"),
        (reply(b"[1, 2]"), "no chat completion"),
        (reply(b'{"choices": []}'), "no chat completion"),
        (reply(b'{"choices": [{"message": {"content": null}}]}'), "holds no text"),
        (reply(b'{"choices": [{"message": {"content": "  "}}]}'), "holds no text"),
        (reply(completion("{", finish_reason="length")), "cut off at the most tokens"),
        (reply(b"", 302, Location="http://evil.example/v1"), "redirects to http://evil.example/v1: refused"),
        (reply(b"", 307, Location="/elsewhere"), "redirects to /elsewhere: refused"),
    ],
)  # fmt: skip
def test_an_answer_that_is_none_is_reported_in_one_line(handler: Handler, words: str) -> None:
    assert words in failure(handler)


def test_a_redirect_is_not_followed() -> None:
    with serving(reply(GOOD)) as (other, reached):
        assert "refused" in failure(reply(b"", 308, Location=f"{other}/chat/completions"), key="k3y")
    assert reached == []


def test_a_gigabyte_is_not_read() -> None:
    sent = 0

    def flood(request: BaseHTTPRequestHandler) -> None:
        nonlocal sent
        request.send_response(200)
        request.send_header("Content-Type", "application/json")
        request.send_header("Content-Length", str(1 << 30))
        request.end_headers()
        while sent < 1 << 30:
            sent += request.wfile.write(b" " * (1 << 16))

    assert "larger than 1 MiB" in failure(flood)
    assert sent < 1 << 26


@pytest.mark.parametrize("where", ["before the headers", "in the headers", "in the body"])
def test_an_answer_that_never_ends_is_left(where: str) -> None:
    over = threading.Event()

    def drip(request: BaseHTTPRequestHandler) -> None:
        if where == "in the headers":
            request.wfile.write(b"HTTP/1.1 200 OK\r\n")
        if where == "in the body":
            request.send_response(200)
            request.send_header("Content-Type", "application/json")
            request.end_headers()
        while not over.wait(0.02) and where != "before the headers":
            request.wfile.write(b"X-A: b\r\n" if where == "in the headers" else b" ")
        over.wait(20)

    started = time.monotonic()
    with serving(drip) as (url, _):
        with pytest.raises(EndpointError, match="no answer"):
            asked(url, timeout=0.5)
        over.set()
    assert time.monotonic() - started < 10


def test_a_certificate_that_does_not_fit_ends_it(tmp_path: Path) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("makes a certificate with openssl")
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=other.example",
         "-keyout", str(key), "-out", str(certificate)],
        check=True,
        capture_output=True,
    )  # fmt: skip
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with (
        serving(reply(GOOD), wrap=lambda socket: context.wrap_socket(socket, server_side=True)) as (
            url,
            seen,
        ),
        pytest.raises(EndpointError, match="the certificate does not fit"),
    ):
        asked(url)
    assert seen == []


@pytest.mark.parametrize(
    "url",
    ["", "vllm.log", "ftp://host/v1", "file:///etc/passwd", "http://", "http://user:pass@host/v1", "http://host/v1?key=a",
     "http://host:99999/v1", "http://host:port/v1", "http://ho\nst/v1", "http://host:0/v1"],
)  # fmt: skip
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(LogdoctorError) as caught:
        split_url(url)
    assert caught.value.exit_code == 2
