"""Why a change is left out of a plan: each reason with a change that has it, and the next one that has not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from tests.rules.making import a_run, load, record
from tests.tables import for_each
from vllm_logdoctor.errors import LogdoctorError
from vllm_logdoctor.plan.compose import with_capture_sizes
from vllm_logdoctor.plan.feasible import context_that_fits, obstacle, requests_held
from vllm_logdoctor.plan.merge import merge
from vllm_logdoctor.plan.model import PlannedChange
from vllm_logdoctor.plan.objectives import direction, suited
from vllm_logdoctor.plan.planned import asked_capture_size, planned_run
from vllm_logdoctor.plan.whatif import check_setting, in_order_of_application, memory_with, parse_value
from vllm_logdoctor.rules.capacity.memory import Memory, memory_of
from vllm_logdoctor.rules.capacity.weights import weights_of
from vllm_logdoctor.rules.load import load_of
from vllm_logdoctor.rules.model import Change, Finding
from vllm_logdoctor.run.model import Run, Value

SHARE = "--gpu-memory-utilization"
SEATS = "--max-num-seqs"
BUDGET = "--max-num-batched-tokens"
RANKS = "--tensor-parallel-size"


def flag(knob: str, before: object, after: object, safety: str = "needs-test") -> Change:
    return Change(knob, "flag", before, after, safety)  # type: ignore[arg-type]


def server(kv: float = 50.0, length: int = 8192, platform: str = "cuda", **settings: object) -> Run:
    """A server with 12 GiB of cache for 400,000 tokens and 57 GiB of weights on a card of 79.2 GiB."""
    return a_run(
        set={"max_model_len": length, "gpu_memory_utilization": 0.9, "max_num_seqs": 256, **settings},
        default={"kv_cache_dtype": "auto", "dtype": "bfloat16"},
        measured={"kv_cache_tokens": 400_000, "available_kv_cache_gib": 12.0, "model_weights_gib": 57.0, "max_concurrency": 400_000 / length},
        samples=load((20, {"running": 100, "kv": kv})),
        version="0.16.0",
        platform=platform,
    )  # fmt: skip


def named(model: str, **settings: object) -> Run:
    """A start that ended before the weights were printed."""
    return a_run(
        set={"gpu_memory_utilization": 0.9, **settings}, model=Value(model, "explicit"), version="0.16.0"
    )


def why(run: Run, change: Change, repairs: bool = False) -> str:
    return obstacle(planned_run(run, [change]), change, load_of(run), repairs)


@for_each(
    ("run", "change", "reason"),
    [
        (server(), flag(SHARE, 0.9, 0.95), ""),
        # 0.8 leaves 12 - 7.92 GiB: 0.34 times the tokens. 0.7 leaves nothing.
        (server(kv=30.0), flag(SHARE, 0.9, 0.8), ""),
        (server(kv=31.0), flag(SHARE, 0.9, 0.8), "the cache would hold 0.34 times the tokens, and this load used up to 31 % of it"),
        (server(kv=0.0), flag(SHARE, 0.9, 0.8), ""),
        (server(), flag(SHARE, 0.9, 0.7), "the start would fail"),
        # One request of 136,000 tokens fits 136,000 tokens.
        (server(kv=5.0, length=135_000), flag(SHARE, 0.9, 0.8), ""),
        (server(kv=5.0, length=137_000), flag(SHARE, 0.9, 0.8), "with 0.8 the cache would hold 136,000 tokens, 0.99 of one request of 137,000 tokens: the start would fail; with it --max-model-len 132096 would fit"),
        # It did not fit before either, and now no worse.
        (server(kv=5.0, length=500_000), flag(SHARE, 0.9, 0.91), ""),
        (server(kv=5.0, length=500_000), flag(SHARE, 0.9, 0.89), "of one request of 500,000 tokens"),
        (server(), flag("--kv-cache-dtype", "auto", "fp8"), ""),
        (server(), flag("--kv-cache-dtype", "auto", "int3"), "int3 is none of the values that this release takes: auto, "),
        (server(max_num_batched_tokens=2048), flag(SEATS, 256, 2048), ""),
        (server(max_num_batched_tokens=2048), flag(SEATS, 256, 2049), "max_num_batched_tokens (2,048) must not be smaller than max_num_seqs (2,049)"),
        (server(), flag(BUDGET, 8192, 255), "max_num_batched_tokens (255) must not be smaller than max_num_seqs (256)"),
        (server(max_num_batched_tokens=128), flag("--block-size", 16, 32), ""),
        (server(), Change("send more requests", "action"), ""),
    ],
)  # fmt: skip
def test_an_obstacle_of_a_change(run: Run, change: Change, reason: str) -> None:
    found = why(run, change)
    assert reason in found
    assert bool(found) is bool(reason)


def test_a_remedy_may_cost_speed_and_must_start() -> None:
    assert why(server(kv=90.0), flag(SHARE, 0.9, 0.8)) != ""
    assert why(server(kv=90.0), flag(SHARE, 0.9, 0.8), repairs=True) == ""
    assert "the start would fail" in why(server(), flag(SHARE, 0.9, 0.7), repairs=True)


@pytest.mark.parametrize(
    ("model", "settings", "gib", "basis"),
    [
        ("Qwen/Qwen3-32B", {}, 64e9 / 1024**3, "32 billion parameters by the model's name"),
        ("Qwen3.5-122B-A10B", {"tensor_parallel_size": 4}, 61e9 / 1024**3, "122 billion parameters by the model's name"),
        ("Qwen/Qwen3-32B", {"tensor_parallel_size": 2, "pipeline_parallel_size": 2}, 16e9 / 1024**3, "32 billion"),
        ("Qwen/Qwen3-32B", {"quantization": "fp8"}, 32e9 / 1024**3, "32 billion"),
        ("Qwen/Qwen3-32B", {"dtype": "float32"}, 128e9 / 1024**3, "32 billion"),
        ("/models/qwen3-1.7b/", {}, 3.4e9 / 1024**3, "1.7 billion"),
        ("Qwen/Qwen3-32B-AWQ", {}, None, ""),
        ("Qwen/Qwen3-32B", {"quantization": "made-up"}, None, ""),
        ("org/model-v2", {}, None, ""),
    ],
)  # fmt: skip
def test_weights_that_no_line_prints_are_computed_from_the_name(
    model: str, settings: dict[str, object], gib: float | None, basis: str
) -> None:
    found, told = weights_of(named(model, **settings))
    assert found == (gib and pytest.approx(gib, rel=0.02))
    assert told.startswith(basis)


@pytest.mark.parametrize(
    ("run", "change", "fits"),
    [
        # 32 billion parameters of 16 bits are 59.6 GiB.
        (named("Qwen/Qwen3-32B"), flag(SHARE, 0.9, 0.76), True),
        (named("Qwen/Qwen3-32B"), flag(SHARE, 0.9, 0.75), False),
        (named("Qwen/Qwen3-32B", tensor_parallel_size=2), flag(RANKS, 2, 1), True),
        (named("Qwen/Qwen3-70B", tensor_parallel_size=2), flag(RANKS, 2, 1), False),
        (named("Qwen/Qwen3-70B"), flag("--block-size", 16, 32), True),
    ],
)
def test_weights_must_fit_the_share_of_the_card(run: Run, change: Change, fits: bool) -> None:
    """The card is named by the error that ended the start."""
    run.records = [
        record("CUDA out of memory. GPU 0 has a total capacity of 79.25 GiB of which 1.00 GiB is free.")
    ]
    found = why(run, change)
    assert bool(found) is not fits
    if not fits:
        assert "GiB of weights on each card" in found


def test_printed_weights_are_those_of_each_rank_before_a_change_of_ranks() -> None:
    """57 GiB on each of two ranks are 114 on one, and where the cache is known the law has moved them already."""
    run = a_run(set={"gpu_memory_utilization": 0.9, "tensor_parallel_size": 2}, measured={"model_weights_gib": 57.0}, version="0.16.0")  # fmt: skip
    run.records = [
        record("CUDA out of memory. GPU 0 has a total capacity of 79.25 GiB of which 1.00 GiB is free.")
    ]
    assert "less than the 114 GiB of weights on each card (as printed)" in why(run, flag(RANKS, 2, 1))
    assert why(run, flag(RANKS, 2, 4)) == ""
    assert why(run, flag(SHARE, 0.9, 0.75)) == ""


def test_requests_are_held_where_the_log_tells_length_and_number() -> None:
    run = server(length=100_000)
    before = memory_of(run)
    assert before is not None
    assert requests_held(before, before.scaled(0.5, 0.5, 0.5, "half")) == (4.0, 2.0)
    for unknown in (replace(before, length=None), replace(before, concurrency=None)):
        assert requests_held(unknown, unknown) is None
    assert requests_held(None, before) is None
    assert context_that_fits(planned_run(run, [])) == 391_168  # 98 % of 400,000, in steps of 1,024


@pytest.mark.parametrize(
    ("settings", "tokens"),
    [({"kv_cache_dtype": "fp8"}, 800_000), ({"seed": 1}, 400_000), ({"kv_cache_dtype": "fp8", "a_flag_of_the_future": 1}, 800_000)],
)  # fmt: skip
def test_the_memory_of_a_planned_run_leaves_out_what_no_law_answers(
    settings: dict[str, object], tokens: int
) -> None:
    found = memory_with(server(), settings)
    assert isinstance(found, Memory)
    assert found.tokens == tokens
    assert "the start would fail" in str(memory_with(server(), {**settings, "gpu_memory_utilization": 0.5}))


def test_fixed_sizes_are_applied_last() -> None:
    given = {"kv_cache_memory_bytes": 1, "--max-model-len": 2, "block-size": 3, "num_gpu_blocks_override": 4}
    names = [name for name, _ in in_order_of_application(given)]
    assert names == ["block_size", "max_model_len", "kv_cache_memory_bytes", "num_gpu_blocks_override"]


def test_a_planned_run_reads_as_its_log_would() -> None:
    """Arguments, settings, variables and figures are those of the plan; a dropped flag takes the default, and its lines are gone."""
    run = server(enforce_eager=True, seed=3)
    changes = [
        flag("--kv-cache-dtype", "auto", "fp8"), flag("--enforce-eager", True, None), flag("--no-enable-prefix-caching", None, True),
        Change("VLLM_USE_V1", "env", None, "1"), Change("VLLM_PORT", "env", "1", None), Change("think", "action"),
    ]  # fmt: skip
    planned = planned_run(run, changes)
    assert planned.room == 2.0
    assert planned.run.setting("kv_cache_dtype") == "fp8"
    assert planned.run.setting("enforce_eager") is False
    assert planned.run.setting("enable_prefix_caching") is False
    assert planned.run.arguments["seed"] == 3
    assert {name: value.value for name, value in planned.run.environment.items()} == {"VLLM_USE_V1": "1"}
    assert [
        planned.run.measure(name)
        for name in ("kv_cache_tokens", "model_weights_gib", "available_kv_cache_gib")
    ] == [800_000, 57.0, 12.0]
    assert planned.run.measure("max_concurrency") == 97.66
    assert run.setting("enforce_eager") is True
    assert max(sample.kv_usage or 0 for sample in planned.run.samples) == 25.0


def test_a_cpu_gets_the_cache_that_its_variable_says() -> None:
    change = Change("VLLM_CPU_KVCACHE_SPACE", "env", 4, 12)
    planned = planned_run(server(platform="cpu"), [change])
    assert planned.room == 3.0
    assert (planned.run.measure("kv_cache_tokens"), planned.run.measure("available_kv_cache_gib")) == (
        1_200_000,
        36.0,
    )
    assert (
        planned_run(server(platform="cpu"), [Change("VLLM_CPU_KVCACHE_SPACE", "env", None, 12)]).room == 1.0
    )


def test_the_line_on_graphs_inside_the_budget_names_the_new_share() -> None:
    line = (
        "CUDA graph memory profiling is enabled (default since v0.21.0). The current --gpu-memory-utilization=0.9000 is equivalent to"
        " --gpu-memory-utilization=0.8700 without CUDA graph memory profiling. To maintain the same effective KV cache size as before,"
        " increase --gpu-memory-utilization to 0.9300. To disable, set VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS=0."
    )
    run = a_run(
        set={"gpu_memory_utilization": 0.9},
        measured={"kv_cache_tokens": 1000},
        messages=(line,),
        version="0.21.0",
    )
    event = planned_run(run, [flag(SHARE, 0.9, 0.95)]).run.messages["graph-memory-equivalent"].first[0]
    assert (event.number("utilization"), event.number("equivalent")) == (0.95, pytest.approx(0.92))
    assert run.messages["graph-memory-equivalent"].first[0].number("utilization") == 0.9


@pytest.mark.parametrize(
    ("arguments", "wanted", "dropped"),
    [
        ({"max_cudagraph_capture_size": 64}, 128, {"--max-cudagraph-capture-size": None}),
        ({"max_cudagraph_capture_size": 128}, 128, {}),
        ({"cudagraph_capture_sizes": [1, 2, 64]}, 128, {"--cudagraph-capture-sizes": None}),
        ({"compilation_config": {"cudagraph_capture_sizes": [1, 64], "mode": 3}}, 128, {"--compilation-config": {"mode": 3}}),
        ({"compilation_config": {"cudagraph_capture_sizes": [1, 64]}}, 128, {"--compilation-config": None}),
        ({"compilation_config": {"cudagraph_capture_sizes": [1, 128]}}, 128, {}),
    ],
)  # fmt: skip
def test_capture_sizes_below_the_new_slots_are_dropped(
    arguments: dict[str, Any], wanted: int, dropped: dict[str, Any]
) -> None:
    raised = PlannedChange(flag(SEATS, 64, wanted), ("a",))
    other = PlannedChange(flag("--seed", 0, 1), ("b",))
    found = with_capture_sizes(a_run(set=arguments), [raised, other])
    assert [item.change.knob for item in found] == [SEATS, *dropped, "--seed"]
    assert {item.change.knob: item.change.after for item in found[1:-1]} == dropped
    assert asked_capture_size(a_run(set=arguments)) in (64, 128)
    assert with_capture_sizes(a_run(set=arguments), [other]) == [other]


def finding(
    id: str, *changes: Change, kind: str = "performance", severity: str = "high", exhausts: str | None = None
) -> Finding:
    return Finding(id, kind, severity, "high", id, "", changes=changes, exhausts=exhausts)  # type: ignore[arg-type]


FULL_CACHE = finding("kv", Change("make room", "action"), exhausts="kv-cache")
OUT_OF_MEMORY = finding("oom", Change("look", "action"), kind="failure", exhausts="device-memory")


@for_each(
    ("first", "change", "reason"),
    [
        (OUT_OF_MEMORY, flag(SEATS, 64, 128), "needs memory, and the run ran out of it"),
        (OUT_OF_MEMORY, flag(SEATS, 64, 32), None),
        (OUT_OF_MEMORY, flag(SEATS, None, 32), "needs memory, and the run ran out of it"),
        (OUT_OF_MEMORY, flag("--enforce-eager", True, None), "needs memory, and the run ran out of it"),
        (OUT_OF_MEMORY, flag("--enforce-eager", None, True), None),
        (OUT_OF_MEMORY, flag(SEATS, 64, None), None),
        (OUT_OF_MEMORY, flag("--seed", 1, 2), None),
        (FULL_CACHE, flag(SEATS, 64, 128), "the KV cache is full: make room first"),
        (FULL_CACHE, flag(BUDGET, 2048, 8192), "the KV cache is full: make room first"),
        (FULL_CACHE, flag(SEATS, 64, 32), None),
        (FULL_CACHE, flag(SHARE, 0.8, 0.9), None),
        (finding("x"), flag("--seed", 1, 1), "has this value already"),
        (finding("x"), flag("--seed", None, None), None),
        (finding("x"), flag("--swap-space", None, 16), "does not exist in vLLM 0.18.0"),
        (finding("lower", flag(SHARE, 0.9, 0.8)), flag(SEATS, 64, 128), "puts more on each card, and the share of the device is lowered"),
        (finding("lower", flag(SHARE, 0.9, 0.8)), flag(RANKS, 4, 2), "puts more on each card"),
        (finding("lower", flag(SHARE, 0.9, 0.8)), flag(RANKS, 2, 4), None),
        (finding("more", flag(SEATS, 64, 128)), flag(SHARE, 0.9, 0.8), "was worked out for what each card holds now"),
        (finding("more", flag(SEATS, 64, 128)), flag(SHARE, 0.8, 0.9), None),
    ],
)  # fmt: skip
def test_changes_that_do_not_go_together(first: Finding, change: Change, reason: str | None) -> None:
    merged = merge(a_run(version="0.18.0"), [first, finding("second", change)])
    refused = dict(merged.refused)
    assert (change.knob in refused) is (reason is not None)
    assert (reason or "") in refused.get(change.knob, "")
    assert (change.knob in [item.change.knob for item in merged.changes]) is (reason is None)


@pytest.mark.parametrize(
    ("strong", "weak", "void"),
    [
        (flag("--kv-cache-memory-bytes", None, 5), flag(SHARE, 0.8, 0.9), True),
        (flag("--num-gpu-blocks-override", 9, None), flag(SHARE, 0.8, 0.9), False),
        (flag("--num-gpu-blocks-override", 9, 99), flag(SHARE, 0.8, 0.9), True),
        (flag("--enforce-eager", None, True), flag("--max-cudagraph-capture-size", 8, 16), True),
        (flag("--enforce-eager", True, False), flag("--max-cudagraph-capture-size", 8, 16), False),
    ],
)
def test_what_another_change_makes_void_is_left_out(strong: Change, weak: Change, void: bool) -> None:
    merged = merge(a_run(version="0.18.0"), [finding("a", strong), finding("b", weak)])
    assert ((weak.knob, f"has no effect beside {strong.knob}") in merged.refused) is void
    assert [item.change.knob for item in merged.changes] == [strong.knob] + ([] if void else [weak.knob])


def test_flags_come_before_what_is_done_by_hand_and_information_changes_nothing() -> None:
    by_hand = finding("hand", Change("look", "action"), flag("--seed", 1, 2))
    told = finding("told", flag("--port", 1, 2), severity="info")
    merged = merge(
        a_run(version="0.18.0"), [by_hand, told, finding("c", Change("VLLM_USE_V1", "env", None, "1"))]
    )
    assert [item.change.knob for item in merged.changes] == ["--seed", "VLLM_USE_V1", "look"]


@pytest.mark.parametrize(
    ("objective", "change", "reason"),
    [
        ("latency", flag(SEATS, 64, 128), "each request gets slower"),
        ("latency", flag(SEATS, 128, 64), None),
        ("latency", flag(BUDGET, 2048, 8192), "larger steps delay"),
        ("memory", flag(SHARE, 0.8, 0.9), "takes more of the device"),
        ("memory", flag("--kv-cache-memory-bytes", None, 5), "takes more of the device"),
        ("memory", flag("--enforce-eager", True, None), "CUDA graphs take memory"),
        ("startup", flag("--optimization-level", 0, None), "make the start longer"),
        ("cost", flag(RANKS, 1, 2), "takes more cards"),
        ("cost", flag(RANKS, 2, 1), None),
        ("long-context", flag("--max-model-len", 8192, 4096), "refuses the longest requests"),
        ("throughput", flag(SEATS, 64, 128), None),
    ],
)
def test_an_objective_leaves_out_what_pays_for_another(
    objective: str, change: Change, reason: str | None
) -> None:
    step = [
        PlannedChange(change, ("a",)),
        PlannedChange(flag("--seed", 1, 2), ("a", "b")),
        PlannedChange(flag("--port", 1, 2), ("c",)),
    ]
    kept, out = suited(step, objective, frozenset())
    # A step is taken whole or not at all.
    assert [item.change.knob for item in kept] == (
        ["--port"] if reason else [change.knob, "--seed", "--port"]
    )
    assert all(said.startswith(f"not for {objective}: ") and (reason or "") in said for _, said in out)
    assert suited(step, objective, frozenset({"a"})) == (step, [])


@pytest.mark.parametrize(
    ("before", "after", "how"),
    [
        (1, 2, "raised"),
        (2, 1, "lowered"),
        (2, 2, "set"),
        (None, 2, "set"),
        ("a", "b", "set"),
        (2, None, "dropped"),
    ],
)
def test_the_direction_of_a_change(before: object, after: object, how: str) -> None:
    assert direction(flag("--x", before, after)) == how


@for_each(
    ("name", "value", "version", "said"),
    [
        ("gpu_memory_utilization", 0.9, None, None),
        ("gpu_memory_utilization", 1, None, None),
        ("gpu_memory_utilization", 0.01, None, None),
        ("gpu_memory_utilization", 1.01, None, "write a number between 0 and 1"),
        ("gpu_memory_utilization", 0.001, None, "write a number between 0 and 1"),
        ("gpu_memory_utilization", "much", None, "write a number between 0 and 1"),
        ("--max-num-seqs", 0, None, "max_num_seqs=0: write a number from 1"),
        ("max-num-seqs", True, None, "write a number from 1"),
        ("max_num_seqs", float("inf"), None, "write a number from 1"),
        ("max_num_seqs", None, None, None),
        ("cpu_offload_gb", 0, None, None),
        ("cpu_offload_gb", -1, None, "write a number from 0"),
        ("kv_cache_dtype", "fp8", None, None),
        ("kv_cache_dtype", "int3", None, "unknown value of kv_cache_dtype: 'int3'"),
        ("kv_cache_dtype", "int3", "0.16.0", "int3"),
        ("seed", 5, None, None),
        ("lora_dtype", "auto", "0.16.0", None),
        ("max_num_seq", 5, "0.16.0", "unknown setting 'max_num_seq' (did you mean max_num_seqs?)"),
        ("--gpu-memory-utilization", 0.9, None, None),
        ("--gpu-memory-utilisation", 0.9, None, "unknown setting '--gpu-memory-utilisation' (did you mean gpu_memory_utilization?)"),
        # A flag that enters no law is known by its release.
        ("--stream-interval", 4, "0.16.0", None),
        ("--stream-intervals", 4, "0.16.0", "(did you mean stream_interval?)"),
        ("qqqqqq", 5, None, "unknown setting 'qqqqqq'; logdoctor config LOG lists those of a run"),
    ],
)  # fmt: skip
def test_settings_of_a_what_if_are_checked_as_vllm_would(
    name: str, value: object, version: str | None, said: str | None
) -> None:
    if said is None:
        check_setting(name, value, version)
        return
    with pytest.raises(LogdoctorError) as caught:
        check_setting(name, value, version)
    assert said in str(caught.value)
    assert caught.value.exit_code == 2


def test_values_are_read_as_a_command_line_writes_them() -> None:
    texts: Mapping[str, object] = {"True": True, "false": False, "none": None, "null": None, "5": 5, "0.5": 0.5, "fp8": "fp8", '{"a": 1}': {"a": 1}, "1,2": "1,2"}  # fmt: skip
    assert {text: parse_value(text) for text in texts} == texts
