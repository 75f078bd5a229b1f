"""Parts of a start by their clocks: what of it no part explains, and where a total that is printed late began."""

from __future__ import annotations

import pytest

from vllm_logdoctor.run.model import Phase
from vllm_logdoctor.run.phase_parts import begun_with_parts, inside


def part(
    name: str, start: float | None, end: float | None, parent: str = "startup", process: str = ""
) -> Phase:
    seconds = end - start if start is not None and end is not None else None
    return Phase(name, process, start, end, seconds, (), parent)


@pytest.mark.parametrize(
    ("first", "start"),
    [
        (88.9, 88.9),  # more than a second before: the total began with its first part
        (89.0, 90.0),  # clocks are printed in whole seconds
        (95.0, 90.0),
    ],
)
def test_a_total_that_is_printed_late_began_with_the_first_of_its_parts(first: float, start: float) -> None:
    phases = [
        part("compile", 90.0, 106.0),
        part("dynamo", first, first + 5, "compile"),
        part("inductor", 100.0, 104.0, "compile"),
    ]
    found = begun_with_parts(phases)[0]
    assert (found.start, found.end, found.seconds) == (start, start + 16.0 if start != 90.0 else 106.0, 16.0)


def test_parts_of_another_process_or_an_earlier_compilation_move_no_total() -> None:
    other = [part("compile", 90.0, 106.0, process="rank 0"), part("dynamo", 50.0, 60.0, "compile", "rank 1")]
    assert begun_with_parts(other) == other
    slowest = [
        part("compile", 90.0, 106.0, process="rank 0 (slowest of 4)"),
        part("dynamo", 50.0, 60.0, "compile", "rank 0"),
    ]
    assert begun_with_parts(slowest)[0].start == 50.0
    again = [part("compile", 10.0, 20.0), part("dynamo", 5.0, 8.0, "compile"), part("compile", 90.0, 106.0)]
    assert [one.start for one in begun_with_parts(again)] == [5.0, 5.0, 90.0]


def test_no_part_begins_before_its_whole() -> None:
    whole = part("startup", 100.0, 200.0, "")
    parts = [
        whole,
        part("load", 99.5, 120.0),
        part("compile", 100.5, 120.0),
        part("early", 90.0, 99.0),
        part("other", 99.0, 120.0, "serving"),
    ]
    assert [one.start for one in inside(parts)] == [100.0, 100.0, 100.5, 90.0, 99.0]
