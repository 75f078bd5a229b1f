"""An OpenAI-compatible endpoint: one request at a time, bounded in time, size and retries, to one host only."""

from __future__ import annotations

import json
import queue
import ssl
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct

from vllm_logdoctor.errors import LogdoctorError

TIMEOUT = 120.0
"""Seconds for one answer, retries included."""
_MOST_BYTES = 1 << 20
MOST_TOKENS = 2000
_ATTEMPTS = 3
_LONGEST_PAUSE = 10.0
_RETRIED = frozenset({429, 500, 502, 503, 504})
_SCHEMA = "second_opinion"


class EndpointError(Exception):
    """Why an endpoint gave no answer, in one line."""


class _PassingError(Exception):
    """A failure that may pass: why, and after how many seconds to try again."""

    def __init__(self, reason: str, pause: float | None = None) -> None:
        super().__init__(reason)
        self.pause = pause


class Endpoint(Struct, frozen=True):
    """A client of the library's protocol for `POST URL/chat/completions`.

    Args:
        url: base address, "http://127.0.0.1:8000/v1".
        model: name of the model.
        key: sent as bearer token; "" for none.
        timeout: seconds for one answer, retries included.
        max_tokens: tokens of one answer at most.
        pause: waits between two attempts.
    """

    url: str
    model: str
    key: str = ""
    timeout: float = TIMEOUT
    max_tokens: int = MOST_TOKENS
    pause: Callable[[float], None] = time.sleep

    @property
    def target(self) -> str:
        """The address that requests go to."""
        return self.url.rstrip("/") + "/chat/completions"

    def body(self, messages: Sequence[Mapping[str, str]], schema: Mapping[str, Any]) -> bytes:
        """Return the body of a request."""
        form = {"type": "json_schema", "json_schema": {"name": _SCHEMA, "strict": True, "schema": schema}}
        request = {
            "model": self.model,
            "messages": list(messages),
            "response_format": form,
            "temperature": 0,
            "max_tokens": self.max_tokens,
            "stream": False,
        }
        return json.dumps(request, ensure_ascii=False, indent=2).encode("utf-8", "replace")

    def complete(self, messages: Sequence[Mapping[str, str]], schema: Mapping[str, Any]) -> str:
        """Return the text of the model's answer.

        Raises:
            EndpointError: there is none, in one line.
        """
        body, end = self.body(messages, schema), time.monotonic() + self.timeout
        reason = ""
        for attempt in range(_ATTEMPTS):
            left = end - time.monotonic()
            if left <= 0:
                break
            try:
                return _content(self._within(left, body))
            except _PassingError as failure:
                reason = str(failure)
                wait = min(failure.pause if failure.pause is not None else 2.0**attempt, _LONGEST_PAUSE)
                if attempt + 1 < _ATTEMPTS and time.monotonic() + wait < end:
                    self.pause(wait)
        raise EndpointError(reason or f"no answer within {self.timeout:g} s")

    def _within(self, seconds: float, body: bytes) -> bytes:
        """Return the answer's bytes, or give up after some seconds whatever the other side does.

        A socket's time limit counts from one byte to the next, and none holds for the look-up of a name: the request runs
        in a thread of its own that is left behind.
        """
        answers: queue.SimpleQueue[bytes | Exception] = queue.SimpleQueue()
        connection = self._connection(seconds)

        def work() -> None:
            try:
                answers.put(self._exchanged(connection, body))
            except Exception as error:
                answers.put(error)

        threading.Thread(target=work, daemon=True).start()
        try:
            answer = answers.get(timeout=seconds)
        except queue.Empty:
            raise EndpointError(f"no answer within {self.timeout:g} s") from None
        finally:
            connection.close()
        if isinstance(answer, bytes):
            return answer
        raise _in_one_line(answer, self.target)

    def _connection(self, seconds: float) -> HTTPConnection:
        parts = split_url(self.url)
        if parts.scheme == "https":
            return HTTPSConnection(
                parts.hostname or "", parts.port, timeout=seconds, context=ssl.create_default_context()
            )
        return HTTPConnection(parts.hostname or "", parts.port, timeout=seconds)

    def _exchanged(self, connection: HTTPConnection, body: bytes) -> bytes:
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if self.key:
            headers["Authorization"] = f"Bearer {self.key}"
        connection.request("POST", urlsplit(self.target).path, body, headers)
        response = connection.getresponse()
        _check_status(response)
        kind = response.headers.get_content_type()
        if kind != "application/json":
            raise EndpointError(
                f"the answer is {kind!r:.60}, not JSON; is {self.url} an OpenAI-compatible endpoint?"
            )
        return _read(response)


