"""Sizes and words of the package: modules and functions that fit, imperative docstrings, the field's own terms."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import vllm_logdoctor

PACKAGE = Path(vllm_logdoctor.__file__).parent
MODULES = sorted(PACKAGE.rglob("*.py"))
LONGEST_MODULE = 500
LONGEST_FUNCTION = 60
NOT_IMPERATIVE = ("Say", "Says", "Tell", "Tells", "Whether", "Is", "Are", "Does", "Has", "Can")
PRIVATE_WORDS = {"sight", "sights", "skeleton", "skeletons", "seats", "gates", "gateset", "blowups", "shelf"}

Function = ast.FunctionDef | ast.AsyncFunctionDef


def by_name(paths: list[Path]) -> list[object]:
    return [pytest.param(path, id=str(path.relative_to(PACKAGE))) for path in paths]


def functions(path: Path) -> Iterator[Function]:
    tree = ast.parse(path.read_text("utf-8"))
    return (node for node in ast.walk(tree) if isinstance(node, Function))


def length(one: Function) -> int:
    return (one.end_lineno or 0) - one.lineno + 1


def own_length(one: Function) -> int:
    """Return the lines of a function without those of the functions that it defines."""
    return length(one) - sum(length(inner) for inner in one.body if isinstance(inner, Function))


@pytest.mark.parametrize("path", by_name(MODULES))
def test_modules_and_functions_fit(path: Path) -> None:
    assert len(path.read_text("utf-8").splitlines()) <= LONGEST_MODULE
    lengths = {one.name: own_length(one) for one in functions(path)}
    assert {name: length for name, length in lengths.items() if length > LONGEST_FUNCTION} == {}


@pytest.mark.parametrize("path", by_name(MODULES))
def test_docstrings_of_functions_begin_with_what_they_do(path: Path) -> None:
    documented = ((one.name, ast.get_docstring(one) or "") for one in functions(path))
    assert {
        name: text
        for name, text in documented
        if text.split(maxsplit=1)[:1] and text.split()[0] in NOT_IMPERATIVE
    } == {}


@pytest.mark.parametrize("path", by_name(MODULES))
def test_names_are_the_fields_terms(path: Path) -> None:
    named = (
        getattr(node, attribute)
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        for attribute in ("id", "name", "arg", "attr")
        if isinstance(getattr(node, attribute, None), str)
    )
    assert {name for name in named if PRIVATE_WORDS & set(name.lower().split("_"))} == set()
