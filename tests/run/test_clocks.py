"""Clocks without year, over New Year, and backwards."""

from __future__ import annotations

from tests.failure.records import records_of
from tests.run.lives_of_a_server import answers, start, statistics
from tests.tables import for_each
from vllm_logdoctor import analyze
from vllm_logdoctor.parse.clock import seconds_of
from vllm_logdoctor.run.clock import Clock, runs_backwards, stamp_of_library


def times(lines: list[str]) -> list[float]:
    (run,) = analyze(lines).runs
    return [sample.time for sample in run.stats if sample.time is not None]


def test_new_year_is_a_step_forward() -> None:
    lines = [
        *start(clock="12-31 23:58"),
        statistics(clock="12-31 23:59:55"),
        statistics(clock="01-01 00:00:05"),
    ]
    first, second = times(lines)
    assert second - first == 10


def test_a_step_back_of_the_clock_is_no_new_year() -> None:
    lines = [
        *start(),
        statistics(clock="03-04 10:05:00"),
        statistics(clock="03-04 10:03:00"),
        statistics(clock="03-04 10:06:00"),
    ]
    first, _, third = times(lines)
    assert third - first == 60


def test_without_a_year_no_date_is_claimed() -> None:
    document = analyze([*start(), statistics()]).to_dict()["runs"][0]
    assert document["started"] is None
    assert document["clock"]["year_known"] is False
    assert document["clock"]["started"].startswith("03-04 10:00:00")


def test_a_wrapper_that_prints_the_year_gives_dates() -> None:
    lines = [f"2026-03-04T08:00:0{n}Z {line}" for n, line in enumerate([*start(), statistics()])]
    document = analyze(lines).to_dict()["runs"][0]
    assert document["started"] == "2026-03-04T10:00:00"


def test_a_wrapper_s_clock_may_be_in_another_year_than_the_log_s_own() -> None:
    lines = [f"2027-01-01T04:58:0{n}Z {line}" for n, line in enumerate(start(clock="12-31 23:58"))]
    assert analyze(lines).to_dict()["runs"][0]["started"] == "2026-12-31T23:58:00"


def test_a_writer_that_prints_the_year_does_not_stretch_a_log_that_prints_none() -> None:
    lines = [
        *start(),
        "2026-03-04 10:00:30,100 - INFO - tuner.py:tune:5 - done",
        statistics(clock="03-04 10:02:00"),
    ]
    (run,) = analyze(lines).runs
    assert run.run.started is not None
    assert run.run.ended is not None
    assert run.run.ended - run.run.started == 120


def test_a_writer_without_year_takes_it_from_the_lines_before() -> None:
    lines = [f"2026-03-04T10:00:0{n}Z {line}" for n, line in enumerate(start())]
    (run,) = analyze([*lines, statistics(clock="03-04 10:02:00")]).runs
    assert run.run.year_known
    assert run.run.ended is not None
    assert run.run.started is not None
    assert run.run.ended - run.run.started == 120


def test_headers_that_a_prompt_quotes_do_not_move_the_clock() -> None:
    quoted = [f"INFO 0{month}-01 00:00:00 [quoted.py:1] text of a prompt" for month in (9, 1, 7)]
    lines = [*start(), statistics(clock="03-04 10:00:30"), *quoted, statistics(clock="03-04 10:00:45")]
    (run,) = analyze(lines).runs
    assert run.run.ended is not None
    assert run.run.started is not None
    assert run.run.ended - run.run.started <= 45


def test_a_server_that_is_idle_for_a_night_goes_on() -> None:
    served = [statistics(clock=f"03-05 08:00:{second:02}") for second in range(0, 40, 2)]
    (run,) = analyze([*start(), statistics(clock="03-04 10:00:30"), *served]).runs
    (other,) = analyze([*start(), statistics(clock="03-04 10:00:30"), served[0]]).runs
    assert run.run.ended - run.run.started == 22 * 3600 + 38
    assert other.run.ended - other.run.started == 22 * 3600


def test_a_date_that_another_writer_prints_gives_the_year() -> None:
    lines = [
        "2026-03-04 10:00:00,100 INFO worker.py:1832 -- Started a local Ray instance.",
        *start(),
        statistics(),
    ]
    document = analyze(lines).to_dict()["runs"][0]
    assert document["started"] == "2026-03-04T10:00:00"
    assert document["clock"]["year_known"] is True
    assert all(
        phase["start"] is None or phase["start"].startswith("2026-03-04") for phase in document["phases"]
    )


def test_a_date_behind_a_process_name_gives_the_year() -> None:
    dated = "(EngineCore_DP0 pid=9) [2026-03-04 10:00:40.431: I neuron/parallel_state.py:638] > initializing"
    assert analyze([*start(), dated, statistics()]).to_dict()["runs"][0]["started"] == "2026-03-04T10:00:00"


