"""The rules of failures: what their pages say, compiled into one file that loads at once."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache

from msgspec import Struct, json

from vllm_logdoctor.catalogue.errors import Problem
from vllm_logdoctor.catalogue.locate import builtin_root, page_files
from vllm_logdoctor.catalogue.pages import (
    Case,
    ChangeTemplate,
    RulePage,
    Signature,
    first_paragraph,
    points,
    read_pages,
)
from vllm_logdoctor.catalogue.topics import Resource, RuleKind, Severity, Topic
from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.texts import TextIndex, asked_once, with_equal_digits

SHIPPED = "failures.json"
_FENCE = lazy_pattern(r"^```.*?^```\s*", re.MULTILINE | re.DOTALL)


class FailureRule(Struct, frozen=True):
    """What the page of a failure says, as far as a finding needs it."""

    id: str
    kind: RuleKind
    title: str
    severity: Severity
    topic: Topic
    exhausts: Resource | None
    explain: str
    avoid: str
    verify: str
    meaning: str
    changes: tuple[ChangeTemplate, ...]
    alternatives: tuple[str, ...]
    signatures: tuple[Signature, ...]
    cases: tuple[Case, ...]


class CompiledRules(Struct, frozen=True):
    """The rules of failures, and what is wrong with the pages that were left out."""

    rules: tuple[FailureRule, ...]
    problems: tuple[str, ...]


class FailureRules:
    """All rules of failures, with the way from a text to the signatures that may know it; read when first asked for."""

    def __init__(self, read: Callable[[], CompiledRules]) -> None:
        self._read = read
        self._left_out: dict[str, str] = {}
        self._literals_alike_in = asked_once(self._search)

    def __contains__(self, rule_id: str) -> bool:
        return rule_id in self._rules

    def rule(self, rule_id: str) -> FailureRule:
        """Return a rule; raises KeyError where no page has that id."""
        return self._rules[rule_id]

    def candidates(self, text: str) -> list[tuple[FailureRule, Signature]]:
        """Return the signatures with a literal in the text."""
        literals = (self._literals[number] for number in self._literals_alike_in(text))
        places = {(rule_id, number) for literal, rule_id, number in literals if literal in text}
        return [
            (self.rule(rule_id), self.rule(rule_id).signatures[number])
            for rule_id, number in sorted(places)
            if rule_id not in self._left_out
        ]

    def leave_out(self, rule: FailureRule, error: Exception) -> None:
        """Leave out a rule whose page can't be used, which `logdoctor patterns test` shows with its line."""
        self._left_out[rule.id] = f"{rule.id}.md: {error}"

    @property
    def problems(self) -> tuple[str, ...]:
        """What is wrong with the pages that were left out."""
        return (*self._compiled.problems, *self._left_out.values())

    @cached_property
    def _compiled(self) -> CompiledRules:
        return self._read()

    @cached_property
    def _rules(self) -> dict[str, FailureRule]:
        return {rule.id: rule for rule in self._compiled.rules}

    @cached_property
    def _literals(self) -> list[tuple[str, str, int]]:
        """Each literal with its rule and the number of its signature."""
        return [
            (literal, rule.id, number)
            for rule in self._rules.values()
            for number, signature in enumerate(rule.signatures)
            for literal in signature.literals
        ]

    @cached_property
    def _index(self) -> TextIndex[str]:
        return TextIndex([with_equal_digits(literal).decode() for literal, _, _ in self._literals])

    def _search(self, text: str) -> tuple[int, ...]:
        """Return the numbers of the literals that are in the text but for their digits."""
        return tuple(self._index.found_in(text))


@lru_cache(maxsize=1)
def failure_rules() -> FailureRules:
    """Return the rules of the pages that come with the tool."""
    return FailureRules(lambda: json.decode(rules_text(), type=CompiledRules))


def rules_text() -> bytes:
    """Return the compiled rules as JSON: of the wheel, else of the pages in a checkout."""
    shipped = builtin_root() / SHIPPED
    return (
        shipped.read_bytes()
        if shipped.is_file()
        else json.encode(compiled_rules(*read_pages(page_files(builtin_root()))))
    )


def compiled_rules(pages: Sequence[RulePage], problems: Sequence[Problem] = ()) -> CompiledRules:
    """Return the rules of the pages on failures, and of others that failures speak of."""
    rules = tuple(_rule_of(page) for page in pages if page.kind in ("failure", "configuration"))
    return CompiledRules(rules, tuple(map(str, problems)))


def _rule_of(page: RulePage) -> FailureRule:
    sections = {heading: _FENCE.sub("", text) for heading, text in page.sections.items()}
    return FailureRule(
        id=page.id,
        kind=page.kind,
        title=page.title,
        severity=page.severity,
        topic=page.topic,
        exhausts=page.exhausts,
        explain=page.explain,
        avoid=page.avoid,
        verify=first_paragraph(sections["How to see that it worked"]),
        meaning=first_paragraph(sections["What it means"]),
        changes=page.changes,
        alternatives=points(sections["What to do"]),
        signatures=page.signatures,
        cases=page.cases,
    )


@lru_cache(maxsize=2048)
def expression(regex: str) -> re.Pattern[str]:
    """Return a compiled regex of a page."""
    return re.compile(regex, re.DOTALL)
