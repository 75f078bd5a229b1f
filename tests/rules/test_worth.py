"""What a finding is worth in the order: its gain, its confidence, its effort, the objective, the limit that it removes."""

from __future__ import annotations

import math
from typing import Any

import pytest
from msgspec.structs import replace

from tests.rules.making import a_run, load
from tests.tables import for_each
from vllm_logdoctor.rules.bottleneck import RUN_SHARE, Bottleneck
from vllm_logdoctor.rules.context import RuleContext
from vllm_logdoctor.rules.limits import BottleneckName
from vllm_logdoctor.rules.load import load_of
from vllm_logdoctor.rules.model import Change, Effect, Finding
from vllm_logdoctor.rules.performance import RULES
from vllm_logdoctor.rules.performance.order import by_gain, by_worth, worth
from vllm_logdoctor.rules.rule import Rule

PLAIN = Finding("plain", "performance", "high", "high", "plain", "")
DOUBLE = Effect("generation_throughput", 2.0, 2.0, "computed", "")


def change(kind: Any = "flag", safety: Any = "safe") -> Change:
    return Change("--x", kind, None, 1, safety)


def case(
    objective: str = "balanced", limit: Any = "none-clear", lines: int = 9, held: float = 0.0
) -> RuleContext:
    """Return a run whose cache was its limit for a share of its busy time."""
    run = a_run(samples=load((lines, {"running": 3})) if lines else [])
    found = load_of(run)
    times: dict[BottleneckName, float] = {"kv-cache-limited": held * found.busy_seconds}
    return RuleContext(run, found, Bottleneck(limit, ""), (), objective, times)


def test_rules_serve_the_objectives_that_they_name() -> None:
    """A rule that serves no objective keeps its worth under all of them."""
    serving: dict[str, set[str]] = {}
    for rule in RULES:
        for objective in rule.objectives:
            serving.setdefault(objective, set()).add(rule.id)
    assert serving == {
        "throughput": {"kv-cache-preemption", "scheduler-limit-not-memory", "client-concurrency-bound", "small-model-split-over-cards"},
        "long-context": {"kv-cache-preemption", "prefill-bound-queueing", "long-wait-for-first-token", "prefix-caching-silently-off", "kv-cache-smaller-after-upgrade"},
        "memory": {"kv-cache-preemption", "small-model-split-over-cards", "kv-cache-reads-dominate", "cache-larger-than-load", "kv-cache-smaller-after-upgrade"},
        "latency": {
            "decode-limited-by-weight-reads", "inter-node-network-bound", "eager-mode", "cuda-graphs-not-captured", "jit-compilation-while-serving",
            "graphs-off-for-expert-exchange", "expert-rebalancing-stalls", "chunked-prefill-off",
            "long-wait-for-first-token",
        },
        "cost": {"small-model-split-over-cards", "idle-cards"},
        "startup": {
            "compile-cache-disabled", "slow-startup-model-download", "slow-weight-loading-storage", "slow-startup-torch-compile",
            "slow-startup-graphs-and-dynamo", "slow-startup-encoder-profiling", "slow-startup-longest-phase",
        },
    }  # fmt: skip


def test_rules_that_remove_a_limit_name_it() -> None:
    removing: dict[str, set[str]] = {}
    for rule in RULES:
        if rule.removes:
            removing.setdefault(rule.removes, set()).add(rule.id)
    assert removing == {
        "none-clear": {"engine-makes-no-progress"}, "kv-cache-limited": {"kv-cache-preemption"}, "prefill-limited": {"prefill-bound-queueing"},
        "max-num-seqs-limited": {"scheduler-limit-not-memory"}, "interconnect-limited": {"inter-node-network-bound"},
        "host-limited": {"steps-slower-than-memory", "gguf-slow-path", "weights-on-the-host", "cpu-backend-thread-or-memory-binding"},
    }  # fmt: skip
    assert [rule.id for rule in RULES if rule.voids_figures] == ["every-call-traced"]


@for_each(
    ("changed", "expected"),
    [
        # Without a known effect the severity counts, without a change the finding costs a look.
        ({}, 0.5 / 2.0),
        ({"severity": "critical"}, 0.7 / 2.0), ({"severity": "medium"}, 0.3 / 2.0), ({"severity": "low"}, 0.1 / 2.0), ({"severity": "info"}, 0.02 / 2.0),
        ({"confidence": "medium"}, 0.7 * 0.5 / 2.0), ({"confidence": "low"}, 0.4 * 0.5 / 2.0),
        ({"changes": (change(),)}, 0.5), ({"changes": (change("action"),)}, 0.5 / 2.0), ({"changes": (change(), change("action"))}, 0.5),
        ({"changes": (change(safety="needs-test"),)}, 0.5 / 1.15), ({"changes": (change(safety="changes-results"),)}, 0.5 / 2.0),
        # Twice as fast is one, half as slow is as much; half of the time is half of the gain in time.
        ({"changes": (change(),), "effect": DOUBLE}, 1.0), ({"changes": (change(),), "effect": replace(DOUBLE, low=0.5, high=0.5)}, 1.0),
        ({"changes": (change(),), "effect": replace(DOUBLE, low=1.0, high=4.0)}, 1.0), ({"changes": (change(),), "effect": replace(DOUBLE, low=1.0, high=1.0)}, 0.0),
        ({"changes": (change(),), "effect": replace(DOUBLE, low=0.0)}, 0.5), ({"changes": (change(),), "effect": replace(DOUBLE, high=-1.0)}, 0.5),
    ],
)  # fmt: skip
def test_gain_times_confidence_over_effort(changed: dict[str, Any], expected: float) -> None:
    assert worth(case(), Rule("plain"), replace(PLAIN, **changed)) == pytest.approx(expected)


