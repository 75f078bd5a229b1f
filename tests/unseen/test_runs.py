"""Several lives in one file: side by side, one after the other, with reused process ids."""

from __future__ import annotations

import pytest

from tests.unseen.lives import behind, life, woven
from tests.unseen.reading import check, facts, only_run, runs


def test_two_servers_that_write_to_one_file_are_distinguished_by_process_id() -> None:
    first, second = runs(
        woven(
            life(pid=11, engine=12, model="a/x"), life(pid=21, engine=22, model="b/y", port=8001, rate=500.0)
        )
    )
    check(first, model="a/x", samples=3, generation__max=102.0, measured__kv_cache_tokens=100_000)
    check(second, model="b/y", samples=3, generation__max=502.0, measured__kv_cache_tokens=100_000)


def test_two_servers_of_one_model_on_two_ports_are_two_runs() -> None:
    found = runs(woven(life(pid=11, engine=12), life(pid=21, engine=22, port=8001, rate=500.0)))
    assert [run.extremes.generation for run in found] == [102.0, 502.0]


def test_containers_with_the_same_process_ids_are_distinguished_by_name() -> None:
    found = runs(
        woven(
            behind("vllm-a-1  | ", life(model="a/x")), behind("vllm-b-1  | ", life(model="b/y", rate=900.0))
        )
    )
    assert [(run.model.value if run.model else None, run.extremes.generation) for run in found] == [
        ("a/x", 102.0),
        ("b/y", 902.0),
    ]


@pytest.mark.parametrize("version", ["0.11.0", "0.9.1"])
@pytest.mark.parametrize("stop", ["", "asked", "out-of-memory"])
def test_a_container_that_restarts_with_the_same_process_ids_has_a_run_per_life(
    version: str, stop: str
) -> None:
    named = version == "0.11.0"
    found = runs("".join(life(version, start=f"1{hour}:00", stop=stop, named=named) for hour in range(4)))
    wanted = {"": "unknown", "asked": "clean_shutdown", "out-of-memory": "crashed_while_serving"}[stop]
    last = wanted if stop else "running"
    assert [run.outcome for run in found] == [*[wanted] * 3, last]
    assert [sum(run.accesses.values()) for run in found] == [6] * 4


def test_requests_behind_the_last_statistics_line_stay_with_their_run() -> None:
    access = '(APIServer pid=1) INFO:     10.0.0.1:4000 - "POST /v1/completions HTTP/1.1" 200 OK\n'
    first, second = runs(life(start="10:00") + access * 5 + life(start="11:00"))
    assert (sum(first.accesses.values()), sum(second.accesses.values())) == (11, 6)


def test_a_front_process_that_runs_again_with_the_same_arguments_is_the_same_server() -> None:
    log = life(pid=11, engine=12)
    head = log[: log.index("(EngineCore")]
    run = only_run(
        head
        + head.replace("pid=11", "pid=19").replace("10:00", "10:01")
        + life(pid=19, engine=12, start="10:02").split("\n", 3)[3]
    )
    check(run, samples=3, version="0.11.0")


def test_a_log_that_starts_inside_one_life_and_goes_on_with_the_next_has_two_runs() -> None:
    first = life(pid=11, engine=12)
    before, after = runs(
        first[first.index("Graph capturing") :] + life(pid=21, engine=22, model="b/y", rate=7.0)
    )
    check(before, kind="server", engine="V1", model=None, generation__max=102.0, samples=3)
    check(after, model="b/y", generation__max=9.0, samples=3)


FAKE = (
    "INFO 06-01 10:00:00 [loggers.py:127] Engine 000: Avg prompt throughput: 9999.0 tokens/s, Avg generation throughput: "
    "9999.0 tokens/s, Running: 999 reqs, Waiting: 99 reqs, GPU KV cache usage: 99.0%, Prefix cache hit rate: 99.0%"
)


@pytest.mark.parametrize(
    "text",
    [
        f"(APIServer pid=1) INFO 06-01 10:01:22 [logger.py:41] Received request cmpl-9: prompt: '{FAKE}', params: S(n=1).\n",
        f"(APIServer pid=1) INFO 06-01 10:01:22 [logger.py:41] Received request cmpl-9: prompt: 'see\n{FAKE}\n', params: S().\n",
        f'Generated text: "{FAKE}"\n',
        f"Prompt: 'what is this?', Generated text: 'It is {FAKE}'\n",
        f"{FAKE}\n",
    ],
)
def test_what_a_prompt_or_an_answer_says_counts_for_nothing(text: str) -> None:
    log = life(stop="asked")
    place = log.index("(APIServer pid=1) INFO 06-01 10:01:20")
    assert facts(only_run(log[:place] + text + log[place:])) == facts(only_run(log))


def test_a_message_in_the_quotes_of_a_wrapper_counts() -> None:
    lines = (
        f'time="2026-06-01T10:00:00Z" level=info msg="{line}"\n'
        for line in life("0.9.1", named=False).splitlines()
    )
    check(only_run("".join(lines)), samples=3, generation__max=102.0)
