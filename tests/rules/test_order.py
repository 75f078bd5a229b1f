"""What comes first: effect times confidence over effort, the limit of the run before what merely helps."""

from __future__ import annotations

import pytest

from tests.rules.making import a_run, advice, load
from vllm_logdoctor.rules.model import Change, Effect, Finding
from vllm_logdoctor.rules.performance.order import by_gain

EAGER = {"enforce_eager": True, "max_num_seqs": 256}
MOE = "Using default MoE config. Performance might be sub-optimal! Config file not found at ['/opt/a.json']"
FLASHINFER = (
    "FlashInfer is not available. Falling back to the PyTorch-native implementation of top-p & top-k"
    " sampling. For the best performance, please install FlashInfer."
)


def test_the_limit_of_the_run_comes_before_everything_else() -> None:
    run = a_run(
        set=EAGER, messages=(MOE, FLASHINFER), samples=load((9, {"running": 3, "waiting": 20, "kv": 99.0}))
    )
    assert next(iter(advice(run))) == "kv-cache-preemption"


def test_with_one_stream_eager_mode_comes_before_the_client() -> None:
    run = a_run(set=EAGER, messages=(MOE,), samples=load((9, {"running": 1, "generation": 13.0})))
    assert list(advice(run))[:2] == ["eager-mode", "client-concurrency-bound"]


def test_with_many_requests_the_client_comes_before_eager_mode() -> None:
    run = a_run(set=EAGER, samples=load((9, {"running": 96, "generation": 6000.0, "kv": 14.0})))
    assert list(advice(run))[:2] == ["client-concurrency-bound", "eager-mode"]


def test_what_has_no_measured_gain_comes_last() -> None:
    run = a_run(set=EAGER, messages=(FLASHINFER, MOE), samples=load((9, {"running": 1, "generation": 13.0})))
    assert list(advice(run))[-1] == "sampler-in-pytorch"


def test_an_objective_changes_the_order_and_not_the_findings() -> None:
    run = a_run(set=EAGER, messages=(MOE,), samples=load((9, {"running": 40, "generation": 900.0})))
    balanced, latency = advice(run), advice(run, "latency")
    assert set(balanced) == set(latency)
    assert list(latency).index("eager-mode") <= list(balanced).index("eager-mode")


@pytest.mark.parametrize(("lines", "first"), [(0, "slow-startup-torch-compile"), (2, "moe-kernel-untuned")])
def test_a_start_comes_behind_a_load_only_where_the_log_shows_one(lines: int, first: str) -> None:
    compiled = (
        "Compiling a graph for general shape takes 91.61 s",
        "init engine (profile, create kv cache, warmup model) took 317.55 s (compilation: 105.52 s)",
    )
    run = a_run(messages=(MOE, *compiled), samples=load((lines, {"running": 1, "generation": 60.0})))
    assert next(found for found in advice(run) if found != "client-concurrency-bound") == first


@pytest.mark.parametrize(
    "objective", ["balanced", "throughput", "latency", "long-context", "memory", "startup"]
)
def test_the_same_run_has_the_same_order_each_time(objective: str) -> None:
    run = a_run(set=EAGER, messages=(MOE, FLASHINFER), samples=load((9, {"running": 3, "generation": 60.0})))
    assert list(advice(run, objective)) == list(advice(run, objective))


def test_no_performance_finding_is_critical_and_each_has_its_proof() -> None:
    run = a_run(
        set=EAGER, messages=(MOE, FLASHINFER), samples=load((9, {"running": 3, "waiting": 9, "kv": 99.0}))
    )
    for found in advice(run).values():
        assert found.severity != "critical"
        assert found.evidence
        assert found.kind == "performance"


def test_every_number_names_its_origin() -> None:
    run = a_run(set=EAGER, messages=(MOE,), samples=load((9, {"running": 3, "waiting": 9, "kv": 99.0})))
    for found in advice(run).values():
        if found.effect is not None:
            assert 0 < found.effect.low <= found.effect.high
            assert len(found.effect.basis) > 20


def gaining(
    id: str, low: float, high: float, *, share: float = 1.0, median: float | None = None, kind: str = "flag"
) -> Finding:
    effect = Effect("generation_throughput", low, high, "computed", "", share, median=median)
    change = Change("--x", kind, None, 1, "safe")  # type: ignore[arg-type]
    return Finding(id, "performance", "high", "high", id, "", changes=(change,), effect=effect)


def test_settings_are_changed_in_order_of_their_gain_over_the_run() -> None:
    """What limits the run for a quarter of its time is its first finding; a kernel that slows all of it is the first change."""
    limit = gaining("limit", 1.0, 1.33, share=0.25)
    plain = Finding("plain", "performance", "high", "high", "plain", "")
    kernel = gaining("kernel", 1.08, 2.38)
    assert [one.id for one in by_gain([limit, plain, kernel])] == ["kernel", "plain", "limit"]


def test_the_median_of_measured_pairs_decides_and_not_their_best() -> None:
    cache, eager = gaining("cache", 1.4, 2.1, share=0.76), gaining("eager", 1.0, 4.1, median=1.07)
    assert [one.id for one in by_gain([cache, eager])] == ["cache", "eager"]


def test_what_is_done_by_hand_keeps_its_place() -> None:
    client, setting = gaining("client", 1.1, 1.2, kind="action"), gaining("setting", 2.0, 3.0)
    assert [one.id for one in by_gain([client, setting])] == ["client", "setting"]
