"""Rows of the baseline document from runs made by hand: what is computed of a profile, which file is meant, where a value stands."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.baseline.test_baseline import LOG, ON_A_CARD, document
from tests.evidence.samples import SAMPLES
from tests.rules.making import a_run, load
from vllm_logdoctor.baseline.commands import collecting
from vllm_logdoctor.baseline.document import render
from vllm_logdoctor.report.model import Diagnosis
from vllm_logdoctor.rules.model import Finding
from vllm_logdoctor.run.model import Evidence, Process, Run
from vllm_logdoctor.run.observed import Group, Measured, Observed

CITED = re.compile(r"(?P<file>\S+) L(?P<line>\d+)$")


def value(name: str, value: object, subject: str = "", unit: str = "", file: str = "dir/p.json", **more: Any) -> Measured:  # fmt: skip
    return Measured(name, value, unit, subject, file, more.get("line"), more.get("where", ""), more.get("how", ""), False)  # fmt: skip


def with_values(run: Run, group: Group, *values: Measured) -> Run:
    run.observed = Observed({**run.observed.groups, group: [*run.observed.groups.get(group, []), *values]})
    return run


def rows(run: Run, *findings: Finding) -> dict[str, tuple[str, str]]:
    """Return value and source of each row by its name."""
    lines = [line for line in render(Diagnosis(run, findings)).splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in line.strip("|").split(" | ", 2)] for line in lines]
    return {name: (found, source) for name, found, source in cells}


def test_the_line_that_a_row_names_holds_its_value(tmp_path: Path) -> None:
    texts = {name: text for name, text in SAMPLES.items() if "\x00" not in text}
    pages = [document(tmp_path, ON_A_CARD, **{name: text}) for name, text in texts.items()]
    texts[LOG.name] = LOG.read_text()
    checked = set()
    for line in [*document(tmp_path), *(line for page in pages for line in page)]:
        *_, shown, source = ["", "", *line.strip("| ").split(" | ")]
        cited = CITED.search(source)
        if cited and cited["file"] in texts and ". " not in shown:  # A finding is judged of many lines.
            held = texts[cited["file"]].split("\n")[int(cited["line"]) - 1]
            assert shown.split(" ")[0].replace("\\", "") in held.replace(",", ""), line
            checked.add(cited["file"])
    assert len(checked) > 10


PROFILE = (
    value("share", 75.0, "attention", where="traceEvents"),
    value("share", 25.0, "GEMM", where="traceEvents"),
    value("class time", 300.0, "attention"),
    value("class time", 100.0, "GEMM"),
    value("class launches", 10, "attention"),
)
STEPS = (value("steps", 4, where="traceEvents"), value("time per step", 75.0, "attention"))
LAYERS = (value("layers", 5, where="traceEvents", how="cache writes of a step"), value("time per layer", 15.0, "attention"))  # fmt: skip


def test_a_class_of_kernels_has_its_share_and_what_steps_and_layers_tell() -> None:
    found = rows(with_values(a_run(), "kernels", *PROFILE))
    assert found["attention"] == ("75.0 %, 30 µs each", "p.json traceEvents")
    assert found["GEMM"] == ("25.0 %", "p.json traceEvents")
    assert "sampling" not in found
    assert found["instances per token"][0] == "?"
    found = rows(with_values(a_run(), "kernels", *PROFILE, *STEPS))
    assert found["attention"][0] == "75.0 %, 30 µs each, 2.5 a step: 75 µs"
    assert "instances per token" not in found
    found = rows(with_values(a_run(), "kernels", *PROFILE, *STEPS, *LAYERS))
    assert found["attention"][0].endswith(", 15 µs a layer")
    assert found["layers"] == ("5", "p.json traceEvents, cache writes of a step")


def test_of_two_profiles_one_is_read() -> None:
    other = (value("share", 100.0, "GEMM", file="q.json"), value("steps", 9, file="q.json"))
    found = rows(with_values(a_run(), "kernels", *PROFILE, *other))
    assert found["GEMM"][0] == "25.0 %"
    assert found["instances per token"][0] == "?"


def test_time_in_quantize_kernels_is_said_where_a_profile_has_none() -> None:
    quantize = value("class time", 40.0, "quantize", where="traceEvents")
    assert rows(a_run())["time in quantize kernels"][0] == "?"
    found = rows(with_values(a_run(), "kernels", *PROFILE))["time in quantize kernels"]
    assert found == ("none in the profile", "p.json")
    found = rows(with_values(a_run(), "kernels", *PROFILE, quantize))["time in quantize kernels"]
    assert found == ("40 µs", "p.json traceEvents")
    found = rows(with_values(a_run(), "kernels", *PROFILE, *STEPS, quantize))["time in quantize kernels"]
    assert found[0] == "40 µs, 10 µs a step"


def test_launches_of_a_step_are_kernels_on_a_card_and_operators_on_a_cpu() -> None:
    launches = value("launches", 100)
    on_card = rows(with_values(a_run(), "kernels", *PROFILE, *STEPS, launches))
    assert on_card["launches a step, kernels and graphs"] == ("25", "p.json traceEvents, over 4 steps")
    more = value("class launches", 30, "GEMM")
    on_cpu = rows(with_values(a_run(platform="cpu"), "kernels", *PROFILE, *STEPS, more))
    assert on_cpu["operators a step (no kernels on a CPU)"][0] == "10"
    without = rows(with_values(a_run(), "kernels", *PROFILE, launches))
    assert without["launches a step, kernels and graphs"][0] == "?"


def test_a_step_while_it_was_profiled_takes_the_span_over_the_steps() -> None:
    found = rows(with_values(a_run(), "kernels", *PROFILE, *STEPS, value("kernel span", 6000.0)))
    assert found["a step while it was profiled"] == ("1.5 ms", "p.json traceEvents, over 4 steps")


@pytest.mark.parametrize("name", ["card", "flashinfer", "time between two kernels", "overhead of a launch", "memory traffic of conversions"])  # fmt: skip
def test_a_run_on_the_cpu_has_no_value_of_a_card_whatever_lies_beside_it(name: str) -> None:
    beside = {"gpus": value("name", "NVIDIA T"), "host": value("package flashinfer", "0.5"), "kernels": value("time between kernels", 3)}  # fmt: skip
    run = a_run(platform="cpu")
    for group, one in beside.items():
        with_values(run, group, one)  # type: ignore[arg-type]
    assert rows(run)[name] == ("none (CPU)", "log")


def test_the_bandwidth_in_use_is_of_the_peak_of_the_card() -> None:
    card, active = value("name", "NVIDIA L40S"), value("memory active", 65, unit="%", line=4)
    found = rows(with_values(a_run(), "gpus", card, active))["measured during decoding"]
    assert found == ("65 % of 864 GB/s", "p.json L4")
    assert rows(with_values(a_run(), "gpus", active))["measured during decoding"][0] == "65 %"
    assert rows(with_values(a_run(), "gpus", card))["measured during decoding"][0] == "?"


@pytest.mark.parametrize(("processor", "command"), [("AMD EPYC 9654", "umc_mem_bandwidth"), ("Intel Xeon", "uncore_imc"), (None, "uncore_imc")])  # fmt: skip
def test_the_traffic_of_a_processor_is_asked_of_its_maker_s_counters(
    processor: str | None, command: str
) -> None:
    run = a_run(platform="cpu")
    if processor:
        with_values(run, "host", value("model", processor))
    assert command in rows(run)["measured during decoding"][1]


def cpu(name: str, share: float, pid: int, file: str) -> Measured:
    return value(f"cpu of {name}", share, f"thread {pid}", file=file, line=9)


def test_the_file_that_is_called_idle_holds_the_threads_without_requests_beside_another() -> None:
    idle, busy = cpu("python", 2.0, 7, "idle/x/top-idle.txt"), cpu("python", 90.0, 7, "idle/x/top.txt")
    found = rows(with_values(a_run(), "host", idle, busy))
    assert found["python (thread 7)"] == ("90.0 %", "top.txt L9")
    assert found["python (thread 7) without requests"] == ("2.0 %", "top-idle.txt L9")
    alone = rows(with_values(a_run(), "host", idle))
    assert alone["python (thread 7)"][0] == "2.0 %"
    assert alone["the same without requests"][0] == "?"


def test_threads_without_requests_are_those_that_were_seen_with_them() -> None:
    other, busy = cpu("python", 2.0, 8, "top-idle.txt"), cpu("python", 90.0, 7, "top.txt")
    assert "python (thread 8) without requests" not in rows(with_values(a_run(), "host", other, busy))


def test_eight_threads_are_shown_those_of_the_log_first() -> None:
    threads = [cpu("VLLM::W", 50.0, number, "top.txt") for number in range(10, 20)]
    run = with_values(a_run(processes=(Process("Worker", "worker", 19, "", 1),)), "host", *threads)
    shown = [name for name in rows(run) if name.startswith("VLLM::W")]
    assert shown == [
        "VLLM::W (thread 19)",
        *(f"VLLM::W (thread {number}, no process of the log)" for number in range(10, 17)),
    ]


@pytest.mark.parametrize(
    ("setting", "other"),
    [({}, "--async-scheduling"), ({"async_scheduling": False}, "--async-scheduling"), ({"async_scheduling": True}, "--no-async-scheduling")],
)  # fmt: skip
def test_the_other_mode_of_scheduling_is_the_one_that_did_not_run(
    setting: dict[str, Any], other: str
) -> None:
    assert f" {other} > other.log" in rows(a_run(set=setting))["the other mode"][1]


def test_idle_time_between_kernels_is_computed_and_says_so() -> None:
    found = rows(with_values(a_run(), "kernels", value("time between kernels", 3.5, unit="us", line=2)))
    assert found["time between two kernels"] == ("3.5 µs", "p.json L2, computed: idle time over kernels")
    assert "computed" not in rows(a_run())["time between two kernels"][1]


def test_shares_of_the_engine_s_step_are_of_the_first_file_that_has_them() -> None:
    shares = [value("share of a step", share, "scheduling", file=file, line=1) for share, file in ((10.0, "a"), (20.0, "b"))]  # fmt: skip
    found = rows(with_values(a_run(), "host", *shares))
    assert found["decision of the scheduler"] == ("10.0 % of the engine's step", "a L1")
    assert found["serialization between processes"][0] == "?"


@pytest.mark.parametrize(
    ("run", "shown"),
    [
        (a_run(set={"enforce_eager": True}, measured={"graph_capture_seconds": 4.0}), "off (--enforce-eager)"),
        (a_run(set={"enforce_eager": False}, measured={"graph_capture_seconds": 4.0}), "captured in 4 s"),
        (a_run(set={"enforce_eager": False}), "?"),
        (a_run(), "?"),
    ],
)  # fmt: skip
def test_graphs_are_off_captured_or_open(run: Run, shown: str) -> None:
    assert rows(run)["CUDA graphs"][0] == shown


def test_decoding_speed_is_by_the_number_of_running_requests() -> None:
    found = rows(a_run(samples=load((6, {"running": 1}), (6, {"running": 8}))))
    assert found["1 running"] == ("30 tokens/s, median of 5 samples", "log, statistics lines")
    assert found["8 running"] == ("240 tokens/s, median of 5 samples", "log, statistics lines")


def test_the_five_findings_that_come_first_are_shown_with_their_line() -> None:
    found = [
        Finding(f"rule-{number}", "performance", "low", "high", f"Title {number}", "Why.", None, (Evidence("a/b.log", number, "x"),) if number else ())
        for number in range(7)
    ]  # fmt: skip
    shown = rows(a_run(), *found)
    assert shown["Title 0"] == ("Why.", "log")
    assert shown["Title 4"] == ("Why.", "b.log L4")
    assert "Title 5" not in shown
    assert "bottlenecks" not in shown
    assert rows(a_run())["bottlenecks"] == ("none found", "log")


def test_settings_of_a_run_have_the_line_or_the_default_that_they_are_from() -> None:
    found = rows(a_run(set={"max_num_seqs": 8}, default={"dtype": "auto"}))
    assert found["max_num_seqs"] == ("8", "vllm.log L2")
    assert found["dtype"] == ("auto", "default default of the version")
    assert found["quantization"][0] == "?"
    assert "Baseline: model not in the log, vLLM 0.11.2" in render(Diagnosis(a_run()))
    assert "vLLM release not in the log" in render(Diagnosis(a_run(version=None)))


@pytest.mark.parametrize(
    ("platform", "own"),
    [("cuda", "nvidia-smi"), (None, "nvidia-smi"), ("cpu", "uncore_imc"), ("rocm", "amd-smi"), ("npu", "npu-smi"), ("tpu", None)],
)  # fmt: skip
def test_the_script_asks_the_tool_of_the_platform_and_no_other(platform: str | None, own: str | None) -> None:
    script = "\n".join(collecting(a_run(platform=platform), {}, 60, "job"))
    tools = ("nvidia-smi", "uncore_imc", "amd-smi", "npu-smi")
    assert [tool for tool in tools if tool in script] == ([own] if own else [])
    card = rows(a_run(platform=platform))["card"][1]
    assert ("npu-smi" in card) is (platform == "npu")


@pytest.mark.parametrize(("seconds", "stacks", "rest"), [(60, 10, 30), (300, 250, 30), (10, 5, 1), (76, 26, 30)])  # fmt: skip
def test_the_script_watches_about_as_long_as_it_is_told(seconds: int, stacks: int, rest: int) -> None:
    lines = list(collecting(None, {}, seconds, "job"))
    assert any(f"--duration {stacks} " in line for line in lines)
    assert f"sleep {rest}" in lines
    assert any(line.startswith(f"timeout {min(seconds, 20)} nvidia-smi dmon") for line in lines)
