"""Checks of rule pages beyond their types: expressions, literals, time, and the example in the text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from vllm_logdoctor.catalogue.errors import PackError, Problem
from vllm_logdoctor.catalogue.expressions import problems_of_expression, problems_of_search
from vllm_logdoctor.catalogue.pages import RulePage, Signature, parse_page, problem

SHORTEST_LITERAL = 5
# Conditions of a signature that are expressions too; they are tried where its own expression was found.
CONDITIONS = ("near", "without", "type", "frames", "not_frames", "raised_in")


def check_pages(files: Iterable[Path]) -> list[Problem]:
    """Return all problems of the rule pages in some files, in order of file and line."""
    found: list[Problem] = []
    for path in files:
        text = path.read_text(encoding="utf-8")
        try:
            page = parse_page(path, text)
        except PackError as error:
            found += error.problems
            continue
        found += [problem(path, text, key, message) for key, message in page_problems(page)]
    return sorted(found)


def page_problems(page: RulePage) -> Iterator[tuple[tuple[int | str, ...], str]]:
    """Yield what is wrong with the signatures of a page: key and advice."""
    for number, signature in enumerate(page.signatures):
        for key, message in _signature_problems(signature):
            yield ("signature", number, *key), message


def _signature_problems(signature: Signature) -> Iterator[tuple[tuple[int | str, ...], str]]:
    if signature.literal:
        yield from problems_of_expression(signature.regex, signature.literal, shortest=SHORTEST_LITERAL)
    else:
        for message in problems_of_search(signature.regex):
            yield ("regex",), message
    for name in CONDITIONS:
        for message in problems_of_search(getattr(signature, name)):
            yield (name,), message
