"""Clocks without year, over New Year, and backwards."""

from __future__ import annotations

from tests.run.lives_of_a_server import answers, start, statistics
from vllm_logdoctor import analyze


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