def split_url(url: str) -> Any:
    """Return the parts of a base address.

    Raises:
        LogdoctorError: it is no http or https address, or holds a password (exit code 2).
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise LogdoctorError(f"--ask {url!r}: {error}", 2) from error
    if parts.scheme not in ("http", "https") or not parts.hostname or not url.isprintable() or port == 0:
        raise LogdoctorError(f"--ask {url!r} is no address; write for example http://127.0.0.1:8000/v1", 2)
    if parts.username or parts.password or parts.query or parts.fragment:
        raise LogdoctorError(
            "--ask takes an address without user, password and query; put the key into LOGDOCTOR_ASK_KEY", 2
        )
    return parts


def _check_status(response: HTTPResponse) -> None:
    status = response.status
    if status == 200:
        return
    if 300 <= status < 400:
        raise EndpointError(
            f"it redirects to {response.getheader('Location', 'nowhere')[:200]}: refused; if that is right, name it with --ask"
        )
    said = _error_text(response.read(20_000))
    if status in _RETRIED:
        pause = response.getheader("Retry-After", "")
        seconds = float(pause) if pause.isdigit() and pause.isascii() else None
        raise _PassingError(f"status {status}{said}", seconds)
    hint = "; set LOGDOCTOR_ASK_KEY" if status in (401, 403) else ""
    raise EndpointError(f"status {status}{said}{hint}")


def _error_text(body: bytes) -> str:
    """Return what an error says as vLLM and others write it, or nothing."""
    try:
        found = json.loads(body)
        said = found["error"]["message"] if "error" in found else found["message"]
        return f": {' '.join(str(said).split())[:200]}"
    except (ValueError, KeyError, TypeError, RecursionError):
        return ""


def _read(response: HTTPResponse) -> bytes:
    data = response.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise EndpointError("the answer is larger than 1 MiB")
    return data


def _in_one_line(error: Exception, target: str) -> Exception:
    if isinstance(error, EndpointError | _PassingError):
        return error
    if isinstance(error, ssl.SSLCertVerificationError):
        return EndpointError(f"the certificate does not fit: {error.verify_message}")
    if isinstance(error, ssl.SSLError):
        return EndpointError(f"no TLS connection: {error.reason or error}")
    if isinstance(error, TimeoutError):
        return EndpointError("no answer in time")
    if isinstance(error, ConnectionError | HTTPException):
        return _PassingError(f"no connection to {target}: {error or type(error).__name__}")
    if isinstance(error, OSError):
        return EndpointError(f"no connection to {target}: {error.strerror or error}")
    return EndpointError(f"{type(error).__name__}: {error}")


def _content(body: bytes) -> str:
    """Return the text of a chat completion.

    Raises:
        EndpointError: the body is none.
    """
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        raise EndpointError("the answer is not JSON") from None
    try:
        choice = answer["choices"][0]
        content = choice["message"]["content"]
    except (KeyError, IndexError, TypeError):
        raise EndpointError("the answer is JSON, but no chat completion") from None
    if not isinstance(content, str) or not content.strip():
        raise EndpointError("the answer holds no text")
    if choice.get("finish_reason") == "length":
        raise EndpointError("the answer was cut off at the most tokens that it may have")
    return content
