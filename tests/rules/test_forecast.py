"""What other limits do to a load: by the run's own throughput at other numbers of requests, up to the next limit."""

from __future__ import annotations

import pytest

from tests.rules.making import a_run, advice, load
from tests.tables import for_each
from vllm_logdoctor.plan import plan_of
from vllm_logdoctor.rules.bottleneck import bottleneck_of
from vllm_logdoctor.rules.equal_load import LoadLevel
from vllm_logdoctor.rules.forecast import Limits, forecast, next_limit, throughput_gain, under
from vllm_logdoctor.rules.limits import limits_of
from vllm_logdoctor.rules.load import Span, load_of
from vllm_logdoctor.rules.performance import performance_findings
from vllm_logdoctor.run.model import Evidence, Run, Sample, Value

CALM = {"running": 50, "kv": 20.0, "generation": 1500.0}
FULL = {"running": 250, "waiting": 400, "kv": 99.0, "generation": 3000.0}
CAPPED = {"running": 64, "waiting": 200, "kv": 20.0, "generation": 2000.0}
QWEN = Value("Qwen/Qwen2.5-14B-Instruct", "explicit", (Evidence("vllm.log", 2, "model"),))


def full_cache(calm: int = 20, full: int = 20, max_num_seqs: int = 256, **more: object) -> Run:
    return a_run(
        set={"max_num_seqs": max_num_seqs, "gpu_memory_utilization": 0.95, "max_model_len": 4096},
        default={"kv_cache_dtype": "auto", "dtype": "bfloat16"},
        measured={"kv_cache_tokens": 152_000, "available_kv_cache_gib": 28.0, "model_weights_gib": 27.0},
        samples=load((calm, CALM), (full, FULL)),
        version="0.16.0",
        **more,
    )


def test_more_cache_helps_up_to_max_num_seqs_and_no_further() -> None:
    run = full_cache()
    found = forecast(run, load_of(run), limits_of(run, load_of(run)), Limits(256), Limits(256, room=2.0))
    assert found is not None
    assert found.running == (250, 256)
    assert found.next_limit == "max_num_seqs"
    assert found.share == pytest.approx(0.5)
    assert 1.0 <= found.low <= found.high <= 256 / 250


def test_the_gain_follows_the_runs_own_levels() -> None:
    run = full_cache(max_num_seqs=2000)
    found = forecast(run, load_of(run), limits_of(run, load_of(run)), Limits(2000), Limits(2000, room=2.0))
    assert found is not None
    assert found.measured
    # Five times the requests gave twice the tokens: twice the requests give at most 2 ** 0.43.
    assert found.high == pytest.approx((found.running[1] / 250) ** 0.43, rel=0.01)


def test_nothing_is_forecast_where_nothing_waits() -> None:
    run = a_run(set={"max_num_seqs": 256}, samples=load((20, CALM)))
    assert forecast(run, load_of(run), limits_of(run, load_of(run)), Limits(256), Limits(256, 2.0)) is None


def test_a_burst_counts_for_its_share_of_the_busy_time() -> None:
    short = advice(full_cache(calm=95, full=5, max_num_seqs=2000))["kv-cache-preemption"].effect
    long = advice(full_cache(calm=20, full=80, max_num_seqs=2000))["kv-cache-preemption"].effect
    assert short is not None
    assert long is not None
    assert short.share < 0.1 < long.share
    assert short.over_run(short.high) < 1.05 < long.over_run(long.high)


def test_an_fp8_cache_is_no_step_for_a_family_whose_answers_it_breaks() -> None:
    assert "--kv-cache-dtype" in {c.knob for c in advice(full_cache())["kv-cache-preemption"].changes}
    found = advice(full_cache(model=QWEN))["kv-cache-preemption"]
    assert "--kv-cache-dtype" not in {change.knob for change in found.changes}
    assert "break answers" in found.avoid


def test_one_request_that_holds_the_cache_is_called_so_and_capped() -> None:
    run = a_run(samples=load((4, {"running": 1, "waiting": 14, "kv": 76.8, "generation": 50.0})))
    found = advice(run)["kv-cache-preemption"]
    assert "full" not in found.explanation
    assert "max_tokens" in found.changes[0].knob


def test_two_lines_at_one_number_with_a_crowd_behind_it_show_max_num_seqs() -> None:
    crowd = {"running": 600, "waiting": 4475, "kv": 59.0, "prompt": 300.0}
    assert bottleneck_of(a_run(samples=load((2, crowd)))).name == "max-num-seqs-limited"
    assert bottleneck_of(a_run(samples=load((2, {**crowd, "waiting": 30})))).name == "prefill-limited"


def test_the_plan_says_what_limits_next() -> None:
    run = a_run(
        set={"max_num_seqs": 64}, samples=load((20, {**CAPPED, "running": 8, "waiting": 0}), (20, CAPPED))
    )
    plan = plan_of(run, performance_findings(run, bottleneck_of(run)))
    assert plan.next_limit in ("client", "KV cache", "max_num_seqs")


def test_less_than_a_minute_at_a_limit_is_no_measure_of_a_throughput() -> None:
    quiet = (20, {"running": 16, "generation": 1300.0, "kv": 3.0})
    for lines, measured in {3: False, 9: True}.items():
        rush = (lines, {"running": 64, "waiting": 236, "kv": 9.0, "generation": 3900.0})
        run = a_run(set={"max_num_seqs": 64}, samples=load(quiet, rush))
        effect = advice(run)["scheduler-limit-not-memory"].effect
        assert effect is not None
        assert (effect.origin == "computed") == measured


