"""Requests refused for their length: what the client can do, and how far --max-model-len can be raised."""

from __future__ import annotations

import pytest

from tests.rules.making import a_run, advice, knobs, record
from vllm_logdoctor.run.model import Run

LIMIT = "ValueError: This model's maximum context length is 8192 tokens. However, "


def server(*errors: str, by_user: bool = True) -> Run:
    """A server with a cache of 40,000 tokens that refused requests."""
    length = {"max_model_len": 8192}
    run = a_run(
        set=length if by_user else {"dtype": "bfloat16"},
        default={} if by_user else length,
        measured={"kv_cache_tokens": 40_000},
    )
    run.records = [record(LIMIT + error, 100 + n, "ERROR") for n, error in enumerate(errors)]
    return run


def test_prompts_that_the_cache_holds_raise_the_limit_to_the_longest_of_them() -> None:
    run = server(
        "your request has 15386 input tokens. Please reduce the length of the input messages.",
        "you requested 9000 tokens in the messages, Please reduce the length of the messages.",
        "your request has 18244677 input tokens. Please reduce the length of the input messages.",
    )
    found = advice(run)["requests-beyond-context"]
    assert knobs(found) == {"--max-model-len": 16 * 1024}
    assert "In all 3 the prompt alone is too long." in found.explanation
    assert "enough for 2 refused prompts, which the KV cache can hold" in found.changes[0].note


def test_an_answer_that_does_not_fit_is_the_clients_max_tokens() -> None:
    asked = "you requested 8205 tokens (149 in the messages, 8056 in the completion). Please reduce"
    found = advice(server(asked, asked))["requests-beyond-context"]
    assert [change.kind for change in found.changes] == ["action"]
    assert "max_tokens" in found.changes[0].knob
    assert "149 + 8,056 tokens" in found.explanation


def test_a_prompt_that_was_not_counted_to_its_end_raises_nothing() -> None:
    asked = (
        "you requested 0 output tokens and your prompt contains at least 8193 input tokens, for a total of at"
        " least 8193 tokens. Please reduce the length of the input prompt"
    )
    assert "--max-model-len" not in knobs(advice(server(asked, asked))["requests-beyond-context"])


def test_the_models_own_limit_is_not_raised() -> None:
    asked = "your request has 15386 input tokens."
    found = advice(server(asked, asked, by_user=False))["requests-beyond-context"]
    assert "--max-model-len" not in knobs(found)


def test_one_long_request_is_no_finding() -> None:
    assert "requests-beyond-context" not in advice(server("your request has 15386 input tokens."))


@pytest.mark.parametrize(
    ("prompts", "raised"),
    [
        ((15_386, 9_000), 16_384),
        # 98 % of 40,000 tokens are 39,200: 38,912 are the longest length in steps of 1,024 that fits.
        ((38_912, 38_913), 38_912),
        ((38_913, 39_000), None),
        ((15_386, 100_000), 16_384),
    ],
)
def test_the_limit_is_raised_to_the_longest_prompt_that_the_cache_holds(
    prompts: tuple[int, int], raised: int | None
) -> None:
    found = advice(server(*(f"your request has {one} input tokens." for one in prompts)))[
        "requests-beyond-context"
    ]
    assert knobs(found).get("--max-model-len") == raised
    assert ("holds none of them" in found.explanation) is (raised is None)


def test_prompts_and_answers_that_do_not_fit_are_told_apart() -> None:
    """A prompt of 8,191 tokens leaves room for an answer, one of 8,192 leaves none."""
    fits = "you requested 9000 tokens (8191 in the messages, 809 in the completion)."
    alone = "you requested 9000 tokens (8192 in the messages, 808 in the completion)."
    found = advice(server(fits, alone))["requests-beyond-context"]
    assert (
        "In 1 the prompt fits, but not with the answer that the client asked for: 8,191 + 809 tokens."
        in found.explanation
    )
    assert "In 1 the prompt alone is too long." in found.explanation
    bound = "you requested 3000 output tokens and your prompt contains at least 5193 input tokens."
    assert "the prompt fits" not in advice(server(bound, bound))["requests-beyond-context"].explanation
    assert knobs(found)["--max-model-len"] == 9216
