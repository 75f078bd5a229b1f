"""What a template decides holds for every line that leaves it."""

from __future__ import annotations

import re
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vllm_logdoctor.scan import build_prefilter, scanner
from vllm_logdoctor.scan.line_templates import KEEP, SKIP, SKIP_IF_DEBUG, LineTemplates, mask_variables
from vllm_logdoctor.scan.scanner import LineFilter, Scanned, Scanner
from vllm_logdoctor.scan.structure import EXPRESSION_WORDS, EXPRESSIONS, LITERALS

TEXTS = ("Received ", "KV cache size: ", "dead man", "queue")
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
def test_a_skipped_line_holds_no_literal_and_no_wanted_shape(text: str) -> None:
    if LineTemplates(TEXTS, frozenset())[mask_variables(text.encode())] == SKIP:
        assert not any(literal in text for literal in (*TEXTS, *LITERALS))
        assert not any(re.search(expression, text, re.MULTILINE) for expression in EXPRESSIONS)


@given(st.one_of(*(st.from_regex(re.compile(e, re.ASCII)) for e in EXPRESSIONS)))
def test_where_an_expression_is_found_one_of_its_words_occurs(text: str) -> None:
    assert any(word in text for word in EXPRESSION_WORDS)


def test_a_literal_of_rule_pages_alone_is_nothing_in_debug_records() -> None:
    verdicts = LineTemplates(("queue",), frozenset({0}))
    debug = b"(EngineCore_DP0 pid=55) DEBUG 01-01 00:15:46 [core.py:7] queue of 17"
    assert verdicts[mask_variables(debug)] == SKIP_IF_DEBUG
    assert verdicts[mask_variables(debug.replace(b"DEBUG", b"NOTE"))] == KEEP


_NUMBERS = st.integers(0, 99999)
_DEBUG_LINES = st.builds(
    "{}DEBUG {} [core.py:{}] {}".format,
    st.sampled_from(("(EngineCore_DP0 pid=55) ", "(Worker_TP1 pid=7) ", "(queue pid=5) ", "")),
    st.builds("01-0{} 0{}:{}7:00".format, st.integers(1, 9), st.integers(0, 9), st.sampled_from("0123a")),
    _NUMBERS,
    st.one_of(
        st.builds("Evicted queue {} with hash ab{}".format, _NUMBERS, _NUMBERS),
        st.builds("Received {} outputs".format, _NUMBERS),
        st.sampled_from(
            ("GPU KV cache size: 7", "text", "ValueError: no", "Received 15 signal.", "dead man")
        ),
    ),
)
_OTHER_LINES = st.sampled_from(
    (
        "(APIServer pid=41) INFO 01-01 00:01:01 [logger.py:41] Received request cmpl-1: prompt: 'KV cache size: '",
        'INFO:     10.0.0.9:5 - "GET /health HTTP/1.1" 200 OK',
        "queue of 17", "Traceback (most recent call last):", "", "x" * 3000,
    )
)  # fmt: skip


def _scanned(pieces: list[bytes], with_templates: bool) -> list[Scanned]:
    prefilter = build_prefilter(TEXTS, digest="of the texts above")
    one = Scanner(prefilter, LineFilter(signatures=frozenset({2, 3}), pages_only=frozenset({3})))
    with (
        patch.object(scanner, "_PIECES_BEFORE_TEMPLATES", 0),
        patch.object(scanner, "is_full_of_debug", lambda piece: with_templates),
    ):
        return [one.scan(piece) for piece in pieces]


@settings(deadline=None)
@given(st.lists(st.lists(st.one_of(_DEBUG_LINES, _DEBUG_LINES, _OTHER_LINES), max_size=30), max_size=4))
def test_a_scan_finds_the_same_with_and_without_templates(pieces: list[list[str]]) -> None:
    pytest.importorskip(
        "hyperscan", reason="no hyperscan wheel for this platform: templates are not used there"
    )
    data = ["".join(f"{line}\n" for line in lines).encode() for lines in pieces]
    assert _scanned(data, True) == _scanned(data, False)
