"""Checks of one expression with its literals: the same for patterns of messages and signatures of rule pages."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from vllm_logdoctor.catalogue.literal_coverage import uncovered_shape
from vllm_logdoctor.catalogue.redos import superlinear_reason
from vllm_logdoctor.catalogue.regextree import ignores_case

SHORTEST_LITERAL = 6


class ExpressionProblem(NamedTuple):
    """What is wrong with an expression.

    Attributes:
        key: below the table that holds the expression: ("regex",) or ("literal",).
        message: what is wrong and what to write instead.
    """

    key: tuple[int | str, ...]
    message: str


def problems_of_expression(
    regex: str,
    literals: Sequence[str],
    *,
    anywhere: bool = True,
    shortest: int = SHORTEST_LITERAL,
) -> list[ExpressionProblem]:
    """Return the problems of an expression: syntax, literals that do not cover it, time.

    Args:
        regex: the expression; a dot matches line ends too.
        literals: texts of which every match must hold one; only texts with one of them are searched.
        anywhere: the expression is searched in a text; otherwise it must match from the start.
        shortest: the least length of a literal.

    Example:
        >>> problems_of_expression("(?:GPU|CPU) blocks: [0-9]+", ["GPU blocks"])[0].message
        "does not cover the expression: 'CPU blocks: …' holds none; add a literal that it holds"
    """
    error = regex_error(regex)
    if error:
        return [ExpressionProblem(("regex",), f"is no regular expression: {error}")]
    return [*_literal_problems(regex, literals, shortest), *_time_problems(regex, anywhere)]


def problems_of_search(regex: str) -> list[str]:
    """Return what is wrong with an expression that is searched without literals: syntax and time."""
    error = regex_error(regex)
    if error:
        return [f"is no regular expression: {error}"]
    return [problem.message for problem in _time_problems(regex, anywhere=True)]


def regex_error(text: str) -> str:
    """Return why a text is no regular expression; "" when it is one."""
    try:
        re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:
        return str(error) or type(error).__name__
    return ""


def _literal_problems(regex: str, literals: Sequence[str], shortest: int) -> Iterator[ExpressionProblem]:
    for literal in literals:
        if len(literal) < shortest:
            message = f"{literal!r} is too short; write {shortest} characters of the message or more"
            yield ExpressionProblem(("literal",), message)
    if ignores_case(regex):
        message = "ignores case, literals do not; write the letters as they are printed"
        yield ExpressionProblem(("regex",), message)
        return
    shape = uncovered_shape(regex, literals)
    if shape is not None:
        message = f"does not cover the expression: {shape[:120]!r} holds none; add a literal that it holds"
        yield ExpressionProblem(("literal",), message)


def _time_problems(regex: str, anywhere: bool) -> Iterator[ExpressionProblem]:
    problem = superlinear_reason(regex, anywhere=anywhere)
    if problem:
        yield ExpressionProblem(("regex",), f"can take more than linear time: it {problem}")
