"""The JSON documents of a comparison and a verification, name by name: scripts read them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from compare_samples import finding, planned, samples, snapshot

from vllm_logdoctor.comparison.comparison import compare
from vllm_logdoctor.comparison.json import comparison_document, verification_document
from vllm_logdoctor.comparison.verification import verify
from vllm_logdoctor.plan.model import Plan
from vllm_logdoctor.rules.model import Effect

BEFORE = snapshot(
    {"max_num_seqs": 1, "kv_cache_dtype": "auto"}, {"kv_cache_tokens": 1000}, samples(4, 100, 30, waiting=3), (finding("one-sequence", "--max-num-seqs", Effect("kv_cache_tokens", 1.2, 1.4, "computed", "")),),
    plan=Plan((planned("--max-num-seqs", 1, 32, "one-sequence"), planned("--kv-cache-dtype", "auto", "fp8"))),
)  # fmt: skip
AFTER = snapshot(
    {"max_num_seqs": 32, "kv_cache_dtype": "auto", "seed": 7}, {"kv_cache_tokens": 1500}, [*samples(4, 50, 30), *samples(16, 300, 3)], (finding("other"),),
)  # fmt: skip


def as_read(document: dict[str, Any]) -> dict[str, Any]:
    """Return a document as a script reads it."""
    return json.loads(json.dumps(document))  # type: ignore[no-any-return]


SIDE = {
    "name": "vllm.log", "vLLM version": "0.11.2", "model": "org/tiny", "kind": "unknown", "outcome": "clean_shutdown",
}  # fmt: skip
KNOWN = {"kind": "performance", "severity": "medium"}


def test_a_comparison_as_json() -> None:
    found = as_read(comparison_document(compare(BEFORE, AFTER)))
    assert found["schema"] == "logdoctor-comparison/1"
    assert found["before"] == SIDE | {"bottleneck": BEFORE.bottleneck}
    assert found["after"] == SIDE | {"bottleneck": AFTER.bottleneck}
    assert found["settings"] == [
        {"name": "max_num_seqs", "before": {"value": 1, "provenance": "explicit"}, "after": {"value": 32, "provenance": "explicit"}, "role": "cause"},
        {"name": "seed", "before": None, "after": {"value": 7, "provenance": "explicit"}, "role": "idle"},
    ]  # fmt: skip
    assert found["told_by_one_log"] == []
    assert found["figures"][0] == {
        "name": "kv_cache_tokens", "before": 1000.0, "after": 1500.0, "ratio": 1.5, "verdict": "better", "note": None,
    }  # fmt: skip
    assert found["findings"] == [
        {"id": "one-sequence", "title": "title of one-sequence", "knobs": ["--max-num-seqs"], "state": "gone", "note": None} | KNOWN,
        {"id": "other", "title": "title of other", "knobs": [], "state": "new", "note": None} | KNOWN,
    ]  # fmt: skip
    assert found["ties"] == [
        {
            "setting": "max_num_seqs", "can_move": ["capacity", "memory", "speed", "start-up"], "figures": ["kv_cache_tokens"],
            "findings": [{"id": "one-sequence", "state": "gone"}], "speed_at_equal_load": True, "room_used": True, "shared_with": [],
        },
    ]  # fmt: skip


def test_speed_and_room_as_json() -> None:
    found = as_read(comparison_document(compare(BEFORE, AFTER)))
    load, room = found["equal_load"], found["room_used"]
    (pair,) = load.pop("levels")
    assert pair["before"] == {
        "low": 4, "high": 4, "running": 4.0, "samples": 29, "generation": [98.0, 100.0, 102.0], "prompt": 10.0,
    }  # fmt: skip
    assert (pair["after"]["generation"][1], pair["ratio"]) == (50.0, 0.5)
    assert load.keys() == {"verdict", "ratio", "low", "high", "share_before", "share_after", "warnings"}
    assert (load["verdict"], load["ratio"], load["share_before"]) == ("slower", pytest.approx(0.5), 1.0)
    assert load["low"] < 0.5 < load["high"]
    assert load["share_after"] == pytest.approx(29 / 31)
    assert "the requests differ" in load["warnings"][0]
    rates = [side.figures["generation_throughput_busy_mean"] for side in (BEFORE, AFTER)]
    assert room == {
        "running_before": 4, "running_after": 16, "before": rates[0], "after": rates[1], "ratio": rates[1] / rates[0],
    }  # fmt: skip
    assert comparison_document(compare(AFTER, BEFORE))["room_used"] is None


def test_a_verification_as_json() -> None:
    found = as_read(verification_document(verify(BEFORE, AFTER)))
    assert found["schema"] == "logdoctor-verification/1"
    assert found["changes"] == [
        {"knob": "--max-num-seqs", "kind": "flag", "from": 1, "to": 32, "found": {"value": 32, "provenance": "explicit"}, "state": "took-effect", "note": None},
        {"knob": "--kv-cache-dtype", "kind": "flag", "from": "auto", "to": "fp8", "found": {"value": "auto", "provenance": "explicit"}, "state": "not-applied", "note": None},
    ]  # fmt: skip
    assert found["predictions"] == [
        {
            "id": "one-sequence", "title": "title of one-sequence", "knobs": ["--max-num-seqs"],
            "predicted": {"metric": "kv_cache_tokens", "low": 1.2, "high": 1.4, "origin": "computed"}, "ratio": 1.5, "state": "more", "note": "1,000 before, 1,500 after",
        },
    ]  # fmt: skip
    plain = as_read(comparison_document(compare(BEFORE, AFTER)))
    assert {"schema": plain["schema"], **found["comparison"]} == plain
