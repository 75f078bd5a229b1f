"""JSON records: vLLM's own formatter, a container's log driver, a platform's export."""

from __future__ import annotations

import json

import pytest

from tests.parse.framing import record


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
