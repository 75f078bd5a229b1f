"""KV caches outside the engine: waited for, or without use."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from tests.rules.making import a_run, advice, load
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