def test_a_header_that_lost_the_space_before_its_place_has_a_time() -> None:
    lines = ["2026-03-04 10:00 of a scan", "ERROR 03-04 10:00:05[engine.py:448]RuntimeError: no kernel image"]
    assert analyze(lines).to_dict()["runs"][0]["started"] == "2026-03-04T10:00:05"


def test_a_date_far_from_the_log_s_own_clock_gives_no_year() -> None:
    lines = ["2019-11-30 10:00:00,100 INFO worker.py:1832 -- quoted", *start(), statistics()]
    assert analyze(lines).to_dict()["runs"][0]["clock"]["year_known"] is False


def length(lines: list[str]) -> float:
    (run,) = analyze(lines).runs
    assert run.run.started is not None
    assert run.run.ended is not None
    return run.run.ended - run.run.started


def test_lines_that_only_a_wrapper_stamps_belong_to_the_length_of_a_run_in_any_zone() -> None:
    wrapped = [
        f"2026-03-04T02:00:{second:02}Z {line}"
        for second, line in zip((0, 0, 10, 30, 31), start(), strict=True)
    ]
    exits = [f"2026-03-04T02:00:{second}Z Process EngineCore_0 goes" for second in (40, 47)]
    assert length([*wrapped, *exits]) == 47


def test_torchs_own_stamp_ends_a_run_and_one_of_another_run_does_not() -> None:
    torch = (
        "[rank0]:[W304 {}.602010047 ProcessGroupNCCL.cpp:1250] Warning: process group has NOT been destroyed"
    )
    assert length([*start(), torch.format("10:00:52")]) == 52
    assert length([*start(), torch.format("19:00:52")]) == 30


def test_the_stamp_of_cann_ends_a_run_whose_loggers_print_no_year() -> None:
    cann = "(APIServer pid=1) [ERROR] 2026-03-04-10:00:{} (PID:1, Device:-1, RankID:-1) ERR99999 UNKNOWN application exception"
    assert length([*start(), cann.format("41"), cann.format("44")]) == 44


def test_the_place_of_the_line_that_gives_the_year_changes_no_time_of_the_run() -> None:
    def counted(second: int, text: str) -> str:
        return f"(APIServer pid=1) INFO 03-04 10:01:{second:02} [metrics.py:89] {text}"

    lines = [
        *start(),
        counted(
            1, "SpecDecoding metrics: Mean acceptance length: 2.31, Accepted: 120 tokens, Drafted: 300 tokens"
        ),
        counted(2, "KV Transfer metrics: Num successful transfers=12, Avg xfer time (ms)=3.1"),
        "Processed prompts:  20%|██        | 100/499 [00:05<00:20,  7.62it/s]",
        *answers(3),
        statistics(clock="03-04 10:02:00"),
        statistics(clock="03-04 10:03:00"),
    ]
    dated = "2026-03-04 10:00:00,100 INFO worker.py:1832 -- Started a local Ray instance."

    def times_of(place: int) -> dict[str, object]:
        run = analyze([*lines[:place], dated, *lines[place:]]).runs[0].run
        gauges = [*run.samples, *run.speculation, *run.transfers, *run.progress]
        assert len(gauges) == 5
        return {
            "run": (run.started, run.ended, run.year_known),
            "gauges": [one.time for one in gauges],
            "phases": [(phase.name, phase.start, phase.end) for phase in run.phases],
            "minutes": run.requests_by_minute,
            "messages": {
                name: [event.record.time for event in (*seen.first, seen.last) if event]
                for name, seen in run.messages.items()
                if name != "ray-local-started"
            },
        }

    before = times_of(0)
    for place in range(1, len(lines) + 1):
        assert times_of(place) == before


DAY, YEAR = 86400.0, 366 * 86400.0


def clock_after(*times: float, year_known: bool = True) -> Clock:
    clock = Clock()
    for time in times:
        clock.at_time(time, year_known)
    return clock


