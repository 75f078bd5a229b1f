"""Parts of a start by their clocks: what of it no part explains, and where a total that is printed late began."""

from __future__ import annotations

import pytest

from vllm_logdoctor.run.model import Evidence, Phase
from vllm_logdoctor.run.phase_parts import (
    begun_with_parts,
    fitted,
    inside,
    longest_of_ranges,
    with_parts_of_compile,
    with_profiling,
    within_siblings,
    without_lost_wholes,
)


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


def test_a_total_ends_no_earlier_than_its_last_part() -> None:
    """Between the parts of torch.compile lies what its total does not count: they lie inside it all the same."""
    whole = part("compile", 68.0, 78.0)
    traced = part("dynamo", 62.0, 70.0, "compile", "rank 0 (slowest of 2)")
    cache = part("compile-cache", 75.0, 77.0, "compile")
    found = begun_with_parts([whole, traced, cache])[0]
    assert (found.start, found.end, found.seconds) == (62.0, 77.0, 10.0)


def test_what_lies_within_another_part_of_the_engine_s_start_is_a_part_of_that() -> None:
    """Their sum would be more than the whole: memory profiling of some releases counts the compilation."""
    profiling = part("profiling", 38.0, 48.0, "engine-init")
    capture = part("graph-capture", 49.0, 66.0, "engine-init")
    compiled = part("compile", 38.0, 44.0, "engine-init")
    beside = part("warm-up", 47.5, 49.5, "engine-init")
    loading = part("read-weights", 39.0, 44.0, "load-weights")
    parents = [one.parent for one in within_siblings([profiling, capture, compiled, beside, loading])]
    assert parents == ["engine-init", "engine-init", "profiling", "engine-init", "load-weights"]


def test_what_is_printed_behind_the_end_of_another_part_follows_it() -> None:
    """A clock of whole seconds puts a run of half a second into the compilation before it."""
    line = Evidence("a.log", 41, ""), Evidence("a.log", 42, "")
    compiled = Phase("compile", "", 28.1, 50.0, 21.9, line[:1], "engine-init")
    warmed = Phase("warm-up", "", 49.46, 50.0, 0.54, line[1:], "engine-init")
    assert [one.parent for one in within_siblings([compiled, warmed])] == ["engine-init"] * 2


def test_of_two_loads_a_part_lies_in_the_one_that_it_ends_with() -> None:
    first, second = part("load-weights", 16.0, 70.0), part("load-weights", 70.0, 72.0)
    read = part("read-weights", 56.0, 70.0, "load-weights")
    assert inside([first, second, read])[2].start == 56.0


def test_a_part_without_length_behind_another_one_is_none_of_that() -> None:
    whole, imports = part("startup", 0.0, 90.0, ""), part("imports", 0.0, 23.0)
    found = {one.name: one for one in fitted([whole, imports, part("engine-init", 80.0, 80.0)])}
    assert found["engine-init"].parent == "startup"


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


def lasting(
    name: str, seconds: float | None, process: str = "", start: float | None = None, end: float | None = None
) -> Phase:
    """Return a phase with seconds that the engine printed."""
    return Phase(name, process, start, end, seconds)


def test_of_compilations_that_ran_together_in_one_process_the_longest_is_kept() -> None:
    longest = lasting("compile-cache", 9.0, "rank 0 (slowest of 2)", 10.0, 19.0)
    shorter = lasting("compile-cache", 8.0, "rank 0", 11.0, 20.0)  # Its end is printed in whole seconds.
    later = lasting("compile-cache", 5.0, "rank 0", 30.0, 35.0)
    before = lasting("compile-cache", 5.0, "rank 0", 8.9, 13.9)
    of_another = lasting("compile-cache", 8.0, "rank 1", 11.0, 19.0)
    of_another_kind = lasting("inductor", 8.0, "rank 0", 11.0, 19.0)
    unknown = lasting("compile-cache", None, "rank 0")
    kept = [longest, later, before, of_another, of_another_kind, unknown]
    assert {id(one) for one in longest_of_ranges([shorter, *kept])} == {id(one) for one in kept}
    loads = [lasting("load-weights", 9.0, "", 10.0, 19.0), lasting("load-weights", 8.0, "", 11.0, 19.0)]
    assert longest_of_ranges(loads) == loads


