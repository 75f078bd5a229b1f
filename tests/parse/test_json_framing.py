"""JSON records: vLLM's own formatter, a container's log driver, a platform's export."""

from __future__ import annotations

import json

import pytest

from tests.parse.framing import record, records


@pytest.mark.parametrize(
    "members",
    [
        {"message": "text", "levelname": "WARNING", "asctime": "2026-03-04 10:11:12,345"},
        {"msg": "text", "level": "warning", "time": "2026-03-04T10:11:12Z"},
        {"text": "text", "log_level": "Warning", "timestamp": "2026-03-04T10:11:12.000Z"},
    ],
)
def test_level_time_and_message_are_read(members: dict[str, str]) -> None:
    found = record(json.dumps(members))
    assert (found.level, found.message, found.year_known) == ("WARNING", "text", True)
    assert found.outer_time is not None
    assert found.outer_time % 86400 // 1 == 10 * 3600 + 11 * 60 + 12


def test_the_default_formatter_prints_the_message_alone() -> None:
    found = record('{"message": "vLLM API server version 0.16.0"}')
    assert found.message == "vLLM API server version 0.16.0"


def test_a_process_prefix_may_precede_the_json() -> None:
    found = record('(APIServer pid=5) {"message": "text", "levelname": "INFO"}')
    assert (found.process.pid, found.message) == (5, "text")


def test_a_text_record_inside_a_container_s_json() -> None:
    inner = "(EngineCore_DP0 pid=52) ERROR 03-04 10:11:12 [core.py:93] died"
    found = record(json.dumps({"log": inner + "\n", "stream": "stderr", "time": "2026-03-04T08:11:12.1Z"}))
    assert (found.level, found.process.pid, found.call_site, found.message) == (
        "ERROR",
        52,
        ("core.py", 93),
        "died",
    )


def test_one_member_of_a_pretty_printed_export() -> None:
    found = record('    "textPayload": "WARNING 03-04 10:11:12 [argparse_utils.py:257] renamed",')
    assert (found.level, found.message) == ("WARNING", "renamed")


def test_json_that_is_cut_is_text() -> None:
    assert record('{"message": "text", "levelna').level == ""


def test_json_that_is_a_message_stays_one() -> None:
    found = record('INFO 03-04 10:11:12 [api.py:5] config {"message": "inner"}')
    assert found.message == 'config {"message": "inner"}'


TAIL = (
    "\x1b[0;36m(EngineCore_DP0 pid=9)\x1b[0m INFO 11-03 10:00:00 [core.py:77] Initializing\n"
    "ERROR 11-03 10:00:02 [core.py:708] EngineCore failed to start.\n"
    "Traceback (most recent call last):\n"
    '  File "/opt/vllm/v1/worker/gpu_worker.py", line 179, in init_device\n'
    "ValueError: Free memory is less than desired\n"
)
MESSAGES = ["Initializing", "EngineCore failed to start.", *TAIL.splitlines()[2:]]


@pytest.mark.parametrize(
    "line",
    [
        json.dumps({"id": 7, "status": "UNHEALTHY", "message": TAIL}),
        f'    "logs": {json.dumps(TAIL)},',
        json.dumps({"reason": json.dumps({"stderr": TAIL})}),
        "2026-03-01 10:00:00 replica failed: " + repr({"replica": "a", "stderr": TAIL}),
        f"    message: {json.dumps(TAIL)}",
    ],
)
def test_each_line_of_a_log_in_a_string_is_a_record(line: str) -> None:
    found = [one for one in records(line) if one.message in MESSAGES]
    assert [one.message for one in found] == MESSAGES
    assert [one.level for one in found[:2]] == ["INFO", "ERROR"]
    assert found[0].process.pid == 9


@pytest.mark.parametrize(
    "body",
    [{"role": "user", "content": TAIL}, {"prompt": TAIL}, {"type": "function_call_output", "output": TAIL}],
)
def test_a_log_that_a_user_pasted_into_a_request_stays_in_its_string(body: dict[str, str]) -> None:
    assert not [one for one in records(f"request body: {json.dumps(body)}") if one.message in MESSAGES]


def test_a_secret_beside_a_log_in_a_string_is_masked() -> None:
    line = json.dumps({"api_key": "sk-Zq7hTk2Lw9XbV3nRZq7hTk2Lw9XbV3nR", "logs": TAIL})
    assert not [one for one in records(line) if "Zq7hTk2L" in one.text + one.message]
