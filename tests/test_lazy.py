"""A late pattern is the compiled expression, made at its first use."""

from __future__ import annotations

import gc
import importlib
import pkgutil
import re

import pytest

import vllm_logdoctor
from vllm_logdoctor.lazy import LazyPattern


@pytest.mark.parametrize("method", ["search", "match", "fullmatch", "finditer"])
@pytest.mark.parametrize("text", ["rank 3", "of rank 3", "rank"])
def test_it_finds_what_the_compiled_expression_finds(method: str, text: str) -> None:
    late, compiled = LazyPattern(r"RANK (\d)", re.IGNORECASE), re.compile(r"RANK (\d)", re.IGNORECASE)
    found, expected = getattr(late, method)(text), getattr(compiled, method)(text)
    if method == "finditer":
        assert [one.groups() for one in found] == [one.groups() for one in expected]
    else:
        assert (found and found.groups()) == (expected and expected.groups())


def test_it_replaces_and_takes_a_start() -> None:
    late = LazyPattern(r"\d")
    assert late.sub("#", "a1b2") == "a#b#"
    assert late.search("1a2", 1) is not None


def test_nothing_is_compiled_before_the_first_use() -> None:
    late = LazyPattern("(")
    assert late.pattern == "("
    with pytest.raises(re.error):
        late.search("")


def test_what_a_pattern_does_not_have_is_told() -> None:
    with pytest.raises(AttributeError):
        LazyPattern("a").split  # type: ignore[attr-defined]  # noqa: B018


def test_every_late_pattern_of_the_package_compiles() -> None:
    for module in pkgutil.walk_packages(vllm_logdoctor.__path__, "vllm_logdoctor."):
        if module.name.startswith("vllm_logdoctor.run."):
            importlib.import_module(module.name)
    gc.unfreeze()  # A command that ended in this process put what it had loaded out of the collector's sight.
    late = [
        one for one in gc.get_objects() if isinstance(one, LazyPattern) and one.pattern not in ("(", r"\d")
    ]
    assert len(late) > 20
    for one in late:
        re.compile(one.pattern, one.flags)
