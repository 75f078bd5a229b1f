"""What follow says of a log that grows: each thing once in a pipe, and a screen that fits its terminal."""

from __future__ import annotations

from typing import Any

import pytest

from vllm_logdoctor.cli.follow_view import Reported, new_lines, screen, still_written
from vllm_logdoctor.report.model import Analysis, Diagnosis
from vllm_logdoctor.rules.bottleneck import Bottleneck
from vllm_logdoctor.rules.model import Change, Finding
from vllm_logdoctor.run.model import Coverage, Evidence, Phase, Run, Sample, SourceSummary, Value

NAMED = {"version": Value("0.16.0", "reported"), "model": Value("org/tiny", "explicit")}


def analysis(*runs: Diagnosis, files: int = 1, lines: int = 7) -> Analysis:
    sources = tuple(SourceSummary(f"/logs/vllm.log.{number}", 1, lines) for number in range(files))
    return Analysis(sources, runs, Coverage(1, 1, 1, 0, ()))


def finding(
    id: str = "slow", *changes: Change, role: Any = "", kind: Any = "performance", lines: int = 1
) -> Finding:
    evidence = tuple(Evidence("/logs/vllm.log.1", number, f"{id} {number}") for number in range(1, lines + 1))
    return Finding(id, kind, "high", "high", f"title of {id}", "", role, evidence, changes=changes)


def said(*runs: Diagnosis, reported: Reported | None = None, files: int = 1) -> list[str]:
    return new_lines(analysis(*runs, files=files), reported or Reported())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (Change("--max-num-seqs", "flag", 1, 32), "--max-num-seqs 32"),
        (Change("--async-scheduling", "flag", None, True), "add --async-scheduling"),
        (Change("--enforce-eager", "flag", True, None), "drop --enforce-eager"),
        (Change("look at it", "action"), "look at it"),
    ],
)
def test_a_finding_is_one_line_with_its_places_and_changes(change: Change, words: str) -> None:
    (line,) = (
        one
        for one in said(Diagnosis(Run(), (finding("slow", change, lines=4),)))
        if one.startswith("finding")
    )
    assert line == f"finding, high: title of slow [L1, L2, L3] -> {words}"
    (line,) = (
        one
        for one in said(Diagnosis(Run(), (finding("slow", change),)), files=2)
        if one.startswith("finding")
    )
    assert line == f"finding, high: title of slow [vllm.log.1 L1] -> {words}"


def test_each_thing_is_said_once_and_a_new_one_when_it_comes() -> None:
    reported = Reported()
    run = Run(number=1, outcome="running", **NAMED)
    assert said(Diagnosis(run), reported=reported) == ["run 1: vLLM 0.16.0, org/tiny"]
    assert said(Diagnosis(run), reported=reported) == []
    run.startup_complete = True
    run.phases = [Phase("startup", "", 0.0, 75.0, 75.0)]
    limit = Bottleneck("client-limited", "The queue was empty")
    assert said(Diagnosis(run, bottleneck=limit), reported=reported) == [
        "run 1: ready after 1 min 15 s",
        "run 1: The queue was empty",
    ]
    run.samples = [Sample(None, 9, 0, 40.0, 120.0, running=3, waiting=0, kv_usage=2.5)]
    run.sample_count = 1
    rates = "40 prompt and 120 generation tokens/s, 3 running, 0 waiting, KV cache 2.5 %"
    assert said(Diagnosis(run, bottleneck=limit), reported=reported) == [rates]
    assert said(Diagnosis(run, bottleneck=limit), reported=reported) == []
    # Another limit is news, the same one with other figures is none.
    assert (
        said(Diagnosis(run, bottleneck=Bottleneck("client-limited", "Still empty")), reported=reported) == []
    )
    assert said(Diagnosis(run, bottleneck=Bottleneck("kv-cache-limited", "Full")), reported=reported) == [
        "run 1: Full"
    ]


