"""What limits a run: one rule per kind of statistics line, time decides for the whole."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.rules.making import a_run, advice, knobs, load, sample
from vllm_logdoctor import analyze
from vllm_logdoctor.rules.bottleneck import bottleneck_of, limit_is_probable
from vllm_logdoctor.rules.intervals import majority, smoothed
from vllm_logdoctor.rules.limits import limit_of
from vllm_logdoctor.rules.load import Span, load_of
from vllm_logdoctor.run.model import Evidence, Progress


@pytest.mark.parametrize(
    ("figures", "max_num_seqs", "limit"),
    [
        ({}, 64, "idle"),
        ({"running": 5, "generation": 90.0, "kv": 3.0}, 64, "client-limited"),
        ({"running": 64, "waiting": 31, "kv": 9.9, "generation": 5000.0}, 64, "max-num-seqs-limited"),
        ({"running": 61, "waiting": 31, "kv": 9.9, "generation": 5000.0}, 64, "max-num-seqs-limited"),
        ({"running": 47, "waiting": 19, "kv": 98.9, "generation": 400.0}, 256, "kv-cache-limited"),
        ({"running": 3, "waiting": 1, "kv": 84.0, "generation": 60.0}, 256, "kv-cache-limited"),
        ({"running": 100, "waiting": 4, "kv": 84.0, "generation": 60.0}, 256, "prefill-limited"),
        ({"running": 2, "waiting": 2, "kv": 3.6, "prompt": 1486.0, "generation": 1.3}, 32, "prefill-limited"),
        ({"running": 8, "kv": 95.8, "generation": 240.0}, 256, "kv-cache-limited"),
        ({"running": 98, "kv": 84.3, "generation": 240.0}, 256, "client-limited"),
    ],
)
def test_one_statistics_line_has_one_limit(figures: dict[str, float], max_num_seqs: int, limit: str) -> None:
    assert limit_of(Span(sample(**figures), 10.0), max_num_seqs) == limit  # type: ignore[arg-type]


def test_with_every_slot_taken_the_cache_is_the_limit_where_it_has_no_room_for_a_tenth_more() -> None:
    """More slots would find no room: the report would call a cache at 99 % one that has room."""
    full = {"running": 64, "waiting": 5, "kv": 99.0}
    assert limit_of(Span(sample(**full), 10.0), 64) == "kv-cache-limited"  # type: ignore[arg-type]
    assert limit_of(Span(sample(**{**full, "kv": 80.0}), 10.0), 64) == "max-num-seqs-limited"  # type: ignore[arg-type]
    assert limit_of(Span(sample(**full), 10.0), 66) == "kv-cache-limited"  # type: ignore[arg-type]


def test_requests_that_are_swapped_out_wait_for_the_cache_not_for_prompts() -> None:
    """V0 swaps out a group of several sequences at once: behind it, a good part of the cache is free."""
    line = sample(running=35, waiting=900, kv=77.0, prompt=3000.0, generation=9000.0)
    assert limit_of(Span(line, 5.0), 256) == "prefill-limited"
    assert limit_of(Span(replace(line, swapped=120), 5.0), 256) == "kv-cache-limited"


def test_a_fifth_of_the_busy_time_makes_a_limit_of_the_server_the_runs() -> None:
    run = a_run(
        set={"max_num_seqs": 8},
        samples=load((16, {"running": 3, "generation": 50.0}), (4, {"running": 8, "waiting": 9, "kv": 5.0})),
    )
    found = bottleneck_of(run)
    assert found.name == "max-num-seqs-limited"
    assert "in 4 of 20 statistics lines with load" in found.reason


def test_a_short_rush_leaves_the_client_as_the_limit_and_stays_visible_as_a_period() -> None:
    run = a_run(
        set={"max_num_seqs": 8},
        samples=load((97, {"running": 3, "generation": 50.0}), (3, {"running": 8, "waiting": 9, "kv": 5.0})),
    )
    found = bottleneck_of(run)
    assert found.name == "client-limited"
    assert [period.name for period in found.periods] == ["client-limited", "max-num-seqs-limited"]


def test_each_line_counts_for_the_limit_that_it_shows_in_the_verdict_and_in_the_periods() -> None:
    run = a_run(
        set={"max_num_seqs": 256},
        samples=load(
            (3, {"running": 256, "waiting": 744, "kv": 7.8, "prompt": 26000.0, "generation": 13000.0}),
            (1, {"prompt": 11000.0, "generation": 10000.0}),
            (56, {"running": 1, "prompt": 10.0, "generation": 240.0}),
        ),
    )
    found = bottleneck_of(run)
    assert [(period.name, period.samples) for period in found.periods] == [
        ("max-num-seqs-limited", 3),
        ("client-limited", 57),
    ]
    assert [one.line for one in found.periods[0].evidence] == [100], "the line that shows both figures"
    assert "in 57 of 60 statistics lines" in found.reason
    assert "by max_num_seqs (3 lines)" in found.reason


def test_idle_time_does_not_dilute_a_limit() -> None:
    busy = {"running": 9, "waiting": 4, "kv": 99.0, "generation": 80.0}
    assert bottleneck_of(a_run(samples=load((500, {}), (5, busy)))).name == "kv-cache-limited"


def test_a_run_without_requests_is_idle() -> None:
    found = bottleneck_of(a_run(samples=load((5, {}))))
    assert found.name == "idle"
    assert found.reason == "No request reached the engine for all 50 s"


def test_a_log_is_not_idle_for_longer_than_it_is() -> None:
    """The interval of its first line began before it."""
    run = a_run(samples=load((3, {})))
    run.started, run.ended = 1000.0, 1020.0
    assert bottleneck_of(run).reason == "No request reached the engine for all 20 s"


def test_a_log_without_statistics_shows_a_start_only() -> None:
    assert bottleneck_of(a_run()).name == "startup-only"


def test_progress_bars_of_an_offline_engine_are_a_load() -> None:
    bars = [Progress(Evidence("log", 9, ""), 40, 40, 60.0), Progress(Evidence("log", 12, ""), 8, 8, 240.0)]
    found = bottleneck_of(a_run(kind="offline", progress=bars))
    assert found.name == "none-clear"
    assert "48 prompts completed in 5 min" in found.reason
    assert [line.line for line in found.evidence] == [9, 12]


def test_a_run_that_never_served_failed() -> None:
    run = a_run()
    run.outcome = "crashed_at_startup"
    assert bottleneck_of(run).name == "failed"


def test_a_crash_while_serving_does_not_hide_what_limited_before() -> None:
    run = a_run(samples=load((5, {"running": 1, "generation": 20.0})))
    run.outcome = "crashed_while_serving"
    assert bottleneck_of(run).name == "client-limited"


def test_several_api_servers_print_no_statistics_and_that_is_said() -> None:
    run = a_run(
        messages=(
            (
                "AsyncLLM created with api_server_count more than 1; disabling stats logging to avoid"
                " incomplete stats."
            ),
        )
    )
    found = bottleneck_of(run)
    assert found.name == "none-clear"
    assert "several API servers" in found.reason


def test_where_the_log_hides_the_slots_a_number_at_which_waiting_lines_stay_equal_is_taken_for_them() -> None:
    run = a_run(samples=load((9, {"running": 128, "waiting": 40, "kv": 12.0, "generation": 900.0})))
    assert bottleneck_of(run).name == "max-num-seqs-limited"


def test_ranks_on_different_nodes_make_the_interconnect_the_limit() -> None:
    run = a_run(
        messages=(
            "tensor_parallel_size=4 is bigger than a reserved number of GPUs (2 GPUs) in a node ab12.",
        ),
        samples=load((5, {"running": 1, "generation": 3.0})),
    )
    assert bottleneck_of(run).name == "interconnect-limited"


def test_a_cpu_that_makes_less_than_a_token_a_second_is_the_hosts_limit() -> None:
    run = a_run(platform="cpu", samples=load((4, {"running": 1, "generation": 0.1})))
    assert bottleneck_of(run).name == "host-limited"


def test_the_worst_line_comes_first_in_the_evidence() -> None:
    run = a_run(
        samples=load(
            (3, {"running": 30, "waiting": 1, "kv": 95.0, "generation": 1.0}),
            (1, {"running": 20, "waiting": 77, "kv": 99.0, "generation": 1.0}),
        )
    )
    assert "Waiting: 77" in bottleneck_of(run).evidence[0].text


def test_two_engines_are_judged_line_by_line_and_their_time_adds_up() -> None:
    samples = [
        sample(running=1, generation=9.0, engine=number % 2, number=number // 2) for number in range(20)
    ]
    found = load_of(a_run(samples=samples))
    assert found.engines == 2
    assert found.busy_seconds == pytest.approx(200.0)


def test_a_silent_hour_between_two_lines_is_not_an_hour_of_load() -> None:
    samples = load((3, {"running": 1, "generation": 9.0}))
    late = sample(running=1, generation=9.0, number=3)
    found = load_of(a_run(samples=[*samples, type(late)(**{**_fields(late), "time": 3600.0})]))
    assert found.busy_seconds == pytest.approx(40.0)


def _fields(found: object) -> dict[str, object]:
    return {name: getattr(found, name) for name in type(found).__slots__}  # type: ignore[attr-defined]


LIMITS = st.lists(
    st.sampled_from(["idle", "client-limited", "kv-cache-limited", "prefill-limited"]), max_size=80
)


@given(LIMITS, st.integers(1, 12))
def test_smoothing_keeps_the_number_of_samples(limits: list[str], window: int) -> None:
    assert len(smoothed(limits)) == len(limits)  # type: ignore[arg-type]
    assert len(majority(limits, window)) == len(limits)  # type: ignore[arg-type]


SAMPLES = st.lists(
    st.tuples(st.integers(0, 300), st.integers(0, 300), st.floats(0, 100), st.floats(0, 9000)),
    min_size=1,
    max_size=60,
)


@given(SAMPLES, st.one_of(st.none(), st.integers(1, 256)))
def test_every_sample_is_in_exactly_one_period_and_shares_never_exceed_the_whole(
    figures: list[tuple[int, int, float, float]], max_num_seqs: int | None
) -> None:
    samples = [
        sample(running, waiting, round(kv, 1), round(rate, 1), number=number)
        for number, (running, waiting, kv, rate) in enumerate(figures)
    ]
    run = a_run(set={"max_num_seqs": max_num_seqs} if max_num_seqs else {}, samples=samples)
    found = bottleneck_of(run)
    assert sum(period.samples for period in found.periods) == len(samples)
    assert sum(load_of(run).share_of([span]) for span in load_of(run).busy) <= 1.0 + 1e-9
    assert all(line.file and line.line for line in found.evidence)


def test_an_offline_engine_that_prints_nothing_may_have_worked_all_the_same() -> None:
    silent = replace(
        a_run(), samples=[], kind="offline", startup_complete=True, accesses=Counter(), progress=[]
    )
    assert bottleneck_of(silent).reason == "The engine started; vLLM's lines do not show what it computed"


@pytest.mark.parametrize(
    ("seconds", "words"), [(1.0, "and was shut down within 2 s"), (9.0, "what it computed")]
)
def test_an_offline_engine_that_is_shut_down_at_once_has_computed_nothing(seconds: float, words: str) -> None:
    line = "INFO 10-29 13:01:{:02.0f} [core.py:214] {}"
    lines = [
        line.format(
            5, "Initializing a V1 LLM engine (v0.10.1) with config: model='org/m', speculative_config=None"
        ),
        line.format(25, "init engine (profile, create kv cache, warmup model) took 8.74 seconds"),
        f"DEBUG 10-29 13:01:{25 + seconds:02.0f} [core.py:696] EngineCore exiting.",
    ]
    assert words in analyze(lines).to_markdown()


def test_an_end_without_a_time_says_nothing_on_how_long_an_offline_engine_worked() -> None:
    line = "INFO 10-29 13:01:{:02d} [core.py:214] {}"
    config = "Initializing a V1 LLM engine (v0.10.1) with config: model='org/m', speculative_config=None"
    ready = line.format(25, "init engine (profile, create kv cache, warmup model) took 8.74 seconds")
    text = analyze([line.format(5, config), ready, "Answers: 12, took 64 s", "All done"]).to_markdown()
    assert "was shut down" not in text


@pytest.mark.parametrize(
    ("request_", "name", "words"),
    [
        (("POST", "/v1/completions", 200), "none-clear", "Requests were served"),
        (("POST", "/v1/completions", 500), "none-clear", "No request succeeded"),
        (("GET", "/v1/models", 200), "startup-only", "the start-up and no load"),
        (("GET", "/favicon.ico", 404), "startup-only", "the start-up and no load"),
    ],
)
def test_only_requests_to_the_model_are_a_load(request_: tuple[str, str, int], name: str, words: str) -> None:
    run = a_run()
    run.startup_complete, run.accesses = True, Counter({request_: 3})
    limit = bottleneck_of(run)
    assert limit.name == name
    assert words in limit.reason


def test_arguments_without_slots_leave_no_number_below_the_default_for_them() -> None:
    queue = load((9, {"running": 12, "waiting": 40, "kv": 12.0, "generation": 90.0, "prompt": 5000.0}))
    assert bottleneck_of(a_run(set={"max_model_len": 8192}, samples=queue)).name == "prefill-limited"
    assert bottleneck_of(a_run(samples=queue)).name == "max-num-seqs-limited"


def test_a_queue_without_a_single_prompt_is_no_prefill() -> None:
    queue = load((9, {"running": 12, "waiting": 4, "kv": 12.0, "generation": 900.0}))
    found = bottleneck_of(a_run(set={"max_num_seqs": 256}, samples=queue))
    assert found.name == "none-clear"
    assert "something else holds them back" in found.reason


def test_a_queue_in_a_line_without_prompts_is_not_behind_prompts() -> None:
    """A prompt is counted in the line in which it ends: it was under way in the line before, and not in a line after it."""
    waits = {"running": 3, "waiting": 2, "kv": 12.0, "generation": 30.0}
    run = a_run(
        set={"max_num_seqs": 256},
        samples=load((1, waits), (2, {**waits, "prompt": 1400.0}), (1, waits), (4, waits)),
    )
    found = bottleneck_of(run)
    assert found.name == "prefill-limited"
    assert "in 3 of 8 statistics lines" in found.reason
    assert max(one.line for one in found.evidence) == run.samples[2].line


def test_requests_of_a_batch_that_hardly_decode_while_prompts_are_computed_are_held_up_by_prompts() -> None:
    busy = load((6, {"running": 4, "kv": 12.0, "generation": 1.1, "prompt": 1480.0}))
    found = bottleneck_of(a_run(samples=busy))
    assert found.name == "prefill-limited"
    assert "waited" not in found.reason


def test_an_embedding_model_makes_no_tokens_and_is_not_starved() -> None:
    busy = load((6, {"running": 4, "generation": 0.0, "prompt": 21000.0}))
    run = a_run(reported={"pooler_config": "PoolerConfig(pooling_type='CLS')"}, samples=busy)
    assert bottleneck_of(run).name == "client-limited"


@pytest.mark.parametrize(
    ("network", "limit"), [("NET/Socket", "interconnect-limited"), ("NET/IB", "client-limited")]
)
def test_sixteen_tensor_parallel_ranks_over_tcp_wait_for_the_network(network: str, limit: str) -> None:
    line = f"gpu-a:4101:4101 [0] NCCL INFO {network} : Using [0]eth0:10.0.0.5<0>"
    run = a_run(
        set={"tensor_parallel_size": 16},
        messages=(line,) if "Socket" in line else (),
        samples=load((9, {"running": 1, "generation": 8.0})),
    )
    assert bottleneck_of(run).name == limit
    assert ("inter-node-network-bound" in advice(run)) is (limit == "interconnect-limited")
    assert limit_is_probable(run, "interconnect-limited", load_of(run)) is (limit != "interconnect-limited")


def test_one_prompt_in_each_call_is_the_callers_limit() -> None:
    bars = [
        Progress(Evidence("log", call, ""), done, 1, 3.0 * done, None, 82.0 * done)
        for call in range(12)
        for done in (0, 1)
    ]
    run = a_run(kind="offline", progress=bars)
    assert bottleneck_of(run).name == "client-limited"
    assert "one list" in next(iter(advice(run)["client-concurrency-bound"].changes)).knob


def test_requests_that_were_taken_in_are_a_load_of_which_nothing_is_known() -> None:
    found = bottleneck_of(a_run(messages=("Added request chatcmpl-1.", "Added request chatcmpl-2.")))
    assert found.name == "none-clear"
    assert "2 requests" in found.reason


def test_lines_of_several_engines_are_counted_in_sum() -> None:
    samples = [
        sample(running=1, generation=9.0, engine=number % 2, number=number // 2) for number in range(20)
    ]
    assert "in all 20 statistics lines" in bottleneck_of(a_run(samples=samples)).reason


def test_of_many_ranks_that_crawl_the_network_is_suspected_and_not_blamed() -> None:
    run = a_run(
        set={"tensor_parallel_size": 8, "pipeline_parallel_size": 2},
        samples=load((9, {"running": 1, "generation": 2.9})),
    )
    assert "suspect" in bottleneck_of(run).reason
    assert "different nodes" not in advice(run)["inter-node-network-bound"].title


def test_one_request_that_waits_beside_a_crowd_has_just_come() -> None:
    crowd = {"running": 25, "kv": 22.0, "generation": 900.0, "prompt": 4000.0}
    run = a_run(set={"max_num_seqs": 256}, samples=load((12, crowd), (8, {**crowd, "waiting": 1})))
    found = bottleneck_of(run)
    assert found.name == "client-limited"
    assert "the queue was almost empty" in found.reason
    assert "at most 1 request waited" in advice(run)["client-concurrency-bound"].explanation


def test_an_engine_that_computes_prompts_for_others_is_not_starved_of_tokens() -> None:
    producer = {"kv_transfer_config": {"kv_connector": "NixlConnector", "kv_role": "kv_producer"}}
    busy = load((9, {"running": 3, "kv": 3.0, "generation": 1.4, "prompt": 9000.0}))
    assert bottleneck_of(a_run(set=producer, samples=busy)).name == "client-limited"


@pytest.mark.parametrize(("running", "limit"), [(26, "prefill-limited"), (126, "max-num-seqs-limited")])
def test_max_num_seqs_holds_for_each_rank_of_an_aggregate(running: int, limit: str) -> None:
    """8 ranks of 16 slots take 128 requests: 26 leave most of them free, 126 are 98 %."""
    samples = load((6, {"running": running, "waiting": 9, "kv": 10.0, "prompt": 900.0, "engine": -1}))
    run = a_run(set={"data_parallel_size": 8, "max_num_seqs": 16}, samples=samples)
    assert bottleneck_of(run).name == limit


def test_a_queue_before_an_aggregate_is_shared_among_its_ranks() -> None:
    """40 that wait before 8 ranks are 5 for each of them: 16 + 5 fit 32."""
    samples = load((6, {"running": 128, "waiting": 40, "kv": 10.0, "engine": -1}))
    found = advice(a_run(set={"data_parallel_size": 8, "max_num_seqs": 16}, samples=samples))
    assert knobs(found["scheduler-limit-not-memory"]) == {"--max-num-seqs": 32}
    assert "of each of 8 ranks" in found["scheduler-limit-not-memory"].explanation


def test_a_line_with_free_cache_and_many_prompts_is_not_counted_among_those_of_a_full_one() -> None:
    """Requests that end together leave room, and the steps until it is full are those of prompts."""
    full = {"running": 250, "waiting": 500, "kv": 99.7, "prompt": 9000.0, "generation": 2900.0}
    freed = {**full, "running": 190, "kv": 82.0, "prompt": 6000.0}
    run = a_run(
        set={"max_num_seqs": 256}, samples=load((1, full), (1, freed), (1, full), (1, freed), (1, full))
    )
    found = bottleneck_of(run)
    assert found.reason.startswith("The KV cache limited concurrency in 3 of 5 statistics lines with load")
    assert found.reason.endswith("Otherwise limited by prefill (2 lines)")
    assert [one.name for one in found.periods] == ["kv-cache-limited"], "the time around them is the cache's"


def test_a_line_in_which_a_queue_has_just_begun_is_not_behind_prompts() -> None:
    begins = {"running": 5, "waiting": 8, "kv": 0.3, "prompt": 51.0, "generation": 5.0}
    rush = {"running": 256, "waiting": 694, "kv": 22.0, "prompt": 15000.0, "generation": 6000.0}
    found = bottleneck_of(a_run(set={"max_num_seqs": 256}, samples=load((1, begins), (3, rush))))
    assert found.name == "max-num-seqs-limited"
    assert "prefill" not in found.reason


def test_a_queue_in_one_of_three_lines_is_not_what_prompts_hold_up() -> None:
    """Long prompts take the steps; one request waits once."""
    starved = {"running": 9, "kv": 62.8, "prompt": 3400.0, "generation": 5.7}
    run = a_run(samples=load((2, starved), (1, {**starved, "waiting": 1}), (2, starved)))
    found = bottleneck_of(run)
    assert found.name == "prefill-limited"
    assert "running requests got at most 0.63 tokens/s each" in found.reason
    explanation = advice(run)["prefill-bound-queueing"].explanation
    assert "waited" not in explanation
    assert "got at most 0.63 tokens/s each" in explanation


def test_slots_are_called_free_only_where_the_log_shows_how_many_there_are() -> None:
    queue = load((8, {"running": 16, "waiting": 11, "kv": 50.0, "prompt": 5900.0, "generation": 231.0}))
    for number, line in enumerate(queue):
        queue[number] = replace(line, running=100 + number)
    unknown, known = a_run(samples=queue), a_run(set={"max_num_seqs": 256}, samples=queue)
    assert "although the KV cache had room" in bottleneck_of(unknown).reason
    assert "while slots and KV cache were free" in bottleneck_of(known).reason
    found = advice(unknown)["prefill-bound-queueing"]
    assert not found.avoid
    assert "either prompts fill the steps, or as many run as max_num_seqs allows" in found.explanation
    assert "(median 5,900 prompt and 231 generated tokens/s)" in found.explanation
    assert "--max-num-seqs" in found.changes[0].knob


def test_max_num_seqs_holds_back_no_queue_beside_lines_in_which_far_more_requests_run() -> None:
    queue = load((8, {"running": 16, "waiting": 11, "kv": 50.0, "prompt": 5900.0, "generation": 231.0}))
    growing = [replace(line, running=10 + 6 * number) for number, line in enumerate(queue)]
    run = a_run(samples=growing)
    assert "max_num_seqs" not in bottleneck_of(run).reason
    found = advice(run)["prefill-bound-queueing"]
    assert "max_num_seqs" not in f"{found.title} {found.explanation} {found.changes}"
    assert found.confidence == "medium"


def test_a_batch_that_fills_all_slots_without_a_queue_is_not_called_too_small() -> None:
    run = a_run(
        set={"max_num_seqs": 256}, samples=load((12, {"running": 256, "kv": 38.0, "generation": 900.0}))
    )
    assert bottleneck_of(run).reason.endswith("with up to 256 of 256 max_num_seqs slots taken")
    assert "client-concurrency-bound" not in advice(run)


@pytest.mark.parametrize(
    ("requests", "said"),
    [
        (0, "neither statistics lines nor requests"),
        (1, "1 received request and no"),
        (2, "2 received requests and no"),
    ],
)
def test_a_log_without_load_says_which_requests_it_has(requests: int, said: str) -> None:
    line = "Received request cmpl-{}: prompt: 'a', params: SamplingParams(n=1), prompt_token_ids: None, lora_request: None."
    run = a_run(messages=tuple(line.format(number) for number in range(requests)))
    run.startup_complete, run.config, run.measured = False, {}, {}
    assert said in bottleneck_of(run).reason


def test_a_piece_of_a_log_that_shows_a_sleep_says_what_it_freed() -> None:
    run = a_run(messages=("Sleep mode freed 21.50 GiB memory, 3.25 GiB memory is still in use.",))
    run.startup_complete, run.config, run.measured = False, {}, {}
    found = bottleneck_of(run)
    assert found.reason.startswith("Sleep mode freed 21.5 GiB of the card, 3.25 GiB stayed in use")
    assert [line.line for line in found.evidence] == [10]


def test_a_server_that_is_shut_down_without_a_request_says_how_long_it_was_up() -> None:
    line = "INFO 10-29 13:01:{} [{}] {}"
    text = analyze([
        line.format("05", "api_server.py:1034", "vLLM API server version 0.15.1"),
        line.format("07", "core.py:96", "Initializing a V1 LLM engine (v0.15.1) with config: model='org/m', speculative_config=None"),
        line.format("35", "core.py:214", "init engine (profile, create kv cache, warmup model) took 8.74 seconds"),
        "INFO:     Application startup complete.",
        line.format("47", "launcher.py:110", "Shutting down FastAPI HTTP server."),
    ]).to_markdown()  # fmt: skip
    assert (
        "was ready after 30 s and was shut down 12 s later; the log shows no request to the model [L4, L5]"
        in text
    )
