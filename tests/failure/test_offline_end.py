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


READY = [
    "INFO 05-01 10:00:20 [model_runner.py:1598] Graph capturing finished in 26 secs, took 0.50 GiB",
    "INFO 05-01 10:00:21 [llm_engine.py:449] init engine (profile, create kv cache, warmup model) took 38.87 seconds",
]
OPEN = (
    "Processed prompts:   0%|          | 0/500 [00:00<?, ?it/s, est. speed input: 0.00 toks/s, output: 0.00 toks/s]"
    "(VllmWorkerProcess pid=16) WARNING 05-01 10:00:30 [simple_connector.py:205] Their KVCache won't be sent."
)
WAITED = [
    "ERROR 05-01 10:05:30 [pynccl_pipe.py:264] Encountering exception in KV receiving thread",
    "ERROR 05-01 10:05:30 [pynccl_pipe.py:265] wait timeout after 300000ms, keys: /send_to/0/0",
]


def test_a_batch_whose_bar_shares_its_line_with_another_process_was_begun_and_not_completed() -> None:
    text = analyze([*READY, OPEN]).to_markdown()
    assert text.startswith("# CUT OFF: no result in the log")
    assert "no prompts" not in text
    done = OPEN[: OPEN.index("(")].replace("0%|", "100%|").replace("0/500", "500/500")
    assert outcome(READY, [OPEN, done]) == "clean_shutdown"


def test_a_peer_of_a_kv_pipe_that_sends_nothing_is_no_start_that_hangs() -> None:
    text = analyze([*READY, OPEN, *WAITED]).to_markdown()
    assert "The other instance of the KV connector sent nothing" in text.splitlines()[0]
    assert "Distributed initialization" not in text
