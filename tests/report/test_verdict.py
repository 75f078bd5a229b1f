"""The sentence of the first screen: which of all that is known of a run it says, and what proves it."""

from __future__ import annotations

from collections import Counter
from typing import Any

from msgspec.structs import replace

from tests.rules.making import FILE, a_run, record, sample
from tests.tables import for_each
from vllm_logdoctor import analyze
from vllm_logdoctor.report.model import Analysis, Diagnosis
from vllm_logdoctor.report.page import Page
from vllm_logdoctor.report.steps import worthwhile
from vllm_logdoctor.report.verdict import (
    idle_before,
    is_in_title,
    quote,
    root_explanation,
    root_lead,
    sentence,
    with_lines,
)
from vllm_logdoctor.rules.bottleneck import Bottleneck
from vllm_logdoctor.rules.failure.nonfatal import CLIENT_FAILED
from vllm_logdoctor.rules.failure.requests import REFUSED
from vllm_logdoctor.rules.model import Change, Effect, Finding
from vllm_logdoctor.run.job import JobEnd
from vllm_logdoctor.run.model import Coverage, Evidence, Occurrences, Phase, Run, SourceSummary


def page_of(run: Run, *findings: Finding, limit: Bottleneck | None = None, **more: Any) -> Page:
    """Return the page of a run with some findings."""
    judged = Diagnosis(run, findings, limit or Bottleneck("none-clear", "the load is not known"), **more)
    return Page(Analysis((SourceSummary(FILE, 1, 1),), (judged,), Coverage(1, 1, 1, 0, ())), judged)


def line(number: int, text: str = "x") -> Evidence:
    return Evidence(FILE, number, text)


def cause(
    explanation: str = "The disk is full.", confidence: Any = "high", title: str = "Disk full"
) -> Finding:
    return Finding("disk-full", "failure", "high", confidence, title, explanation, "root", (line(7, "OSError: no space"),))  # fmt: skip


def refusal(title: str = "Request refused") -> Finding:
    return Finding(REFUSED, "configuration", "low", "high", title, "It was refused.", None, (line(9, "ValueError: too long"),))  # fmt: skip


@for_each(
    ("low", "confidence", "proposed"),
    [(0.97, "low", False), (1.0, "low", True), (0.97, "medium", True)],
)
def test_a_guess_that_was_measured_slower_too_is_no_first_step(
    low: float, confidence: Any, proposed: bool
) -> None:
    effect = Effect("generation_throughput", low, 1.1, "published", "")
    guess = Finding(
        "kv-cache-reads-dominate", "performance", "low", confidence, "Decode reads the cache", "It does.", None, (line(7),),
        changes=(Change("--kv-cache-dtype", "flag", "auto", "fp8"),), effect=effect,
    )  # fmt: skip
    assert (guess in worthwhile(page_of(a_run(), guess))) is proposed


def test_a_hidden_cause_is_not_told() -> None:
    assert sentence(page_of(a_run(outcome="killed"), hidden=(cause(),))).startswith("Known failure")
    assert sentence(page_of(a_run(outcome="killed"), cause())) == "The disk is full."


@for_each(
    ("job", "said"),
    [
        (None, "The log does not contain the cause."),
        (JobEnd("PBS job 12"), "The log does not contain the cause."),
        (JobEnd("PBS job 12", words="Exit_status = 3"), "The log does not contain the cause. PBS job 12: Exit_status = 3."),
        (JobEnd(words="Exit_status = 3"), "The log does not contain the cause. The job: Exit_status = 3."),
    ],
)  # fmt: skip
def test_without_a_cause_what_the_job_said_of_its_end_is_told(job: JobEnd | None, said: str) -> None:
    assert sentence(page_of(a_run(outcome="killed", job=job))) == said


@for_each(
    ("run", "said"),
    [
        ({"kind": "build"}, "Log of a build or an installation; no vLLM runs in it."),
        ({"router": True}, "Log of a router, which distributes requests among servers of vLLM"),
        ({}, "The load is not known."),
    ],
)
def test_what_wrote_the_log_comes_first(run: dict[str, Any], said: str) -> None:
    assert sentence(page_of(a_run(**run))).startswith(said)


def cut(**more: Any) -> Run:
    """A start whose end is not in the log."""
    run = a_run(outcome="truncated", **more)
    run.startup_complete = False
    return run


@for_each(("kind", "answered"), [("server", "the first request"), ("offline", "the first result")])
def test_an_engine_that_was_ready_before_the_log_ends_is_said_to_be(kind: Any, answered: str) -> None:
    said = sentence(page_of(cut(kind=kind, measured={"init_engine_seconds": 40.0})))
    assert said == f"The engine was ready [L40]; the log ends before {answered}."


