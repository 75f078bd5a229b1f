"""KV caches outside the engine: waited for, or without use."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from tests.rules.making import a_run, advice, load
from tests.tables import for_each
from vllm_logdoctor.run.model import Evidence, Sample, Transfer

CONSUMER = {"kv_transfer_config": {"kv_connector": "NixlConnector", "kv_role": "kv_consumer"}}
STORE = {"kv_transfer_config": {"kv_connector": "LMCacheConnectorV1", "kv_role": "kv_both"}}
DEFERRED = {"running": 30, "waiting": 6, "kv": 31.0, "generation": 1800.0}


def asked(rate: float, lines: int = 20, **more: Any) -> list[Sample]:
    series = load((lines, {"running": 24, "generation": 800.0, "prompt": 5000.0, "kv": 20.0, **more}))
    return [replace(sample, external_hit=rate) for sample in series]


def test_a_decode_engine_with_free_slots_waits_for_the_cache_of_another_engine() -> None:
    transfer = Transfer(10.0, Evidence("vllm.log", 99, ""), {"Avg xfer time (ms)": 38.7})
    found = advice(a_run(set=CONSUMER, samples=load((20, DEFERRED)), transfers=[transfer]))
    first = next(iter(found.values()))
    assert first.id == "requests-wait-for-remote-cache"
    assert "38.7 ms" in first.explanation
    assert "prefill-bound-queueing" not in found


def test_an_engine_that_computes_prompts_itself_does_not_wait_for_another_one() -> None:
    found = advice(a_run(set=CONSUMER, samples=load((20, {**DEFERRED, "prompt": 4000.0}))))
    assert "requests-wait-for-remote-cache" not in found


def test_without_a_connector_nothing_is_said_of_one() -> None:
    run = a_run(set={"max_num_seqs": 256}, samples=load((20, DEFERRED)))
    assert "requests-wait-for-remote-cache" not in advice(run)


def test_a_store_that_never_gives_anything_is_named() -> None:
    assert "remote-cache-never-hits" in advice(a_run(set=STORE, samples=asked(0.0)))


def test_a_store_that_gives_a_little_is_left_alone() -> None:
    assert "remote-cache-never-hits" not in advice(a_run(set=STORE, samples=asked(0.4)))


def test_a_short_load_proves_nothing_of_a_store() -> None:
    assert "remote-cache-never-hits" not in advice(a_run(set=STORE, samples=asked(0.0, lines=5)))


def test_an_engine_that_computes_for_others_takes_nothing_back() -> None:
    producer = {"kv_transfer_config": {"kv_connector": "NixlConnector", "kv_role": "kv_producer"}}
    assert "remote-cache-never-hits" not in advice(a_run(set=producer, samples=asked(0.0)))


def test_what_is_said_of_a_connector_is_proved_by_its_setting_and_its_lines() -> None:
    transfer = Transfer(10.0, Evidence("vllm.log", 99, ""), {})
    waits = advice(a_run(set=CONSUMER, samples=load((20, DEFERRED)), transfers=[transfer, transfer]))
    lines = [one.line for one in waits["requests-wait-for-remote-cache"].evidence]
    assert {2, 99} <= set(lines)
    assert lines.count(99) == 1
    assert waits["requests-wait-for-remote-cache"].explanation.startswith(
        "In all 20 statistics lines with load up to 6 requests waited"
    )
    asks = advice(a_run(set=STORE, samples=asked(0.0)))["remote-cache-never-hits"]
    assert [one.line for one in asks.evidence] == [119, 2]
    assert "in all 20 statistics lines that print its hit rate" in asks.explanation


@for_each(
    ("lines", "calm", "found"),
    [(3, 27, True), (2, 18, False), (3, 28, False)],
)
def test_requests_wait_for_a_remote_cache_in_three_lines_and_a_tenth_of_the_time(
    lines: int, calm: int, found: bool
) -> None:
    samples = load((calm, {**DEFERRED, "waiting": 0}), (lines, DEFERRED))
    assert ("requests-wait-for-remote-cache" in advice(a_run(set=CONSUMER, samples=samples))) is found


@for_each(("lines", "found"), [(12, True), (11, False)])
def test_a_store_is_judged_after_two_minutes(lines: int, found: bool) -> None:
    assert ("remote-cache-never-hits" in advice(a_run(set=STORE, samples=asked(0.0, lines=lines)))) is found
    assert "remote-cache-never-hits" not in advice(
        a_run(set=STORE, samples=asked(0.0, lines=lines, prompt=0.0))
    )
