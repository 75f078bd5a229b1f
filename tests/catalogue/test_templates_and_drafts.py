"""Templates become patterns: places become groups, literals those of the pattern, and the sample matches."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vllm_logdoctor.catalogue.drafting import draft, escape
from vllm_logdoctor.catalogue.literal_coverage import uncovered_shape
from vllm_logdoctor.catalogue.redos import blowup
from vllm_logdoctor.catalogue.templates import Place, pieces_of


def test_percent_and_brace_places_are_told_apart() -> None:
    assert pieces_of("%d of {}", "percent") == [Place("value", "int"), " of {}"]
    assert pieces_of("%d of {}", "brace") == ["%d of ", Place("value", "text")]
    assert pieces_of("100%% of {{x}}", "percent") == ["100% of {{x}}"]
    assert pieces_of("100% of {{x}}", "brace") == ["100% of {x}"]


def test_names_of_values_become_fields_of_their_own() -> None:
    places = pieces_of("%s %s %s", "percent", ["self.model", "model", "__name__"])
    assert [place.name for place in places if isinstance(place, Place)] == ["model", "model_2", "name"]


@pytest.mark.parametrize(
    ("template", "style", "message", "values"),
    [
        ("Loading took %.2f s", "percent", "Loading took 12.34 s", {"value": "12.34"}),
        ("Using '%s' for %s.", "percent", "Using 'a b' for c.", {"value": "a b", "value_2": "c"}),
        ("removing %s from %s (%d)", "percent", "removing a from b (3)", {"value_2": "b", "value_3": "3"}),
        ("{} is not supported on {} yet", "brace", "fp8 is not supported on cpu yet", {"value": "fp8"}),
        ("Failed to read hash:\n{}", "brace", "Failed to read hash:", {}),
    ],
)
def test_a_draft_reads_the_values(template: str, style: str, message: str, values: dict[str, str]) -> None:
    drafted = draft(pieces_of(template, style))
    assert drafted is not None
    found = re.match(drafted.regex, message, re.DOTALL)
    assert found is not None
    assert {name: found[name] for name in values} == values


def test_too_little_text_gives_no_draft() -> None:
    assert draft(pieces_of("%s: %s", "percent")) is None
    assert draft(pieces_of("a %s b", "percent")) is None


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
        assert drafted.literal in drafted.sample
        assert uncovered_shape(drafted.regex, [drafted.literal]) is None
        assert blowup(drafted.regex) is None


@given(_LITERAL)
def test_law_an_escaped_literal_matches_itself(text: str) -> None:
    assert re.fullmatch(escape(text), text)
