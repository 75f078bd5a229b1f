"""The figures of the first screen: which are shown, in which words, below and above each bound."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from tests.report.test_verdict import line, page_of
from tests.rules.making import a_run, load, sample
from tests.tables import for_each
from vllm_logdoctor.report.key_figures import benchmark_result, excess_load, key_figures
from vllm_logdoctor.run.model import Benchmark, Extremes, Phase, Progress, Run

BUSY = {"running": 8, "generation": 300.0, "kv": 4.0}
PROMPTS = {"running": 4, "generation": 0.0, "prompt": 900.0}
Parts = tuple[tuple[int, dict[str, Any]], ...]


def figures(*parts: tuple[int, dict[str, Any]], **more: Any) -> dict[str, str]:
    return dict(key_figures(a_run(samples=load(*parts), **more)))


@for_each(
    ("parts", "said"),
    [
        (((1, BUSY),), "300 tokens/s in one statistics line"),
        (((7, BUSY),), "300 tokens/s peak"),
        (((8, BUSY),), "300 tokens/s mean, 300 peak"),
        # From eight lines behind another one on, the median is that of a request.
        (((9, BUSY),), "300 tokens/s mean, 300 peak; 37.5 tokens/s per request at steady load (median)"),
        (((9, {**BUSY, "running": 1, "generation": 40.0}),), "40 tokens/s mean, 40 peak"),
        # A mean of twice the median describes no part of the load.
        (((8, BUSY), (4, {**BUSY, "generation": 1200.0})), "600 tokens/s mean, 1,200 peak; 37.5 tokens/s per request at steady load (median)"),
        (((8, BUSY), (4, {**BUSY, "generation": 1230.0})), "610 tokens/s mean, 300 median, 1,230 peak; 37.5 tokens/s per request at steady load (median)"),
        (((8, {**BUSY, "generation": 90.0}), (12, BUSY)), "216 tokens/s mean, 300 peak; 37.5 tokens/s per request at steady load (median)"),
        # Half as many requests again are another load.
        (((10, BUSY), (10, {**BUSY, "running": 10})), "300 tokens/s mean, 300 peak; 30 tokens/s per request at steady load (median)"),
        (((10, BUSY), (10, {**BUSY, "running": 11})), "300 tokens/s mean, 300 peak"),
        (((8, {"running": 0, "generation": 300.0}),), None),
        (((8, PROMPTS),), None),
        ((), None),
    ],
)  # fmt: skip
def test_generated_tokens_a_second(parts: Parts, said: str | None) -> None:
    assert figures(*parts).get("generation") == said


@for_each(
    ("parts", "said"),
    [
        (((8, PROMPTS),), "900 tokens/s mean, 900 peak"),
        (((7, PROMPTS),), "900 tokens/s peak"),
        (((8, {**PROMPTS, "running": 0}),), None),
        (((8, {**PROMPTS, "generation": 1.0}),), None),  # Where tokens are generated, those are what counts.
    ],
)
def test_prompt_tokens_are_the_figure_where_none_are_generated(parts: Parts, said: str | None) -> None:
    assert figures(*parts).get("prompts") == said


@for_each(
    ("parts", "said"),
    [
        (((1, BUSY),), "8 running, queue empty"),
        (((2, BUSY),), "up to 8 running, queue empty"),
        (((2, BUSY), (1, {**BUSY, "waiting": 1234})), "up to 8 running, 1,234 waiting"),
        (((2, {**BUSY, "running": 0}),), None),
        (((2, {**BUSY, "running": 0, "waiting": 3}),), "up to 0 running, 3 waiting"),
    ],
)
def test_requests_at_once(parts: Parts, said: str | None) -> None:
    assert figures(*parts).get("requests at once") == said


def test_the_peak_is_that_of_all_lines_and_of_one_engine() -> None:
    """A long series is thinned out, the extremes are not; those of several engines are not those of their sum."""
    seen = Extremes(generation=900.0)
    assert "900 peak" in figures((8, BUSY), extremes=seen)["generation"]
    both = [replace(one, engine=engine) for one in load((8, BUSY)) for engine in (0, 1)]
    assert "900" not in dict(key_figures(a_run(samples=both, extremes=seen)))["generation"]


@for_each(
    ("measured", "usage", "sampled", "said"),
    [
        ({"kv_cache_tokens": 41_000}, None, False, "41,000 tokens"),
        ({"kv_cache_tokens": 41_000}, 12.5, True, "41,000 tokens, 12.5 % peak"),
        ({}, 12.5, True, "12.5 % peak"),
        ({}, 12.5, False, None),
        ({}, 0.0, True, None),
        ({}, None, True, None),
    ],
)
def test_the_cache_by_its_size_and_its_peak(
    measured: dict[str, float], usage: float | None, sampled: bool, said: str | None
) -> None:
    lines = [replace(sample(running=0, generation=0.0), kv_usage=1.0 if sampled else None)]
    run = a_run(measured=measured, samples=lines, extremes=Extremes(kv_usage=usage))
    assert dict(key_figures(run)).get("KV cache") == said


@for_each(
    ("parts", "said"),
    [
        ((("load-weights", 30.0), ("compile", 20.0)), "1 min 30 s (30 s weight loading)"),
        ((("load-weights", 29.0), ("compile", 20.0)), "1 min 30 s"),
        ((("compile", 20.0), ("load-weights", 40.0)), "1 min 30 s (40 s weight loading)"),
        ((("unexplained", 40.0), ("compile", 35.0)), "1 min 30 s"),
        ((), "1 min 30 s"),
    ],
)
def test_a_start_names_the_phase_that_takes_a_third_of_it(
    parts: tuple[tuple[str, float], ...], said: str
) -> None:
    run = a_run()
    run.phases = [Phase("startup", "", 0.0, 90.0, 90.0), Phase("imports", "", 0.0, 1.0, 1.0)]
    run.phases += [Phase(name, "", 1.0, None, seconds, (), "startup") for name, seconds in parts]
    assert dict(key_figures(run))["start-up"] == said


@for_each(
    ("outcome", "complete", "begun", "known"),
    [
        ("running", True, True, True),
        ("running", False, True, False),  # The log ends within the start.
        ("truncated", False, True, False),
        ("crashed_at_startup", False, True, True),
        ("running", True, False, False),  # The log begins within it.
    ],
)
def test_a_start_has_a_length_where_the_log_holds_both_ends(
    outcome: Any, complete: bool, begun: bool, known: bool
) -> None:
    run = a_run(outcome=outcome)
    run.startup_complete = complete
    run.phases = [
        Phase("startup", "", 0.0, 90.0, 90.0),
        *([Phase("imports", "", 0.0, 1.0, 1.0)] if begun else []),
    ]
    assert ("start-up" in dict(key_figures(run))) is known


def test_at_most_five_figures_and_no_lone_count_of_answers() -> None:
    answers = {("POST", "/v1/completions", 200): 3}
    full = a_run(
        measured={"kv_cache_tokens": 41_000},
        samples=load((9, BUSY)),
        accesses=answers,
        phases=(("startup", 90.0), ("imports", 1.0)),
    )
    assert [name for name, _ in key_figures(full)] == ["generation", "requests at once", "KV cache", "answered", "start-up"]  # fmt: skip
    assert key_figures(a_run(accesses=answers)) == ()
    assert key_figures(a_run(accesses=answers, measured={"kv_cache_tokens": 41_000}))[1] == ("answered", "3 requests, all 200")  # fmt: skip


RESULT = {
    "Successful requests": 100.0,
    "Benchmark duration (s)": 50.0,
    "Request throughput (req/s)": 2.0,
    "Median TTFT (ms)": 12_500.0,
    "Mean TTFT (ms)": 14_000.0,
    "Mean TPOT (ms)": 10.0,
    "Total generated tokens": 10_100.0,
}
ALL_AT_ONCE = "All 100 requests were sent at once: the median wait for a first token was 12.5 s of 50 s."
RATE = "Request rate configured (RPS)"
AT_ONCE = "Maximum request concurrency"


def client(asked: dict[str, Any] | None = None, kind: Any = "serve", **more: Any) -> Run:
    figures = {name: value for name, value in {**RESULT, **more}.items() if value is not None}
    return Run(kind="client", benchmarks=[Benchmark(kind, figures, (line(3, "====="),), asked or {})])


@for_each(
    ("more", "asked", "said"),
    [
        # All were sent at once: a quarter of the time was the wait for a first token.
        ({}, {}, ALL_AT_ONCE),
        ({"Median TTFT (ms)": 12_499.0}, {}, ""),
        ({RATE: 4.0, "Median TTFT (ms)": 12_500.0}, {}, "The client was to send 4 req/s and the server took 2 req/s: the median wait for a first token was 12.5 s."),
        ({RATE: 4.0, "Median TTFT (ms)": 12_499.0}, {}, ""),
        ({"Median TTFT (ms)": 12_500.0}, {"request_rate": 4.0}, "The client was to send 4 req/s and the server took 2 req/s: the median wait for a first token was 12.5 s."),
        # The result says what was really sent.
        ({RATE: 3.9}, {"request_rate": 4.0}, ""),
        # 100 requests of 15 s in 50 s are 30 at once.
        ({RATE: 4.0, AT_ONCE: 33.0}, {}, "The client was to send 4 req/s and the server took 2 req/s: the limit of 33 at once was nearly always reached."),
        ({RATE: 4.0, AT_ONCE: 34.0}, {}, ""),
        ({RATE: 4.0, AT_ONCE: 60.0, "Mean E2EL (ms)": 27_000.0}, {}, "The client was to send 4 req/s and the server took 2 req/s: the limit of 60 at once was nearly always reached."),
        ({AT_ONCE: 30.0}, {}, ""),  # Without a rate the limit is the load.
        ({"Failed requests": 1.0}, {}, ""),
        ({"Successful requests": 0.0}, {}, ""),
        ({"Mean TPOT (ms)": None}, {}, ""),
    ],
)  # fmt: skip
def test_a_client_that_offers_more_than_the_server_takes(
    more: dict[str, Any], asked: dict[str, Any], said: str
) -> None:
    assert excess_load(client(asked, **more)) == said


def test_a_result_of_a_client_is_told_by_its_rates() -> None:
    one = client(**{"Median TTFT (ms)": 90.0})
    shown = "Successful requests 100, Request throughput (req/s) 2, Median TTFT (ms) 90"
    assert benchmark_result(page_of(one)) == f"Result: {shown} [L3]."
    failed = client(**{"Median TTFT (ms)": 90.0, "Failed requests": 2.0})
    assert benchmark_result(page_of(failed)) == f"Result: {shown}, Failed requests 2 [L3]."
    fine = client(**{"Median TTFT (ms)": 90.0, "Failed requests": 0.0})
    assert "Failed" not in benchmark_result(page_of(fine))
    two = client()
    two.benchmarks = [*one.benchmarks, *two.benchmarks]
    assert benchmark_result(page_of(two)).startswith(
        f"{ALL_AT_ONCE} Its server's log shows what limits it. Last of 2 results: Successful"
    )
    none = client()
    none.benchmarks = [Benchmark("latency", {"odd": 1.0}, (line(3),))]
    assert benchmark_result(page_of(none)) == "Result: no rate printed [L3]."


def test_of_a_sweep_the_speed_of_its_lowest_load_and_its_peak_are_shown() -> None:
    high = ((4, {"running": 9, "generation": 2400.0}), (4, {"running": 18, "generation": 4800.0}))
    client = (line(1, "vllm bench serve --request-rate 1"),)
    one = figures((12, {"running": 1, "generation": 250.0}), *high, load_commands=client)
    assert one["generation"] == "250 tokens/s in lines with 1 request, 4,800 peak"
    some = (12, {"running": 2, "generation": 250.0}), (12, {"running": 3, "generation": 250.0})
    assert "250 tokens/s in lines with 2 to 3 requests" in figures(*some, *high, load_commands=client)["generation"]  # fmt: skip


@for_each(
    ("bars", "said"),
    [
        ([Progress(line(5), 8, 8, 4.0)], "8 of 8 in 4 s"),
        ([Progress(line(5), 8, 8, None)], "8 of 8"),
        ([Progress(line(5), 8, 8, 4.0), Progress(line(6), 1000, 2000, 60.0)], "1,008 of 2,008 in 1 min 4 s"),
        ([Progress(line(5), 0, 8, 4.0)], None),
    ],
)  # fmt: skip
def test_prompts_of_an_offline_engine(bars: list[Progress], said: str | None) -> None:
    shown = figures(measured={"kv_cache_tokens": 41_000}, progress=bars)
    assert shown.get("prompts") == said


def test_a_cache_that_layers_share_is_told_in_requests_of_full_length() -> None:
    run = a_run(
        reported={"max_seq_len": 4096},
        default={"max_model_len": 4096},
        measured={"kv_cache_tokens": 41_000, "max_concurrency": 61.0},
    )
    assert dict(key_figures(run))["KV cache"] == "61 requests of 4,096 tokens"


def test_answers_are_those_to_requests_that_make_tokens() -> None:
    answers = {
        ("POST", "/v1/completions", 200): 3,
        ("POST", "/v1/completions", 500): 1,
        ("GET", "/v1/models", 200): 7,
        ("GET", "/health", 200): 7,
    }
    shown = figures(measured={"kv_cache_tokens": 41_000}, accesses=answers)
    assert shown["answered"].startswith("4 requests, ")