def test_a_gain_in_a_share_of_the_time_is_that_of_the_whole_run() -> None:
    """Twice as fast in half of the time saves a quarter of it."""
    part = replace(PLAIN, changes=(change(),), effect=replace(DOUBLE, share=0.5))
    assert worth(case(), Rule("plain"), part) == pytest.approx(math.log2(4 / 3))


@for_each(
    ("objective", "factor"),
    [("throughput", 1.5), ("latency", 2.0), ("long-context", 2.0), ("memory", 2.0), ("cost", 2.0)],
)  # fmt: skip
def test_an_objective_raises_the_rules_that_serve_it(objective: Any, factor: float) -> None:
    plain = worth(case(), Rule("plain"), PLAIN)
    assert worth(case(objective), Rule("plain", objectives=(objective,)), PLAIN) == pytest.approx(
        factor * plain
    )
    assert worth(case(objective), Rule("plain", objectives=("startup",)), PLAIN) < plain
    assert worth(case(objective), Rule("plain"), PLAIN) == plain


def test_a_start_counts_for_little_where_the_log_shows_requests() -> None:
    start, plain = Rule("start", objectives=("startup",)), worth(case(), Rule("plain"), PLAIN)
    assert worth(case(lines=0), start, PLAIN) == plain
    assert worth(case(), start, PLAIN) == pytest.approx(0.03 * plain)
    assert worth(case("startup"), start, PLAIN) == pytest.approx(33 * 0.03 * plain)
    assert worth(case("startup", lines=0), start, PLAIN) == pytest.approx(33 * plain)


def test_what_removes_the_limit_of_the_run_is_worth_its_share_of_the_time() -> None:
    removes, plain = Rule("limit", removes="kv-cache-limited"), worth(case(), Rule("plain"), PLAIN)
    assert worth(case(held=0.0), removes, PLAIN) == plain
    for share in (RUN_SHARE, 0.9):
        assert worth(case(held=share), removes, PLAIN) == pytest.approx(plain + 0.4 + share)
        own = case(limit="kv-cache-limited", held=share)
        assert worth(own, removes, PLAIN) == pytest.approx(plain + 0.4 + share + 0.4)
    burst = RUN_SHARE / 2
    assert worth(case(held=burst), removes, PLAIN) == pytest.approx(plain + (0.4 + burst) / 2)


def test_what_voids_all_figures_comes_before_what_a_limit_is_worth() -> None:
    assert worth(case(), Rule("void", voids_figures=True), PLAIN) == pytest.approx(
        worth(case(), Rule("plain"), PLAIN) + 1.4
    )


def test_a_rule_may_judge_its_own_worth_before_the_objective() -> None:
    own = Rule("own", objectives=("latency",), worth=lambda case, value: value + case.load.running)
    assert worth(case("latency"), own, PLAIN) == pytest.approx(2 * (0.25 + 3))


def test_the_most_worth_comes_first_and_equals_keep_the_order_of_their_rules() -> None:
    small, equal = replace(PLAIN, id="small", severity="low"), replace(PLAIN, id="equal")
    pairs = [(Rule(one.id), one) for one in (small, PLAIN, equal)]
    assert [one.id for one in by_worth(case(), pairs)] == ["plain", "equal", "small"]


CLIENT = replace(PLAIN, id="client-concurrency-bound", changes=(change("action"),))
WASTE = replace(PLAIN, id="spec-decode-not-profitable", changes=(change(),))


@for_each(
    ("findings", "order"),
    [
        ([CLIENT, PLAIN, WASTE], ["plain", "spec-decode-not-profitable", "client-concurrency-bound"]),
        ([WASTE, CLIENT, PLAIN], ["spec-decode-not-profitable", "client-concurrency-bound", "plain"]),
        ([CLIENT, WASTE, PLAIN], ["spec-decode-not-profitable", "client-concurrency-bound", "plain"]),
        # Waste that is not sure, or that nothing ends, is no reason to wait with the client.
        (
            [CLIENT, replace(WASTE, confidence="low")],
            ["client-concurrency-bound", "spec-decode-not-profitable"],
        ),
        ([CLIENT, replace(WASTE, changes=())], ["client-concurrency-bound", "spec-decode-not-profitable"]),
        ([CLIENT, PLAIN], ["client-concurrency-bound", "plain"]),
        ([PLAIN, WASTE], ["plain", "spec-decode-not-profitable"]),
    ],
)
def test_more_requests_come_behind_what_surely_wastes_steps(
    findings: list[Finding], order: list[str]
) -> None:
    assert [one.id for one in by_gain(findings)] == order


@for_each(
    ("other", "moves"),
    [
        ({}, True),
        ({"changes": (change("action"),)}, False),
        ({"changes": ()}, False),
        ({"effect": None}, False),
        ({"effect": replace(DOUBLE, low=4.0, high=4.0, metric="ttft")}, False),
        ({"confidence": "low"}, False),
        ({"changes": (change(safety="changes-results"),)}, False),
    ],
)
def test_only_settings_with_a_known_gain_in_throughput_change_their_places(
    other: dict[str, Any], moves: bool
) -> None:
    """Four times as fast comes before twice as fast, unless doubt or effort weighs it down."""
    double = replace(PLAIN, id="double", changes=(change(),), effect=replace(DOUBLE, low=2.0, high=2.2))
    four = replace(double, id="four", effect=replace(DOUBLE, low=4.0, high=4.0))
    found = by_gain([double, replace(four, **other)])
    assert [one.id for one in found] == (["four", "double"] if moves else ["double", "four"])
