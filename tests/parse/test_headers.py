"""What loggers print before a message, from 0.2 to today."""

from __future__ import annotations

import pytest

from tests.parse.framing import record, records


@pytest.mark.parametrize(
    ("line", "level", "call_site", "message"),
    [
        ("INFO 03-04 10:11:12 [loggers.py:236] Engine ready", "INFO", ("loggers.py", 236), "Engine ready"),
        ("INFO 03-04 10:11:12 metrics.py:455] Engine ready", "INFO", ("metrics.py", 455), "Engine ready"),
        ("DEBUG 03-04 10:11:12 [v1/engine/core.py:861] step", "DEBUG", ("v1/engine/core.py", 861), "step"),
        (
            "ERROR 03-04 10:11:12 [kv_transfer/.../v1/base.py:9] lost",
            "ERROR",
            ("kv_transfer/.../v1/base.py", 9),
            "lost",
        ),
        ("WARNING 03-04 10:11:12.345 [__init__.py:28] slow", "WARNING", ("__init__.py", 28), "slow"),
        ("INFO 2026-03-04 10:11:12,345 arg_utils.py:129] set", "INFO", ("arg_utils.py", 129), "set"),
        ("CRITICAL 03-04 10:11:12 [launcher.py:98] gone", "CRITICAL", ("launcher.py", 98), "gone"),
        ("INFO  [gpu_worker.py:642]  text", "INFO", ("gpu_worker.py", 642), "text"),
        ("INFO:vllm.engine.llm_engine:text", "INFO", None, "text"),
        ("2026-03-04 10:11:12,710 - vllm.v1.metrics.loggers - INFO - text", "INFO", None, "text"),
    ],
)
def test_header_shapes(line: str, level: str, call_site: tuple[str, int] | None, message: str) -> None:
    found = record(line)
    assert (found.level, found.call_site, found.message) == (level, call_site, message)


def test_a_line_that_starts_inside_its_header_keeps_the_call_site() -> None:
    found = record("oggers.py:236] Engine 000: Avg prompt throughput: 1.0 tokens/s")
    assert found.message == "Engine 000: Avg prompt throughput: 1.0 tokens/s"


def test_a_line_that_starts_inside_its_level_keeps_level_time_and_call_site() -> None:
    found = record("NFO 03-04 10:11:12 [loader.py:447] Loading weights took 31.02 seconds")
    assert (found.level, found.call_site) == ("INFO", ("loader.py", 447))
    assert found.time == record("INFO 03-04 10:11:12 [loader.py:447] Loading").time
    assert found.message == "Loading weights took 31.02 seconds"


def test_text_without_header_is_a_record_without_level() -> None:
    found = record("Killed")
    assert (found.level, found.time, found.call_site, found.message) == ("", None, None, "Killed")


def test_a_header_inside_a_logged_prompt_is_no_header_of_this_record() -> None:
    found = record("INFO 03-04 10:11:12 [logger.py:41] said: ERROR 01-01 00:00:00 [engine.py:1] died")
    assert (found.level, found.call_site) == ("INFO", ("logger.py", 41))


def test_two_records_on_one_line_are_two_records() -> None:
    line = (
        "INFO 03-04 10:11:12 metrics.py:467] CPU KV cache usage: 0.0%.INFO 03-04 10:11:17 metrics.py:467] next"
        "(Worker pid=9) WARNING 03-04 10:11:18 [a.py:1] last"
    )
    first, second, third = records(line)
    assert first.message == "CPU KV cache usage: 0.0%."
    assert (second.message, second.text) == ("next", "INFO 03-04 10:11:17 metrics.py:467] next")
    assert (third.process.pid, third.level, third.message) == (9, "WARNING", "last")


def test_a_record_in_a_logged_prompt_is_part_of_the_prompt() -> None:
    line = "INFO 03-04 10:11:12 [logger.py:41] Received request: prompt: 'why?INFO 01-01 00:00:00 [a.py:1] x'"
    assert len(records(line)) == 1


def test_line_and_file_number_are_kept() -> None:
    assert (record("INFO 03-04 10:11:12 [a.py:1] x").file, record("INFO 03-04 10:11:12 [a.py:1] x").line) == (
        0,
        7,
    )


def test_figures_set_in_bold_in_a_pasted_log_are_figures() -> None:
    line = "INFO 03-04 10:11:12 [runner.py:9] Graph capturing finished in **17 secs**, took **0.5 GiB**"
    assert record(line).message == "Graph capturing finished in 17 secs, took 0.5 GiB"


def test_powers_and_keyword_arguments_in_code_stay() -> None:
    for code in ("return x**2 + y**2", "f(*args, **kwargs)", "size = 2 ** 3 ** 2"):
        assert record(code).message == code


def test_a_formatter_of_the_user_s_own_names_function_and_line() -> None:
    found = record("2026-03-04 10:11:12,345 - WARNING - core.py:__init__:69 - low on memory")
    assert (found.level, found.call_site, found.message) == ("WARNING", ("core.py", 69), "low on memory")
    assert found.time == record("INFO 2026-03-04 10:11:12,345 core.py:69] low on memory").time


def test_statistics_that_were_pasted_as_one_line_are_records_of_their_own() -> None:
    line = "INFO 03-04 10:11:12 [loggers.py:80] Prefix cache hit rate: 80.0% INFO 03-04 10:11:22 [loggers.py:80] next"
    assert [found.message.rstrip() for found in records(line)] == ["Prefix cache hit rate: 80.0%", "next"]
