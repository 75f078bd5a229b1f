"""Whether a start in a file is of another engine or server than that of the run above it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from msgspec.structs import replace

from tests.rules.making import event
from tests.tables import for_each
from vllm_logdoctor.events import Event
from vllm_logdoctor.parse import Process
from vllm_logdoctor.run.engine_starts import had_a_life, in_other_container, is_new_engine, is_older, siblings
from vllm_logdoctor.run.model import Occurrences

CONFIG = "Initializing a V1 LLM engine (v0.11.0) with config: model='org/tiny', dtype=torch.float16, max_seq_len=4096"


def core(name: str = "EngineCore_DP0", pid: int | None = 9, rank: str = "", host: str = "") -> Process:
    return Process(name, "engine-core", pid, rank, host)


def begun(process: Process, time: float | None = 100.0, text: str = CONFIG) -> Event:
    """The configuration line of an engine."""
    one = event(text)
    return replace(one, record=replace(one.record, process=process, time=time))


def run_with(first: Event | None, **given: Any) -> Any:
    """A run in the making with one engine, as far as these decisions ask."""
    oldest = given.pop("oldest", None)
    seen = {"engine-config": Occurrences(first=[first], last=first, count=1)} if first is not None else {}
    openers = {f"engine {first.record.process.name}": first.record.process} if first is not None else {}
    facts = {"troubled": False, "ready": False, "vllm_records": 0, "accesses": {}, "year_shift": 0.0}
    clock = SimpleNamespace(backwards=given.pop("backwards", False), oldest=oldest)
    messages = {**seen, **given.pop("messages", {})}
    return SimpleNamespace(**{**facts, "messages": messages, "openers": openers, "clock": clock, **given})


@for_each(
    ("one", "other", "alike"),
    [
        (core("Worker_TP0"), core("Worker_TP1"), True),
        (core("Worker_TP0"), core("Worker_PP0"), False),
        (core("EngineCore_DP0"), core("EngineCore_DP12"), True),
        (core("RayWorker", rank="0"), core("RayWorker", rank="1"), True),
        (core("RayWorker", rank="1"), core("RayWorker", rank="1"), False),
        (core("RayWorker", rank="1"), core("RayWorker"), False),
        (core("RayWorker"), core("RayWorker", rank="1"), False),
    ],
)
def test_processes_of_one_run_differ_by_a_number(one: Process, other: Process, alike: bool) -> None:
    assert siblings(one, other) is alike


@for_each(
    ("one", "other", "apart"),
    [
        ("pod-a", "pod-b", True),
        ("pod-a", "pod-a", False),
        ("pod-a", "", False),
        ("", "pod-b", False),
        ("10.0.0.1", "10.0.0.2", False),
        ("pod-a", "10.0.0.2", False),
        ("pod-a", "fe80::1", False),
    ],
)
def test_containers_are_told_apart_by_names_and_not_by_addresses(one: str, other: str, apart: bool) -> None:
    assert in_other_container(core(host=one), core(host=other)) is apart


@for_each(
    ("given", "lived"),
    [
        ({}, False),
        ({"ready": True}, False),
        ({"ready": True, "vllm_records": 1}, True),
        ({"ready": True, "accesses": {"x": 1}}, True),
        ({"vllm_records": 1}, False),
        ({"troubled": True}, False),
        ({"troubled": True, "vllm_records": 1}, True),
        ({"messages": {"uvicorn-stopping": 1}}, True),
    ],
)
def test_a_piece_of_a_log_is_of_a_server_that_served_failed_or_stopped(
    given: dict[str, Any], lived: bool
) -> None:
    assert had_a_life(run_with(None, **given)) is lived


NEWER = CONFIG.replace("0.11.0", "0.11.1")
OTHER_MODEL = CONFIG.replace("org/tiny", "org/large")


@for_each(
    ("second", "time", "text", "given", "new"),
    [
        # The same line by a second capture or rank, and a server that is started beside the first one.
        (core(pid=9), 100.0, CONFIG, {}, False),
        (core(pid=9), 101.0, CONFIG, {}, True),
        (core(pid=9), 100.0, OTHER_MODEL, {}, True),
        (core(pid=8), 105.0, CONFIG, {}, False),
        (core(pid=8), 105.1, CONFIG, {}, True),
        (core(pid=8), 99.0, CONFIG, {}, True),
        (core(pid=8), 105.0, OTHER_MODEL, {}, True),
        (core(pid=8), 105.0, CONFIG, {"troubled": True}, True),
        (core(pid=None), 103.0, CONFIG, {}, True),
        (core(pid=8), None, CONFIG, {}, True),
        # Another name of the kind is of the same run; of another kind, release or container it is not.
        (core("EngineCore_DP1", 8), 300.0, CONFIG, {}, False),
        (core("EngineCore_X", 8), 101.0, CONFIG, {}, True),
        (core(pid=8), 101.0, NEWER, {}, True),
        (core(pid=9, rank="1"), 300.0, CONFIG, {}, True),
    ],
)
def test_an_engine_is_new_by_its_name_its_time_and_what_it_runs(
    second: Process, time: float | None, text: str, given: dict[str, Any], new: bool
) -> None:
    run = run_with(begun(core(pid=9)), **given)
    assert is_new_engine(run, begun(second, time, text)) is new


def test_an_engine_of_another_rank_or_container_is_judged_by_that() -> None:
    ranked = run_with(begun(core(rank="0", host="pod-a")))
    assert is_new_engine(ranked, begun(core(pid=8, rank="1", host="pod-a"), 300.0)) is False
    assert is_new_engine(ranked, begun(core(pid=8, rank="0", host="pod-a"), 300.0)) is True
    assert is_new_engine(ranked, begun(core(pid=8, rank="1", host="pod-b"), 300.0)) is True
    assert is_new_engine(run_with(None), begun(core())) is False


@for_each(
    ("time", "given", "older"),
    [
        (98.9, {}, True),
        (99.0, {}, False),
        (None, {}, False),
        (98.9, {"backwards": True}, False),
        (98.9, {"year_shift": 10.0}, False),
    ],
)
def test_a_start_is_older_than_the_engine_above_it_by_more_than_a_second(
    time: float | None, given: dict[str, Any], older: bool
) -> None:
    assert is_older(run_with(begun(core()), **given), begun(core(), time).record) is older


def test_a_piece_without_an_engine_is_older_than_a_start_only_if_it_served_or_failed() -> None:
    line = begun(core(), 50.0).record
    assert is_older(run_with(None, ready=True, vllm_records=1, oldest=100.0), line) is True
    assert is_older(run_with(None, ready=True, vllm_records=1, oldest=None), line) is False
    assert is_older(run_with(None, oldest=100.0), line) is False
    # Ray's actors have no name at first.
    nameless = replace(line, process=core(name="", pid=9))
    assert is_older(run_with(begun(core())), nameless) is False
    assert is_older(run_with(begun(core())), replace(line, process=core(name="", pid=None))) is True
