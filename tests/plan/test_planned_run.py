"""A plan is judged by the run that it leads to: what would not start, crowd the cache or bring a new finding is held back."""

from __future__ import annotations

import re

from tests.rules.making import a_run, load
from vllm_logdoctor.plan import advice_on, plan_of
from vllm_logdoctor.plan.planned import planned_run
from vllm_logdoctor.rules.model import Change, Finding
from vllm_logdoctor.run.model import Run

FULL = {"running": 100, "waiting": 60, "kv": 97.0}


def finding(id: str, *changes: Change, kind: str = "performance", exhausts: str | None = None) -> Finding:
    return Finding(id, kind, "high", "high", id, "", changes=changes, exhausts=exhausts)  # type: ignore[arg-type]


def flag(knob: str, before: object, after: object, safety: str = "needs-test") -> Change:
    return Change(knob, "flag", before, after, safety)  # type: ignore[arg-type]


def server(tokens: float = 400_000, length: int = 8192, **settings: object) -> Run:
    """A server on a card of 79.2 GiB with 57 GiB of weights."""
    return a_run(
        set={"max_model_len": length, "gpu_memory_utilization": 0.9, "max_num_seqs": 256, **settings},
        default={"kv_cache_dtype": "auto", "dtype": "bfloat16"},
        measured={
            "kv_cache_tokens": tokens,
            "available_kv_cache_gib": 12.0,
            "model_weights_gib": 57.0,
        },
        samples=load((20, FULL)),
        version="0.16.0",
    )


def reasons(run: Run, *findings: Finding) -> dict[str, str]:
    return dict(plan_of(run, findings).refused)


def test_a_smaller_share_that_leaves_less_than_one_request_is_held_back_with_the_length_that_fits() -> None:
    out_of_memory = finding(
        "oom-warmup", flag("--gpu-memory-utilization", 0.9, 0.85), kind="failure", exhausts="device-memory"
    )
    run = server(tokens=400_000, length=400_000)
    assert "of one request of 400,000 tokens" in reasons(run, out_of_memory)["--gpu-memory-utilization"]
    assert "--max-model-len" in reasons(run, out_of_memory)["--gpu-memory-utilization"]
    assert "--gpu-memory-utilization" not in reasons(server(length=8192), out_of_memory)


def test_a_share_of_the_card_below_the_weights_is_held_back() -> None:
    busy = finding(
        "gpu-memory-not-free-at-start", flag("--gpu-memory-utilization", 0.9, 0.67), kind="failure"
    )
    assert "start would fail" in reasons(server(), busy)["--gpu-memory-utilization"]


def test_what_needs_memory_waits_after_any_out_of_memory() -> None:
    smaller = flag("--max-num-batched-tokens", 8192, 4096)
    failure = finding("oom", smaller, kind="failure", exhausts="device-memory")
    max_num_seqs = finding("max_num_seqs", flag("--max-num-seqs", 256, 512))
    assert "needs memory" in reasons(server(), failure, max_num_seqs)["--max-num-seqs"]


def test_a_wider_cache_type_is_held_back_while_the_cache_is_full() -> None:
    fallback = finding("engine-fell-back-to-v0", flag("--kv-cache-dtype", "fp8", None))
    assert "0.5 times the tokens" in reasons(server(kv_cache_dtype="fp8"), fallback)["--kv-cache-dtype"]


def test_a_value_that_the_release_does_not_take_is_held_back() -> None:
    wrong = finding("a", flag("--kv-cache-dtype", "auto", "fp3"))
    assert "none of the values" in reasons(server(), wrong)["--kv-cache-dtype"]


def test_one_change_of_the_answers_at_a_time() -> None:
    risky = [
        finding("a", flag("--kv-cache-dtype", "auto", "fp8", "changes-results")),
        finding("b", flag("--quantization", None, "fp8", "changes-results")),
    ]
    assert "one at a time" in reasons(server(), *risky)["--quantization"]


def test_fixed_capture_sizes_follow_a_raised_number_of_sequences() -> None:
    run = a_run(
        set={
            "max_num_seqs": 4,
            "compilation_config": {"mode": "VLLM_COMPILE", "cudagraph_capture_sizes": [1, 2, 4]},
        },
        samples=load((20, {"running": 4, "waiting": 60, "kv": 5.0})),
        version="0.16.0",
    )
    plan = plan_of(run, [finding("scheduler-limit-not-memory", flag("--max-num-seqs", 4, 64))])
    after = {item.change.knob: item.change.after for item in plan.changes}
    assert after == {"--max-num-seqs": 64, "--compilation-config": {"mode": "VLLM_COMPILE"}}