@pytest.mark.parametrize(
    ("run", "announced"),
    [(Run(), False), (Run(version=Value("1", "reported")), True), (Run(model=Value("m", "explicit")), True), (Run(startup_complete=True), True), (Run(sample_count=1), True)],
)  # fmt: skip
def test_a_run_is_announced_once_something_of_it_is_known(run: Run, announced: bool) -> None:
    assert any(line.startswith("run 1: vLLM") for line in said(Diagnosis(run))) is announced


@pytest.mark.parametrize(
    ("outcome", "ready", "root", "verdict"),
    [
        ("running", False, False, "starting"),
        ("truncated", False, False, "starting"),
        ("crashed_at_startup", False, False, "crashed at start-up"),
        ("running", True, False, "The queue was empty"),
        ("crashed_while_serving", True, True, "crashed while serving: title of broke"),
    ],
)
def test_the_verdict_of_the_screen(outcome: Any, ready: bool, root: bool, verdict: str) -> None:
    findings = (finding("broke", role="root", kind="failure"),) if root else ()
    run = Run(outcome=outcome, startup_complete=ready, **NAMED)
    shown = screen(
        analysis(Diagnosis(run, findings, bottleneck=Bottleneck("client-limited", "The queue was empty"))), 80
    )
    assert shown[0] == "vLLM 0.16.0, org/tiny"
    assert shown[1] == verdict
    assert shown[-1] == "7 lines read; Ctrl-C ends with the report"


def test_a_screen_shows_as_many_findings_as_have_room() -> None:
    found = Diagnosis(
        Run(outcome="running", startup_complete=True, **NAMED),
        tuple(finding(f"f{number}") for number in range(20)),
    )
    for height, shown, left in ((100, 12, 8), (12, 6, 14), (30, 12, 8), (6, 0, 0)):
        lines = screen(analysis(found), 80, height)
        assert len(lines) <= max(height, 3)
        assert sum("title of f" in line for line in lines) == shown
        assert any(f"{left} findings more" in line for line in lines) is (left > 0)
    few = replace_findings(found, 2)
    assert not any("more" in line for line in screen(analysis(few), 80, 100))
    assert screen(analysis(), 80) == [
        "nothing of vLLM so far",
        "",
        "7 lines read; Ctrl-C ends with the report",
    ]


def replace_findings(diagnosis: Diagnosis, count: int) -> Diagnosis:
    return Diagnosis(diagnosis.run, diagnosis.findings[:count])


def test_curves_are_those_of_the_engine_that_printed_last() -> None:
    lines = [
        Sample(
            None,
            number,
            number % 2,
            10.0 * number,
            100.0 * number,
            running=number,
            waiting=None,
            kv_usage=1.0,
        )
        for number in range(1, 5)
    ]
    shown = screen(analysis(Diagnosis(Run(samples=lines, **NAMED))), 80)
    rows = {line[:10].strip(): line[10:20].strip() for line in shown if line[10:20].strip()}
    assert (rows["generation"], rows["prompt"], rows["running"]) == ("400", "40", "4")


@pytest.mark.parametrize(
    ("outcome", "kept"),
    [("truncated", ["slow"]), ("unknown", ["slow"]), ("killed", ["slow", "broke", "cut"])],
)
def test_what_was_concluded_from_the_end_of_a_log_is_taken_back_while_it_is_written(
    outcome: Any, kept: list[str]
) -> None:
    earlier = Diagnosis(Run(number=1, outcome="truncated"), (finding("broke", kind="failure"),))
    last = Diagnosis(
        Run(number=2, outcome=outcome),
        (finding("slow"), finding("broke", kind="failure"), finding("cut", role="root")),
    )
    found = still_written(analysis(earlier, last))
    assert [one.id for one in found.runs[-1].findings] == kept
    assert found.runs[-1].run.outcome == ("running" if outcome != "killed" else "killed")
    assert found.runs[0] is earlier
    assert still_written(analysis()) == analysis()
