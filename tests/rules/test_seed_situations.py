"""Four situations that guides were written for by hand: ours must be true, without what was wrong in them."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from vllm_logdoctor.pipeline import Options, analyse
from vllm_logdoctor.report.json import render
from vllm_logdoctor.source import inputs_from

LOGS = Path(__file__).parent / "logs"
ALL = ("small-model-over-pcie", "gpt-oss-two-cards", "single-card-worker", "gpt-oss-gb10")


@cache
def report(name: str) -> dict[str, Any]:
    """The one run of a log, as the JSON document tells it."""
    document = json.loads(render(analyse(inputs_from(str(LOGS / f"{name}.log")), Options())))
    (run,) = document["runs"]
    return run  # type: ignore[no-any-return]


def findings(name: str) -> dict[str, dict[str, Any]]:
    return {found["id"]: found for found in report(name)["findings"]}


def proposed(name: str) -> dict[str, Any]:
    return {change["knob"]: change["to"] for change in report(name)["plan"]["changes"]}


@pytest.mark.parametrize("name", ALL)
def test_the_client_is_the_limit_and_that_is_said(name: str) -> None:
    assert report(name)["bottleneck"] == "client-limited"
    assert "client-concurrency-bound" in findings(name)


@pytest.mark.parametrize("name", ALL)
def test_nothing_is_advised_that_does_nothing_or_does_not_exist(name: str) -> None:
    knobs = set(proposed(name))
    assert not knobs & {
        "--max-num-seqs",  # nothing waits
        "--gpu-memory-utilization",  # the cache is nearly empty
        "--max-num-batched-tokens",  # no prompt waits
        "--block-size",
        "--disable-cuda-graph",
        "--speculative-model",
        "--num-speculative-tokens",
        "--swap-space",
    } - {change["knob"] for change in report(name)["plan"]["changes"] if change["to"] is None}


@pytest.mark.parametrize("name", ALL)
def test_no_number_without_origin_and_no_finding_without_a_line(name: str) -> None:
    for found in report(name)["findings"]:
        assert found["evidence"], found["id"]
        if found["effect"] is not None:
            assert found["effect"]["origin"] in ("measured", "computed", "published")
            assert found["effect"]["basis"]


@pytest.mark.parametrize("name", ALL)
def test_no_failure_is_seen_in_a_healthy_log(name: str) -> None:
    assert all(found["kind"] != "failure" for found in report(name)["findings"])


def test_a_2b_model_over_pcie_becomes_replicas_that_can_start() -> None:
    name = "small-model-over-pcie"
    first = next(iter(findings(name)))
    assert first == "small-model-split-over-cards"
    assert proposed(name)["--tensor-parallel-size"] == 1
    assert proposed(name)["--data-parallel-size"] == 4
    # 262,144 tokens need more than one card has: without a shorter length four replicas would not start.
    assert proposed(name)["--max-model-len"] == 131072
    assert proposed(name)["--enforce-eager"] is None
    effect = findings(name)[first]["effect"]
    assert (effect["low"], effect["high"]) == (2.35, 3.4)
    assert "3 measured pairs" in effect["basis"]


def test_its_whole_command_is_written() -> None:
    plan = report("small-model-over-pcie")["plan"]
    assert "--enforce-eager" in plan["command_before"]
    assert "--enforce-eager" not in plan["command_after"]
    assert "--data-parallel-size 4" in plan["command_after"]
    assert "--port 8004" in plan["command_after"]


def test_a_120b_model_on_two_cards_needs_no_change_and_no_promise_for_flashinfer() -> None:
    name = "gpt-oss-two-cards"
    assert all(found["severity"] in ("low", "info") for found in report(name)["findings"])
    sampler = findings(name)["sampler-in-pytorch"]
    assert sampler["effect"] is None
    assert [change for change in report(name)["plan"]["changes"] if change["kind"] == "flag"] == []
    right = {item["name"] for item in report(name)["already_right"]}
    assert {"CUDA graphs", "torch.compile", "chunked prefill", "quantization"} <= right


def test_a_worker_with_a_forced_kernel_gets_the_fast_one_first() -> None:
    name = "single-card-worker"
    assert next(iter(findings(name))) == "slow-quantization-kernel-selected"
    assert proposed(name)["--quantization"] == "awq_marlin"
    assert proposed(name)["--swap-space"] is None
    assert "no effect in the V1 engine" in findings(name)["argument-without-effect"]["explanation"]


def test_gb10_says_what_the_log_shows_and_nothing_of_other_engines() -> None:
    name = "gpt-oss-gb10"
    found = findings(name)
    assert "mxfp4-without-flashinfer" in found
    assert found["mxfp4-without-flashinfer"]["effect"] is None
    assert "369 MiB/s" in found["slow-weight-loading-storage"]["explanation"]
    assert any("nvidia-smi -L" in text for text in report(name)["not_known"])
