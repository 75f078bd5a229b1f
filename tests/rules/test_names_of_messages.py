"""Code asks a run for messages and their fields by names that exist: what nothing is called is never found, and its rule silent."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from typing import get_args

from tests.rules.making import index
from vllm_logdoctor.catalogue.locate import PACKAGE
from vllm_logdoctor.catalogue.pages import rule_names
from vllm_logdoctor.catalogue.topics import Topic

ROOMS = ("catalogue", "engine_comparison", "evidence", "plan", "report", "rules", "run")
NAME = re.compile(r"[a-z0-9]+(?:-\w+)+")
# Models, packages, programs, encodings, and names that readers of a page or a document see.
OF_OTHERS = {
    "data-label", "hl-smi", "kimi-k3", "llama-cpp", "longcat-flash", "mimo-7b", "mimo-v2", "minimax-m3", "nvidia-smi", "oom-kill",
    "server-json", "server-text", "tpu-inference", "utf-16", "utf-8-sig", "vllm-ascend", "vllm-gaudi", "vllm-logdoctor", "vllm-neuron",
}  # fmt: skip
# Closed lists for pages and packs, which have members that Python does not name.
OF_PAGES = {"host-memory", "shared-memory", "switch-pair"}
# Figures of a profile, which are read as fields of a message are.
OF_PROFILES = {"kernels", "latency"}


@cache
def nodes() -> tuple[ast.AST, ...]:
    paths = (path for room in ROOMS for path in sorted((PACKAGE / room).rglob("*.py")))
    return tuple(node for path in paths for node in ast.walk(ast.parse(path.read_text("utf-8"))))


def texts(found: list[ast.expr]) -> list[str]:
    """The texts among some nodes, and "" for each other."""
    return [str(one.value) if isinstance(one, ast.Constant) else "" for one in found]


def listed() -> Iterator[list[str]]:
    """What is listed in each tuple and in each call."""
    for node in nodes():
        if isinstance(node, ast.Tuple | ast.Call):
            yield texts(node.elts if isinstance(node, ast.Tuple) else node.args)


def test_a_name_is_that_of_a_message_or_a_rule_or_is_in_two_places() -> None:
    known = {one.id for one in index().patterns} | set(rule_names()) | OF_OTHERS | OF_PAGES
    written = Counter(
        node.value for node in nodes() if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )
    once = {name for name, count in written.items() if count == 1 and NAME.fullmatch(name)}
    assert once - known == set()


def test_a_field_that_is_read_is_one_of_some_message() -> None:
    fields = {field.name for one in index().patterns for field in one.fields}
    calls = (node for node in nodes() if isinstance(node, ast.Call))
    read = {
        name
        for call in calls
        if isinstance(call.func, ast.Attribute) and call.func.attr in ("number", "text")
        for name in texts(call.args[:1])
        if name.isidentifier()
    }
    assert len(read) > 40
    assert read - fields == OF_PROFILES


def test_a_field_that_is_named_behind_its_message_is_one_of_that_message() -> None:
    fields = {one.id: {field.name for field in one.fields} for one in index().patterns if "-" in one.id}
    named = {
        pair for words in listed() for pair in pairwise(words) if pair[0] in fields and pair[1].isidentifier()
    }
    assert len(named) > 40
    others = {one.id for one in index().patterns} | set(get_args(Topic))
    assert [(name, field) for name, field in named if field not in fields[name] | others] == []
