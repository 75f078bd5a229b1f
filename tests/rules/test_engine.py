"""One rule on one run: what it needs, what its page adds, and what a failing check costs."""

from __future__ import annotations

import pytest

from tests.rules.making import a_run
from vllm_logdoctor.diagnose import judge
from vllm_logdoctor.rules.bottleneck import bottleneck_of
from vllm_logdoctor.rules.context import RuleContext, rule_context
from vllm_logdoctor.rules.engine import apply
from vllm_logdoctor.rules.load import load_of
from vllm_logdoctor.rules.performance import graphs
from vllm_logdoctor.rules.rule import Advice, Rule

DISABLED = "vLLM's torch.compile cache is disabled."


def context(**facts: object) -> RuleContext:
    run = a_run(**facts)  # type: ignore[arg-type]
    return rule_context(run, load_of(run), bottleneck_of(run), "balanced")


def says_so(_: RuleContext) -> Advice:
    return Advice("So it is.", (), confidence="high")


def fails(_: RuleContext) -> Advice:
    raise ZeroDivisionError("no such share")


def test_title_severity_topic_and_kind_come_from_the_page() -> None:
    rule = Rule("eager-mode", says_so)
    found = apply(rule, context())
    assert found is not None
    page = rule.page
    assert (found.title, found.severity, found.topic, found.kind) == (
        page.title,
        page.severity,
        page.topic,
        page.kind,
    )


def test_a_severity_of_the_check_comes_before_that_of_the_page() -> None:
    found = apply(Rule("eager-mode", lambda _: Advice("", (), "high", severity="info")), context())
    assert found is not None
    assert found.severity == "info"


def test_a_rule_without_the_message_it_needs_is_not_asked() -> None:
    rule = Rule("eager-mode", fails, needs=("compile-cache-disabled",))
    assert apply(rule, context()) is None
    with pytest.raises(ZeroDivisionError):
        apply(rule, context(messages=(DISABLED,)))


def test_a_check_that_fails_costs_its_own_finding_and_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LOGDOCTOR_TRACEBACK", raising=False)
    monkeypatch.setattr(
        "vllm_logdoctor.rules.performance.RULES", (Rule("moe-kernel-untuned", fails), *graphs.RULES)
    )
    diagnosis = judge(a_run(set={"enforce_eager": True}))
    assert "eager-mode" in {found.id for found in diagnosis.findings}
    (note,) = [note for note in diagnosis.unknowns if "moe-kernel-untuned" in note]
    assert "ZeroDivisionError: no such share" in note
