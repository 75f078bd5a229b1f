"""Output of programs beside vLLM: clients that ask a server, runtimes of containers, pytest."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.parse import Record
from vllm_logdoctor.run.blocks import Block
from vllm_logdoctor.run.model import Benchmark, Run
from vllm_logdoctor.run.owners import is_file_of_vllm

# openai.BadRequestError: Error code: 400 - {'object': 'error', 'message': '...', 'type': 'BadRequestError', 'param': None, 'code': 400}
# openai.InternalServerError: Error code: 500
_ANSWERED = lazy_pattern(
    r"Error code: (?P<status>[45]\d\d)(?: - \{[\"'](?:object|error|detail|message)[\"']: |(?<=Error: Error code: \d{3})\s*$)"
)
UNREACHED, BROKEN_OFF = 0, 1
"""In place of an HTTP status: the server did not answer, or its answer ended too early."""
# TypeError: Completions.create() got an unexpected keyword argument 'skip_special_tokens'
_NOT_TAKEN = lazy_pattern(
    r"^TypeError: (?:Async)?\w{0,20}Completions\.\w{2,12}\(\) got an unexpected keyword argument '(?P<name>\w+)'"
)
# aiohttp.client_exceptions.ClientPayloadError: Response payload is not completed: ...      httpx.RemoteProtocolError: peer closed connection
# openai.APIConnectionError: Connection error.      aiohttp.client_exceptions.ClientConnectorError: Cannot connect to host 10.0.0.5:8000
# OpenAI API error: Connection error.      HTTPConnectionPool(host='gw', port=8000): Max retries exceeded with url: /v1/models (Caused by ...)
_UNREACHED = lazy_pattern(
    r"(?<!raise )\b(?:openai\.)?APIConnectionError\b|aiohttp\.client_exceptions\.ClientConnector\w*Error|httpx\.ConnectError\b"
    r"|\berror: Connection error\.\s*$|\bConnectionError: The vLLM server can't be reached at "
    r"|ConnectionPool\(host='[^']{1,200}', port=\d+\): Max retries exceeded with url: /(?:v1/|health\b)"
)
_BROKE_OFF = lazy_pattern(
    r"aiohttp\.client_exceptions\.(?:ClientPayload|ServerDisconnected)Error|(?:httpx|httpcore)\.RemoteProtocolError"
    r"|(?:urllib3|requests)\.exceptions\.(?:ProtocolError|ChunkedEncodingError)"
)
# base_url = "http://127.0.0.1:8000/v1"      OPENAI_API_BASE=http://gw:8000/v1      api_base: http://gw:8000/v1
_ADDRESS = lazy_pattern(
    r"(?i)\b(?:OPENAI_)?(?:base_url|api_base|API_BASE_URL)\b[\"']?\s{0,8}[=:]\s{0,8}[\"']?(?P<text>[^\s\"',;#]{4,200})"
)
_URL = lazy_pattern(r"(?i)[a-z][a-z0-9+.-]*://[^/\s]")
# http//127.0.0.1:8000/v1      http:/gw:8000/v1      localhost:8000/v1
_BROKEN_URL = lazy_pattern(r"(?i)https?[:/]|[\w.-]{1,100}:\d{2,5}(?:/|\Z)")


class Address(Struct, frozen=True):
    """Where a program is set to ask: as written, whether that is a URL, and the line that says it."""

    text: str
    is_url: bool
    record: Record


def addresses(records: Sequence[Record]) -> list[Address]:
    """Return the addresses of servers that settings of a client name."""
    named = ((_ADDRESS.search(one.message[:2000]), one) for one in records)
    return [
        Address(found["text"], _URL.match(found["text"]) is not None, record)
        for found, record in named
        if found is not None and (_URL.match(found["text"]) or _BROKEN_URL.match(found["text"]))
    ]


def failed_requests(records: Sequence[Record]) -> tuple[int, list[Record]]:
    """Return the status of the first answer that was an error, UNREACHED or BROKEN_OFF, and the lines of that kind.

    A web service that asks vLLM for its own callers is a server itself: what it was answered failed one of its requests.
    """
    if any("Exception in ASGI application" in one.message[:80] for one in records):
        return UNREACHED, []
    answered = [
        (_ANSWERED.search(one.message[:2000]), one) for one in records if "Error" in one.message[:2000]
    ]
    refused = [(int(found["status"]), one) for found, one in answered if found is not None]
    if refused:
        return refused[0][0], [one for status, one in refused if status == refused[0][0]]
    unreached = [one for one in records if _UNREACHED.search(one.message[:400])]
    if unreached:
        return UNREACHED, unreached
    return BROKEN_OFF, [one for one in records if _BROKE_OFF.search(one.message[:400])]


def argument_not_taken(records: Sequence[Record]) -> str:
    """Return the argument that the openai package refused before it sent a request, or ""."""
    found = (_NOT_TAKEN.match(one.message[:400]) for one in records)
    return next((one["name"] for one in found if one is not None), "")


# docker: Error response from daemon: could not select device driver "" with capabilities: [[gpu]].
# OCI runtime create failed: runc create failed: unable to start container process: ...      nvidia-container-cli: requirement error: ...
_REFUSED = lazy_pattern(
    r"^(?:docker: )?Error response from daemon: |\bOCI runtime (?:create|start|exec) failed: |\bnvidia-container-cli(?:\.real)?: \w+ error: "
    r"|\bunable to start container process: "
)


def refused_start(records: Sequence[Record]) -> Record | None:
    """Return the first line in which a container's runtime says that it did not start it, or None."""
    return next((one for one in records if _REFUSED.search(one.message[:1000])), None)


