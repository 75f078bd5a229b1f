"""What a page looks like on a terminal with styles: headings and bold words stand out, and so does code."""

from __future__ import annotations

import io

from rich.console import Console

from tests.tables import for_each
from vllm_logdoctor.report.terminal_page import print_page


def printed(page: str) -> str:
    out = io.StringIO()
    print_page(page, Console(file=out, width=60, color_system="standard", force_terminal=True))
    return out.getvalue()


@for_each(
    ("page", "style"),
    [
        ("# Title\n", "\x1b[1;4mTitle\x1b[0m"),
        ("## Section\n", "\x1b[1mSection\x1b[0m"),
        ("A **strong** word\n", "A \x1b[1mstrong\x1b[0m word"),
        ("Set `--seed` anew\n", "Set \x1b[36m--seed\x1b[0m anew"),
        ("- Set **this**\n", "Set \x1b[1mthis\x1b[0m"),
        ("| head |\n|---|\n| cell |\n", "\x1b[2mhead\x1b[0m"),
    ],
)
def test_words_stand_out_as_their_mark_says(page: str, style: str) -> None:
    assert style in printed(page)


def test_what_has_no_mark_has_no_style() -> None:
    assert "\x1b" not in printed("Plain words.\n\n- An item\n")
