"""Messages become patterns: places become groups, the longest text the literal, and the sample matches."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vllm_logdoctor.catalogue.drafting import Piece, Place, draft, escape
from vllm_logdoctor.catalogue.literal_coverage import uncovered_shape
from vllm_logdoctor.catalogue.redos import blowup

FLOAT = Place("number", "float")


@pytest.mark.parametrize(
    ("pieces", "message", "values"),
    [
        (["Loading took ", FLOAT, " s"], "Loading took 12.34 s", {"number": "12.34"}),
        (
            ["Using '", Place("a", "text"), "' for ", Place("b", "text"), "."],
            "Using 'a b' for c.",
            {"a": "a b", "b": "c"},
        ),
        (
            [Place("a", "text"), " is not supported on ", Place("b", "text"), " yet"],
            "fp8 is not supported on cpu yet",
            {"a": "fp8"},
        ),
        (["Failed to read hash:\n", Place("a", "text")], "Failed to read hash:", {}),
    ],
)
def test_a_draft_reads_the_values(pieces: list[Piece], message: str, values: dict[str, str]) -> None:
    drafted = draft(pieces)
    assert drafted is not None
    found = re.match(drafted.regex, message, re.DOTALL)
    assert found is not None
    assert {name: found[name] for name in values} == values


def test_too_little_text_gives_no_draft() -> None:
    assert draft([FLOAT, ": ", FLOAT]) is None
    assert draft(["a ", FLOAT, " b"]) is None


_LITERAL = st.text(alphabet="abc KV.:()[]'\"%{}\\*+?=-_/0", min_size=0, max_size=30)
# Without what a number could end in: a template that puts that behind a number can't be told apart.
_PARTING = st.text(alphabet="bcd KV:()[]'\"%{}\\*?=_/", min_size=0, max_size=30)
_PIECES = st.lists(
    st.one_of(_PARTING, st.sampled_from([Place("a", "text"), Place("b", "int"), Place("c", "float")])),
    min_size=1,
    max_size=7,
)


@settings(max_examples=150, deadline=None)
@given(_PIECES)
def test_law_a_draft_matches_its_sample_is_covered_and_linear(drawn: list[str | Place]) -> None:
    pieces: list[str | Place] = []
    for number, piece in enumerate(drawn):
        if isinstance(piece, Place):
            pieces.append(Place(f"{piece.name}{number}", piece.kind))
        elif piece and not (pieces and isinstance(pieces[-1], str)):
            pieces.append(piece)
    drafted = draft(pieces)
    if drafted is not None:
        values = {"text": "some-value", "int": "8", "float": "1.5"}
        sample = "".join(values[piece.kind] if isinstance(piece, Place) else piece for piece in pieces)
        assert drafted.literal in sample
        assert re.match(drafted.regex, sample, re.DOTALL)
        assert uncovered_shape(drafted.regex, [drafted.literal]) is None
        assert blowup(drafted.regex) is None


@given(_LITERAL)
def test_law_an_escaped_literal_matches_itself(text: str) -> None:
    assert re.fullmatch(escape(text), text)