# FAILED tests/test_a.py::test_b[x-1] - ValueError: text      ERROR tests/test_a.py::test_b - OSError: text      (a CI system writes before it)
_FAILED = lazy_pattern(r"(?:^|[\]|] )(?P<shown>(?:FAILED|ERROR) \S{1,300}\.py::[^\n]+)")
# ========== warnings summary ==========      ===== 1 failed, 3 passed in 12.41s =====      ----- Captured stdout call -----
# >       assert output == expected      tests/test_a.py:83: AttributeError      Its errors begin with an E: E   TypeError: text
_OF_CI = r"(?:\[\d{4}-\d\d-\d\dT[\d:.]{8,15}Z?\] )?"
_SECTION = lazy_pattern(
    _OF_CI
    + r"(?:=+ (?:FAILURES|ERRORS|warnings summary|short test summary info|test session starts|\d+ (?:failed|passed|error)\b.*?) =+"
    r"|-+ Captured (?:stdout|stderr|log) (?:call|setup|teardown) -+|\S{1,200}\.py:\d+: \w+(?:Error|Exception|Failed)|> {3,}\S.*)\s*$"
)
# __________ test_parallel_sampling[True] __________          def test_lora(files):
_TEST_HEADING = lazy_pattern(
    _OF_CI
    + r"(?:_{3,} (?P<test>[\w.]*test\w*(?:\[.{1,200}\])?) _{3,}|\s*(?:async )?def (?P<defined>test_\w+)\()"
)
_MARKED = lazy_pattern(_OF_CI + r"> {3,}(?P<code>\S.*)")
OWN_ERROR = lazy_pattern(_OF_CI + r"E {2,}(?=\S)")


def is_of_pytest(records: Sequence[Record]) -> bool:
    """Return whether pytest printed an error among its own sections; a summary that names the tests may be missing."""
    errors = any(OWN_ERROR.match(one.text[:80]) for one in records)
    return errors and any(_SECTION.match(one.text[:600]) for one in records)


class FailedCheck(Struct, frozen=True):
    """Where a test failed.

    Attributes:
        test: name of the test, or "".
        statement: the line of code, or "".
        record: the line of code in the log, or that of the error.
    """

    test: str
    statement: str
    record: Record


def failed_check(records: Sequence[Record]) -> FailedCheck | None:
    """Return the first check of a test that failed: the assertion, else the first line of code that pytest marks; None without its error."""
    last = next((number for number, one in enumerate(records) if OWN_ERROR.match(one.text[:80])), None)
    if last is None:
        return None
    test = ""
    marked: list[tuple[str, Record]] = []
    for record in records[:last]:
        if (heading := _TEST_HEADING.match(record.text[:300])) is not None:
            named = heading["test"] or heading["defined"]
            test, marked = (test if test.startswith(named) else named), []
        elif (found := _MARKED.match(record.text[:300])) is not None:
            marked.append((found["code"].rstrip(), record))
    asserted = [one for one in marked if one[0].startswith("assert ")]
    code, record = next(iter(asserted[-1:] or marked[:1]), ("", records[last]))
    # raise AssertionError(      The error itself says that.
    says_nothing = code.endswith("(") or code.startswith("raise ")
    return FailedCheck(test, "" if says_nothing else code, record)


def begins_a_test(record: Record) -> bool:
    """Return whether a line is the heading with which pytest begins the section of a failed test."""
    found = _TEST_HEADING.match(record.text[:300])
    return found is not None and found["test"] is not None


def failed_tests(records: Sequence[Record]) -> dict[str, Record]:
    """Return the lines of a summary that name failed tests, without what a CI system wrote before them.

    A run that begins with the section of a test has the tests of its own sections: the summary names those of the session.
    """
    matches = ((_FAILED.search(one.message[:600]), one) for one in records if ".py::" in one.message[:600])
    found = {match["shown"]: record for match, record in matches if match is not None}
    if not found or not begins_a_test(records[0]):
        return found
    headings = (_TEST_HEADING.match(one.text[:300]) for one in records)
    tests = tuple(one["test"] for one in headings if one is not None and one["test"])
    return {
        line: one
        for line, one in found.items()
        if line.partition(" - ")[0].replace("::", ".").endswith(tests)
    }


# vllm/benchmarks/serve.py      vllm/benchmarks/lib/ready_checker.py      vllm/entrypoints/cli/benchmark/serve.py
_OF_BENCHMARK = lazy_pattern(r"/vllm/benchmarks/|/entrypoints/cli/(?:benchmark/|main\.py)")
_OF_REQUEST = lazy_pattern(r"/vllm/benchmarks/lib/\w*request_func\.py$")
_OF_CLIENT = lazy_pattern(r"/vllm/benchmarks/(?:serve|lib/)")


def is_of_benchmark_client(blocks: Sequence[Block]) -> bool:
    """Return whether all of vLLM's code in tracebacks is that of a benchmark's client, which starts no engine."""
    files = {frame.file for block in blocks for one in block.raised for frame in one.frames}
    own = [file for file in files if is_file_of_vllm(file)]
    return any(map(_OF_CLIENT.search, own)) and all(map(_OF_BENCHMARK.search, own))


def counted_in(block: Block, run: Run) -> Benchmark | None:
    """Return the result in which a benchmark's client counts the failed request whose traceback it printed, if others succeeded; else None.

    Failed requests during benchmark run detected (capping to 10):      Error 0: Traceback (most recent call last):
    """
    file, line = run.evidence(block.first).file, block.first.line
    ends = ((one, one.evidence[-1]) for one in run.benchmarks)
    result = next((one for one, end in ends if end.file == file and end.line > line), None)
    if result is None or not result.figures.get("Successful requests"):
        return None
    own = [frame.file for one in block.raised for frame in one.frames if is_file_of_vllm(frame.file)]
    return result if own and all(map(_OF_REQUEST.search, own)) else None
