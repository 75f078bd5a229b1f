"""Which records a long run keeps: the first, the last, and of the middle the serious ones, so many of a kind."""

from __future__ import annotations

import string
from unittest.mock import patch

from tests.rules.making import event, record
from tests.tables import for_each
from vllm_logdoctor.run import sampling
from vllm_logdoctor.run.builder import RunBuilder
from vllm_logdoctor.run.sampling import RecordBudget, RecordSampler, template_of


def kept_of(*messages: str, serious: bool = True, left: int = 1000) -> tuple[list[str], int]:
    """Return the messages that a sampler of two first and two last records keeps, and how many it left out."""
    small = {"FIRST": 2, "LAST": 2, "_LEAST": 1, "ERRORS": 6, "ERRORS_OF_A_KIND": 3}
    with patch.multiple(sampling, **small):
        sampler = RecordSampler(RecordBudget(left))
        for message in messages:
            sampler.add(record(message), serious)
        return [one.message for one in sampler.records()], sampler.left_out


NUMBERED = tuple(f"step {number}" for number in range(10))
LETTERS = tuple(f"step {letter}" for letter in string.ascii_lowercase[:12])


def test_the_first_and_the_last_records_are_kept_and_the_rest_is_counted() -> None:
    assert kept_of(*NUMBERED[:4], serious=False) == (list(NUMBERED[:4]), 0)
    assert kept_of(*NUMBERED, serious=False) == ([*NUMBERED[:2], *NUMBERED[-2:]], 6)


def test_of_serious_records_in_the_middle_so_many_of_a_kind_are_kept() -> None:
    assert kept_of(*NUMBERED) == ([*NUMBERED[:5], *NUMBERED[-2:]], 3)
    assert kept_of(*LETTERS) == ([*LETTERS[:8], *LETTERS[-2:]], 2)


def test_a_run_without_a_budget_keeps_the_few_that_each_may() -> None:
    assert kept_of(*LETTERS, left=0) == ([LETTERS[0], LETTERS[1], LETTERS[-1]], 9)
    assert kept_of(*LETTERS, left=1) == ([LETTERS[0], LETTERS[1], LETTERS[2], LETTERS[-1]], 8)


def test_long_messages_are_cut_once_they_are_too_many() -> None:
    long = "x" * 1001
    with patch.object(sampling, "_MOST_OF_LONG", 1500):
        kept, _ = kept_of(long, long, long, "y" * 1000)
    assert [len(one) for one in kept] == [1001, 1001, 1000, 1000]


@for_each(
    ("level", "kept"), [("DEBUG", False), ("INFO", False), ("", True), ("WARNING", True), ("ERROR", True)]
)
def test_an_unknown_line_of_the_middle_is_kept_unless_it_only_informs(level: str, kept: bool) -> None:
    with patch.multiple(sampling, FIRST=1, LAST=1, _LEAST=1):
        builder = RunBuilder(1, ["vllm.log"])
        for number, message in enumerate(("first", "the parrot sleeps", "last"), 1):
            builder.add(record(message, number, level), None)
        found = [one.message for one in builder.keeper.records()]
    assert ("the parrot sleeps" in found) is kept


DYING = "Engine core proc EngineCore_DP0 died unexpectedly, shutting down client."
SAMPLES = "Avg prompt throughput: 1.0 tokens/s, Avg generation throughput: 2.0 tokens/s, Running: 1 reqs, Waiting: 0 reqs, GPU KV cache usage: 0.1%"


@for_each(
    ("message", "level", "kept"),
    [
        ("GPU KV cache size: 41,000 tokens", "INFO", False),
        ("GPU KV cache size: 41,000 tokens", "WARNING", False),
        ("GPU KV cache size: 41,000 tokens", "ERROR", True),
        ("GPU KV cache size: 41,000 tokens", "CRITICAL", True),
        (SAMPLES, "ERROR", True),
    ],
)
def test_a_known_line_of_the_middle_is_kept_if_it_is_an_error(message: str, level: str, kept: bool) -> None:
    with patch.multiple(sampling, FIRST=1, LAST=1, _LEAST=1):
        builder = RunBuilder(1, ["vllm.log"])
        builder.add(record("first"), None)
        builder.add(record(message, 2, level), event(message, 2))
        builder.add(record("last", 3), None)
        assert (message in [one.message for one in builder.keeper.records()]) is kept


@for_each(
    ("text", "template"),
    [
        ("request 17 of 'abc' took 3.2 s", "request # of # took #.# s"),
        ('at 0xABCdef12, "quoted"', "at #, #"),
        ("commit deadbeef, not dead-bee", "commit #, not dead-bee"),
    ],
)
def test_a_kind_is_told_by_what_does_not_differ_each_time(text: str, template: str) -> None:
    assert template_of(text) == template
    assert template_of("y" * 299 + "zz") == "y" * 299 + "z"
