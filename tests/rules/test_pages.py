"""A rule is found from its id in one step: its page, its check and its tests have the id in their names."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.making import index
from tests.tables import for_each
from vllm_logdoctor.catalogue.loading import load_index
from vllm_logdoctor.catalogue.pages import KINDS, rule_page
from vllm_logdoctor.knowledge.flags import flag_spans
from vllm_logdoctor.knowledge.variables import variable_spans
from vllm_logdoctor.rules.registry import CHECKED, all_rules
from vllm_logdoctor.rules.rule import Rule

TESTS = Path(__file__).parent.parent
OTHERS = ("LD_PRELOAD", "OMP_NUM_THREADS")


def by_id(rules: tuple[Rule, ...]) -> list[object]:
    return [pytest.param(rule, id=rule.id) for rule in rules]


@for_each("rule", by_id(CHECKED))
def test_a_check_is_named_like_its_rule(rule: Rule) -> None:
    assert rule.check is not None
    assert rule.check.__name__.replace("_", "-") == rule.id
    assert rule.check.__module__.startswith("vllm_logdoctor.rules.")


def test_each_id_has_one_rule() -> None:
    assert len({rule.id for rule in CHECKED}) == len(CHECKED)


@for_each("rule", by_id(CHECKED))
def test_a_rule_has_a_test_that_names_it(rule: Rule) -> None:
    assert any(f'"{rule.id}"' in file.read_text() for file in TESTS.rglob("test_*.py"))


def test_what_a_rule_needs_is_a_message_that_patterns_know() -> None:
    known = {pattern.id for pattern in load_index().patterns}
    assert {message for rule in CHECKED for message in rule.needs} <= known


def test_each_performance_page_has_its_check_or_a_pattern_that_names_it() -> None:
    pages = {rule.id for rule in all_rules().values() if rule.page.kind in ("performance", "security")}
    assert pages <= {rule.id for rule in CHECKED} | {pattern.rule for pattern in index().patterns}


@for_each("rule", by_id(CHECKED))
def test_a_rule_has_a_page_with_all_sections(rule: Rule) -> None:
    page = rule.page
    assert page.id == rule.id
    assert page.kind in KINDS
    assert page.severity != "critical"
    assert all((page.meaning, page.why, page.remedy, page.verification, page.exceptions))


@for_each("rule", by_id(CHECKED))
def test_a_page_names_only_knobs_that_some_release_has(rule: Rule) -> None:
    for knob in rule_page(rule.id).knobs:
        known = flag_spans(knob) if knob.startswith("--") else variable_spans(knob) or knob in OTHERS
        assert known or knob.startswith("--no-"), knob


@for_each("rule", by_id(CHECKED))
def test_a_title_reads_after_this_run_has(rule: Rule) -> None:
    title = rule.page.title
    assert not title.endswith(".")
    assert not title.startswith(("Raise", "Set", "Use", "Enable", "Drop"))
