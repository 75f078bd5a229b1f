"""Runs rules over a run; a part that fails costs its own answer."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from typing import TypeVar

from vllm_logdoctor.rules.already_set import already_set
from vllm_logdoctor.rules.bottleneck import Bottleneck
from vllm_logdoctor.rules.context import RuleContext, distinct
from vllm_logdoctor.rules.load import Load, load_of
from vllm_logdoctor.rules.model import Change, Effect, Finding
from vllm_logdoctor.rules.printed import as_printed
from vllm_logdoctor.rules.release_terms import action_of_release, fits_release, in_words_of_release
from vllm_logdoctor.rules.rule import Advice, Rule
from vllm_logdoctor.rules.tasks import pools
from vllm_logdoctor.run.model import Run

T = TypeVar("T")


class RuleRunner:
    """Run the parts of a diagnosis; a part that fails costs its own answer and is named, never the report.

    Attributes:
        failed: a sentence for each part that failed.
    """

    def __init__(self, strict: bool = False) -> None:
        self.failed: list[str] = []
        self._strict = strict or bool(os.environ.get("LOGDOCTOR_TRACEBACK"))

    def get(self, name: str, part: Callable[[], T], otherwise: T) -> T:
        """Return the result of a part; `otherwise` where it fails."""
        try:
            return part()
        except Exception as error:
            if self._strict:
                raise
            reason = f"{type(error).__name__}: {error}"
            self.failed.append(
                f"The {name} of this run could not be worked out ({reason}): a defect of logdoctor."
            )
            return otherwise

    def findings(self, rules: Iterable[Rule], case: RuleContext) -> Iterator[tuple[Rule, Finding]]:
        """Yield the rules that apply to a run, each with its finding."""
        for rule in rules:
            found = self.get(f"rule {rule.id}", partial(apply, rule, case), None)
            if found is not None:
                yield rule, found


def settings_findings(
    rules: Iterable[Rule], run: Run, runner: RuleRunner | None = None
) -> tuple[Finding, ...]:
    """Return the findings of rules that ask for no load: settings, secrets."""
    case = RuleContext(run, _no_load(), Bottleneck("none-clear", ""), ())
    return tuple(found for _, found in (runner or RuleRunner(strict=True)).findings(rules, case))


@cache
def _no_load() -> Load:
    return load_of(Run())


def apply(rule: Rule, case: RuleContext) -> Finding | None:
    """Return the finding of a rule on a run, or None where it does not apply."""
    if rule.check is None or (rule.needs and not any(name in case.run.messages for name in rule.needs)):
        return None
    advice = rule.check(case)
    return None if advice is None else finding_of(rule, advice, case)


def _on_answers(effect: Effect | None) -> bool:
    """Return whether an effect is one on generated tokens, which a model that embeds or classifies has none of."""
    return effect is not None and effect.metric in ("generation_throughput", "itl", "ttft")


def _of_release(changes: Iterable[Change], run: Run) -> Iterator[Change]:
    """Yield the changes that a run does not have yet; those in words as its release can make them."""
    for change in changes:
        worded = action_of_release(change, run) if change.kind == "action" else change
        if worded is not None and not already_set(run, worded):
            yield worded


def finding_of(rule: Rule, advice: Advice, case: RuleContext) -> Finding:
    """Return the finding of a rule: what its check says, with the title, topic and severity of its page."""
    page = rule.page
    return Finding(
        id=rule.id,
        kind=page.kind,
        severity=advice.severity or page.severity,
        confidence=advice.confidence,
        title=advice.title or page.title,
        explanation=advice.explanation,
        evidence=distinct(advice.evidence),
        changes=tuple(_of_release(advice.changes, case.run)),
        alternatives=tuple(
            way
            for written in advice.alternatives
            if fits_release(way := in_words_of_release(written, case.run), case.run)
        ),
        avoid=advice.avoid,
        effect=None if pools(case.run) and _on_answers(advice.effect) else advice.effect,
        verify=as_printed(advice.verify, case.run),
        topic=page.topic,
        exhausts=page.exhausts,
    )
