"""Literals: a proof that every match of an expression holds one."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vllm_logdoctor.catalogue.literal_coverage import uncovered_shape

PROVED = [
    (r"KV cache size: [\d,]+ tokens", ["KV cache size: "]),
    (r"(?:GPU |CPU )?KV cache size: \d+", ["KV cache size: "]),
    (r"(?:GPU blocks|CPU blocks): \d+", ["GPU blocks", "CPU blocks"]),
    (r"[Aa]ddress already in use", ["ddress already in use"]),
    (r"took (?=((?P<a>.*?) seconds on ))\1(?P<b>.*)", [" seconds on "]),
    (r"(?!Using Flash)Using (?P<a>\w+) backend$", [" backend"]),
    (r"ab{3}cdefg", ["bbbcde"]),
    (r"(?:worker ){2}died", ["worker worker died"]),
]
NOT_PROVED = [
    (r"KV cache size: \d+|blocks: \d+", ["KV cache size: "], "blocks: "),
    (r"(?:KV cache )?size: \d+ tokens", ["KV cache size"], "size: "),
    (r"engine[ _]core failed", ["engine core failed"], "engine_core failed"),
    (r".*", ["anything"], "…"),
    (r"(?:shutting down)?", ["shutting down"], ""),
    (r"down(?=ing now)", ["downing"], "down"),
]


@pytest.mark.parametrize(("regex", "literals"), PROVED)
def test_an_implied_literal_is_proved(regex: str, literals: list[str]) -> None:
    assert uncovered_shape(regex, literals) is None


@pytest.mark.parametrize(("regex", "literals", "shape"), NOT_PROVED)
def test_a_match_without_a_literal_is_shown(regex: str, literals: list[str], shape: str) -> None:
    found = uncovered_shape(regex, literals)
    assert found is not None
    assert found.startswith(shape)


@st.composite
def _regexes(draw: st.DrawFn) -> str:
    """Regexes out of the parts that packs use."""
    texts = ["KV cache", "size: ", "(?:GPU|CPU) ", "(?: blocks)?", "(?:ab){2}", "[Aa]"]
    parts = st.sampled_from([*texts, r"\d+", r"[\w,]*", r"\S{2}", ".{0,5}?"])
    return "".join(draw(st.lists(parts, min_size=1, max_size=5)))


@settings(max_examples=60, deadline=None)
@given(data=st.data(), regex=_regexes())
def test_law_every_match_of_a_proved_regex_holds_a_literal(data: st.DataObject, regex: str) -> None:
    literals = ["KV cache", "size: ", "GPU size: ", "abab"]
    if uncovered_shape(regex, literals) is None:
        text = data.draw(st.from_regex(re.compile(regex, re.DOTALL), fullmatch=True))
        assert any(literal in text for literal in literals)
