"""Rules on what files beside the log measured: each fires on its measurement, and not on one below its bound."""

from __future__ import annotations

import pytest

from vllm_logdoctor.parse import Process
from vllm_logdoctor.rules.engine import settings_findings
from vllm_logdoctor.rules.observed import RULES
from vllm_logdoctor.run.model import Run
from vllm_logdoctor.run.observed import Group, Measured, Observed

Values = list[tuple[str, object, str]]

FIRES: dict[str, tuple[Group, Values]] = {
    "requests-wait-in-queue": ("latency", [("waiting share", 99.0, ""), ("queue time mean", 183.6, "")]),
    "communication-between-gpus-dominates": ("kernels", [("share", 32.8, "communication")]),
    "gpu-idle-between-kernels": (
        "kernels",
        [("gpu busy share", 0.4, ""), ("launches", 900, ""), ("steps", 3, "")],
    ),
    "one-thread-is-busy": ("host", [("cpu of VLLM::EngineCor", 99.9, "thread 7")]),
    "gpu-power-capped": ("gpus", [("sw power cap", "Active", "GPU 0")]),
    "pcie-link-narrow": ("gpus", [("pcie width max", "16x", "GPU 0"), ("pcie width current", "4x", "GPU 0")]),
    "killed-for-host-memory": ("fate", [("oom killed", "711 python3", "")]),
}
SILENT: dict[str, tuple[Group, Values]] = {
    "requests-wait-in-queue": ("latency", [("waiting share", 99.0, ""), ("queue time mean", 0.2, "")]),
    "communication-between-gpus-dominates": (
        "kernels",
        [("share", 92.8, "GEMM"), ("share", 7.2, "communication")],
    ),
    "gpu-idle-between-kernels": ("kernels", [("gpu busy share", 0.95, ""), ("launches", 900, "")]),
    "one-thread-is-busy": ("host", [("cpu of java", 99.9, "thread 7")]),
    "gpu-power-capped": ("gpus", [("sw power cap", "Not Active", "GPU 0")]),
    "pcie-link-narrow": (
        "gpus",
        [("pcie width max", "16x", "GPU 0"), ("pcie width current", "16x", "GPU 0")],
    ),
    "killed-for-host-memory": ("fate", [("oom_score_adj", "711 python3", "")]),
}


def found(given: tuple[Group, Values], joined: bool = True, pid: int | None = None) -> list[str]:
    group, values = given
    measured = [
        Measured(name, value, "", subject, "beside.txt", 1, "", "read", joined)
        for name, value, subject in values
    ]
    processes = [Process("EngineCore", pid=pid)] if pid is not None else []
    run = Run(outcome="killed", observed=Observed({group: measured}), processes=processes)
    return [finding.id for finding in settings_findings(RULES, run)]


def test_every_rule_is_here() -> None:
    assert {rule.id for rule in RULES} == FIRES.keys() == SILENT.keys()


@pytest.mark.parametrize("rule", FIRES)
def test_a_measurement_fires_its_rule(rule: str) -> None:
    assert found(FIRES[rule]) == [rule]


@pytest.mark.parametrize("rule", SILENT)
def test_a_measurement_below_the_bound_is_silent(rule: str) -> None:
    assert found(SILENT[rule]) == []


@pytest.mark.parametrize("rule", FIRES)
def test_a_file_that_names_no_run_decides_nothing(rule: str) -> None:
    assert found(FIRES[rule], joined=False) == []


@pytest.mark.parametrize(
    ("rule", "given"),
    [
        ("gpu-power-capped", [("clocks_event_reasons.sw_power_cap", "Active", "0")]),
        ("gpu-power-capped", [("clocks_throttle_reasons.hw_thermal_slowdown", "Active", "0")]),
        ("pcie-link-narrow", [("pcie.link.width.max", "16", "0"), ("pcie.link.width.current", "4", "0")]),
    ],
)
def test_a_query_as_csv_fires_the_same_rules(rule: str, given: list[tuple[str, object, str]]) -> None:
    assert found(("gpus", given)) == [rule]


def test_a_busy_thread_of_another_server_is_silent() -> None:
    assert found(FIRES["one-thread-is-busy"], pid=7) == ["one-thread-is-busy"]
    assert found(FIRES["one-thread-is-busy"], pid=8) == []


def test_a_reason_that_lowers_no_clock_is_silent() -> None:
    assert found(("gpus", [("clocks_event_reasons.gpu_idle", "Active", "0")])) == []
