"""One run in the making: what is counted, what is kept, which minute a line belongs to, and which lines go on after another writer."""

from __future__ import annotations

from collections import Counter

from msgspec.structs import replace

from tests.rules.making import event, record
from tests.tables import for_each
from vllm_logdoctor.events import Event
from vllm_logdoctor.parse import NO_PROCESS, Process, Record
from vllm_logdoctor.run.builder import RunBuilder
from vllm_logdoctor.scan import AccessKey

ACCESSES: Counter[AccessKey] = Counter({("POST", "/v1/completions", 200): 3})


def run_at(*times: float | None) -> RunBuilder:
    """Return a run with a statistics line at each time and access lines before each but the first."""
    builder = RunBuilder(1, ["vllm.log"])
    for number, time in enumerate(times):
        if number:
            builder.add_accesses(ACCESSES)
        builder.now = time
        builder.note_statistics()
    return builder


@for_each(
    ("times", "minute"),
    [
        ((600.0, 610.0), 10),
        ((600.0, 720.0), 10),
        ((600.0, 720.5), -1),
        ((None, 610.0), -1),
        ((600.0, None), 10),
    ],
)
def test_access_lines_count_to_the_statistics_line_before_them_if_that_is_near(
    times: tuple[float | None, ...], minute: int
) -> None:
    builder = run_at(*times)
    assert sum(builder.accesses.values()) == 3
    assert set(builder.requests_by_minute) == {minute}


@for_each(("time", "goes_on"), [(600.0, False), (600.1, True), (720.0, True), (720.1, False), (None, False)])
def test_a_torn_line_goes_on_with_the_statistics_within_two_minutes(
    time: float | None, goes_on: bool
) -> None:
    assert run_at(600.0).goes_on(time) is goes_on
    assert not run_at().goes_on(time)


SLOW = "Step took 3 s longer than the 2 s before"
"""A message that no pattern knows."""


def written(message: str, **given: object) -> Record:
    """Return a record of a logger of vLLM."""
    given = {
        "level": "INFO",
        "call_site": ("core.py", 93),
        "time": 600.0 + float(str(given.get("line", 1))),
        **given,
    }
    return replace(record(message), **given)


def event_of(message: str, **given: object) -> Event:
    found = event(message)
    return replace(found, record=written(message, **given))


def built(*records: Record | Event) -> RunBuilder:
    """Return a run with these records; an event is a record that a pattern knows."""
    builder = RunBuilder(1, ["a.log", "b.log"])
    for one in records:
        if isinstance(one, Event):
            builder.add(one.record, one)
        else:
            builder.add(one, None)
    return builder


def test_an_unknown_message_is_counted_by_its_template_with_its_first_line() -> None:
    builder = built(
        written(SLOW, line=4), written(SLOW.replace("3", "17"), line=5), written(SLOW, line=6, level="WARNING"),
        written("    self.step()", line=7), written(SLOW, line=8, level=""),
    )  # fmt: skip
    assert [(one.level, one.count, one.first.line) for one in builder.unknown.values()] == [
        ("INFO", 2, 4),
        ("WARNING", 1, 6),
    ]


@for_each(
    ("message", "kept"),
    [
        ("GPU KV cache size: 41,000 tokens", 64),
        ("Received request cmpl-1: prompt: 'a', params: SamplingParams(n=1), prompt_token_ids: None.", 3),
        (
            "Sequence group 7 is preempted by PreemptionMode.RECOMPUTE mode because there is not enough KV cache space. total_num_cumulative_preemption=1",
            3,
        ),
    ],
)
def test_of_a_message_the_first_ones_are_kept_and_the_last_and_all_are_counted(
    message: str, kept: int
) -> None:
    """Three say how it began; of settings and figures, which differ by process and life, 64 are kept."""
    builder = built(*(event_of(message, line=number) for number in range(1, 71)))
    [(name, seen)] = builder.messages.items()
    assert (seen.count, len(seen.first)) == (70, kept)
    assert [one.record.line for one in seen.first] == list(range(1, kept + 1))
    assert seen.last is not None
    assert seen.last.record.line == 70
    assert builder.times == {(name, number): 601.0 + number for number in range(kept)}


