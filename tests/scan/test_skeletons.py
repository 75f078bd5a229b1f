"""A skeleton speaks for every line that leaves it."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from vllm_logdoctor.catalogue.index import PackIndex
from vllm_logdoctor.catalogue.loading import load_all
from vllm_logdoctor.scan.line_templates import DULL, DULL_IF_DEBUG, STAYS, LineTemplates, mask_variables
from vllm_logdoctor.scan.required import required_texts
from vllm_logdoctor.scan.structure import EXPRESSION_WORDS, EXPRESSIONS, LITERALS

GATES = ("Received ", "KV cache size: ", "dead man", "queue")
_WORDS = [
    "Received ",
    "R",
    "KV ",
    "cache size: ",
    "de",
    "ad ",
    "man",
    "qu",
    "eue",
    " 17",
    "a1f",
    "ValueError",
    ": ",
    "Error:",
    '"msg"',
    ' : "',
    "INFO ",
]
texts = st.lists(st.sampled_from(_WORDS), max_size=8).map("".join)


@given(texts)
def test_a_dull_line_holds_no_gate_and_no_wanted_shape(text: str) -> None:
    if LineTemplates(GATES, frozenset())[mask_variables(text.encode())] == DULL:
        assert not any(gate in text for gate in (*GATES, *LITERALS))
        assert not any(re.search(expression, text, re.MULTILINE) for expression in EXPRESSIONS)


@given(st.one_of(*(st.from_regex(re.compile(e, re.ASCII)) for e in EXPRESSIONS)))
def test_where_an_expression_is_found_one_of_its_words_stands(text: str) -> None:
    assert any(word in text for word in EXPRESSION_WORDS)


def test_a_gate_of_no_pattern_is_nothing_in_debug_records() -> None:
    verdicts = LineTemplates(("queue",), frozenset({0}))
    debug = b"(EngineCore_DP0 pid=55) DEBUG 01-01 00:15:46 [core.py:7] queue of 17"
    assert verdicts[mask_variables(debug)] == DULL_IF_DEBUG
    assert verdicts[mask_variables(debug.replace(b"DEBUG", b"NOTE"))] == STAYS


def test_a_gate_is_nothing_where_no_pattern_of_it_can_match() -> None:
    verdicts = LineTemplates(GATES, frozenset())
    line = mask_variables(b"Received 71 outputs")
    assert verdicts[line] == STAYS
    verdicts.narrow(0, [r"Received (?P<signal>-?\d+) signal\."])
    assert verdicts[line] == DULL
    assert verdicts[mask_variables(b"Received 15 signal.")] == STAYS


def test_each_text_that_a_pattern_requires_stands_in_its_samples() -> None:
    index: PackIndex = load_all(())[0]
    checked = 0
    for pattern in index.patterns:
        for text in required_texts(pattern.regex):
            plain = re.sub(r"\\(.)", r"\1", pattern.regex)
            assert text in plain, pattern.id
            checked += 1
    assert checked > len(index.patterns) / 2