def test_the_warm_up_is_a_part_of_the_profiling_that_it_lies_in_and_of_no_other() -> None:
    first, second = lasting("profiling", 9.0, "", 10.0, 19.0), lasting("profiling", 9.0, "", 30.0, 39.0)
    timed = [
        lasting("warm-up", 3.0, "", 29.5, 32.5),
        lasting("warm-up", 3.0, "", 31.0, 34.0),
        lasting("warm-up", 12.0, "", 18.0, 30.0),
        lasting("warm-up", 3.0),
        lasting("dynamo", 3.0, "", 31.0, 34.0),
    ]
    found = with_profiling(timed, [first, second])
    assert [(one.parent, one.start) for one in found[:5]] == [
        ("profiling", 30.0), ("profiling", 31.0), ("", 18.0), ("", None), ("", 31.0),
    ]  # fmt: skip
    assert found[5:] == [first, second]


@pytest.mark.parametrize(
    ("total", "parts", "within"),
    [
        # Printed in whole seconds, so that a second may be missing from the total.
        ([("rank 0", 10.0)], [("dynamo", "rank 0", 4.0), ("inductor", "rank 0", 7.0)], [True, True]),
        ([("rank 0", 10.0)], [("dynamo", "rank 0", 4.0), ("inductor", "rank 0", 7.1)], [True, False]),
        # The slowest rank of one part is not that of the next one.
        ([("rank 0 (slowest of 2)", 100.0)], [("dynamo", "rank 1 (slowest of 2)", 106.0)], [True]),
        ([("rank 0 (slowest of 2)", 100.0)], [("dynamo", "rank 1 (slowest of 2)", 106.1)], [False]),
        ([("rank 0", 100.0)], [("dynamo", "rank 0", 101.1)], [False]),
        # The total leaves out the cache, whatever is printed first.
        ([("", 6.0)], [("compile-cache", "", 5.0), ("dynamo", "", 6.0)], [False, True]),
        # Each process has a total of its own; twice in one process are added up.
        ([("a", 5.0), ("b", 50.0)], [("dynamo", "b", 40.0), ("dynamo", "a", 40.0)], [True, False]),
        ([("a", 5.0), ("a", 5.0)], [("dynamo", "a", 6.0), ("inductor", "a", 6.0)], [True, True]),
        ([("", None)], [("dynamo", "", 1.0), ("inductor", "", None)], [True, True]),
        ([], [("dynamo", "", 1.0)], [False]),
        ([("", 50.0)], [("load-weights", "", 1.0)], [False]),
    ],
)
def test_parts_of_a_compilation_are_those_that_fit_into_its_total(
    total: list[tuple[str, float | None]], parts: list[tuple[str, str, float | None]], within: list[bool]
) -> None:
    wholes = [lasting("compile", seconds, process) for process, seconds in total]
    phases = [*wholes, *(lasting(name, seconds, process) for name, process, seconds in parts)]
    found = with_parts_of_compile(phases)
    assert [one.parent == "compile" for one in found[len(wholes) :]] == within
    assert [one.name for one in found] == [one.name for one in phases]


def test_a_part_of_what_the_log_does_not_show_is_a_part_of_the_start() -> None:
    loaded = part("read-weights", 1.0, 2.0, "load-weights")
    free = part("serving", 1.0, 2.0, "")
    whole = part("startup", 0.0, 9.0, "")
    assert [one.parent for one in without_lost_wholes([whole, loaded, free])] == ["", "startup", ""]
    shown = part("load-weights", 1.0, 3.0)
    assert without_lost_wholes([whole, shown, loaded]) == [whole, shown, loaded]
    assert without_lost_wholes([loaded]) == [loaded]


WHOLE = part("startup", 100.0, 200.0, "")
"""A start of a hundred seconds."""


def placed(*parts: Phase) -> dict[str, tuple[str, float | None, float | None, float | None]]:
    """Return what becomes of the parts of a start: whole, begin, end and seconds by name."""
    return {one.name: (one.parent, one.start, one.end, one.seconds) for one in fitted([WHOLE, *parts])[1:]}


def test_what_no_part_explains_is_one_phase_and_has_a_place_if_it_is_one_gap() -> None:
    left = part("load", 100.0, 120.0), part("compile", 120.0, 190.0)
    assert placed(*left)["unexplained"] == ("startup", 190.0, 200.0, 10.0)
    two = part("load", 105.0, 120.0), part("compile", 120.0, 190.0)
    assert placed(*two)["unexplained"] == ("startup", None, None, 15.0)
    assert placed()["unexplained"] == ("startup", 100.0, 200.0, 100.0)
    assert "unexplained" not in placed(part("load", 100.0, 200.0))


