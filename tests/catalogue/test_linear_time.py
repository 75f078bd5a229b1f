"""Regexes: refused where they may take more than linear time, and quick on hostile texts where not."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator

import pytest

from vllm_logdoctor.catalogue.index import Pattern
from vllm_logdoctor.catalogue.literal_coverage import GAP, shapes
from vllm_logdoctor.catalogue.loading import load_index
from vllm_logdoctor.catalogue.redos import superlinear_reason
from vllm_logdoctor.catalogue.values import match

SIZE = 64 * 1024
TIME_LIMIT = 1.0
EVERY = 1 if os.environ.get("LOGDOCTOR_ALL_PATTERNS") else 4
"""Of the patterns that are matched from the start of a message, every fourth is tried; all of them on demand."""

REFUSED = [
    r"(\w+\s*)+x",
    r"(?:\w+)*x",
    r"(?:ab|[ax]b)+c",
    r"(?:a?b?)+c",
    r"took (.*?) on (.*?)\.",
    r".*ab.*c",
    r"\d+\d+x",
    r"\w+\d*x",
    r"a.*?b(?=((?P<x>.*?) c ))\2d",
    r"x.{0,250}y.{0,250}z",
]
ACCEPTED = [
    r"took (.*?) seconds on (\d+) GPUs",
    r"took (.*?) on (.*)",
    r"a '([^']*)' b '([^']*)' c",
    r"(?:\w+, )*x",
    r"(?=((?P<a>.*?) bar ))\1(?=((?P<b>.*?)\.))\3end",
    r"(?:(?P<pool>[\w+ ]+) )?KV cache size: (?P<tokens>[\d,]+) tokens",
]


@pytest.mark.parametrize("regex", REFUSED)
def test_what_can_blow_up_is_refused(regex: str) -> None:
    assert superlinear_reason(regex) is not None


@pytest.mark.parametrize("regex", ACCEPTED)
def test_what_is_linear_is_accepted(regex: str) -> None:
    assert superlinear_reason(regex) is None


def test_a_search_counts_from_each_place_where_it_can_start() -> None:
    assert superlinear_reason(r"error .* in .*") is None
    assert superlinear_reason(r"error .* in .*", anywhere=True) is not None
    assert superlinear_reason(r"error [^e]* in", anywhere=True) is None


def hostile_texts(regex: str) -> Iterator[str]:
    """Texts that nearly match: each gap filled to 64 KiB with what a greedy or lazy part can't get past."""
    for shape in sorted(shapes(regex))[:2]:
        runs = shape.split(GAP)
        for number in range(1, min(len(runs), 4)):
            opening = "8".join(runs[:number])
            delimiter = runs[number][:12] or " "
            yield opening + delimiter * (SIZE // len(delimiter))
        yield "8".join(runs[:-1]) + "8" * SIZE
    yield " " * SIZE


def worst_seconds(pattern: Pattern) -> float:
    re.compile(pattern.regex, re.DOTALL)
    worst = 0.0
    for text in hostile_texts(pattern.regex):
        start = time.process_time()
        match(pattern, text)
        worst = max(worst, time.process_time() - start)
    return worst


@pytest.mark.parametrize("regex", ACCEPTED)
def test_what_is_accepted_is_quick_on_hostile_texts(regex: str) -> None:
    for text in hostile_texts(regex):
        start = time.process_time()
        re.compile(regex, re.DOTALL).match(text)
        assert time.process_time() - start < TIME_LIMIT


def test_every_pattern_is_quick_on_hostile_texts() -> None:
    patterns = load_index().patterns
    chosen = [
        pattern
        for number, pattern in enumerate(patterns)
        if number % EVERY == 0 or pattern.anywhere or pattern.pack.startswith(("core", "advice", "foreign"))
    ]
    slow = {pattern.id: seconds for pattern in chosen if (seconds := worst_seconds(pattern)) > TIME_LIMIT}
    assert slow == {}