def test_capture_sizes_that_are_large_enough_stay() -> None:
    run = a_run(set={"max_num_seqs": 4, "cudagraph_capture_sizes": [1, 64]}, version="0.16.0")
    plan = plan_of(run, [finding("a", flag("--max-num-seqs", 4, 64))])
    assert [item.change.knob for item in plan.changes] == ["--max-num-seqs"]


def test_the_planned_run_has_the_cache_and_the_load_that_the_change_gives() -> None:
    planned = planned_run(server(), [flag("--kv-cache-dtype", "auto", "fp8")])
    assert planned.room == 2.0
    assert planned.run.measure("kv_cache_tokens") == 800_000
    assert planned.run.setting("kv_cache_dtype") == "fp8"
    now = planned.run.samples[0]
    assert (now.running, now.waiting) == (160, 0)


def test_a_drop_of_fp8_that_fills_the_cache_again_is_held_back_beside_more_sequences() -> None:
    """64 sequences of 20 % of an fp8 cache: 256 of them fill 80 %, and twice that with 16-bit elements."""
    slots_taken = {"running": 64, "waiting": 5000, "kv": 20.0}
    run = a_run(
        set={"max_model_len": 8192, "max_num_seqs": 64, "kv_cache_dtype": "fp8", "enforce_eager": True},
        measured={"kv_cache_tokens": 400_000, "available_kv_cache_gib": 24.0, "model_weights_gib": 15.0},
        samples=load((20, slots_taken)),
        version="0.16.0",
    )
    plan = plan_of(
        run,
        [
            finding("scheduler-limit-not-memory", flag("--max-num-seqs", 64, 256)),
            finding("engine-fell-back-to-v0", flag("--kv-cache-dtype", "fp8", None)),
        ],
    )
    assert [item.change.knob for item in plan.changes] == ["--max-num-seqs"]
    assert "KV cache full" in dict(plan.refused)["--kv-cache-dtype"]


def test_each_request_keeps_its_pace_in_a_planned_load() -> None:
    """A forecast that shared the same tokens among more requests would look like a card that has become slow."""
    run = server()
    now = run.samples[0]
    then = planned_run(run, [flag("--kv-cache-dtype", "auto", "fp8")]).run.samples[0]
    assert then.generation / (then.running or 1) == now.generation / (now.running or 1)


def test_a_change_of_max_num_seqs_acts_where_the_log_does_not_print_it() -> None:
    run = a_run(samples=load((20, {"running": 64, "waiting": 236, "kv": 3.0})), version="0.8.5")
    then = planned_run(run, [flag("--max-num-seqs", 64, 512)]).run.samples[0]
    assert (then.running, then.waiting) == (300, 0)


def test_a_cache_below_one_request_gets_the_length_that_it_holds() -> None:
    run = a_run(
        set={"max_model_len": 131_072},
        measured={"kv_cache_tokens": 69_920, "max_concurrency": 0.53},
        version="0.8.4",
    )
    assert plan_of(run, advice_on(run)).changes[0].change.after == 67_584


def exactly_one_request(**figures: object) -> Run:
    """A server whose cache holds one request of 65,536 tokens, with one sequence at a time and a queue."""
    return a_run(
        set={"max_model_len": 65_536, "max_num_seqs": 1, "gpu_memory_utilization": 0.9},
        measured={
            "kv_cache_tokens": 65_600,
            "available_kv_cache_gib": 8.0,
            "model_weights_gib": 57.0,
            "max_concurrency": 1.0,
        },
        samples=load((20, {"running": 1, "waiting": 60, "kv": 0.4, **figures})),
        version="0.16.0",
    )


MORE_SEQUENCES = finding("scheduler-limit-not-memory", flag("--max-num-seqs", 1, 64))


def test_a_step_that_misses_one_request_by_a_hair_comes_with_the_context_that_fits() -> None:
    plan = plan_of(exactly_one_request(), [MORE_SEQUENCES])
    changes = {item.change.knob: item for item in plan.changes}
    assert changes["--max-num-seqs"].change.after == 64
    shorter = changes["--max-model-len"]
    assert 0.9 * 65_536 <= int(shorter.change.after) < 65_536
    assert "this load held at most 262 tokens at once" in shorter.settled


