"""Which values of the files beside a log count, whatever the order of the files: the newest scrape, busy threads, what ended something."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vllm_logdoctor.evidence.model import EvidenceFile, Reading, Scalar
from vllm_logdoctor.run.observed import Measured, Observed, observed


def file(kind: str, *readings: Reading, name: str = "") -> EvidenceFile:
    return EvidenceFile(name or kind, kind, readings)


def counted(generated: int, start: float | None = None, **histograms: tuple[float, int]) -> EvidenceFile:
    """Return a scrape: tokens generated so far, and mean and count of histograms, `_` for a blank."""
    readings = [Reading("generation tokens", generated, line=1)]
    if start is not None:
        readings.append(Reading("process start", start, "s", line=2))
    for name, (mean, count) in histograms.items():
        words = name.replace("_", " ")
        readings.append(Reading(f"{words} mean", mean, "s", line=(count, 3)))
        readings.append(Reading(f"{words} count", count, line=4))
        readings.append(Reading(f"{words} p95 lies in", [0.5, 1.0], "s", line=5))
    return file("prometheus-text", *readings, name=f"{generated} of {start}")


def of(files: Sequence[EvidenceFile], joined: bool = True) -> Observed:
    return observed([(one, joined) for one in files])


def values(found: list[Measured]) -> dict[str, object]:
    return {one.name: one.value for one in found}


BEFORE = counted(100, 7.0, queue_time=(1.0, 10), TTFT=(2.0, 10))
AFTER = counted(300, 7.0, queue_time=(5.0, 20), TTFT=(3.0, 40))


@pytest.mark.parametrize("files", list(permutations([BEFORE, AFTER, counted(10, 3.0, queue_time=(9.0, 1))])))
def test_a_window_is_between_the_first_and_the_last_scrape_of_the_last_life(
    files: list[EvidenceFile],
) -> None:
    found = {one.name: one for one in of(files).of("latency")}
    queue = found["queue time mean"]
    assert (queue.value, queue.line, queue.file) == (9.0, 20, AFTER.file)
    assert queue.how == f"10 observations between {BEFORE.file} and {AFTER.file}"
    assert found["TTFT mean"].value == pytest.approx((3 * 40 - 2 * 10) / 30)
    # Bounds of quantiles are of all that was observed: no window is named for them.
    assert found["queue time p95 lies in"].how == "read"


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 60)), min_size=1, max_size=6))
def test_the_mean_of_a_window_is_that_of_its_own_observations(steps: list[tuple[int, int]]) -> None:
    scrapes, count, total = [], 0, 0
    for position, (more, seconds) in enumerate(steps):
        count, total = count + more, total + more * seconds
        scrapes.append(counted(position, 7.0, queue_time=(total / count, count)))
    observations = count - (steps[0][0] if len(steps) > 1 else 0)
    seconds = total - (steps[0][0] * steps[0][1] if len(steps) > 1 else 0)
    (mean,) = of(scrapes[::-1]).of("latency", "queue time mean")
    assert mean.value == pytest.approx(seconds / observations, abs=1e-5)
    assert mean.how.startswith(f"{observations} observations ")


@pytest.mark.parametrize(
    "earlier",
    [
        counted(100, None, queue_time=(1.0, 10)),
        counted(100, 3.0, queue_time=(1.0, 10)),
        counted(100, 7.0, queue_time=(1.0, 20)),
        counted(100, 7.0, queue_time=(1.0, 0)),
        counted(100, 7.0),
    ],
    ids=["no start", "another life", "nothing observed since", "nothing observed before", "no histogram"],
)
def test_without_an_earlier_scrape_that_can_be_subtracted_a_mean_is_since_the_start(
    earlier: EvidenceFile,
) -> None:
    (mean,) = of([earlier, AFTER]).of("latency", "queue time mean")
    assert (mean.value, mean.how) == (5.0, "20 observations since the server's start")


def test_without_a_start_no_two_scrapes_are_of_one_life() -> None:
    (mean,) = of([counted(1, queue_time=(1.0, 1)), counted(2, queue_time=(3.0, 2))]).of(
        "latency", "queue time mean"
    )
    assert mean.value == 3.0


def test_the_share_of_waiting_is_that_of_the_whole_time_of_a_request() -> None:
    share = of([counted(1, queue_time=(1.0, 8), e2e_latency=(3.0, 8))]).of("latency", "waiting share")
    assert [(one.value, one.unit, one.line) for one in share] == [(33.3, "%", 8)]
    for scrape in (
        counted(1, queue_time=(1.0, 8)),
        counted(1, e2e_latency=(3.0, 8)),
        counted(1, queue_time=(1.0, 8), e2e_latency=(0.0, 8)),
    ):
        assert not of([scrape]).of("latency", "waiting share")


@pytest.mark.parametrize(
    ("open_requests", "preemptions", "shown"),
    [(0, 1, False), (1, 1, False), (2, 1, True), (0, 0, True)],
)
def test_first_tokens_are_observed_again_where_requests_that_are_open_do_not_explain_them(
    open_requests: int, preemptions: int, shown: bool
) -> None:
    scrape = counted(1, TTFT=(1.0, 12), e2e_latency=(3.0, 10))
    also = [Reading("preemptions", preemptions), Reading("running", open_requests - open_requests // 2)]
    also.append(Reading("waiting", open_requests // 2))
    found = of([file("prometheus-text", *scrape.readings, *also)])
    assert bool(found.of("latency", "TTFT mean")) is shown
    assert found.of("latency", "e2e latency mean")


def test_values_of_other_runs_are_shown_after_those_of_this_run_and_decide_nothing() -> None:
    other = file("free", Reading("mem total", 1))
    own = file("free", Reading("mem total", 2))
    found = observed([(other, False), (own, True), (counted(5, queue_time=(1.0, 1)), False)])
    assert [one.value for one in found.of("host", joined=False)] == [2, 1]
    assert [one.value for one in found.of("host")] == [2]
    assert found.number("host", "mem total") == 2.0
    assert not found.of("latency", joined=False)


def test_a_group_has_no_more_values_than_a_report_shows() -> None:
    files = [
        file("nvidia-smi-dmon", *(Reading("sm", n, subject=f"gpu {n}") for n in range(70))) for _ in "abc"
    ]
    assert len(of(files).of("gpus")) == 90


def thread(name: str, share: Scalar, number: int) -> Reading:
    return Reading(f"cpu of {name}", share, "%", subject=f"thread {number}")


def test_threads_that_are_busy_and_those_of_vllm_are_shown_the_busiest_first() -> None:
    frames = [thread("late", 5.0, 1), thread("VLLM::W", 2.0, 2), thread("idle", 29.9, 3), thread("busy", 30.0, 4), thread("late", 80.0, 1), thread("none", None, 5)]  # fmt: skip
    found = of([file("top", Reading("load average 1m", 4.0), *frames)]).of("host")
    assert [(one.name, one.value) for one in found] == [
        ("load average 1m", 4.0),
        ("cpu of late", 80.0),
        ("cpu of busy", 30.0),
        ("cpu of VLLM::W", 2.0),
    ]


def test_where_no_thread_is_busy_the_busiest_is_shown() -> None:
    frames = [thread("a", 3.0, 1), thread("b", 9.0, 2)]
    assert [one.name for one in of([file("pidstat", *frames)]).of("host")] == ["cpu of b"]


def test_at_most_twelve_threads_are_shown() -> None:
    frames = [thread(f"t{n}", 50.0 + n, n) for n in range(20)]
    assert [one.subject for one in of([file("top", *frames)]).of("host")] == [
        f"thread {n}" for n in range(19, 7, -1)
    ]


@given(
    st.lists(st.integers(1, 10_000), min_size=1, max_size=4),
    st.one_of(st.none(), st.integers(1, 50)),
    st.one_of(st.none(), st.integers(1, 80)),
)
def test_shares_of_kernels_are_of_their_sum_and_times_are_per_step_and_layer(
    times: list[int], steps: int | None, layers: int | None
) -> None:
    classes = ["attention", "GEMM", "sampling", "other"][: len(times)]
    rows = [
        Reading("class time", time, "us", subject=name) for name, time in zip(classes, times, strict=True)
    ]
    rows += [Reading("steps", steps)] if steps else []
    rows += [Reading("layers", layers)] if layers else []
    found = of([file("torch-chrome-trace", *rows, Reading("cpu time", 1))]).of("kernels")
    by_name = {(one.name, one.subject): one.value for one in found}
    for name, time in zip(classes, times, strict=True):
        assert by_name["class time", name] == time
        assert by_name["share", name] == pytest.approx(100 * time / sum(times), abs=0.06)
        assert by_name.get(("time per step", name)) == (round(time / steps, 2) if steps else None)
        in_layers = name in ("attention", "GEMM") and steps and layers
        expected = round(time / steps / layers, 3) if in_layers and steps and layers else None
        assert by_name.get(("time per layer", name)) == expected
    assert "cpu time" not in {one.name for one in found}


@pytest.mark.parametrize("times", [[], [0, 0]])
def test_kernels_that_took_no_time_have_no_share(times: list[int]) -> None:
    rows = [Reading("class time", time, "us", subject=str(n)) for n, time in enumerate(times)]
    assert not of([file("torch-chrome-trace", *rows)]).of("kernels", "share")


@pytest.mark.parametrize("nothing", [False, 0, None, "", "false"])
def test_what_did_not_happen_ended_nothing(nothing: Scalar) -> None:
    rows = [Reading("OOMKilled", nothing), Reading("ExitCode", 137), Reading("Name", "server")]
    assert values(of([file("docker-inspect", *rows)]).of("fate")) == {"ExitCode": 137}


@pytest.mark.parametrize(
    ("reading", "killed"),
    [
        (Reading("oom killed", "python3"), True),
        (Reading("OOMKilled", True), True),
        (Reading("OOMKilled", "other"), False),
        (Reading("reason", "OOMKilled"), True),
        (Reading("State", "OUT_OF_MEMORY"), True),
        (Reading("State", "TIMEOUT"), False),
        (Reading("comment", "OOMKilled"), False),
    ],
)
def test_only_what_says_so_is_a_kill_for_memory(reading: Reading, killed: bool) -> None:
    found = of([file("sacct", reading)])
    assert values(found.of("fate")) == {reading.name: reading.value}
    assert bool(found.kills_for_memory()) is killed


@pytest.mark.parametrize(
    ("kind", "reading", "gib"),
    [
        ("nvidia-smi-table", Reading("memory used / total", "12362MiB /  24576MiB"), 24.0),
        ("nvidia-smi-q", Reading("memory total", "97871 MiB"), 97871 / 1024),
        ("nvidia-smi-csv", Reading("memory.total [MiB]", "81920 MiB"), 80.0),
        ("torch-chrome-trace", Reading("device memory", 95.6, "GiB"), 95.6),
        ("nvidia-smi-q", Reading("memory used", "97871 MiB"), None),
        ("nvidia-smi-q", Reading("memory total", "N/A"), None),
    ],
)
def test_the_memory_of_a_card_is_what_its_driver_names_as_total(
    kind: str, reading: Reading, gib: float | None
) -> None:
    assert of([file(kind, reading)]).card_memory() == gib
    assert of([file(kind, reading)], joined=False).card_memory() is None
    assert of([file(kind, reading)], joined=False).card_memory(joined=False) == gib


def test_a_list_of_packages_without_flashinfer_says_that_it_is_not_installed() -> None:
    torch, own = Reading("package torch", "2.9", line=3), Reading("package flashinfer-python", "0.5", line=4)
    assert values(of([file("collect-env", torch)]).of("host")) == {"package flashinfer": "not installed"}
    assert values(of([file("collect-env", torch, own)]).of("host")) == {"package flashinfer-python": "0.5"}
    assert not of([file("collect-env", Reading("name", "NVIDIA T"))]).of("host")
