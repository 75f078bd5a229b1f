"""Sizes and words of the package: modules and functions that fit, imperative docstrings, the field's own terms."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import vllm_logdoctor

PACKAGE = Path(vllm_logdoctor.__file__).parent
MODULES = sorted(PACKAGE.rglob("*.py"))
LONGEST_MODULE = 500
LONGEST_FUNCTION = 60
NOT_IMPERATIVE = ("Say", "Says", "Tell", "Tells", "Whether", "Is", "Are", "Does", "Has", "Can")
PRIVATE_WORDS = {"sight", "sights", "skeleton", "skeletons", "seats", "gates", "gateset", "blowups", "shelf"}

Function = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


def functions(path: Path) -> Iterator[Function]:
    return (node for node in ast.walk(tree(path)) if isinstance(node, Function))


def all_functions() -> Iterator[tuple[str, Function]]:
    """Yield the functions of all modules, each with where it is."""
    for path in MODULES:
        for one in functions(path):
            yield f"{path.relative_to(PACKAGE)}:{one.lineno} {one.name}", one


def length(one: Function) -> int:
    return (one.end_lineno or 0) - one.lineno + 1


def own_length(one: Function) -> int:
    """Return the lines of a function without those of the functions that it defines."""
    return length(one) - sum(length(inner) for inner in one.body if isinstance(inner, Function))


def test_modules_fit() -> None:
    lengths = {str(path): len(path.read_text("utf-8").splitlines()) for path in MODULES}
    assert len(lengths) > 300
    assert {name: length for name, length in lengths.items() if length > LONGEST_MODULE} == {}


def test_functions_fit() -> None:
    lengths = {name: own_length(one) for name, one in all_functions()}
    assert {name: length for name, length in lengths.items() if length > LONGEST_FUNCTION} == {}


def test_docstrings_of_functions_begin_with_what_they_do() -> None:
    first = {name: (ast.get_docstring(one) or "").split()[:1] for name, one in all_functions()}
    assert {name: words for name, words in first.items() if set(words) & set(NOT_IMPERATIVE)} == {}


def names_in(path: Path) -> set[str]:
    """Return the names that a module writes: of variables, functions, arguments and attributes."""
    return {
        name
        for node in ast.walk(tree(path))
        for attribute in ("id", "name", "arg", "attr")
        if isinstance(name := getattr(node, attribute, None), str)
    }


def test_names_are_the_fields_terms() -> None:
    private = {
        str(path): {name for name in names_in(path) if PRIVATE_WORDS & set(name.lower().split("_"))}
        for path in MODULES
    }
    assert {path: names for path, names in private.items() if names} == {}
