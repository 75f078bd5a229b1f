"""A rule page that can't be used costs its own rule, is named in the report, and stops no analysis."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.failure.judging import examples
from vllm_logdoctor.catalogue.errors import Problem
from vllm_logdoctor.catalogue.locate import builtin_root, page_files
from vllm_logdoctor.catalogue.pages import RulePage, read_pages
from vllm_logdoctor.pipeline import Options, analyse
from vllm_logdoctor.report.model import Analysis
from vllm_logdoctor.rules.failure import judge, signatures
from vllm_logdoctor.rules.failure.signatures import FailureRules, compiled_rules
from vllm_logdoctor.source import inputs_from

BROKEN = "oom-weights-load"


def with_signatures(page: RulePage, **changes: str) -> RulePage:
    return replace(page, signatures=tuple(replace(one, **changes) for one in page.signatures))


def analysed(monkeypatch: pytest.MonkeyPatch, *problems: Problem, **changes: str) -> Analysis:
    """Analyse the example of a page whose signatures were changed."""
    pages = read_pages(page_files(builtin_root()))[0]
    changed = [with_signatures(page, **changes) if page.id == BROKEN else page for page in pages]
    rules = FailureRules(lambda: compiled_rules(changed, problems))
    for module in (judge, signatures):
        monkeypatch.setattr(module, "failure_rules", lambda: rules)
    return analyse(inputs_from(examples()[BROKEN].encode()), Options())


def test_an_expression_that_is_none_costs_its_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    found = analysed(monkeypatch, regex="CUDA (out of memory")
    (run,) = found.runs
    assert run.run.outcome == "crashed_at_startup"
    assert [one.id for one in run.findings if one.role == "root"] not in ([], [BROKEN])
    assert [
        note for note in found.coverage.notes if note.startswith(f"rule left out: {BROKEN}.md: missing )")
    ]


def test_a_page_that_can_not_be_read_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = Problem(Path("rules/other.md"), 7, "priorty", "unknown field")
    found = analysed(monkeypatch, problem, regex="CUDA out of memory")
    assert "rule left out: rules/other.md:7: priorty: unknown field" in found.coverage.notes


@pytest.mark.parametrize(
    "template", ["Loading took {total", "Loading took {unknown}.", "Loading took {total:x}."]
)
def test_a_template_that_can_not_be_filled_in_costs_itself_and_not_the_failure(
    monkeypatch: pytest.MonkeyPatch, template: str
) -> None:
    found = analysed(monkeypatch, explain=f"The weights are too large.\n{template}")
    (root,) = [one for one in found.runs[0].findings if one.role == "root"]
    assert root.id == BROKEN
    assert root.explanation == "The weights are too large."
