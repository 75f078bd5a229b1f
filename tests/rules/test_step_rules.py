"""An engine without progress, steps that no card is as slow as, and evidence that shows what it proves."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.rules.making import a_run, advice, load, sample
from vllm_logdoctor import analyze
from vllm_logdoctor.rules.bottleneck import bottleneck_of, limit_is_probable
from vllm_logdoctor.rules.load import load_of, spans_of

STILL = {"running": 5, "waiting": 3, "kv": 9.0, "generation": 0.0}
CRAWLING = {"running": 1, "kv": 0.2, "generation": 0.8}


def test_running_requests_without_tokens_and_with_one_usage_make_no_progress() -> None:
    run = a_run(samples=load((4, STILL)))
    found = advice(run)
    assert next(iter(found)) == "engine-makes-no-progress"
    assert "scheduler-limit-not-memory" not in found
    assert bottleneck_of(run).name == "none-clear"


def test_a_long_prompt_takes_cache_with_every_chunk_and_is_no_hang() -> None:
    growing = [(1, {**STILL, "kv": 9.0 + number}) for number in range(6)]
    assert "engine-makes-no-progress" not in advice(a_run(samples=load(*growing)))


def test_three_lines_are_not_yet_a_hang() -> None:
    run = a_run(samples=load((3, STILL), (3, {"running": 5, "kv": 9.0})))
    assert "engine-makes-no-progress" not in advice(run)


def test_less_than_a_token_a_second_is_not_the_clients_doing() -> None:
    run = a_run(samples=load((5, CRAWLING)))
    found = advice(run)
    assert bottleneck_of(run).name == "host-limited"
    assert "steps-slower-than-memory" in found
    assert "client-concurrency-bound" not in found


@pytest.mark.parametrize(
    "figures",
    [{"running": 32, "kv": 28.0, "generation": 74.0}, {"running": 16, "kv": 92.0, "generation": 16.7}],
)
def test_a_batch_slower_than_memory_asks_for_no_more_requests(figures: dict[str, float]) -> None:
    found = advice(a_run(samples=load((5, figures))))
    assert next(iter(found)) == "steps-slower-than-memory"
    assert "client-concurrency-bound" not in found


@pytest.mark.parametrize(
    "figures",
    [
        {**CRAWLING, "generation": 6.0},
        {**CRAWLING, "prompt": 900.0},
        {"running": 32, "kv": 28.0, "generation": 90.0},
        {"running": 32, "kv": 80.0, "generation": 60.0},
        {"running": 600, "kv": 30.0, "generation": 900.0},
    ],
    ids=[
        "slow-but-possible",
        "prompts-in-between",
        "batch",
        "batch-in-a-full-cache",
        "more-than-memory-bound",
    ],
)
def test_what_a_card_can_be_as_slow_as_is_not_called_slow(figures: dict[str, float]) -> None:
    assert "steps-slower-than-memory" not in advice(a_run(samples=load((5, figures))))


def test_a_request_that_has_just_come_has_made_no_tokens_yet() -> None:
    busy = {"running": 1, "kv": 0.1, "generation": 0.2}
    run = a_run(samples=load((1, busy), (1, {}), (1, busy), (1, {}), (1, busy)))
    assert bottleneck_of(run).name == "client-limited"


def test_weights_kept_on_the_host_explain_slow_steps_by_themselves() -> None:
    found = advice(a_run(set={"cpu_offload_gb": 30.0}, samples=load((5, CRAWLING))))
    assert next(iter(found)) == "weights-on-the-host"
    assert not {"steps-slower-than-memory", "client-concurrency-bound"} & set(found)


def test_models_that_embed_make_no_tokens_and_are_not_slow() -> None:
    run = a_run(
        set={"runner": "pooling"}, samples=load((5, {"running": 1, "generation": 0.0, "prompt": 3.0}))
    )
    assert "steps-slower-than-memory" not in advice(run)


def test_more_ranks_than_a_machine_has_cards_make_the_network_the_suspect() -> None:
    sizes = {"tensor_parallel_size": 8, "pipeline_parallel_size": 2}
    run = a_run(set=sizes, samples=load((5, {"running": 1, "kv": 0.1, "generation": 2.9})))
    found = advice(run)
    assert bottleneck_of(run).name == "interconnect-limited"
    assert next(iter(found)) == "inter-node-network-bound"
    assert found["inter-node-network-bound"].confidence == "low"
    assert "NCCL_DEBUG" in found["inter-node-network-bound"].explanation
    assert limit_is_probable(run, "interconnect-limited", load_of(run))


def test_a_client_is_not_advised_to_send_more_where_the_cache_is_nearly_full() -> None:
    found = advice(a_run(samples=load((6, {"running": 38, "kv": 89.0, "generation": 800.0}))))
    assert found["client-concurrency-bound"].changes == ()
    assert found["client-concurrency-bound"].effect is None


def test_a_single_user_with_long_pauses_has_no_more_requests_to_send() -> None:
    """Seven lines with one request in ten minutes, idle in between: nobody waits, and nothing could run beside it."""
    talking = [(1, {"running": n % 8 == 0, "generation": 16.0 * (n % 8 == 0), "kv": 0.1}) for n in range(56)]
    client = advice(a_run(samples=load(*talking)))["client-concurrency-bound"]
    assert client.changes == ()
    assert "requests in only 1 min 10 s of 9 min 10 s" in client.explanation
    asked = advice(a_run(samples=load((20, {"running": 1, "generation": 16.0, "kv": 0.1}))))
    assert asked["client-concurrency-bound"].changes != ()


def test_the_gain_of_more_requests_is_bounded_by_what_the_cache_holds() -> None:
    found = advice(a_run(samples=load((6, {"running": 38, "kv": 60.0, "generation": 800.0}))))
    effect = found["client-concurrency-bound"].effect
    assert effect is not None
    assert effect.high == pytest.approx(1.5)


def test_a_long_prompt_under_way_slows_others_down_and_shows_in_the_cache_only() -> None:
    under_way = [(1, {**CRAWLING, "kv": 2.0 + number}) for number in range(8)]
    run = a_run(samples=load(*under_way))
    assert bottleneck_of(run).name == "client-limited"
    assert "steps-slower-than-memory" not in advice(run)


def test_a_step_of_a_processor_may_take_half_a_minute() -> None:
    run = a_run(samples=load((6, STILL)), platform="cpu")
    assert "engine-makes-no-progress" not in advice(run)


def test_the_first_statistics_after_an_idle_line_stand_for_the_usual_interval() -> None:
    series = [sample(running, number=number) for number, running in enumerate((1, 1, 0))]
    series += [sample(1, number=number) for number in (5, 6)]
    assert [span.seconds for span in spans_of(series)] == [10, 10, 10, 10, 10]


SIXTEEN_GIB = {"model_weights_gib": 15.0, "available_kv_cache_gib": 8.0, "kv_cache_tokens": 60_000}


@pytest.mark.parametrize(
    "busy", [{"running": 4, "kv": 40.0}, {"running": 80, "kv": 80.0}], ids=["few", "many"]
)
def test_reading_weights_slower_than_any_card_limits_the_run(busy: dict[str, float]) -> None:
    """2.4 tokens/s for each of four requests are 47 GB/s; the slowest card reads 200."""
    crawling = {**busy, "generation": 2.4 * busy["running"]}
    run = a_run(measured=SIXTEEN_GIB, samples=load((20, crawling)))
    found = advice(run)
    assert bottleneck_of(run).name == "host-limited"
    assert "GB/s" in found["steps-slower-than-memory"].explanation
    assert "client-concurrency-bound" not in found


def test_slow_steps_in_a_part_of_the_clients_time_are_a_finding_on_the_lines_that_the_verdict_counts() -> (
    None
):
    slow = {"running": 4, "kv": 40.0, "generation": 9.6}
    run = a_run(measured=SIXTEEN_GIB, samples=load((20, {**slow, "generation": 200.0}), (10, slow)))
    found = advice(run)
    assert "by slow decode steps (10 lines)" in bottleneck_of(run).reason
    assert "In 10 of 30 statistics lines" in found["steps-slower-than-memory"].explanation
    assert list(found).index("client-concurrency-bound") < list(found).index("steps-slower-than-memory")
    assert found["client-concurrency-bound"].changes == ()


def test_answers_that_fill_a_small_cache_are_no_prompts_under_way() -> None:
    """Four requests with 24 tokens each in ten seconds take a fiftieth of 6,000 tokens."""
    small = {**SIXTEEN_GIB, "kv_cache_tokens": 6_000}
    growing = [(1, {"running": 4, "kv": 30.0 + 1.6 * n, "generation": 9.6}) for n in range(10)]
    assert bottleneck_of(a_run(measured=small, samples=load(*growing))).name == "host-limited"
    assert bottleneck_of(a_run(measured=SIXTEEN_GIB, samples=load(*growing))).name == "client-limited"


def test_stages_of_a_pipeline_read_their_weights_one_after_the_other() -> None:
    """Two tokens/s of weights of 15 GiB a card are 33 GB/s on one card, and 130 GB/s in four stages."""
    crawling = load((20, {"running": 1, "kv": 1.0, "generation": 2.0}))
    for stages, limit in ((1, "host-limited"), (4, "client-limited")):
        run = a_run(set={"pipeline_parallel_size": stages}, measured=SIXTEEN_GIB, samples=crawling)
        assert bottleneck_of(run).name == limit


@pytest.mark.parametrize(
    "figures",
    [{"generation": 40.0}, {"generation": 9.6, "prompt": 300.0}],
    ids=["as-fast-as-a-slow-card", "prompts-between"],
)
def test_steps_that_a_card_can_need_are_no_finding(figures: dict[str, float]) -> None:
    run = a_run(measured=SIXTEEN_GIB, samples=load((20, {"running": 4, "kv": 40.0, **figures})))
    assert "steps-slower-than-memory" not in advice(run)


def test_two_lines_of_a_long_run_are_not_called_slow() -> None:
    slow = {"running": 4, "kv": 40.0, "generation": 9.6}
    run = a_run(measured=SIXTEEN_GIB, samples=load((2, slow), (30, {**slow, "generation": 200.0})))
    assert "steps-slower-than-memory" not in advice(run)


@pytest.mark.parametrize(("prompt", "limit"), [(1487.0, "prefill-limited"), (60.0, "client-limited")])
def test_streams_that_crawl_beside_many_prompts_are_slowed_by_these(prompt: float, limit: str) -> None:
    """Four requests at 1.9 tokens/s: 1,487 prompt tokens/s take the steps, 60 do not."""
    run = a_run(samples=load((20, {"running": 4, "kv": 6.0, "generation": 7.6, "prompt": prompt})))
    assert bottleneck_of(run).name == limit


def test_a_wait_for_workers_behind_a_last_line_without_tokens_is_a_hang() -> None:
    lines = [
        "INFO:     Application startup complete.",
        *(
            f"INFO 05-18 02:52:{second} [loggers.py:271] Engine 000: Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: {rate} tokens/s, "
            "Running: 1 reqs, Waiting: 0 reqs, GPU KV cache usage: 91.0%, Prefix cache hit rate: 83.2%"
            for second, rate in ((44, 64.3), (54, 0.0))
        ),
    ]
    wait = "INFO 05-18 02:54:19 [shm_broadcast.py:698] No available shared memory broadcast block found in 60 seconds."
    (hangs,) = analyze([*lines, wait]).runs
    assert hangs.findings[0].id == "engine-makes-no-progress"
    assert hangs.to_markdown().startswith("# LIMITED: Engine stalled")
    (ended,) = analyze(lines).runs
    assert "engine-makes-no-progress" not in [one.id for one in ended.findings]


def test_a_load_most_of_which_is_missing_from_the_log_asks_for_nothing() -> None:
    """The log has a line each ten seconds, but for ten minutes between two lines with the same request."""
    lines = load((8, {"running": 1, "generation": 150.0, "kv": 20.0}))
    late = [replace(one, time=(one.time or 0.0) + 600 * (number > 3)) for number, one in enumerate(lines)]
    client = advice(a_run(samples=late))["client-concurrency-bound"]
    assert client.changes == ()
    assert (
        "For 10 min more the log has no statistics lines although it has some before and after"
        in client.explanation
    )


OFFLINE = [
    "INFO 05-01 10:00:05 [__init__.py:216] Automatically detected platform cuda.",
    "(EngineCore_DP0 pid=9) INFO 05-01 10:00:10 [core.py:77] Initializing a V1 LLM engine (v0.15.1) with config: model='org/model', "
    "dtype=torch.bfloat16, max_seq_len=4096, tensor_parallel_size=1, device_config=cuda",
    "(EngineCore_DP0 pid=9) INFO 05-01 10:00:40 [gpu_model_runner.py:4130] Model loading took 15.27 GiB memory and 27.4 seconds",
]
SLOW = "Decode steps far slower than memory bandwidth allows"


def call(took: str, prompts: int, read: float, made: float) -> str:
    return (
        f"Processed prompts: 100%|##########| {prompts}/{prompts} [{took}<00:00, 31.20s/it, est. speed input: {read:.2f} toks/s, "
        f"output: {made:.2f} toks/s]"
    )


def test_an_offline_call_slower_than_any_card_reads_the_weights_is_named_with_its_line() -> None:
    (run,) = analyze([*OFFLINE, call("04:10", 8, 0.9, 4.1)]).runs
    (found,) = (one for one in run.findings if one.id == "steps-slower-than-memory")
    assert found.evidence[0].line == 4
    assert "8 prompts took 4 min 10 s at 4.1 output tokens/s in all" in found.explanation
    assert "a step took 0.24 s or more" in found.explanation
    assert "no request waits" not in found.avoid
    assert SLOW in run.to_markdown().split("## ")[0]


@pytest.mark.parametrize(
    ("seconds", "read", "made", "why"),
    [
        (
            250,
            0.9,
            41.0,
            "one request at a time would read 670 GB/s, which cards do; how many ran, no line shows",
        ),
        (250, 900.0, 4.1, "the steps computed prompts"),
        (10, 0.9, 4.1, "the first steps compile kernels"),
    ],
)
def test_an_offline_call_that_may_be_as_fast_as_the_card_is_not_called_slow(
    seconds: int, read: float, made: float, why: str
) -> None:
    text = analyze([*OFFLINE, call(f"{seconds // 60:02}:{seconds % 60:02}", 8, read, made)]).to_markdown()
    assert SLOW not in text, why
    assert ("How many prompts ran at once" in text.split("## What was read")[0]) == (seconds >= 60)


@pytest.mark.parametrize("name", ["enforce_eager", "tensor_parallel_size"])
def test_settings_that_make_steps_slow_are_a_part_of_the_proof(name: str) -> None:
    """The line of the arguments, beside those of the statistics."""
    lines = [one.line for one in advice(a_run(set={name: 1}, samples=load((5, CRAWLING))))["steps-slower-than-memory"].evidence]  # fmt: skip
    plain = [
        one.line for one in advice(a_run(samples=load((5, CRAWLING))))["steps-slower-than-memory"].evidence
    ]
    assert set(lines) - set(plain) == {2}