def test_answers_are_not_put_at_risk_for_next_to_no_gain_in_a_short_rush() -> None:
    found = advice(full_cache(calm=95, full=5))["kv-cache-preemption"]
    assert found.changes == ()
    assert found.effect is None
    assert any(way.startswith("--kv-cache-dtype fp8") for way in found.alternatives)


def at(running: float, rate: float, samples: int = 5, prompt: float = 0.0) -> LoadLevel:
    return LoadLevel(int(running), int(running), running, samples, (rate, rate, rate), prompt)


@for_each(
    ("levels", "now", "then", "gain"),
    [
        # Four times the requests made twice the tokens: a slope of a half, and half of that at least.
        ([at(16, 1000), at(64, 2000)], 64, 128, (2**0.25, 2**0.5)),
        # Prompt tokens are work too: 1,000 + 1,000 and 2,000 + 6,000 are a slope of one.
        ([at(16, 1000, prompt=1000), at(64, 2000, prompt=6000)], 64, 128, (2**0.5, 2.0)),
        # More than in proportion is no slope that goes on.
        ([at(16, 1000), at(64, 9000)], 64, 128, (2**0.5, 2.0)),
        # The two highest levels that lie far enough apart, half as many again.
        ([at(2, 10), at(16, 1000), at(43, 1), at(64, 2000)], 64, 128, (2**0.25, 2**0.5)),
        ([at(2, 10), at(42.66, 1000), at(64, 1500)], 64, 128, (2**0.5, 2.0)),
        # A level of one sample, or without tokens, counts for nothing.
        ([at(16, 1000), at(64, 2000, samples=2), at(100, 1, samples=1), at(120, 0)], 64, 128, (2**0.25, 2**0.5)),
        ([at(16, 1000), at(64, 1010)], 64, 128, None),
        ([at(43, 1000), at(64, 2000)], 64, 128, None),
        ([at(16, 1000), at(64, 2000)], 96, 192, (2**0.25, 2**0.5)),
        ([at(16, 1000), at(64, 2000)], 97, 194, None),
        ([at(16, 1000), at(64, 2000)], 64, 64, None),
        ([at(16, 1000), at(64, 2000)], 0, 64, None),
        ([], 64, 128, None),
    ],
)  # fmt: skip
def test_throughput_follows_the_slope_of_the_two_highest_levels(
    levels: list[LoadLevel], now: float, then: float, gain: tuple[float, float] | None
) -> None:
    assert throughput_gain(levels, now, then) == (gain and pytest.approx(gain, rel=0.01))


def line(running: int, waiting: int, usage: float) -> Sample:
    return Sample(0.0, 1, 0, 0.0, 10.0 * running, running=running, waiting=waiting, kv_usage=usage)


@pytest.mark.parametrize(
    ("now", "before", "after", "then"),
    [
        # Held back by the cache: more run until it is full to 95 %.
        (line(100, 80, 98.0), Limits(256), Limits(256, room=1.5), (145, 35, 94.7)),
        (line(100, 10, 98.0), Limits(256), Limits(256, room=1.5), (110, 0, 71.9)),
        # Held back by the slots.
        (line(64, 20, 20.0), Limits(64), Limits(128), (84, 0, 26.2)),
        (line(64, 100, 20.0), Limits(64), Limits(128), (128, 36, 40.0)),
        (line(64, 100, 0.0), Limits(64), Limits(None), (164, 0, 0.0)),
        # By neither: what waits is a prompt under way.
        (line(20, 5, 20.0), Limits(64), Limits(128), (20, 5, 20.0)),
        (line(20, 0, 20.0), Limits(64), Limits(128), (20, 0, 20.0)),
        # Fewer slots or a smaller cache hold some back that ran.
        (line(64, 0, 20.0), Limits(64), Limits(32), (32, 32, 10.0)),
        (line(100, 0, 80.0), Limits(256), Limits(256, room=0.5), (62, 38, 99.2)),
        (line(1, 0, 80.0), Limits(256), Limits(256, room=0.5), (1, 0, 100.0)),
    ],
)
def test_a_line_under_other_limits_keeps_its_demand(
    now: Sample, before: Limits, after: Limits, then: tuple[int, int, float]
) -> None:
    found = under(now, before, after)
    assert (found.running, found.waiting, found.kv_usage) == then
    assert found.generation == pytest.approx(10.0 * then[0])


@pytest.mark.parametrize(
    ("lines", "name"),
    [
        ([line(64, 5, 20.0)], "max_num_seqs"),
        ([line(63, 5, 85.0)], "KV cache"),
        ([line(63, 5, 84.9)], "client"),
        ([line(64, 0, 99.0)], "client"),
        ([line(64, 5, 20.0), line(63, 5, 90.0), line(63, 5, 90.0)], "KV cache"),
    ],
)
def test_the_next_limit_is_that_of_most_of_the_time(lines: list[Sample], name: str) -> None:
    assert next_limit([Span(one, 10.0) for one in lines], Limits(64)) == name


@pytest.mark.parametrize(("generation", "more_memory"), [(40.0, False), (900.0, True)])
def test_more_cache_is_no_step_where_prompts_are_all_the_work(generation: float, more_memory: bool) -> None:
    full = {"running": 250, "waiting": 700, "kv": 99.0, "prompt": 25_000.0, "generation": generation}
    found = advice(a_run(set={"max_num_seqs": 512}, samples=load((20, full))))["kv-cache-preemption"]
    assert any("prefill capacity" in change.knob for change in found.changes) is not more_memory
    assert ("prefill takes the time" in found.explanation) is not more_memory
