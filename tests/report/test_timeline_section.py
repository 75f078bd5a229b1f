"""The timeline: which phases it shows, nested in what, up to which end, and when which limit held."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from tests.report.test_load_section import rows
from tests.report.test_verdict import cause, line, page_of
from tests.rules.making import a_run, load, record, sample
from tests.tables import for_each
from vllm_logdoctor.report.sections.timeline import nested, timeline
from vllm_logdoctor.rules.bottleneck import BEGINS, Bottleneck, ServingPeriod
from vllm_logdoctor.rules.model import Finding
from vllm_logdoctor.run.model import Phase, Run

T = 1000.0


def phase(
    name: str,
    start: float,
    end: float,
    parent: str = "startup",
    process: str = "",
    lines: int = 1,
    seconds: float | None = None,
) -> Phase:
    proof = tuple(line(10 + at) for at in range(lines))
    return Phase(
        name, process, T + start, T + end, end - start if seconds is None else seconds, proof, parent
    )


def started(*phases: Phase, total: float = 100.0, **more: Any) -> Run:
    run = a_run(**{"outcome": "running", **more})
    whole = Phase("startup", "", T, T + total, total)
    run.phases = [whole, Phase("imports", "", T, T + 1, 1.0, (line(9),), "startup"), *phases]
    run.started, run.ended = T, T + total + 50
    return run


def text(run: Run, *findings: Finding, limit: Bottleneck | None = None) -> str:
    return "\n".join(timeline(page_of(run, *findings, limit=limit)))


LOAD = phase("load-weights", 1, 41)
COMPILE = phase("compile", 41, 91)


def test_the_phases_of_a_start_with_their_share_of_it() -> None:
    shown = text(started(LOAD, COMPILE))
    assert shown.startswith("Log from ")
    found = rows(shown)
    assert found["phase"] == ["from", "time", "share", "evidence"]
    assert found["weight loading"] == ["00:16:41", "40 s", "40 %", "[L10]"]
    assert found["**start-up**"] == ["", "**1 min 40 s**", "**100 %**", ""]
    assert list(found)[2:] == ["before engine start", "weight loading", "torch.compile", "**start-up**"]


def test_processes_are_named_where_there_are_several() -> None:
    both = [phase("load-weights", 1, 41, process=f"Worker_TP{rank}") for rank in (0, 1)]
    found = text(started(*both))
    assert "| weight loading | Worker_TP0 |" in found
    assert rows(found)["phase"] == ["process", "from", "time", "share", "evidence"]


def test_a_start_that_went_on_is_told_so_far() -> None:
    run = started(LOAD, outcome="crashed_at_startup")
    run.startup_complete = False
    assert "**start-up so far**" in text(run)
    crashed = started(LOAD, outcome="crashed_while_serving")
    crashed.startup_complete = False
    assert "**start-up**" in text(crashed)


def test_without_the_length_of_a_start_there_are_no_shares() -> None:
    run = started(LOAD, COMPILE, phase("unexplained", 91, 100))
    run.phases = run.phases[2:]
    found = rows(text(run))
    assert found["weight loading"] == ["00:16:41", "40 s", "[L10]"]
    assert "rest of the start-up" not in found
    assert "**start-up**" not in found
    only = started()
    only.phases = [LOAD]
    assert "Weight loading: 40 s [L10]." in text(only)
    assert "Weight loading" not in text(only, cause())
    nothing = started()
    nothing.phases = [phase("unexplained", 1, 41), phase("load-weights", 41, 41)]
    assert "phase" not in text(nothing)


def test_shares_are_of_the_parts_where_stamps_of_whole_seconds_make_them_longer_than_the_start() -> None:
    found = rows(text(started(phase("load-weights", 1, 61), phase("compile", 50, 109), total=100.0)))
    assert found["weight loading"][2] == "50 %"


@for_each(
    ("parts", "shown"),
    [
        # A total that its parts add up to says nothing more.
        ((COMPILE, phase("dynamo", 41, 61, "compile"), phase("inductor", 61, 91, "compile")), ["Dynamo tracing", "graph compilation"]),
        ((COMPILE, phase("dynamo", 41, 61, "compile"), phase("inductor", 61, 90.5, "compile")), ["Dynamo tracing", "graph compilation"]),
        ((COMPILE, phase("dynamo", 41, 61, "compile"), phase("inductor", 61, 90, "compile")), ["torch.compile", "· Dynamo tracing", "· graph compilation"]),
        ((COMPILE,), ["torch.compile"]),
        ((COMPILE, phase("compile", 91, 95), phase("dynamo", 41, 91, "compile")), ["torch.compile", "· Dynamo tracing"]),
    ],
)  # fmt: skip
def test_parts_stand_below_their_whole_unless_they_are_all_of_it(
    parts: tuple[Phase, ...], shown: list[str]
) -> None:
    found = [
        name
        for name in rows(text(started(*parts)))
        if name in ("torch.compile",) or "Dynamo" in name or "graph c" in name
    ]
    assert found == shown


def order(*phases: Phase) -> list[tuple[str, str, int]]:
    return [(one.name, one.process, depth) for one, depth in nested(phases)]


def test_a_part_belongs_to_the_whole_of_its_process_else_to_the_nearest_in_time() -> None:
    a, b = phase("compile", 0, 10, process="a"), phase("compile", 20, 30, process="b")
    of_b = phase("dynamo", 1, 2, "compile", process="b")
    assert order(a, b, of_b) == [("compile", "a", 0), ("compile", "b", 0), ("dynamo", "b", 1)]
    far = phase("dynamo", 14, 15, "compile", process="c")
    assert order(a, b, far) == [("compile", "a", 0), ("dynamo", "c", 1), ("compile", "b", 0)]
    near = phase("dynamo", 16, 17, "compile", process="c")
    assert order(a, b, near)[-1] == ("dynamo", "c", 1)
    # Of two that are as near it begins with the later one, so without a time.
    middle = phase("dynamo", 15, 15, "compile", process="c")
    assert order(a, b, middle)[-1] == ("dynamo", "c", 1)
    undated = replace(middle, start=None, end=None)
    assert order(a, b, undated)[-1] == ("dynamo", "c", 1)
    alone = phase("dynamo", 1, 2, "missing")
    assert order(alone) == [("dynamo", "", 0)]
    itself = phase("compile", 1, 2, "compile")
    assert order(a, itself) == [("compile", "a", 0)]


def test_four_levels_are_shown() -> None:
    chain = [phase(f"p{n}", n, 20, f"p{n - 1}" if n else "") for n in range(6)]
    assert [depth for _, _, depth in order(*chain)] == [0, 1, 2, 3]


def failed(*phases: Phase, total: float = 100.0, at: float | None = None, **more: Any) -> str:
    run = started(*phases, total=total, **{"outcome": "crashed_at_startup", **more})
    run.startup_complete = False
    if at is not None:
        run.records = [replace(record("OSError: no space", 7), time=T + at)]
    return text(run, cause())


def test_a_start_that_failed_is_told_up_to_the_failure_without_shares() -> None:
    found = rows(failed(LOAD, COMPILE, phase("unexplained", 91, 100), at=95.0))
    assert found["phase"] == ["from", "time", "evidence"]
    assert found["**until the failure**"] == ["", "**1 min 35 s**", ""]
    assert "rest of the start-up" not in found
    assert rows(failed(LOAD, COMPILE))["**until the failure**"][1] == "**1 min 40 s**"
    # A line before the end of the last phase is not that of the failure.
    assert rows(failed(LOAD, COMPILE, at=90.0))["**until the failure**"][1] == "**1 min 40 s**"
    assert rows(failed(LOAD, COMPILE, at=140.0))["**until the failure**"][1] == "**1 min 40 s**"
    assert "phase" not in failed(LOAD, COMPILE, kind="test")


@for_each(
    ("phases", "total", "shown"),
    [
        ((LOAD,), 60.0, True),
        ((LOAD,), 59.0, False),
        ((LOAD, phase("compile", 41, 50)), 59.0, True),
        ((LOAD, phase("read-weights", 2, 40, "load-weights")), 59.0, False),
    ],
)
def test_a_short_start_with_few_phases_needs_no_table(
    phases: tuple[Phase, ...], total: float, shown: bool
) -> None:
    assert ("**until the failure**" in failed(*phases, total=total)) is shown


@for_each(("total", "rest"), [(100.0, "10 s"), (99.0, None), (96.0, None)])
def test_a_long_time_behind_the_last_phase_is_shown(total: float, rest: str | None) -> None:
    end = 90.0 if total == 100.0 else 89.2
    found = rows(failed(LOAD, phase("compile", 41, end), total=total))
    assert (found.get("from there to the failure") or [None, None])[1] == rest


@for_each(
    ("name", "lines", "seconds", "others", "cell"),
    [
        ("profiling", 2, 4.4, (), ("memory profiling", "about 4 s")),
        ("profiling", 2, 0.4, (), ("memory profiling", "under 1 s")),
        ("profiling", 1, 4.4, (), ("memory profiling", "4.4 s")),
        ("profiling", 2, 4.4, (COMPILE,), ("rest of memory profiling", "about 4 s")),
        ("encoder-profiling", 2, 4.4, (COMPILE,), ("multimodal profiling", "about 4 s")),
        ("load-weights", 2, 4.4, (), ("weight loading", "4.4 s")),
        ("load-weights", 2, 0.0, (), ("weight loading", "under 1 s")),
    ],
)
def test_a_length_between_two_lines_is_told_in_whole_seconds(
    name: str, lines: int, seconds: float, others: tuple[Phase, ...], cell: tuple[str, str]
) -> None:
    found = rows(text(started(*others, phase(name, 92, 96, lines=lines, seconds=seconds))))
    assert found[cell[0]][1] == cell[1]


def test_a_phase_whose_end_no_line_shows_has_no_length_of_its_own() -> None:
    for ends, seconds, cell in (
        (True, 3.0, "3 s"),
        (False, 3.0, "at least 3 s, no line shows its end"),
        (False, 0.0, "no line shows its end"),
    ):
        load = replace(phase("load-weights", 2, 5, seconds=seconds), ends=ends)
        cut = started(COMPILE, load, outcome="truncated")
        assert rows(text(cut))["weight loading"][1] == cell


def test_a_phase_that_began_before_the_log_says_so() -> None:
    early = rows(text(started(phase("load-weights", -2, 41))))
    assert early["weight loading"][0] == "before 00:16:40"
    assert rows(text(started(phase("load-weights", -1, 41))))["weight loading"][0] == "00:16:39"


@for_each(
    ("more", "ranks", "cost"),
    [
        ({}, 8, " Start-up: 8 GPUs × 1 min 40 s = 0.22 GPU-hours."),
        ({}, 2, " Start-up: 2 GPUs × 1 min 40 s = 0.056 GPU-hours."),
        ({}, 1, ""),
        ({"platform": "cpu"}, 8, ""),
        ({"platform": None}, 8, ""),
    ],
)
def test_what_a_start_of_several_devices_cost(more: dict[str, Any], ranks: int, cost: str) -> None:
    shown = text(started(LOAD, set={"tensor_parallel_size": ranks}, **more)).split("\n")[0]
    assert shown.endswith(f".{cost}")


def test_no_cost_where_no_worker_had_begun_or_the_run_failed() -> None:
    two = {"set": {"tensor_parallel_size": 2}}
    assert "hours" not in text(started(phase("placement", 1, 91), **two))
    assert "hours" not in text(started(LOAD, **two), cause())


@for_each(
    ("more", "last", "told"),
    [
        ({}, {"running": 3}, True),
        ({}, {"running": 0}, False),
        ({"outcome": "clean_shutdown"}, {"running": 3}, False),
        ({"kind": "offline"}, {"running": 3}, False),
    ],
)
def test_a_log_that_ends_while_requests_run_is_open(
    more: dict[str, Any], last: dict[str, Any], told: bool
) -> None:
    shown = text(started(LOAD, samples=[sample(running=9), sample(**last, number=1)], **more))
    assert (
        "3 requests running in the last statistics line [L101]: the log was copied while the server ran"
        in shown
    ) is told


def period(name: Any, samples: int, start: float = 0.0) -> ServingPeriod:
    return ServingPeriod(
        name, T + start, T + start + 50, samples, f"{name} it is", (line(30), line(31), line(32))
    )


@for_each(
    ("periods", "shown"),
    [
        ((period("client-limited", 4), period("kv-cache-limited", 4, 50)), True),
        ((period("client-limited", 4), period("kv-cache-limited", 3, 50)), False),  # few lines
        ((period("kv-cache-limited", 4), period("kv-cache-limited", 4, 50)), False),
        ((period("client-limited", 4), period("idle", 4, 50)), False),
        (tuple(period(("client-limited", "kv-cache-limited")[n % 2], 4, 50 * n) for n in range(8)), True),
        (tuple(period(("client-limited", "kv-cache-limited")[n % 2], 4, 50 * n) for n in range(9)), False),
    ],
)
def test_limits_over_time_are_shown_where_they_change_a_few_times(
    periods: tuple[ServingPeriod, ...], shown: bool
) -> None:
    found = text(started(LOAD), limit=Bottleneck("none-clear", "x", periods=periods))
    assert ("Limits over time:" in found) is shown
    if shown:
        row = next(one for one in found.split("\n") if "KV cache full" in one)
        assert "kv-cache-limited it is [L30, L31, L32]" in row


def test_nothing_is_known_of_a_log_without_phases_and_load() -> None:
    assert text(a_run(outcome="running")) == ""
    assert text(a_run(outcome="clean_shutdown", samples=load((2, {"running": 3})))) == ""


@for_each(("kind", "shown"), [("server", "the client sets the pace"), ("offline", "no prompt waits")])
def test_the_end_of_a_batch_has_no_client(kind: str, shown: str) -> None:
    periods = (period("kv-cache-limited", 9), period("client-limited", 9, 50))
    found = text(started(LOAD, kind=kind), limit=Bottleneck("kv-cache-limited", "x", periods=periods))
    assert f"| {shown} |" in found


@for_each(("kind", "shown"), [("server", "requests arrive"), ("offline", "prompts arrive")])
def test_a_line_in_which_requests_have_just_arrived_is_not_the_clients(kind: str, shown: str) -> None:
    begun = replace(period("client-limited", 1), reason=f"{BEGINS} 5 running, 8 waiting")
    periods = (begun, period("kv-cache-limited", 9, 50))
    found = text(started(LOAD, kind=kind), limit=Bottleneck("kv-cache-limited", "x", periods=periods))
    assert f"| {shown} |" in found
