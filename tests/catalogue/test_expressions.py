"""One validation of an expression with its literals, for patterns and rule pages alike."""

from __future__ import annotations

import pytest

from vllm_logdoctor.catalogue.expressions import problems_of_expression


def test_an_expression_that_its_literals_cover_has_no_problem() -> None:
    regex = "(?:GPU|CPU) blocks: (?P<blocks>[0-9]+)"

    assert problems_of_expression(regex, [" blocks: "]) == []


@pytest.mark.parametrize(
    ("regex", "literals", "key", "message"),
    [
        ("GPU (blocks", ["GPU blocks"], ("regex",), "is no regular expression"),
        ("(?:GPU|CPU) blocks", ["GPU blocks"], ("literal",), "does not cover the expression: 'CPU blocks'"),
        ("(?i)gpu blocks", ["gpu blocks"], ("regex",), "ignores case"),
        ("GPU b", ["GPU b"], ("literal",), "is too short"),
        (r"(?:\w+\s*)+ GPU blocks", [" GPU blocks"], ("regex",), "can take more than linear time"),
        # RuntimeError: RuntimeError: ... /xgrammar/ /xgrammar/ ... in a log of 21 kB
        (
            r"RuntimeError: .*/xgrammar/.*not found",
            ["/xgrammar/"],
            ("regex",),
            "can take more than linear time",
        ),
    ],
)
def test_a_problem_names_its_key_and_what_to_write(
    regex: str, literals: list[str], key: tuple[str, ...], message: str
) -> None:
    problems = problems_of_expression(regex, literals)

    assert [problem.key for problem in problems] == [key]
    assert message in problems[0].message


def test_an_expression_that_starts_with_the_text_may_take_what_a_search_may_not() -> None:
    regex = "loading .* from (?P<place>.*)"

    assert problems_of_expression(regex, ["loading "], anywhere=False) == []
    assert problems_of_expression(regex, ["loading "])[0].key == ("regex",)
