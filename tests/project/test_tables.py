"""A table of cases is one test that runs them all and names each that fails."""

from __future__ import annotations

import inspect

import pytest

from tests.tables import for_each


def test_every_case_is_run_and_those_that_fail_are_named_together() -> None:
    seen: list[tuple[int, str]] = []

    @for_each("word", ["a", pytest.param("b", id="second")])
    @for_each(("number", "root"), [(1, 1), (4, 2), (9, 2)])
    def check(number: int, root: int, word: str, bundled: object) -> None:
        seen.append((number, word))
        assert root * root == number

    assert list(inspect.signature(check).parameters) == ["bundled"]
    with pytest.raises(AssertionError, match="2 of 2 cases fail") as failure:
        check(bundled=None)
    assert seen == [(number, word) for word in "ab" for number in (1, 4, 9)]
    text = str(failure.value)
    assert text.count("1 of 3 cases fail") == 2
    assert "'number': 9" in text
    assert "'number': 4" not in text


def test_a_table_without_a_case_is_a_mistake() -> None:
    with pytest.raises(AssertionError):
        for_each("word", [])
