"""Lines that show how a process was ended from outside."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.run.lives_of_a_server import start, statistics
from tests.tables import for_each
from vllm_logdoctor import analyze
from vllm_logdoctor.parse import Process, Record
from vllm_logdoctor.run.termination import _TRACES, stop_kind


def record(message: str, level: str = "") -> Record:
    return Record(0, 1, Process(), level, None, None, False, None, message, message)


@for_each(
    ("message", "kind"),
    [
        ("slurmstepd: error: *** JOB 71 ON n4 CANCELLED AT 2026-02-03T04:05:06 DUE TO TIME LIMIT ***", "walltime"),
        ("slurmstepd: error: *** JOB 71 ON n4 CANCELLED AT 2026-02-03T04:05:06 ***", "scheduler"),
        ("=>> PBS: job killed: walltime 7212 exceeded limit 7200", "walltime"),
        ("=>> PBS: job killed: mem 90000000kb exceeded limit 80000000kb", "memory"),
        ("slurmstepd: error: Detected 1 oom_kill event in StepId=71.0.", "memory"),
        ("./run.sh: line 12: 4711 Killed      vllm serve m", "kill"),
        ("command terminated with exit code 137", "kill"),
        ("command terminated with exit code 143", "signal"),
        ("[shutdown] EngineCore: trigger received signal=SIGTERM", "signal"),
        ("^C", "user"),
        ("Shutting down FastAPI HTTP server.", "shutdown"),
        ("Finished server process [70]", "ended"),
        ("Killed by a critic", None),
        ('            "OOMKilled": true,', "memory"),
        ('            "OOMKilled": false,', None),
        ("    Reason:       OOMKilled", "memory"),
    ],
)  # fmt: skip
def test_each_trace_has_its_kind(message: str, kind: str | None) -> None:
    assert stop_kind(record(message)) == kind


@pytest.mark.parametrize("level", ["DEBUG", "WARNING"])
def test_debug_output_and_warnings_end_nothing(level: str) -> None:
    assert stop_kind(record("Finished server process [70]", level)) is None


@pytest.mark.parametrize(("words", "expression"), [(words, pattern) for _, words, pattern in _TRACES])
def test_every_line_that_an_expression_takes_holds_one_of_its_words(
    words: tuple[str, ...], expression: re.Pattern[str]
) -> None:
    @given(st.from_regex(expression.pattern))
    @settings(max_examples=150, deadline=None, derandomize=True)
    def holds(text: str) -> None:
        assert any(word in text for word in words)

    holds()


def test_a_segmentation_fault_that_a_library_caught_is_no_wanted_stop() -> None:
    crash = "[node1:7:0:7] Caught signal 11 (Segmentation fault: address not mapped to object at address 0x8)"
    assert analyze([*start(), statistics(), crash]).runs[0].outcome == "crashed_while_serving"
