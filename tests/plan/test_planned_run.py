"""A plan is judged by the run that it leads to: what would not start, crowd the cache or bring a new finding is held back."""

from __future__ import annotations

from tests.rules.making import a_run, load
from vllm_logdoctor.plan import plan_of
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