def test_a_context_that_this_load_uses_is_not_shortened() -> None:
    run = exactly_one_request(kv=99.0)
    assert "--max-num-seqs" in dict(plan_of(run, [MORE_SEQUENCES]).refused)


def test_for_long_context_no_step_takes_any_of_it() -> None:
    plan = plan_of(exactly_one_request(), [MORE_SEQUENCES], "long-context")
    assert plan.changes == ()


def test_the_plan_names_the_limit_that_comes_next_without_a_simulated_load() -> None:
    """300 requests wait for 64 seats in a cache that they fill to 9 %: with 512 seats the client is next."""
    run = a_run(
        set={"max_num_seqs": 64, "enforce_eager": False},
        measured={"kv_cache_tokens": 400_000, "available_kv_cache_gib": 24.0, "model_weights_gib": 15.0},
        samples=load((20, {"running": 64, "waiting": 236, "kv": 2.0})),
        version="0.16.0",
    )
    plan = plan_of(run, advice_on(run))
    assert [item.change.knob for item in plan.changes if item.change.kind == "flag"] == ["--max-num-seqs"]
    limit = plan.next_limits[0]
    assert (limit.name, limit.stays) == ("client", False)
    assert limit.where == ""


def test_every_limit_that_a_planned_run_newly_has_is_named() -> None:
    """With four times the requests the cache that a step reads is larger than the weights: bandwidth is next beside the client."""
    run = a_run(
        set={"max_num_seqs": 64},
        measured={"kv_cache_tokens": 400_000, "available_kv_cache_gib": 58.0, "model_weights_gib": 15.27},
        samples=load((20, {"running": 64, "waiting": 192, "kv": 10.3, "generation": 3400.0})),
        version="0.16.0",
    )
    limits = {limit.name: limit.where for limit in plan_of(run, advice_on(run)).next_limits}
    assert list(limits) == ["client", "memory bandwidth"]
    assert "15.27 GiB of weights and 23.9 GiB of KV cache" in limits["memory bandwidth"]


def test_a_limit_that_the_plan_does_not_move_is_named_as_that() -> None:
    run = a_run(
        set={"enforce_eager": True},
        samples=load((20, {"running": 8, "generation": 300.0, "kv": 2.0})),
        version="0.16.0",
    )
    limits = plan_of(run, advice_on(run)).next_limits
    assert [(limit.name, limit.stays) for limit in limits] == [("client", True)]


def test_no_limit_is_named_where_no_line_shows_a_request() -> None:
    """A pooling server of V0 prints tokens, and 0 requests running."""
    run = a_run(
        set={"enforce_eager": True},
        samples=load((20, {"running": 0, "generation": 80.0, "prompt": 3500.0, "kv": 0.0})),
        version="0.8.5",
    )
    assert plan_of(run, advice_on(run)).next_limits == ()


FEWER_RANKS = finding(
    "small-model-split-over-cards", flag("--tensor-parallel-size", 4, 1), Change("4 servers", "action")
)


def four_ranks() -> Run:
    return a_run(
        set={"tensor_parallel_size": 4, "max_model_len": 131_072, "gpu_memory_utilization": 0.9},
        measured={
            "kv_cache_tokens": 1_124_688,
            "available_kv_cache_gib": 34.3,
            "model_weights_gib": 3.77,
            "max_concurrency": 8.58,
        },
        samples=load((20, {"running": 1, "generation": 112.0, "kv": 0.2})),
        version="0.16.0",
    )


def test_fewer_long_requests_in_a_replica_are_named_with_their_number() -> None:
    run = four_ranks()
    limits = plan_of(run, [*advice_on(run), FEWER_RANKS]).next_limits
    long = next(limit for limit in limits if limit.name.startswith("KV cache, with requests of full length"))
    assert re.search(r"1\.\d+ requests of 131,072 tokens", long.where)


def test_for_long_context_fewer_long_requests_are_a_finding_that_holds_the_whole_step_back() -> None:
    run = four_ranks()
    plan = plan_of(run, [*advice_on(run, "long-context"), FEWER_RANKS], "long-context")
    assert {"--tensor-parallel-size", "4 servers"}.isdisjoint(item.change.knob for item in plan.changes)
    assert {"--tensor-parallel-size", "4 servers"} <= dict(plan.refused).keys()
