"""One set of changes: one value per knob, conflicts settled, every knob valid in the run's version."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.rules.making import a_run
from vllm_logdoctor.plan.merge import merge
from vllm_logdoctor.rules.model import Change, Finding


def finding(
    id: str, *changes: Change, kind: str = "performance", severity: str = "high", exhausts: str | None = None
) -> Finding:
    return Finding(id, kind, severity, "high", id, "", changes=changes, exhausts=exhausts)  # type: ignore[arg-type]


def flag(knob: str, before: object, after: object) -> Change:
    return Change(knob, "flag", before, after)


def test_the_first_finding_has_the_first_word_and_the_other_one_is_reported() -> None:
    plan = merge(
        a_run(),
        [
            finding("kv", flag("--max-num-seqs", 64, 32)),
            finding("max_num_seqs", flag("--max-num-seqs", 64, 128)),
        ],
    )
    (planned,) = plan.changes
    assert planned.change.after == 32
    assert planned.findings == ("kv", "max_num_seqs")
    assert "max_num_seqs asks for 128; kv comes first" in planned.settled


def test_two_findings_that_agree_are_one_change() -> None:
    plan = merge(a_run(), [finding(name, flag("--enforce-eager", True, None)) for name in ("a", "b")])
    (planned,) = plan.changes
    assert planned.findings == ("a", "b")
    assert planned.settled == ""


def test_a_short_and_a_long_spelling_are_one_knob() -> None:
    plan = merge(
        a_run(), [finding("a", flag("-tp", 4, 1)), finding("b", flag("--tensor-parallel-size", 4, 2))]
    )
    assert len(plan.changes) == 1


def test_a_flag_that_the_version_has_not_is_refused_with_the_reason() -> None:
    plan = merge(a_run(version="0.18.0"), [finding("a", flag("--swap-space", None, 16))])
    assert plan.changes == ()
    assert plan.refused == (("--swap-space", "it does not exist in vLLM 0.18.0"),)


def test_a_log_without_a_release_refuses_no_flag() -> None:
    """Which flags it has is not known; neither is it of a release that the tables do not hold."""
    for version in (None, "0.10.2.dev7+g1234567"):
        plan = merge(a_run(version=version), [finding("a", flag("--no-such-flag", None, 16))])
        refused = [] if version is None else [("--no-such-flag", f"it does not exist in vLLM {version}")]
        assert list(plan.refused) == refused
        assert len(plan.changes) == (version is None)


def test_a_value_that_is_set_already_is_no_change() -> None:
    assert merge(a_run(), [finding("a", flag("--max-num-seqs", 64, 64))]).changes == ()


def test_a_run_that_ran_out_of_memory_gets_nothing_that_needs_more() -> None:
    oom = finding(
        "oom", flag("--gpu-memory-utilization", 0.95, 0.9), kind="failure", exhausts="device-memory"
    )
    eager = finding("eager-mode", flag("--enforce-eager", True, None))
    plan = merge(a_run(), [oom, eager])
    assert [planned.change.knob for planned in plan.changes] == ["--gpu-memory-utilization"]
    assert plan.refused[0][0] == "--enforce-eager"


def test_a_full_cache_is_not_given_larger_steps() -> None:
    kv = finding("kv-cache-preemption", flag("--kv-cache-dtype", "auto", "fp8"), exhausts="kv-cache")
    prefill = finding("prefill-bound-queueing", flag("--max-num-batched-tokens", 2048, 8192))
    plan = merge(a_run(), [kv, prefill])
    assert [planned.change.knob for planned in plan.changes] == ["--kv-cache-dtype"]
    assert "cache is full" in plan.refused[0][1]


def test_a_size_in_bytes_makes_utilization_void() -> None:
    findings = [
        finding("a", flag("--kv-cache-memory-bytes", None, 10**10)),
        finding("b", flag("--gpu-memory-utilization", 0.8, 0.9)),
    ]
    plan = merge(a_run(version="0.16.0"), findings)
    assert [planned.change.knob for planned in plan.changes] == ["--kv-cache-memory-bytes"]
    assert plan.refused == (("--gpu-memory-utilization", "has no effect beside --kv-cache-memory-bytes"),)


def test_information_changes_nothing() -> None:
    tip = finding("tip", flag("--max-num-seqs", 64, 128), severity="info")
    assert merge(a_run(), [tip]).changes == ()


def test_actions_come_after_what_makes_the_command() -> None:
    plan = merge(
        a_run(),
        [finding("a", Change("look at the client", "action")), finding("b", flag("--max-num-seqs", 1, 32))],
    )
    assert [planned.change.kind for planned in plan.changes] == ["flag", "action"]


KNOBS = (
    "--max-num-seqs",
    "--gpu-memory-utilization",
    "--enforce-eager",
    "--kv-cache-dtype",
    "--swap-space",
    "--block-size",
)
CHANGES = st.builds(
    flag, st.sampled_from(KNOBS), st.just(None), st.one_of(st.none(), st.integers(1, 9), st.just("fp8"))
)
FINDINGS = st.lists(
    st.builds(
        lambda name, changes: finding(name, *changes),
        st.sampled_from(["a", "b", "c"]),
        st.lists(CHANGES, max_size=4),
    ),
    max_size=8,
)


@given(FINDINGS, st.sampled_from(["0.6.3", "0.11.2", "0.18.0", "0.33.0", None]))
def test_no_knob_ever_has_two_values_and_no_change_is_lost_without_a_word(
    findings: list[Finding], version: str | None
) -> None:
    plan = merge(a_run(version=version), findings)
    knobs = Counter(planned.change.knob for planned in plan.changes)
    assert all(number == 1 for number in knobs.values())
    asked = {change.knob for found in findings for change in found.changes}
    assert asked == set(knobs) | {knob for knob, _ in plan.refused}


LOWER_SHARE = flag("--gpu-memory-utilization", 0.9, 0.4)
FEWER_RANKS = flag("--tensor-parallel-size", 4, 1)
GRAPHS = flag("--enforce-eager", True, None)


@pytest.mark.parametrize(
    ("first", "second"),
    [(LOWER_SHARE, FEWER_RANKS), (LOWER_SHARE, GRAPHS), (FEWER_RANKS, LOWER_SHARE), (GRAPHS, LOWER_SHARE)],
)
def test_a_smaller_share_is_not_planned_with_what_puts_more_on_a_card(first: Change, second: Change) -> None:
    plan = merge(a_run(), [finding("a", first), finding("b", second)])
    assert [item.change for item in plan.changes] == [first]
    assert plan.refused[0][0] == second.knob


def test_a_larger_share_goes_with_fewer_ranks() -> None:
    plan = merge(
        a_run(), [finding("a", flag("--gpu-memory-utilization", 0.5, 0.9)), finding("b", FEWER_RANKS)]
    )
    assert len(plan.changes) == 2
