"""A comparison or verification as checks that pass or fail: what JUnit, SARIF, annotations and CSV are made of."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from vllm_logdoctor.catalogue.topics import SEVERITIES, Severity
from vllm_logdoctor.comparison.comparison import Comparison, FigureDifference, FindingDifference
from vllm_logdoctor.comparison.verification import CheckedChange, CheckedPrediction, Verification
from vllm_logdoctor.comparison.verification_markdown import expected, planned_words
from vllm_logdoctor.comparison.wording import figure_value, load_words, moved_words, side, times
from vllm_logdoctor.report.reader import plain_words
from vllm_logdoctor.run.model import Evidence

Verdict = Literal["passed", "failed", "unknown"]

_PASSED = frozenset({"gone", "kept", "better", "same", "faster", "took-effect", "as-predicted", "more"})
_FAILED = frozenset({"new", "worse", "slower", "not-applied", "other-value", "less"})


class Check(Struct, frozen=True):
    """One statement that a build can pass or fail on.

    Attributes:
        group: "finding", "speed", "figure", "change" or "prediction".
        name: rule, figure or knob.
        state: what came out, in the words of its group.
        severity: how much a failure weighs.
        said: one sentence, plain text.
        before, after: values, plain text; "" where there are none.
        ratio: after/before, or None.
        line: the line that proves it, or None.
    """

    group: str
    name: str
    state: str
    severity: Severity
    said: str
    before: str = ""
    after: str = ""
    ratio: float | None = None
    line: Evidence | None = None

    @property
    def verdict(self) -> Verdict:
        """Return "unknown" where the logs can't say."""
        return "passed" if self.state in _PASSED else "failed" if self.state in _FAILED else "unknown"


def checks_of_comparison(comparison: Comparison) -> list[Check]:
    """Return the checks of a comparison: its findings, the speed at equal load, the figures."""
    findings, figures = map(_finding, comparison.findings), map(_figure, comparison.figures)
    return [*findings, _speed(comparison), *figures]


def checks_of_verification(verification: Verification) -> list[Check]:
    """Return the checks of a verification: each planned change, each prediction."""
    return [*map(_change, verification.changes), *map(_prediction, verification.predictions)]


def _finding(one: FindingDifference) -> Check:
    finding = one.finding
    severity: Severity = next((known for known in SEVERITIES if known == finding.severity), "medium")
    note = f" ({one.note})" if one.note else ""
    said = f"{one.state}: {finding.title}{note}"
    return Check("finding", finding.rule, one.state, severity, said, line=finding.line)


def _speed(comparison: Comparison) -> Check:
    load = comparison.load
    said = plain_words(load_words(load))
    return Check("speed", "speed-at-equal-load", load.verdict, "high", said, ratio=load.ratio)


def _figure(one: FigureDifference) -> Check:
    said = plain_words(moved_words(one)) + (f" ({one.note})" if one.note else "")
    before, after = (plain_words(figure_value(one.name, value)) for value in (one.before, one.after))
    return Check("figure", one.name, one.verdict, "medium", said, before, after, one.ratio)


def _change(one: CheckedChange) -> Check:
    knob, wanted = (plain_words(words) for words in planned_words(one.planned))
    found = "not set" if one.found is None else plain_words(side(one.found))
    after = "" if one.state == "unknown" else found
    note = f" ({one.note})" if one.note else ""
    asked = f"{knob} {wanted}".strip()
    seen = f"; found: {after}" if after else ""
    said = f"{one.state.replace('-', ' ')}: {asked}{seen}{note}"
    return Check("change", one.planned.knob, one.state, "medium", said, wanted, after)


def _prediction(one: CheckedPrediction) -> Check:
    wanted, came = plain_words(expected(one)), times(one.ratio)
    seen = f"; came: {came}" if came else ""
    said = f"{one.state.replace('-', ' ')}: {one.title}: {wanted}{seen} ({one.note})"
    return Check("prediction", one.rule, one.state, "low", said, wanted, came, ratio=one.ratio)
