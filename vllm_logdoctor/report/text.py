"""The report as plain text for mail, terminals without colour and files that nobody renders."""

from __future__ import annotations

import io

from vllm_logdoctor.report import markdown
from vllm_logdoctor.report.model import Analysis

WIDTH = 100


def render(analysis: Analysis, width: int = WIDTH) -> str:
    """Return the report as plain text, wrapped to `width` columns."""
    return plain_text(markdown.render(analysis), width)


def plain_text(source: str, width: int = WIDTH) -> str:
    """Return a page of Markdown as plain text.

    Example:
        >>> print(plain_text("# A\\n\\n- `b` **c**", 20), end="")
        A
        =
        <BLANKLINE>
        - b c
    """
    from rich.console import Console

    from vllm_logdoctor.report.terminal_page import print_page

    out = io.StringIO()
    console = Console(file=out, width=width, color_system=None, highlight=False, markup=False, emoji=False)
    print_page(source, console, plain=True)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()).strip("\n") + "\n"
