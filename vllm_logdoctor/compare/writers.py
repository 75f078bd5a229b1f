"""Formats by name, for comparisons and verifications alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from vllm_logdoctor.compare import json, markdown, verification_markdown
from vllm_logdoctor.compare.checks import Check, checks_of_comparison, checks_of_verification
from vllm_logdoctor.compare.comparison import Comparison
from vllm_logdoctor.compare.verification import Verification
from vllm_logdoctor.report.text import plain_text

FORMATS = ("markdown", "json", "text", "html", "sarif", "junit", "github", "csv")


def comparison_text(comparison: Comparison, format_name: str) -> str:
    """Return a comparison in one of `FORMATS`."""
    if format_name == "json":
        return json.render_comparison(comparison)
    if format_name == "html":
        from vllm_logdoctor.compare import html

        return html.render_comparison(comparison)
    if format_name in _tables():
        return _tables()[format_name](checks_of_comparison(comparison))
    return _page(markdown.render(comparison), format_name)


def verification_text(verification: Verification, format_name: str) -> str:
    """Return a verification in one of `FORMATS`."""
    if format_name == "json":
        return json.render_verification(verification)
    if format_name == "html":
        from vllm_logdoctor.compare import html

        return html.render_verification(verification)
    if format_name in _tables():
        return _tables()[format_name](checks_of_verification(verification))
    return _page(verification_markdown.render(verification), format_name)


def _page(source: str, format_name: str) -> str:
    return plain_text(source) if format_name == "text" else source


def _tables() -> Mapping[str, Callable[[Sequence[Check]], str]]:
    from vllm_logdoctor.compare import tables

    return {
        "sarif": tables.sarif,
        "junit": tables.junit,
        "github": tables.github,
        "csv": tables.table,
    }
