"""Comparisons and verifications in every format of a report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from vllm_logdoctor.comparison import json, markdown, verification_markdown
from vllm_logdoctor.comparison.checks import Check, checks_of_comparison, checks_of_verification
from vllm_logdoctor.comparison.comparison import Comparison
from vllm_logdoctor.comparison.verification import Verification
from vllm_logdoctor.report.writers import Result


def result_of_comparison(comparison: Comparison) -> Result:
    """Return a comparison in the forms that formats are made of."""
    from vllm_logdoctor.comparison.html import render_comparison

    return Result(
        partial(markdown.render, comparison),
        partial(json.comparison_document, comparison),
        _forms(partial(render_comparison, comparison), partial(checks_of_comparison, comparison)),
    )


def result_of_verification(verification: Verification) -> Result:
    """Return a verification in the forms that formats are made of."""
    from vllm_logdoctor.comparison.html import render_verification

    return Result(
        partial(verification_markdown.render, verification),
        partial(json.verification_document, verification),
        _forms(partial(render_verification, verification), partial(checks_of_verification, verification)),
    )


def _forms(html: Callable[[], str], checks: Callable[[], Sequence[Check]]) -> dict[str, Callable[[], str]]:
    from vllm_logdoctor.comparison import tables

    return {
        "html": html,
        "sarif": lambda: tables.sarif(checks()),
        "junit": lambda: tables.junit(checks()),
        "github": lambda: tables.github(checks()),
        "csv": lambda: tables.csv_text(checks()),
    }
