"""Each finding has its page, and pages keep to what is known."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from vllm_logdoctor.catalogue.pages import rule_page
from vllm_logdoctor.knowledge.flags import flag_spans
from vllm_logdoctor.knowledge.variables import variable_spans
from vllm_logdoctor.rules import configuration, performance

PACKAGE = Path(performance.__file__).parent
OTHERS = ("LD_PRELOAD", "OMP_NUM_THREADS")


def ids() -> list[str]:
    """Ids of all rules of this room, read from the calls that make findings."""
    files = [*PACKAGE.glob("*.py"), Path(configuration.__file__)]
    calls = [
        node for file in files for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Call)
    ]
    found = {
        call.args[1].value
        for call in calls
        if isinstance(call.func, ast.Name)
        and call.func.id == "finding"
        and isinstance(call.args[1], ast.Constant)
    }
    return sorted(found)


def test_there_are_as_many_rules_as_pages_of_theirs() -> None:
    assert len(ids()) >= 40


@pytest.mark.parametrize("rule", ids())
def test_a_rule_has_a_page_of_its_kind_with_all_sections(rule: str) -> None:
    page = rule_page(rule)
    assert page.id == rule
    assert page.kind in ("performance", "configuration")
    assert page.severity != "critical"
    assert all((page.meaning, page.why, page.remedy, page.verification, page.exceptions))


@pytest.mark.parametrize("rule", ids())
def test_a_page_names_only_knobs_that_some_release_has(rule: str) -> None:
    for knob in rule_page(rule).knobs:
        known = flag_spans(knob) if knob.startswith("--") else variable_spans(knob) or knob in OTHERS
        assert known or knob.startswith("--no-"), knob


@pytest.mark.parametrize("rule", ids())
def test_a_title_reads_after_this_run_has(rule: str) -> None:
    title = rule_page(rule).title
    assert not title.endswith(".")
    assert not title.startswith(("Raise", "Set", "Use", "Enable", "Drop"))
