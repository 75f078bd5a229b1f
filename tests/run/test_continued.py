"""Further lines of a message are understood with its first line, and are no unknown templates."""

from __future__ import annotations

from vllm_logdoctor.parse import Record, RecordParser
from vllm_logdoctor.run.continuation_lines import Continuations
from vllm_logdoctor.scan import WantedLine

HEADER = "(EngineCore pid={pid}) ERROR 05-01 10:00:{second:02d} [core.py:708] {text}"


def record(text: str, second: int = 0, pid: int = 7) -> Record:
    line = HEADER.format(pid=pid, second=second, text=text).encode()
    return next(iter(RecordParser().parse(WantedLine(0, 1, line))))


def test_lines_of_a_recognised_message_are_recognised() -> None:
    lines = Continuations()
    assert lines.belongs(record("EngineCore failed to start."), True) == (False, True)
    assert lines.belongs(record("Traceback (most recent call last):"), False) == (True, True)
    assert lines.belongs(record('  File "a.py", line 1, in b'), False) == (True, True)


def test_a_print_between_two_lines_of_a_message_does_not_end_it() -> None:
    lines = Continuations()
    lines.belongs(record("EngineCore failed to start."), True)
    printed = next(iter(RecordParser().parse(WantedLine(0, 2, b"(EngineCore pid=7) Process EngineCore:"))))
    assert lines.belongs(printed, False) == (False, False)
    assert lines.belongs(record('  File "a.py", line 1, in b'), False) == (True, True)


def test_lines_of_an_unknown_message_are_one_unknown_message() -> None:
    lines = Continuations()
    assert lines.belongs(record("Frobnication failed:"), False) == (False, False)
    assert lines.belongs(record("at the second stage"), False) == (True, False)


def test_processes_that_write_between_each_other_are_distinguished() -> None:
    lines = Continuations()
    lines.belongs(record("EngineCore failed to start.", pid=7), True)
    lines.belongs(record("Frobnication failed:", pid=8), False)
    assert lines.belongs(record("Traceback (most recent call last):", pid=7), False) == (True, True)
    assert lines.belongs(record("at the second stage", pid=8), False) == (True, False)


def test_a_later_line_of_the_same_call_is_a_message_of_its_own() -> None:
    lines = Continuations()
    lines.belongs(record("EngineCore failed to start."), True)
    assert lines.belongs(record("Something else", second=1), False) == (False, False)


def test_an_empty_line_is_nothing_to_understand_and_ends_no_message() -> None:
    lines = Continuations()
    lines.belongs(record("EngineCore failed to start."), True)
    assert lines.belongs(record(""), False) == (True, True)
    assert lines.belongs(record("Traceback (most recent call last):"), False) == (True, True)


def test_a_traceback_is_recognised_below_a_line_that_says_nothing() -> None:
    lines = Continuations()
    assert lines.belongs(record("AssertionError()"), False) == (False, False)
    assert lines.belongs(record("Traceback (most recent call last):"), False) == (True, True)
    assert lines.belongs(record('  File "engine.py", line 7, in step'), False) == (True, True)


def test_a_traceback_whose_head_is_lost_is_recognised_from_its_first_place_on() -> None:
    lines = Continuations()
    assert lines.belongs(record('  File "engine.py", line 7, in step'), False) == (False, True)
    assert lines.belongs(record("    self.run()"), False) == (True, True)