@pytest.mark.parametrize(
    ("length", "left", "shown"),
    [(100.0, 0.9, False), (100.0, 1.0, True), (10.0, 0.125, False), (10.0, 0.25, True)],
)
def test_a_rest_is_shown_from_a_second_or_a_fiftieth_of_the_start(
    length: float, left: float, shown: bool
) -> None:
    whole = part("startup", 1000.0, 1000.0 + length, "")
    found = fitted([whole, part("load", 1000.0 + left, 1000.0 + length)])
    assert (found[-1].name == "unexplained") == shown


def test_without_a_start_or_its_clock_every_part_stays_as_it_is() -> None:
    load = part("load", 10.0, 20.0)
    for phases in ([load], [part("startup", None, 90.0, ""), load], [part("startup", 5.0, None, ""), load]):
        assert fitted(phases) == phases


def test_a_part_counts_what_no_earlier_part_has_taken_and_what_is_within_the_start() -> None:
    found = placed(
        part("load", 90.0, 130.0),  # A second and more before the start.
        part("draft", 110.0, 128.0),
        part("compile", 125.0, 160.0),
        part("late", 200.0, 230.0),
        part("graphs", 150.0, 220.0),
        lasting("unknown", 4.0),
    )
    assert found["load"] == ("startup", 100.0, 130.0, 30.0)
    assert found["draft"] == ("load", 110.0, 128.0, 18.0)
    assert found["compile"] == ("startup", 130.0, 160.0, 30.0)
    assert found["graphs"] == ("startup", 160.0, 200.0, 40.0)
    assert found["late"] == ("", 200.0, 230.0, 30.0)
    assert found["unknown"] == ("", None, None, 4.0)
    assert "unexplained" not in found


def test_a_part_without_a_clock_takes_no_place_and_no_seconds_of_others() -> None:
    found = placed(part("load", 100.0, 150.0), part("begun", 160.0, None), part("ended", None, 170.0))
    assert found["begun"] == ("startup", 160.0, None, None)
    assert found["ended"] == ("startup", None, 170.0, None)
    assert found["unexplained"] == ("startup", 150.0, 200.0, 50.0)


def test_a_phase_within_one_of_its_own_name_is_none_of_its_parts() -> None:
    twice = fitted([WHOLE, part("load", 100.0, 150.0), part("load", 120.0, 140.0)])
    assert [(one.parent, one.start) for one in twice if one.name == "load"] == [
        ("startup", 100.0),
        ("", 120.0),
    ]


@pytest.mark.parametrize(
    ("start", "seconds", "shown"),
    [
        (99.5, 30.5, 30.5),  # A printed length that the clock's whole seconds cut.
        (99.0, 31.0, 30.0),  # Seconds of the clock.
        (98.9, 31.1, 30.0),  # More than the clock's rounding lies before the start.
    ],
)
def test_a_printed_length_loses_nothing_to_the_rounding_of_the_clock(
    start: float, seconds: float, shown: float
) -> None:
    load = Phase("load", "", start, 130.0, seconds, (), "startup")
    assert placed(load)["load"] == ("startup", 100.0, 130.0, shown)


def test_of_phases_that_end_at_one_time_each_ends_where_the_next_begins() -> None:
    """The ends are printed in whole seconds, so that only the lengths and the order of the lines tell them apart."""
    imports, load, init = (
        part("imports", 100.0, 119.5),
        part("load", 119.5, 120.0),
        part("init", 119.75, 120.0),
    )
    found = placed(imports, load, init)
    assert found["init"] == ("startup", 119.75, 120.0, 0.25)
    assert found["load"] == ("startup", 119.25, 119.75, 0.5)
    assert found["imports"] == ("startup", 100.0, 119.25, 19.25)
    apart = placed(part("imports", 100.0, 110.0), load, init)  # Something else was between the two.
    assert apart["imports"] == ("startup", 100.0, 110.0, 10.0)
    assert apart["load"] == ("startup", 119.25, 119.75, 0.5)
    again = placed(part("load", 119.5, 120.0), part("load", 119.75, 120.0))
    assert again["load"][0] == ""