def test_a_log_that_ends_within_a_download_says_so() -> None:
    bar = record("model-00001-of-00002.safetensors:  12%|#2   | 1.2G/9.3G", 17)
    run = cut(tail=[record("before", 16), bar], last_of_file=True, phases=(("load-weights", 1.0),))
    assert sentence(page_of(run)) == "The log ends while the model is being downloaded [L17]."
    for other in (
        cut(tail=[bar], last_of_file=False),
        cut(tail=[bar, record("Loading", 18)], last_of_file=True),
        cut(last_of_file=True),
    ):
        assert "downloaded" not in sentence(page_of(other))


@for_each(
    ("tail", "said"),
    [
        ((), "The log ends before start-up completed."),
        (("loading it", "12"), "The log ends before start-up completed; its last line: `loading it` [L1]."),
        (("12 34",), "The log ends before start-up completed."),
    ],
)
def test_without_a_phase_the_last_line_with_a_word_is_told(tail: tuple[str, ...], said: str) -> None:
    lines = [record(text, number) for number, text in enumerate(tail, 1)]
    nameless = Phase("imports", "", 1.0, 2.0, 1.0, (line(5),), "startup")
    assert sentence(page_of(cut(tail=lines, set={"model": "m"}))) == said
    unnamed = cut(tail=lines)
    unnamed.phases = [nameless]
    assert sentence(page_of(unnamed)) == said


def seen(**counts: int) -> dict[str, Occurrences]:
    return {name.replace("_", "-"): Occurrences(count=count) for name, count in counts.items()}


@for_each(
    ("name", "messages", "known"),
    [
        ("load-weights", seen(model_load_started=1), "began: weight loading"),
        ("load-weights", seen(model_load_started=1, model_loaded=1), "completed: weight loading"),
        ("load-weights", seen(model_load_started=2, model_loaded=1), "began: weight loading"),
        ("load-weights", seen(model_load_started=2, model_loaded=1, model_weights_loaded=2), "completed: weight loading"),
        ("load-weights", seen(model_loaded=1), "completed: weight loading"),
        ("load-weights", {}, "began: weight loading"),
        ("engine-start", {}, "completed: engine and worker start"),
        ("compile", {}, "completed: torch.compile"),
        ("kernel-build", {}, "began: kernel builds (JIT)"),
    ],
)  # fmt: skip
def test_the_last_phase_of_a_start_is_over_once_all_ranks_said_so(
    name: str, messages: dict[str, Occurrences], known: str
) -> None:
    run = cut()
    first = Phase("engine-start", "", 0.0, 1.0, 1.0, (line(4),), "startup")
    inner = Phase("dynamo", "", 2.0, 3.0, 1.0, (line(6),), name)
    run.phases = [first, Phase(name, "", 1.0, 2.0, 1.0, (line(5), line(8)), "startup"), inner]
    run.messages.update(messages)
    wanted = f"The log ends before start-up completed; the last phase that {known} [L8]."
    assert sentence(page_of(run)) == wanted


@for_each(
    ("limit", "finding", "statuses", "said"),
    [
        # Nothing is known but the error of a request.
        ("startup-only", refusal(), (), "Idle, and this error: `ValueError: too long` [L9]."),
        (
            "startup-only",
            refusal(CLIENT_FAILED),
            (),
            "Idle, and this error of a client: `ValueError: too long` [L9].",
        ),
        ("startup-only", None, (), "Idle."),
        # No request was answered.
        ("none-clear", refusal(), (400,), "Idle: `ValueError: too long` [L9]."),
        ("none-clear", refusal(), (400, 200), "Idle."),
        ("none-clear", None, (400,), "Idle."),
    ],
)
def test_the_error_of_a_request_is_told_where_no_other_was_answered(
    limit: Any, finding: Finding | None, statuses: tuple[int, ...], said: str
) -> None:
    answers = Counter({("POST", "/v1/completions", status): 3 for status in statuses})
    run = a_run(accesses=answers, samples=[sample(kv=1.0, generation=0.0)])
    page = page_of(run, *((finding,) if finding else ()), limit=Bottleneck(limit, "idle"))
    assert sentence(page) == said


@for_each(
    ("explanation", "confidence", "outcome", "said"),
    [
        ("The sizes do not fit.", "high", "killed", "The sizes do not fit."),
        ("The sizes do not fit.", "medium", "killed", "Probable cause: the sizes do not fit."),
        ("The sizes do not fit.", "low", "killed", "Possible cause: the sizes do not fit."),
        ("The sizes do not fit.", "medium", "truncated", "Possible cause: the sizes do not fit."),
        ("The sizes do not fit.", "high", "truncated", "The sizes do not fit."),
        # A name keeps its capital, and a sentence that doubts by itself is not doubted again.
        ("Ray lost a node.", "medium", "killed", "Probable cause: Ray lost a node."),
        ("Ray may have lost a node.", "medium", "killed", "Ray may have lost a node."),
        ("", "medium", "killed", ""),
    ],
)
def test_the_doubt_of_a_cause_is_said_once(
    explanation: str, confidence: Any, outcome: Any, said: str
) -> None:
    assert root_lead(cause(explanation, confidence), outcome) == said