@for_each(
    ("line", "stamp"),
    [
        (
            "[ERROR] 2026-08-05-07:47:31 (PID:560410, Device:-1, RankID:-1) ERR99999 UNKNOWN",
            "2026-08-05 07:47:31",
        ),
        ("(APIServer pid=1) [WARNING] 2026-08-05-07:47:31 (PID:5, Device:-1)", "2026-08-05 07:47:31"),
        ("[rank0]:[W107 13:38:18.602010047 ProcessGroupNCCL.cpp:1250] Warning: x", "01-07 13:38:18"),
        ("[E1107 13:38:18.602010047 c10d/Utils.hpp:12] x", "11-07 13:38:18"),
        ("[D107 13:38:18.602010047 ProcessGroupNCCL.cpp:1250] x", None),
        ("INFO 05-01 10:00:00 [x.py:1] [rank0]:[W107 13:38:18.6 ProcessGroupNCCL.cpp:1250] x", None),
        ("ERROR 05-01 10:00:00 [x.py:1] [ERROR] 2026-08-05-07:47:31 (PID:560410, Device:-1)", None),
    ],
)
def test_which_libraries_stamp_their_lines_by_the_clock_of_vllm(line: str, stamp: str | None) -> None:
    (record,) = records_of(line)
    assert stamp_of_library(record) == (seconds_of(stamp) if stamp else None)


def test_a_time_an_hour_away_moves_the_clock_when_twelve_lines_are_there() -> None:
    near = clock_after(1000.0, 4600.0)
    assert (near.last, near.end) == (4600.0, 4600.0)
    for lines, moved in ((11, False), (12, True)):
        clock = clock_after(1000.0, *(9000.0 + n for n in range(lines)))
        assert (clock.last == 9000.0 + lines - 1) is moved
    scattered = clock_after(1000.0, *(9000.0 + 3601.0 * n for n in range(14)))
    assert scattered.last == 1000.0
    returned = clock_after(1000.0, *(9000.0 + n for n in range(11)), 1001.0, 9100.0)
    assert returned.last == 1001.0


@for_each(
    ("away", "end"),
    [(31 * DAY, 1000.0 + 31 * DAY), (31 * DAY + 1, 1000.0), (-5000.0, 1000.0), (3601.0, 4601.0)],
)
def test_a_log_may_end_behind_a_pause_of_a_month(away: float, end: float) -> None:
    assert clock_after(1000.0, 1000.0 + away).end == end


@for_each(
    ("before", "after", "year_known", "read"),
    [
        (364 * DAY, 0.0, False, YEAR), (184 * DAY, 0.0, False, YEAR), (183 * DAY, 0.0, False, 0.0), (364 * DAY, 0.0, True, 0.0),
    ],
)  # fmt: skip
def test_more_than_half_a_year_back_is_the_next_year_where_none_is_printed(
    before: float, after: float, year_known: bool, read: float
) -> None:
    assert clock_after(before, year_known=year_known).at_time(after, year_known) == read


def test_the_turn_of_the_year_holds_for_all_later_times() -> None:
    clock = clock_after(YEAR - 5.0, year_known=False)
    assert [clock.at_time(time, False) for time in (5.0, 9.0)] == [YEAR + 5.0, YEAR + 9.0]
    assert clock.follow(20.0, False) is None
    dated = seconds_of("2026-03-04 10:00:00")
    assert dated is not None
    later = clock_after(dated[0])
    assert later.at_time(seconds_of("03-04 10:00:30")[0], False) == dated[0] + 30  # type: ignore[index]


@for_each(("printed", "read"), [(4600.0, 4600.0), (4601.0, None), (-2600.0, -2600.0), (-2601.0, None)])
def test_a_library_is_followed_within_an_hour(printed: float, read: float | None) -> None:
    assert clock_after(1000.0).follow(printed, True) == read
    assert Clock().follow(printed, True) == printed


def test_the_oldest_time_is_at_most_an_hour_before_the_others() -> None:
    assert clock_after(5000.0, 1400.0).oldest == 1400.0
    jumped = clock_after(5000.0, *(1000.0 + n for n in range(12)))
    assert (jumped.last, jumped.oldest, jumped.newest, jumped.first) == (1011.0, 5000.0, 5000.0, 5000.0)


def test_a_scale_that_gets_its_year_moves_as_a_whole() -> None:
    clock = clock_after(1000.0, 900.0, 9000.0, year_known=False)
    clock.shift(DAY)
    moved = (clock.first, clock.last, clock.oldest, clock.newest, clock.away)
    assert moved == tuple(DAY + time for time in (1000.0, 900.0, 900.0, 1000.0, 9000.0))
    assert clock.year_known


@for_each(
    ("falls", "rises", "backwards"),
    [(5, 0, True), (4, 0, False), (10, 1, True), (9, 1, False), (20, 2, True), (0, 9, False)],
)
def test_time_falls_where_ten_lines_go_back_for_each_that_goes_on(
    falls: int, rises: int, backwards: bool
) -> None:
    down, up = [900.0 - n for n in range(falls + 1)], [float(n) for n in range(rises + 1)]
    assert runs_backwards([clock_after(*down), clock_after(*up)]) is backwards
    assert clock_after(*down).backwards is (falls >= 5)
