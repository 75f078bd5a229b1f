"""The table of what vLLM prints: found by file and by text, and loaded for nothing but a question."""

from __future__ import annotations

import subprocess
import sys

from vllm_logdoctor.knowledge.messages import message_table
from vllm_logdoctor.knowledge.templates import could_print, literal_parts

TABLE = message_table()
LEVELS = {"critical", "error", "exception", "warning", "warn", "info", "print", "debug", "trace", "raise"}


def test_every_message_has_a_level_and_releases_in_order() -> None:
    messages = list(TABLE)
    assert len(messages) > 20_000
    assert {message.level for message in messages} == LEVELS
    last = len(TABLE.versions) - 1
    assert all(0 <= first <= until <= last for message in messages for first, until, *_ in message.spans)


def test_a_file_has_all_that_files_of_its_name_log_and_nothing_else() -> None:
    every = {message for message in TABLE.logged if message.base == "utils.py"}
    assert len({message.module for message in every}) > 5
    assert set(TABLE.logged_by("utils.py")) == every
    assert TABLE.logged_by("no_such_file.py") == ()
    assert TABLE.logged_by('x"],["') == ()


def test_an_exception_is_found_by_its_text() -> None:
    text = "No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine."
    found = [message for message in TABLE.raised_in(text) if could_print(message.parts, text)]
    assert found
    assert all(message.level == "raise" for message in found)
    assert list(TABLE.raised_in("")) == []


def test_parts_are_those_of_the_template() -> None:
    assert all(
        message.parts == literal_parts(message.template, message.style)
        for message in TABLE.logged_by("core.py")
    )


def test_nothing_is_read_before_a_line_that_no_pattern_takes() -> None:
    code = (
        "from vllm_logdoctor.catalogue.loading import load_index\n"
        "from vllm_logdoctor.events import Matcher\n"
        "Matcher(load_index())\n"
        "from vllm_logdoctor.knowledge.messages import message_table\n"
        "print(message_table.cache_info().misses)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "0"
