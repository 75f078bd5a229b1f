"""The two lines for the output of a job: what ran and how it ended, and what to change first."""

from __future__ import annotations

from typing import Any

import pytest

from tests.rules.making import a_run
from vllm_logdoctor.hooks.summary import summary
from vllm_logdoctor.report.model import Analysis, Diagnosis
from vllm_logdoctor.rules.bottleneck import Bottleneck
from vllm_logdoctor.rules.model import Change, Finding
from vllm_logdoctor.run.model import Coverage, Run, Value

MODEL = Value("org/tiny", "reported")


def of(*diagnoses: Diagnosis) -> list[str]:
    return summary(Analysis((), diagnoses, Coverage(0, 0, 0, 0, ())))


def failure(title: str = "Out of memory", *changes: Change, **more: Any) -> Finding:
    return Finding("oom", "failure", "critical", "high", title, "", "root", changes=changes, **more)


def advice(title: str, *changes: Change) -> Finding:
    return Finding("slow", "performance", "high", "high", title, "", changes=changes)


def crashed(**more: Any) -> Run:
    return a_run(model=MODEL, outcome="crashed_at_startup", **more)


@pytest.mark.parametrize(
    ("run", "said"),
    [
        (a_run(model=MODEL, outcome="clean_shutdown"), "vLLM 0.11.2, org/tiny: clean shutdown; full"),
        (a_run(outcome="clean_shutdown"), "vLLM 0.11.2: clean shutdown; full"),
        (a_run(version=None, outcome="running"), "vLLM of unknown version: end not in the log; full"),
        (crashed(), "vLLM 0.11.2, org/tiny: crashed at start-up: cause not in the log"),
    ],
)
def test_the_first_line_says_what_ran_how_it_ended_and_what_limited_it(run: Run, said: str) -> None:
    assert of(Diagnosis(run, bottleneck=Bottleneck("kv-cache-limited", "full")))[0] == said


def test_a_limit_without_a_reason_is_named_and_a_cause_comes_before_it() -> None:
    first = of(Diagnosis(a_run(outcome="running"), bottleneck=Bottleneck("idle", "")))[0]
    assert first == "vLLM 0.11.2: end not in the log; idle: no request arrived"
    first = of(Diagnosis(crashed(), (failure(),), bottleneck=Bottleneck("idle", "")))[0]
    assert first == "vLLM 0.11.2, org/tiny: crashed at start-up: Out of memory"


LOWER = Change("--max-model-len", "flag", 8192, 4096)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (LOWER, "--max-model-len 8192 -> 4096"),
        (Change("--max-num-seqs", "flag", None, 32), "--max-num-seqs 32"),
        (Change("--enforce-eager", "flag", True, None), "drop --enforce-eager"),
        (Change("--async-scheduling", "flag", None, True), "add --async-scheduling"),
        (Change("free the card", "action"), "free the card"),
    ],
)
def test_a_change_is_said_in_the_words_of_a_command_line(change: Change, words: str) -> None:
    assert of(Diagnosis(a_run(), (advice("Slow", change),)))[1] == f"change first: {words} (Slow)"


def test_the_cause_comes_first_then_the_first_finding_with_a_change_and_the_rest_is_counted() -> None:
    others = (advice("Slow", LOWER), advice("No remedy"), advice("Eager", LOWER))
    follow_up = Finding("after", "failure", "high", "high", "After", "", "cascade", changes=(LOWER,))
    assert of(Diagnosis(a_run(), others))[1].endswith("(Slow); 1 more in the report")
    second = of(Diagnosis(crashed(), (follow_up, *others, failure("Out of memory", LOWER))))[1]
    assert second.endswith("(Out of memory); 2 more in the report")
    # Where the cause has no remedy, what else is worth a change is said.
    assert of(Diagnosis(crashed(), (failure(), *others)))[1].endswith("(Slow); 1 more in the report")


def test_two_changes_of_a_finding_are_said() -> None:
    found = advice("Slow", LOWER, Change("--max-num-seqs", "flag", None, 32), Change("third", "action"))
    assert of(Diagnosis(a_run(), (found,)))[1] == (
        "change first: --max-model-len 8192 -> 4096, --max-num-seqs 32 (Slow)"
    )


def test_without_a_change_the_line_says_whether_a_remedy_is_missed() -> None:
    assert of(Diagnosis(crashed(), (failure(),)))[1] == "no remedy follows from the log"
    assert of(Diagnosis(a_run(outcome="clean_shutdown"), (advice("Slow"),)))[1] == "nothing to change"


def test_a_line_stays_a_line_of_bounded_length() -> None:
    first, second = of(Diagnosis(crashed(), (failure("long\n\x1b[1m " * 100, LOWER),)))
    for line in (first, second):
        assert len(line) == 240
        assert line.isprintable()


def run_of(number: int, file: str, ended: float | None, failed: bool) -> Diagnosis:
    run = a_run(
        model=MODEL, number=number, ended=ended, outcome="crashed_at_startup" if failed else "running"
    )
    run.first_file = file
    return Diagnosis(run, (failure(f"cause {number}"),) if failed else ())


@pytest.mark.parametrize(
    ("runs", "chosen"),
    [
        # One after the other in a file: the last that failed is what the user has to mend.
        ([(1, "a", 5.0, True), (2, "a", 9.0, True), (3, "a", 12.0, False)], "run 2 of 3: "),
        ([(1, "a", 5.0, False), (2, "a", 9.0, False)], "run 2 of 2: "),
        # Side by side in a file each: what broke first took the others with it.
        ([(1, "x/a", 5.0, True), (2, "x/b", 3.0, True), (3, "x/c", 2.0, False)], "run 2 of 3 (b): "),
        ([(1, "x/a", None, True), (2, "x/b", 3.0, True)], "run 2 of 2 (b): "),
        ([(1, "x/a", 5.0, False), (2, "x/b", 3.0, False)], "run 2 of 2 (b): "),
    ],
)
def test_of_several_runs_one_is_reported(
    runs: list[tuple[int, str, float | None, bool]], chosen: str
) -> None:
    assert of(*(run_of(*one) for one in runs))[0].startswith(f"{chosen}vLLM ")


def test_a_single_run_has_no_number() -> None:
    assert of(run_of(1, "a", 5.0, True))[0].startswith("vLLM ")
