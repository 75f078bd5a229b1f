"""Comparisons and verifications in every format of a report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from vllm_logdoctor.comparison import json, markdown, verification_markdown
from vllm_logdoctor.comparison.checks import Check, checks_of_comparison, checks_of_verification
from vllm_logdoctor.comparison.comparison import Comparison
from vllm_logdoctor.comparison.verification import Verification
from vllm_logdoctor.report.json import text_of
from vllm_logdoctor.report.text import plain_text
from vllm_logdoctor.report.writers import Result, render_result


def comparison_text(comparison: Comparison, format_name: str) -> str:
    """Return a comparison in one of the formats of a report."""
    return render_result(result_of_comparison(comparison), format_name)


def verification_text(verification: Verification, format_name: str) -> str:
    """Return a verification in one of the formats of a report."""
    return render_result(result_of_verification(verification), format_name)


def result_of_comparison(comparison: Comparison) -> Result:
    """Return a comparison in the forms that formats are made of."""
    from vllm_logdoctor.comparison import html

    page = partial(markdown.render, comparison)
    document = partial(json.comparison_document, comparison)
    return _result(
        page, document, partial(html.render_comparison, comparison), lambda: checks_of_comparison(comparison)
    )


def result_of_verification(verification: Verification) -> Result:
    """Return a verification in the forms that formats are made of."""
    from vllm_logdoctor.comparison import html

    page = partial(verification_markdown.render, verification)
    document = partial(json.verification_document, verification)
    return _result(
        page,
        document,
        partial(html.render_verification, verification),
        lambda: checks_of_verification(verification),
    )


def _result(
    page: Callable[[], str],
    document: Callable[[], json.Document],
    html: Callable[[], str],
    checks: Callable[[], Sequence[Check]],
) -> Result:
    from vllm_logdoctor.comparison import tables

    own: dict[str, Callable[[], str]] = {
        "markdown": page,
        "json": lambda: text_of(document()),
        "text": lambda: plain_text(page()),
        "html": html,
        "sarif": lambda: tables.sarif(checks()),
        "junit": lambda: tables.junit(checks()),
        "github": lambda: tables.github(checks()),
        "csv": lambda: tables.csv_text(checks()),
    }
    return Result(page, document, own)
