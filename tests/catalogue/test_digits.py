"""A regex that takes any number takes a text whatever its numbers are."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vllm_logdoctor.catalogue.digit_invariance import takes_any_number
from vllm_logdoctor.catalogue.index import load_index

ALIKE = (
    r"EngineCore loop active\.",
    r"Loop (?P<n>\d+) of .{0,80}? active",
    r"batch (?=((?P<mode>.*?), slices: ))\1(?P<slices>.*)",
    r"(?:took|needed) [\d.]+ s",
)


@pytest.mark.parametrize("regex", ALIKE)
def test_where_any_number_is_taken_it_says_so(regex: str) -> None:
    assert takes_any_number(regex)


@pytest.mark.parametrize(
    "regex", [r"signal 15", r"code \d{3}", r"V[01] engine", r"(\d+) is \1", r"step (?!0)", r"[1-9]+ s"]
)
def test_where_one_number_is_told_from_another_it_says_so(regex: str) -> None:
    assert not takes_any_number(regex)


_DEBUG = [one.regex for one in load_index().patterns if one.level == "debug" and takes_any_number(one.regex)]


@given(
    st.sampled_from(_DEBUG).flatmap(lambda regex: st.tuples(st.just(regex), st.from_regex(regex))), st.data()
)
def test_other_numbers_are_taken_as_well(regex_and_text: tuple[str, str], data: st.DataObject) -> None:
    regex, text = regex_and_text
    number = st.text("0123456789", min_size=1, max_size=8)
    other = re.sub(r"[0-9]+", lambda _: data.draw(number), text)
    assert re.search(regex, other, re.DOTALL) is not None