@for_each(
    ("explanation", "text", "said"),
    [
        ("Exception: the rows differ. It is raised in a.py.", "ValueError: the rows differ", "It is raised in a.py."),
        ("It is raised. Exception: the rows differ.", "ValueError: the rows differ", "It is raised."),
        ("Exception: the rows differ. In a.py.", "ValueError: the columns", "Exception: the rows differ. In a.py."),
        ("Exception: AssertionError: the rows. In a.py.", "the rows", "In a.py."),
        # Of a quotation that goes on within a sentence nothing is dropped.
        ("Exception: the rows differ by 3.", "ValueError: the rows diff", "Exception: the rows differ by 3."),
        ("No: the rows. In a.py.", "the rows", "No: the rows. In a.py."),
        ("no quotation: the rows.", "the rows", "no quotation: the rows."),
    ],
)  # fmt: skip
def test_what_the_decisive_line_says_is_not_said_again(explanation: str, text: str, said: str) -> None:
    found = Finding("x", "failure", "high", "high", "t", explanation, "root", (line(1, text),))
    assert root_explanation(found) == said


@for_each(
    ("quoted", "title", "held"),
    [
        ("`no space` [L3]", "OSError: no space", True),
        ("`no space left` [L3]", "OSError: no space", False),
        ("`` [L3]", "OSError: no space", False),
        ("", "OSError: no space", False),
    ],
)
def test_a_title_holds_a_decisive_line_whole_or_not(quoted: str, title: str, held: bool) -> None:
    assert is_in_title(quoted, title) is held


@for_each(
    ("text", "said"),
    [("Full.", "Full [L7]."), ("Full", "Full [L7]."), ("Full...", "Full... [L7]."), ("", "")],
)
def test_the_lines_of_a_statement_stand_before_its_stop(text: str, said: str) -> None:
    assert with_lines(page_of(a_run()), text, cause()) == said


def test_a_decisive_line_is_quoted_with_its_place() -> None:
    assert quote(page_of(a_run()), cause()) == "`OSError: no space` [L7]"
    assert quote(page_of(a_run()), Finding("x", "failure", "high", "high", "t", "e", "root")) == ""


@for_each(
    ("given", "last", "seconds", "told"),
    [
        ({}, {}, 600.0, True),
        ({}, {}, 599.0, False),
        ({"outcome": "killed"}, {}, 600.0, False),
        ({}, {"running": 1}, 600.0, False),
        ({}, {"waiting": 1}, 600.0, False),
        ({"samples": []}, {}, 600.0, False),
    ],
)
def test_that_a_server_was_idle_before_it_failed_is_told_where_that_is_minutes(
    given: dict[str, Any], last: dict[str, Any], seconds: float, told: bool
) -> None:
    nearly = replace(sample(**last, number=1), time=15.0)
    samples = [sample(running=3), sample(running=3, number=1), nearly, sample(number=2)]
    failed = replace(record("OSError: no space", 7), time=20.0 + seconds)
    run = a_run(**{"outcome": "crashed_while_serving", "samples": samples, "records": [failed], **given})
    said = " The last statistics line, 10 min earlier, shows no running request [L102]." if told else ""
    assert idle_before(page_of(run), cause()) == said


def test_an_engine_that_sleeps_between_requests_and_at_the_end_says_so() -> None:
    asleep = "(EngineCore pid=9) INFO 05-01 10:0{n}:00 [gpu_worker.py:130] Sleep mode freed 70.10 GiB memory, 1.20 GiB memory is still in use."
    woke = "(EngineCore pid=9) INFO 05-01 10:03:00 [abstract.py:200] It took 0.213436 seconds to wake up."
    served = [
        "INFO 05-01 10:00:00 [api_server.py:1300] vLLM API server version 0.18.0",
        "INFO:     Application startup complete.",
        "INFO 05-01 10:01:00 [loggers.py:271] Engine 000: Avg prompt throughput: 1.0 tokens/s, Avg generation throughput: 20.0 tokens/s, "
        "Running: 1 reqs, Waiting: 0 reqs, GPU KV cache usage: 0.1%, Prefix cache hit rate: 0.0%",
    ]
    lines = [*served, asleep.format(n=2), woke]
    assert "Sleep mode was used: 1 wake-up [L5]." in analyze(lines).to_markdown()
    assert (
        "1 wake-up, and the engine was asleep at the end of the log [L6]."
        in analyze([*lines, asleep.format(n=4)]).to_markdown()
    )
    assert "Sleep mode" not in analyze(served).to_markdown()
