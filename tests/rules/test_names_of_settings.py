"""Checks ask a run by names that exist: a setting with a wrong name is never known, and its rule silent."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.tables import for_each
from vllm_logdoctor.catalogue.locate import PACKAGE
from vllm_logdoctor.knowledge.flags import flag_spans

# Function or method -> which of its arguments are names of settings.
NAMING = {
    "setting": slice(0, 1),
    "switched_on": slice(0, 1),
    "asked_for": slice(0, 1),
    "in_effect": slice(0, 1),
    "setting_lines": slice(1, None),
    "flag": slice(1, 2),
}
FIGURES = {"available_kv_cache_gib", "kv_cache_tokens", "max_concurrency", "model_weights_gib"}
SOURCES = sorted((PACKAGE / "rules").rglob("*.py"))


def names_in(path: Path) -> Iterator[tuple[str, int]]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Call):
            called = getattr(node.func, "attr", getattr(node.func, "id", ""))
            for argument in node.args[NAMING.get(called, slice(0))]:
                if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                    yield argument.value, node.lineno


@for_each("path", SOURCES)
def test_each_name_is_a_setting_of_some_release_or_a_figure(path: Path) -> None:
    unknown = [
        (name, line)
        for name, line in names_in(path)
        if name not in FIGURES and not flag_spans(f"--{name.lstrip('-').replace('_', '-')}")
    ]
    assert unknown == []


def test_a_name_that_no_release_has_is_found(tmp_path: Path) -> None:
    (tmp_path / "rule.py").write_text('level = case.run.setting("max_logprob")\n')
    ((name, line),) = names_in(tmp_path / "rule.py")
    assert (name, line) == ("max_logprob", 1)
    assert not flag_spans("--max-logprob")
