"""Figures as text, changes and effects in words, the sums of statistics lines, and what of a run leads its report."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from tests.tables import for_each
from vllm_logdoctor.report.body import cited_html
from vllm_logdoctor.report.charts import startup_charts
from vllm_logdoctor.report.effects import action_words, change_words, effect_range, effect_words, gains_little
from vllm_logdoctor.report.escape import fence, inline
from vllm_logdoctor.report.figures import (
    capital,
    enumeration,
    number,
    percent,
    setting,
    share,
    statuses,
    table,
)
from vllm_logdoctor.report.model import Analysis, Diagnosis
from vllm_logdoctor.report.series import Point
from vllm_logdoctor.report.serving import requests_of, serving_of, summed_of
from vllm_logdoctor.report.steps import avoidance
from vllm_logdoctor.report.verdict import LEAD, split_lead
from vllm_logdoctor.rules.load import busy_of, full_of
from vllm_logdoctor.rules.model import Change, Effect, Finding
from vllm_logdoctor.run.model import Coverage, Evidence, Phase, Run, Sample, SourceSummary


@for_each(
    ("value", "text"),
    [
        (85760, "85,760"), (100.4, "100"), (99.96, "100"), (99.94, "99.9"), (10.0, "10"), (9.996, "10"), (9.994, "9.99"), (1.0, "1"), (1.5, "1.5"),
        (0.996, "1"), (0.0521, "0.052"), (0.0, "0"), (7, "7"), (-250.6, "-251"), (-5.25, "-5.25"), (None, "unknown"), (math.inf, "unknown"), (math.nan, "unknown"),
    ],
)  # fmt: skip
def test_a_number_has_the_digits_that_say_something(value: float | None, text: str) -> None:
    assert number(value) == text


def test_shares_statuses_and_lists() -> None:
    assert [percent(one) for one in (34.96, 34.94, 0.0, None, math.nan)] == [
        "35 %",
        "34.9 %",
        "0 %",
        "unknown",
        "unknown",
    ]
    assert [share(1, 3), share(0, 3), share(1, 0)] == ["33.3 %", "0 %", ""]
    assert [statuses({200: 2}), statuses({200: 1}), statuses({404: 1, 200: 1500})] == [
        "all 200",
        "status 200",
        "1,500 with 200, 1 with 404",
    ]
    assert [enumeration(words) for words in (["a"], ["a", "b"], ["a", "b", "c"])] == [
        "a",
        "a and b",
        "a, b and c",
    ]
    assert [capital(text) for text in ("nothing", "vLLM ran", "max_num_seqs reached", "")] == [
        "Nothing",
        "vLLM ran",
        "max_num_seqs reached",
        "",
    ]
    assert table(["a", "b"], [["`x|y`", "1"]]) == ["| a | b |", "|---|---|", "| `x\\|y` | 1 |"]


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "not set"), (True, "`True`"), (0.9, "`0.9`"), (5, "`5`"), ("auto", "`auto`"), (" ", "empty"), ({"a": 1}, '`{"a": 1}`'), ([1], "`[1]`")],
)  # fmt: skip
def test_the_value_of_a_setting(value: object, text: str) -> None:
    assert setting(value) == text


def flag(before: object, after: object, knob: str = "--x", note: str = "") -> Change:
    return Change(knob, "flag", before, after, note=note)


@for_each(
    ("change", "words"),
    [
        (flag(1, 32), "`--x` `1` → `32`"),
        (flag(True, None), "drop `--x`"),
        (flag(False, None), "drop `--no-x`"),
        (flag(None, True), "add `--x`"),
        (flag(False, True), "add `--x`"),
        (flag(1, True), "`--x` `1` → `True`"),
        (flag(None, 32), "set `--x` to `32`"),
        (flag({"a": 1}, {"a": 2}), 'set `--x` to `{"a": 2}`'),
        (flag({"a": 1}, '{"a": 2}'), 'set `{"a": 2}` in `--x`, beside its other keys'),
        (flag(None, "the toolkit's directory"), "set `--x` to the toolkit's directory"),
        (Change("VLLM_X", "env", "1", None), "unset `VLLM_X`"),
        (Change("VLLM_X", "env", None, "1"), "set `VLLM_X` to `1`"),
        (Change("look at it", "action"), "look at it"),
    ],
)
def test_a_change_in_words(change: Change, words: str) -> None:
    assert change_words(change) == words


def test_an_action_has_its_note_and_its_command() -> None:
    assert action_words(flag(1, 2, note="slower.")) == "`--x` `1` → `2`: slower"
    assert (
        action_words(Change("remove it", "action", None, "rm -r ~/.cache/vllm"))
        == "remove it: `rm -r ~/.cache/vllm`"
    )
    assert action_words(Change("look", "action", None, "where it says so")) == "look: where it says so"


def effect(
    low: float,
    high: float,
    metric: str = "generation_throughput",
    share: float = 1.0,
    basis: str = "",
    origin: Any = "published",
) -> Effect:
    return Effect(metric, low, high, origin, basis, share=share)


@pytest.mark.parametrize(
    ("one", "words"),
    [
        (effect(1.05, 1.3), "1.05 to 1.3 x generation throughput"),
        (effect(1.3, 1.3), "1.3 x generation throughput"),
        (effect(1.05, 1.3, share=0.9), "1.05 to 1.3 x generation throughput"),
        (effect(1.05, 1.3, share=0.89), "1.05 to 1.3 x generation throughput while requests queue"),
        (effect(1.05, 1.3, "kv_cache_tokens", share=0.5), "1.05 to 1.3 x KV cache tokens"),
        (effect(0.25, 0.5, "startup_seconds"), "2 to 4 x faster start-up"),
        (effect(2.0, 4.0, "startup_seconds"), "2 to 4 x slower start-up"),
        (effect(0.5, 2.0, "startup_seconds"), "0.5 to 2 x start-up"),
    ],
)
def test_the_range_of_an_effect(one: Effect, words: str) -> None:
    assert effect_range(one) == words


@pytest.mark.parametrize(
    ("one", "little"),
    [
        (effect(1.0, 1.2, share=0.05), True),
        (effect(1.0, 1.2, share=0.06), False),
        (effect(1.0, 1.001), False),
        (effect(1.0, 5.0, share=0.01), True),
    ],
)
def test_a_gain_below_a_percent_over_the_run_is_little(one: Effect, little: bool) -> None:
    """A fifth more in 5 % of the time is 0.8 % over the run, in 6 % it is 1 %."""
    assert gains_little(one) is little
    assert effect_words(one).startswith("less than 1 % more generation throughput over the run") is little
    assert effect_words(None) == ""
    assert (
        effect_words(effect(1.05, 1.3, basis="six pairs"))
        == "1.05 to 1.3 x generation throughput (published measurements: six pairs)"
    )
    assert (
        effect_words(effect(1.05, 1.3, origin="computed")) == "1.05 to 1.3 x generation throughput (computed)"
    )


def at(number: int, running: int, generation: float, engine: int = 0, count: int = 1, **more: Any) -> Sample:
    return Sample(
        10.0 * number,
        number,
        engine,
        4.0 * generation,
        generation,
        running,
        more.pop("waiting", 0),
        None,
        more.pop("kv", 1.0),
        count=count,
        **more,
    )


def test_figures_of_one_engine_are_those_of_its_busy_lines() -> None:
    lines = [
        at(1, 0, 0.0), at(2, 2, 100.0, kv=5.0, waiting=3, prefix_hit=10.0), at(3, 4, 300.0, count=3, kv=9.0, preemptions=2, prefix_hit=30.0), at(4, 9, 999.0, engine=1),
        at(5, 0, 0.0, preemptions=1),
    ]  # fmt: skip
    found = serving_of(Run(samples=lines), 0)
    assert (found.samples, found.busy) == (6, 4)
    assert (found.running, found.waiting, found.kv_usage, found.prefix_hit, found.preemptions) == (
        4,
        3,
        9.0,
        30.0,
        3,
    )
    assert (found.generation.mean_busy, found.generation.p50, found.generation.max) == (300.0, 300.0, 300.0)
    assert (found.prompt.mean_busy, found.prompt.max) == (1200.0, 1200.0)
    assert found.engines == (0,)
    nothing = serving_of(Run(samples=lines), 7)
    assert (nothing.samples, nothing.running, nothing.preemptions, nothing.generation.mean_busy) == (
        0,
        None,
        None,
        None,
    )


def test_preemptions_are_those_that_are_printed_or_counted() -> None:
    def preemptions(lines: list[Sample], counted: int | None = None) -> int | None:
        run = Run(samples=lines, sample_count=len(lines))
        if counted is not None:
            run.counters["preemptions"] = counted
        return serving_of(run).preemptions

    assert preemptions([at(1, 1, 1.0)]) is None
    assert preemptions([at(1, 1, 1.0, preemptions=0)]) == 0
    assert preemptions([at(1, 1, 1.0)], 7) == 7
    assert serving_of(Run(samples=[at(1, 1, 1.0), at(2, 1, 1.0, engine=3)])).engines == (0, 3)


def test_lines_with_requests_are_those_with_a_request_at_their_end_or_with_tokens() -> None:
    running, waiting, last, idle = at(1, 1, 12.0), at(1, 0, 0.0, waiting=1), at(1, 0, 5.0), at(1, 0, 0.0)
    prompt = replace(idle, prompt=300.0)
    assert busy_of([waiting, running, last, idle, prompt]) == [waiting, running, last, prompt]


def test_an_interval_at_an_end_of_a_load_has_idle_time_in_it() -> None:
    """Unless it has most of the tokens of the interval beside it: only the last moment of it was idle then."""
    running, last, idle = at(1, 1, 12.0), at(1, 0, 5.0), at(1, 0, 0.0)
    first = at(1, 1, 2.0)
    prefill = replace(first, prompt=900.0)
    assert full_of([idle, first, running, running, last, idle]) == [running, running]
    assert full_of([running, at(1, 0, 8.0), idle]) == [running, at(1, 0, 8.0)]
    assert full_of([idle, prefill, running]) == [prefill, running]
    assert full_of([last, idle, last]) == [last, last]
    assert full_of([running, at(1, 1, 2.0, engine=1), at(2, 1, 12.0)]) == [running, at(2, 1, 12.0)]


def test_answers_are_counted_by_status_without_those_of_monitoring() -> None:
    run = Run(
        accesses={
            ("POST", "/v1/completions", 200): 5,
            ("POST", "/v1/completions", 400): 2,
            ("GET", "/health", 200): 30,
            ("GET", "/v1/models", 200): 1,
        }
    )  # type: ignore[arg-type]
    assert requests_of(run) == {200: 36, 400: 2}
    assert requests_of(run, with_probes=False) == {200: 6, 400: 2}
    assert requests_of(run, method="POST") == {200: 5, 400: 2}


def finding(id: str, kind: Any = "failure", role: Any = "", text: str = "", **more: Any) -> Finding:
    return Finding(
        id, kind, "high", "high", id, "", role, (Evidence("a.log", 3, text),) if text else (), **more
    )


def test_the_root_leads_and_a_hidden_one_counts() -> None:
    later, root = finding("later"), finding("root", role="root")
    ended = finding("ended", "configuration", "root")
    found = Diagnosis(Run(outcome="crashed_while_serving"), (later, root))
    assert [one.id for one in found.failures] == ["root", "later"]
    assert found.root is root
    hidden = Diagnosis(Run(outcome="crashed_while_serving"), (ended,), hidden=(later,))
    assert hidden.root is later
    assert hidden.shown_root is None
    assert Diagnosis(Run(outcome="crashed_while_serving"), (ended,)).root is ended
    assert Diagnosis(Run(outcome="clean_shutdown"), (ended,)).root is None


@pytest.mark.parametrize(
    ("outcome", "limit", "ended", "broke"),
    [("crashed_while_serving", True, 50.0, 50.0), ("killed", False, 50.0, 50.0), ("killed", True, 50.0, math.inf), ("crashed_while_serving", False, None, math.inf)],
)  # fmt: skip
def test_what_a_limit_of_the_job_ended_comes_after_what_broke(
    outcome: Any, limit: bool, ended: float | None, broke: float
) -> None:
    run = Run(outcome=outcome, ended=ended)
    run.job = SimpleNamespace(limit="walltime" if limit else "")  # type: ignore[assignment]
    assert Diagnosis(run).broke_at == broke


def analysis(*runs: Diagnosis, files: tuple[str, ...] = ("a.log",)) -> Analysis:
    return Analysis(tuple(SourceSummary(name, 1, 1) for name in files), runs, Coverage(1, 1, 1, 0, ()))


def test_runs_that_fail_alike_are_told_but_for_numbers() -> None:
    texts = ("cannot use port 8000", "cannot use port 8001", "cannot use the disk")
    runs = [
        Diagnosis(Run(number=place, outcome="crashed_at_startup"), (finding("x", role="root", text=text),))
        for place, text in enumerate(texts, 1)
    ]
    assert {number: first.number for number, first in analysis(*runs).repeated.items()} == {2: 1}


@pytest.mark.parametrize(
    ("files", "folder"),
    [(("/logs/may/a.log", "/logs/may/b.log"), "/logs/may/"), (("/logs/may/a.log", "/logs/june/a.log"), "/logs/"), (("a.log",), ""), (("/x/a.log",), "/x/"), ((), "")],
)  # fmt: skip
def test_the_folder_that_all_inputs_share(files: tuple[str, ...], folder: str) -> None:
    found = analysis(files=files)
    assert found.shared_folder == folder
    assert found.file_numbers == {name: place for place, name in enumerate(files)}


def test_cited_lines_are_folded_in_and_the_rest_counted() -> None:
    lines = {f"e0-{number}": Evidence("a.log", number, f"text <{number}>") for number in range(1, 40)}
    one = cited_html(["e0-1", "e0-1", "gone"], lines)
    assert "<summary>The line</summary>" in one
    assert one.count("<li") == 1
    assert "text &lt;1&gt;" in one
    many = cited_html(list(lines), lines)
    assert "<summary>The 39 lines</summary>" in many
    shown = many.count("<code>")
    assert f"<li>and {39 - shown} more, at the end of the report</li>" in many
    assert "more, at the end" not in cited_html(list(lines)[:shown], lines)
    assert cited_html(["gone"], lines) == ""


def test_the_lead_takes_the_sentences_that_fit() -> None:
    first, second = "It broke.", "X" * (LEAD - 11) + "."
    assert split_lead(f"{first} {second} More.") == (f"{first} {second}", "More.")
    longer = "X" * (LEAD - 10) + "."
    assert split_lead(f"{first} {longer} More.") == (first, f"{longer} More.")
    assert split_lead(longer * 2)[1] == ""


@pytest.mark.parametrize(
    ("text", "words"),
    [("Do not restart it.", "Do not restart it."), ("Never do", "Never do."), ("Raising it: no.", "Avoid: raising it: no."), ("CUDA 11", "Avoid: CUDA 11."), ("A restart", "Avoid: A restart.")],
)  # fmt: skip
def test_what_not_to_do_is_a_sentence(text: str, words: str) -> None:
    assert avoidance(finding("x", avoid=text)) == words


def test_phases_of_a_start_reach_from_the_first_to_the_last() -> None:
    phases = [
        Phase("load-weights", "startup", 130.0, None, 40.0), Phase("compile", "startup", 170.0, None, 20.0), Phase("startup", "", 100.0, None, 100.0),
        Phase("serving", "", 200.0, None, 900.0), Phase("graph-capture", "startup", None, None, 5.0),
    ]  # fmt: skip
    (chart,) = startup_charts(Run(number=1, phases=phases))
    assert chart.data["data"][0] == [130.0, 190.0]
    assert [row[2] for row in chart.rows] == ["40 s", "20 s"]
    assert chart.spoken.startswith("2 phases; the longest is ")
    assert startup_charts(Run(phases=[Phase("unexplained", "startup", 1.0, None, 5.0)])) == []
    assert startup_charts(Run()) == []


def test_figures_of_all_engines_are_those_of_the_sum() -> None:
    """The mean of the points with work all the time, and the most of any point."""
    points = [
        Point(1.0, 40.0, 20.0, 2, 0, 5.0),
        Point(2.0, 80.0, 30.0, 6, 3, 9.0),
        Point(3.0, 0.0, 0.0, 0, 0, 1.0),
    ]
    found = summed_of(points)
    assert (found.samples, found.busy, found.running, found.waiting, found.kv_usage) == (3, 2, 6, 3, 9.0)
    assert (found.generation.mean_busy, found.generation.max, found.prompt.mean_busy) == (25.0, 30.0, 60.0)
    assert summed_of([]).running is None


@pytest.mark.parametrize(
    ("text", "ticks"), [("plain", 3), ("`a`", 3), ("``a``", 3), ("```a```", 4), ("a\n`````", 6)]
)
def test_a_fence_is_longer_than_any_run_of_backticks_in_it(text: str, ticks: int) -> None:
    lines = fence(text, "console")
    assert (lines[0], lines[-1]) == ("`" * ticks + "console", "`" * ticks)
    assert lines[1:-1] == text.split("\n")


def test_identifiers_and_paths_that_markdown_would_eat_are_code() -> None:
    text = inline("RecursionError in ray_utils.py, __getattr__; the *.egg-info folder in ~/.cache/vllm")
    assert text == "RecursionError in ray_utils.py, `__getattr__`; the `*.egg-info` folder in `~/.cache/vllm`"


def test_brackets_that_make_no_link_are_not_escaped() -> None:
    assert inline("Log line: [shutdown] API server") == "Log line: [shutdown] API server"
    assert [inline(text) for text in ("a [b](c)", "a [b][c]", "[b]: c")] == [
        "a [b\\](c)",
        "a [b\\][c]",
        "\\[b\\]: c",
    ]
