"""Output of programs that ask a server: what it answered them, or that it did not answer."""

from __future__ import annotations

from collections.abc import Sequence

from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.parse import Record

# openai.BadRequestError: Error code: 400 - {'object': 'error', 'message': '...', 'type': 'BadRequestError', 'param': None, 'code': 400}
_ANSWERED = lazy_pattern(r"Error code: (?P<status>[45]\d\d) - \{[\"'](?:object|error|detail|message)[\"']: ")
# openai.APIConnectionError: Connection error.      aiohttp.client_exceptions.ClientConnectorError: Cannot connect to host 10.0.0.5:8000
_UNREACHED = lazy_pattern(
    r"\b(?:openai\.)?APIConnectionError\b|aiohttp\.client_exceptions\.(?:ClientConnector\w*|ServerDisconnected)Error|httpx\.ConnectError\b"
)


def failed_requests(records: Sequence[Record]) -> tuple[int, list[Record]]:
    """Return the status of the first answer that was an error, 0 where the server was not reached, and the lines of that kind.

    A web service that asks vLLM for its own callers is a server itself: what it was answered failed one of its requests.
    """
    if any("Exception in ASGI application" in one.message[:80] for one in records):
        return 0, []
    answered = [
        (_ANSWERED.search(one.message[:2000]), one) for one in records if "Error" in one.message[:2000]
    ]
    refused = [(int(found["status"]), one) for found, one in answered if found is not None]
    if refused:
        return refused[0][0], [one for status, one in refused if status == refused[0][0]]
    return 0, [one for one in records if _UNREACHED.search(one.message[:400])]
