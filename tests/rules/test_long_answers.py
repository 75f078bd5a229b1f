"""Answers that run on: how long, how much of the cache, and how often, below and above each bound."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from tests.rules.making import a_run, advice, knobs, record, sample
from tests.tables import for_each
from vllm_logdoctor.run.model import Run, Sample

RULE = "long-answers-hold-the-server"
IDLE: dict[str, Any] = {"running": 0, "kv": 0.0, "generation": 0.0}


def climb(*usage: float, running: int = 1, generation: float = 150.0, **more: Any) -> list[dict[str, Any]]:
    """Statistics lines of the same requests, by the percent of the cache that they hold."""
    return [{"running": running, "kv": kv, "generation": generation, **more} for kv in usage]


def lines(*parts: list[dict[str, Any]] | dict[str, Any]) -> list[Sample]:
    flat = [one for part in parts for one in (part if isinstance(part, list) else [part])]
    return [sample(**figures, number=number) for number, figures in enumerate(flat)]


def run_of(*parts: Any, cache: int | None = 50_000, length: int | None = None, **more: Any) -> Run:
    measured = {"kv_cache_tokens": float(cache)} if cache else {}
    return a_run(
        set={"max_model_len": length} if length else {}, measured=measured, samples=lines(*parts), **more
    )


def said(*parts: Any, **more: Any) -> str:
    found = advice(run_of(*parts, **more)).get(RULE)
    return found.explanation if found else ""


@for_each(
    ("parts", "more", "found"),
    [
        ((climb(30.0, 33.0, 36.0),), {}, True),
        ((climb(30.0, 33.0),), {}, False),  # 20 s
        ((climb(14.0, 17.0, 20.0),), {}, True),
        ((climb(13.9, 16.9, 19.9),), {}, False),  # a fifth of the cache
        ((climb(34.0, 37.0, 40.0, running=2),), {}, True),
        ((climb(33.9, 36.9, 39.8, running=2),), {}, False),  # a fifth each
        ((climb(54.0, 57.0, 60.0, running=3),), {}, False),  # three requests are a load
        ((climb(35.0, 38.0, 41.0),), {"cache": 20_000}, True),
        ((climb(34.9, 37.9, 40.9),), {"cache": 20_000}, False),  # 8,180 tokens
        ((climb(36.0, 33.0, 30.0),), {}, False),
        ((climb(36.0, 36.0, 36.0),), {}, False),  # nothing grew
        ((climb(30.0, 33.0, 33.0, 36.0),), {}, True),
        ((climb(30.0, 33.0, 36.0, prompt=1.0),), {}, False),
        ((climb(30.0, 33.0), climb(36.0, 39.0, prompt=1.0)), {}, False),
        ((climb(30.0, 33.0, 36.0, generation=0.0),), {}, False),
        # 2 % of 18,000 tokens are 360 in 20 s.
        ((climb(30.0, 33.0, 36.0, generation=18.0),), {}, True),
        ((climb(30.0, 33.0, 36.0, generation=17.9),), {}, False),
        # A line without tokens is a pause.
        ((climb(30.0, 33.0), climb(33.0, generation=0.0), climb(36.0)), {}, False),
        # Without the size of the cache a fifth of it, and the tokens that the growth tells.
        ((climb(14.0, 17.0, 20.0, generation=150.0),), {"cache": None}, True),
        ((climb(13.0, 16.0, 19.9, generation=150.0),), {"cache": None}, False),
        # 6.1 % for 2,000 tokens: a quarter of the cache are 8,197, and of 1,996 they are 8,180.
        ((climb(44.0, 47.0, 50.0, running=2, generation=100.0),), {"cache": None}, True),
        ((climb(44.0, 47.0, 50.0, running=2, generation=99.8),), {"cache": None}, False),
    ],
)  # fmt: skip
def test_one_or_two_answers_that_run_on_are_reported(
    parts: tuple[Any, ...], more: dict[str, Any], found: bool
) -> None:
    assert bool(said(*parts, **more)) is found


@for_each(
    ("before", "found"),
    [
        # Half of 18,000 tokens may have been a prompt.
        ([{"running": 1, "kv": 30.0, "prompt": 899.0}], True),
        ([{"running": 1, "kv": 30.0, "prompt": 900.0}], False),
        ([{"running": 1, "kv": 30.0, "prompt": 450.0}] * 2, False),
        # What came before an idle line, or more than a minute before, is of another request.
        ([{"running": 1, "kv": 30.0, "prompt": 900.0}, IDLE], True),
        ([{"running": 1, "kv": 30.0, "prompt": 900.0}, *[{"running": 2, "kv": 30.0}] * 6], True),
        ([{"running": 1, "kv": 30.0, "prompt": 900.0}, *[{"running": 2, "kv": 30.0}] * 5], False),
    ],
)
def test_a_prompt_shortly_before_may_be_what_fills_the_cache(
    before: list[dict[str, Any]], found: bool
) -> None:
    assert bool(said([*before], climb(30.0, 33.0, 36.0))) is found


@for_each(
    ("parts", "more", "words"),
    [
        ((climb(30.0, 33.0, 36.0),), {}, "1 request generated 3,000 tokens in 20 s without a pause and held 36 % of the KV cache, about 18,000 tokens: probably"),
        ((climb(54.0, 57.0, 60.0, running=2),), {}, "2 requests generated 3,000 tokens in 20 s without a pause and held 60 % of the KV cache, about 15,000 tokens each: probably"),
        ((climb(30.0, 33.0, 36.0),), {"cache": None}, "held 36 % of the KV cache: probably answers without a length limit. If such"),
        ((climb(30.0, 33.0, 36.0),), {"length": 18_947}, "It ran up to the context limit of 18,947 tokens."),
        ((climb(30.0, 33.0, 36.0),), {"length": 18_948}, "without a length limit. If such"),
        ((climb(30.0, 33.0, 36.0), IDLE, climb(30.0, 33.0, 36.0)), {}, "It happened 2 times."),
        ((climb(30.0, 33.0, 36.0), IDLE, climb(60.0, 63.0, 66.0)), {"length": 33_000}, "held 66 % of the KV cache, about 33,000 tokens: probably answers without a length limit. It happened 2 times, 1 of them up to the context limit of 33,000 tokens."),
        ((climb(60.0, 63.0, 66.0), IDLE, climb(60.0, 63.0, 66.0)), {"length": 33_000}, "It happened 2 times, all of them up to the context limit"),
        # The longest of those that ended at the context is told, else the longest.
        ((climb(30.0, 33.0, 36.0, 39.0), IDLE, climb(60.0, 63.0, 66.0)), {"length": 33_000}, "held 66 %"),
        ((climb(30.0, 33.0, 36.0, 39.0), IDLE, climb(40.0, 43.0, 46.0)), {}, "held 39 %"),
    ],
)  # fmt: skip
def test_what_is_said_of_them(parts: tuple[Any, ...], more: dict[str, Any], words: str) -> None:
    assert words in said(*parts, **more)


def test_answers_that_the_context_ends_are_counted_from_three_on_however_little_they_hold() -> None:
    one = climb(4.0, 7.0, 10.0, generation=500.0)
    often = {"cache": 90_000, "length": 9_000}
    assert said(one, IDLE, one, IDLE, one, **often)
    assert not said(one, IDLE, one, **often)
    assert not said(one, IDLE, one, IDLE, one, cache=90_000, length=9_500)


def test_stretches_are_those_of_one_engine() -> None:
    both = [
        replace(one, engine=number % 2)
        for number, one in enumerate(lines(climb(30.0, 30.0, 33.0, 33.0, 36.0, 36.0)))
    ]
    run = run_of()
    run.samples = both
    assert "It happened 2 times." in advice(run)[RULE].explanation


def test_the_step_is_a_limit_of_the_answers_and_a_flag_that_the_release_has() -> None:
    found = advice(run_of(climb(30.0, 33.0, 36.0)))[RULE]
    assert list(knobs(found)) == [
        "set max_tokens in the clients' requests to the length of the answers that you want"
    ]
    assert "max_new_tokens: it caps" in found.alternatives[0]
    unknown = advice(run_of(climb(30.0, 33.0, 36.0), version=None))[RULE]
    assert "max_new_tokens, where the release has it: it caps" in unknown.alternatives[0]
    assert found.evidence[0].line == 102  # The line with the most.


def test_prompts_refused_shortly_after_answers_that_the_context_ended_have_their_step() -> None:
    one = climb(4.0, 7.0, 10.0, generation=500.0)
    run = run_of(one, IDLE, one, IDLE, one, [IDLE] * 12, cache=90_000, length=9_000)
    asked = "This model's maximum context length is 9000 tokens. However, your request has 9100 input tokens."
    run.records = [record(asked, line, "ERROR") for line in (104, 112)]  # The last answer ends at 110.
    found = advice(run)
    assert "2 refused prompts came within 90 s after such an answer" in found[RULE].explanation
    assert "nothing is wrong" not in found[RULE].explanation
    assert {104, 112} <= {line.line for line in found[RULE].evidence}
    assert "All 2 came shortly after an answer" in found["requests-beyond-context"].explanation
    assert not found["requests-beyond-context"].changes, "the step is that of the answers"
    run.records.append(record(asked, 122, "ERROR"))
    late = advice(run)["requests-beyond-context"]
    assert "2 came shortly after an answer" in late.explanation
    assert late.changes, "one has another cause"
