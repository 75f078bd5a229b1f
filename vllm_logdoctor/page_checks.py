"""Checks of rule pages against the code and the analysis: check and page agree, and the example of a failure is known."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from vllm_logdoctor.catalogue.errors import Problem
from vllm_logdoctor.catalogue.locate import builtin_root
from vllm_logdoctor.catalogue.pages import problem, read_pages, rule_ids
from vllm_logdoctor.pipeline import Options, analyse
from vllm_logdoctor.rules import job, observed
from vllm_logdoctor.rules.registry import CHECKED
from vllm_logdoctor.source import inputs_from

_OF_FAILURES = frozenset(rule.id for rule in (*job.RULES, *observed.RULES))
"""Checks that find failures, by what is beside the log; all others judge a run that works."""


def check_rules(files: Iterable[Path]) -> list[Problem]:
    """Return the checks without a page, and what is wrong with the pages of failures among some files."""
    return sorted([*_without_page(), *_of_failures(files)])


def _without_page() -> Iterator[Problem]:
    for rule in CHECKED:
        if rule.id not in rule_ids() and rule.source is not None:
            yield Problem(*rule.source, rule.id, f"has no page; write patterns/rules/{rule.id}.md")


def _of_failures(files: Iterable[Path]) -> Iterator[Problem]:
    checked = {rule.id for rule in CHECKED}
    paths = {path.stem: path for path in files if path.suffix == ".md"}
    for page in read_pages(paths.values())[0]:
        path = paths[page.id]
        if page.kind != "failure" or page.id in _OF_FAILURES:
            continue
        text = path.read_text("utf-8")
        if page.id in checked:
            yield problem(
                path, text, ("kind",), 'has a check of a run that works; write kind = "performance"'
            )
        elif not page.example:
            yield problem(
                path, text, ("signature",), "has no section Example; add one with a ```log that shows it"
            )
        elif path.resolve().is_relative_to(builtin_root().resolve()):
            named = _causes_in(page.example)
            if page.id not in named:
                judged = ", ".join(named) or "no failure"
                message = f"misses: the example is judged {judged}; correct regex, where or priority"
                yield problem(path, text, ("signature", 0), message)


def _causes_in(log: str) -> list[str]:
    """Return what an analysis names as the cause in a log, and as what followed from it."""
    runs = analyse(inputs_from(log.encode()), Options()).runs
    return [one.id for run in runs for one in run.findings if one.role in ("root", "cascade")]