def test_an_event_that_represents_several_lines_counts_as_these() -> None:
    builder = RunBuilder(1, ["a.log"])
    known = event_of("GPU KV cache size: 41,000 tokens")
    builder.add(known.record, known, 5)
    assert builder.messages[known.pattern.id].count == 5
    assert (builder.vllm_records, builder.recognised) == (5, 5)


def test_records_are_counted_by_whether_vllm_wrote_them_and_whether_they_are_known() -> None:
    known = event_of("GPU KV cache size: 41,000 tokens")
    builder = built(known, written(SLOW, line=2), written(SLOW, line=3, level=""))
    assert (builder.vllm_records, builder.recognised, builder.unframed) == (2, 1, 0)
    assert built(written("Traceback (most recent call last):", level="ERROR")).tracebacks == 1


def test_each_process_has_the_line_where_it_first_wrote() -> None:
    core, worker = Process("EngineCore", "engine-core", 5), Process("Worker", "worker", 6)
    lines = [(3, core), (4, NO_PROCESS), (5, worker), (6, core), (7, worker)]
    builder = built(*(written(SLOW, line=line, process=process) for line, process in lines))
    assert builder.processes == {core: 3, worker: 5}
    assert not builder.processes_left_out


def test_a_call_site_has_the_first_message_that_it_printed() -> None:
    builder = built(
        written("a" * 700),
        written("b"),
        written("c", call_site=("core.py", 94)),
        written("d", call_site=None),
    )
    assert builder.call_sites == {("core.py", 93): "a" * 600, ("core.py", 94): "c"}


def test_two_clocks_in_one_line_are_those_of_a_logger_and_its_wrapper() -> None:
    alone = built(written(SLOW, time=None, outer_time=50.0), written(SLOW))
    assert (alone.ahead_of_wrapper, alone.outer_clock.first, alone.clock.first) == (None, 50.0, 601.0)
    assert built(written(SLOW, outer_time=50.0)).ahead_of_wrapper == 551.0


def test_the_first_and_the_last_record_are_those_of_the_run() -> None:
    builder = built(
        written(SLOW, line=3),
        event_of("GPU KV cache size: 41,000 tokens", line=4),
        written(SLOW, line=9, file=1),
    )
    assert builder.first is not None
    assert builder.last is not None
    assert (builder.first.line, builder.last.line, builder.evidence(builder.last).file) == (3, 9, "b.log")


def test_a_year_that_a_line_prints_moves_everything_before_it() -> None:
    year = 366 * 86400.0  # From 2000, the scale of logs that print none, to 2001.
    builder = built(
        event_of("GPU KV cache size: 41,000 tokens", line=1),
        written(SLOW, line=2, level="", call_site=None, time=None, outer_time=year + 700.0, year_known=True),
        written(SLOW, line=3, time=660.0),
    )
    [seen] = builder.messages.values()
    assert builder.year_shift == year
    assert seen.last is not None
    assert (seen.first[0].record.time, seen.last.record.time) == (year + 601.0, year + 601.0)
    assert list(builder.times.values()) == [year + 601.0]
    assert builder.first is not None
    assert builder.last is not None
    assert (builder.first.time, builder.last.time) == (year + 601.0, year + 660.0)
    assert builder.now == builder.clock.end == year + 660.0


def test_what_may_have_ended_a_run_is_known_and_a_plug_in_that_is_not_loaded_is_none_of_it() -> None:
    broken = "Traceback (most recent call last):"
    assert built(written(broken, call_site=("core.py", 9))).troubled
    assert not built(written(broken, call_site=("__init__.py", 9))).troubled
    assert not built(written(f"a request said: {broken}")).troubled
