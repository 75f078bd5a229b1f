"""Every statistics line with load has one limit: verdict, findings and periods count the same lines, and together they are all."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.rules.making import a_run, advice, load
from vllm_logdoctor.rules.bottleneck import bottleneck_of
from vllm_logdoctor.rules.limits import limits_of
from vllm_logdoctor.rules.load import load_of
from vllm_logdoctor.run.model import Run

LINES = st.lists(
    st.tuples(
        st.integers(1, 4),
        st.fixed_dictionaries(
            {
                "running": st.sampled_from([0, 1, 5, 40, 60, 64]),
                "waiting": st.sampled_from([0, 0, 1, 30, 400]),
                "kv": st.sampled_from([0.5, 30.0, 82.0, 96.0, 99.7]),
                "generation": st.sampled_from([0.0, 3.0, 90.0, 2600.0]),
                "prompt": st.sampled_from([0.0, 40.0, 9000.0]),
            }
        ),
    ),
    min_size=1,
    max_size=12,
)
FINDING_OF = {
    "kv-cache-preemption": "kv-cache-limited",
    "scheduler-limit-not-memory": "max-num-seqs-limited",
    "prefill-bound-queueing": "prefill-limited",
    "steps-slower-than-memory": "host-limited",
}


def run_of(lines: list[tuple[int, dict[str, float]]]) -> Run:
    memory = {"model_weights_gib": 15.0, "available_kv_cache_gib": 8.0, "kv_cache_tokens": 60_000}
    return a_run(set={"max_num_seqs": 64}, measured=memory, samples=load(*lines))


def of_all(text: str) -> tuple[int, int]:
    """Return how many of how many lines a sentence begins with."""
    found = re.search(r"in (?:all|the only|both|([\d,]+) of)(?: ([\d,]+))? statistics lines?", text.lower())
    assert found is not None, text
    whole = int(found[2] or (2 if "in both" in text.lower() else 1))
    return int(found[1] or whole), whole


@given(LINES)
def test_the_lines_of_a_verdict_add_up_to_all_lines_with_load(
    lines: list[tuple[int, dict[str, float]]],
) -> None:
    run = run_of(lines)
    found, whole = bottleneck_of(run), load_of(run).lines
    if not whole:
        return
    named, total = of_all(found.reason)
    others = re.findall(r"(?:\((\d+) lines?\)|(?:limit|arrived) in (\d+) lines?)", found.reason)
    assert total == whole
    assert named + sum(int(one or other) for one, other in others) == whole, found.reason


@given(LINES)
def test_a_finding_on_a_limit_counts_the_lines_that_the_verdict_counts(
    lines: list[tuple[int, dict[str, float]]],
) -> None:
    run = run_of(lines)
    of_the_run = load_of(run)
    limits = limits_of(run, of_the_run)
    for name, finding in advice(run).items():
        if name in FINDING_OF and "while the queue is empty" not in finding.title:
            held = [
                span
                for span, limit in zip(of_the_run.spans, limits, strict=True)
                if limit == FINDING_OF[name]
            ]
            assert of_all(finding.explanation) == (of_the_run.lines_of(held), of_the_run.lines)
    assert sum(period.samples for period in bottleneck_of(run).periods) == len(limits)


def test_a_period_says_nothing_of_a_cache_whose_use_is_not_printed() -> None:
    printed = load((3, {"running": 3, "generation": 50.0}))
    (period,) = bottleneck_of(a_run(samples=[replace(one, kv_usage=None) for one in printed])).periods
    assert period.reason == "up to 3 running, 0 waiting"


def test_only_a_line_behind_which_the_client_set_the_pace_is_one_at_which_requests_began_to_arrive() -> None:
    queued = {"running": 8, "waiting": 9, "kv": 5.0}
    (period,) = bottleneck_of(a_run(set={"max_num_seqs": 8}, samples=load((1, queued)))).periods
    assert period.reason == "up to 8 running, 9 waiting, KV cache 5 %"


def test_a_period_cites_the_lines_that_show_its_figures_and_no_line_twice() -> None:
    steady, most, full = (
        {"running": r, "generation": 50.0, "kv": kv} for r, kv in ((3, 1.0), (5, 2.0), (4, 9.0))
    )
    run = a_run(
        set={"max_num_seqs": 8}, samples=load((3, steady), (1, most), (2, steady), (1, full), (1, steady))
    )
    (period,) = bottleneck_of(run).periods
    assert period.reason == "up to 5 running, 0 waiting, KV cache 9 %"
    assert [line.line for line in period.evidence] == [103, 106]
