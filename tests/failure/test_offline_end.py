"""How an offline program ended, by its own words behind the engine's."""

from __future__ import annotations

import pytest

from tests.run.lives_of_a_server import answers, start, statistics
from vllm_logdoctor import analyze

WORKED = [
    "INFO 05-01 10:00:20 [core.py:70] Initializing a V1 LLM engine (v0.11.2) with config: model='m'",
    "INFO 05-01 10:00:50 [core.py:193] init engine (profile, create kv cache, warmup model) took 3.50 seconds",
    "INFO 05-01 10:01:00 [loggers.py:259] Engine 000: Avg prompt throughput: 10.0 tokens/s, Avg generation throughput: 60.0 tokens/s,"
    " Running: 1 reqs, Waiting: 0 reqs, GPU KV cache usage: 0.2%, Prefix cache hit rate: 1.0%",
]


def outcome(*parts: list[str]) -> str:
    (run,) = analyze([line for part in parts for line in part]).runs
    return run.outcome


@pytest.mark.parametrize("words", ["Completed successfully.", "python judge.py exited with code 0"])
def test_a_program_around_an_engine_that_says_that_it_succeeded_has_ended(words: str) -> None:
    assert outcome(WORKED, ["", words]) == "clean_shutdown"
    assert outcome(WORKED, [words], WORKED[-1:]) == "running"
    assert outcome(start(), answers(1), [words]) == "running"  # A client's words beside a server.


def test_a_code_that_only_begins_with_a_zero_is_none_of_success() -> None:
    assert outcome(WORKED, ["exited with code 0.5"]) == "running"


def test_what_an_offline_engine_runs_in_its_last_statistics_says_nothing_on_its_end() -> None:
    copied = "the log was copied while the server ran"
    assert copied in analyze([*start(), statistics()]).to_markdown()
    assert copied not in analyze(WORKED).to_markdown()
