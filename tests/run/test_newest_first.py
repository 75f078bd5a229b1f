"""Exports with the newest line first are told as such, before anything that their order makes wrong."""

from __future__ import annotations

from tests.run.lives_of_a_server import start, statistics, stop
from vllm_logdoctor import analyze

LIFE = [*start(), *(statistics(clock=f"03-04 10:0{n}:00") for n in range(1, 9)), *stop()]


def told(lines: list[str]) -> str:
    return analyze("\n".join(lines).encode() + b"\n").to_markdown()


def test_an_export_with_the_newest_line_first_is_called_that() -> None:
    report = told(LIFE[::-1])
    assert "newest first" in report
    assert "tac LOG" in report


def test_a_wrappers_clock_that_falls_counts_before_the_one_inside() -> None:
    wrapped = [f"2026-03-04T10:{59 - n:02}:00.000Z {line}" for n, line in enumerate(LIFE[::-1])]
    assert "newest first" in told(wrapped)


def test_time_that_passes_is_nothing_to_tell() -> None:
    assert "newest first" not in told(LIFE)


def test_a_server_that_starts_again_with_an_earlier_clock_is_no_such_export() -> None:
    earlier = [line.replace("03-04 10:", "03-04 09:") for line in LIFE]
    assert "newest first" not in told([*LIFE, *earlier])


def test_the_time_of_a_backward_log_still_begins_with_its_oldest_line() -> None:
    [run] = analyze("\n".join([statistics(clock=f"03-04 10:0{n}:00") for n in range(9, 0, -1)]).encode()).runs
    assert run.run.started is not None
    assert run.run.ended is not None
    assert run.run.ended - run.run.started == 480
