"""The first screen: state, what ran, the verdict, a few figures, what to do; one model for all formats.

All texts are escaped inline Markdown.
"""

from __future__ import annotations

from msgspec import Struct

from vllm_logdoctor.report.key_figures import key_figures
from vllm_logdoctor.report.naming import OUTCOMES, run_title
from vllm_logdoctor.report.page import Page
from vllm_logdoctor.report.state import Level, failed_request, state, state_level
from vllm_logdoctor.report.steps import (
    SHOWN,
    action,
    note,
    of_the_start,
    remedies,
    without_change,
    worthwhile,
)
from vllm_logdoctor.report.verdict import (
    idle_before,
    is_in_title,
    quote,
    root_explanation,
    root_lead,
    sentence,
    split_lead,
    with_lines,
)
from vllm_logdoctor.rules.failure.rule_ids import UNKNOWN


class FirstScreen(Struct, frozen=True):
    """What a hurried reader gets of one run.

    Attributes:
        level: "healthy", "limited", "failed" or "cut".
        state: "LIMITED: KV cache full".
        ran: what ran on what, for how long, and how it ended.
        quote: the decisive line of a failure with its place, or "".
        verdict: the sentence that matters, with line references.
        figures: names and values, at most five.
        actions: what to do, first things first, at most three.
        note: what not to do, and how many further changes follow; or "".
    """

    level: Level
    state: str
    ran: str
    verdict: str
    quote: str = ""
    figures: tuple[tuple[str, str], ...] = ()
    actions: tuple[str, ...] = ()
    note: str = ""


def first_screen(page: Page) -> FirstScreen:
    """Return the first screen of a run."""
    level = state_level(page)
    root = page.shown_root
    if root is not None and (before := page.failed_before) is not None:
        again = f"The same failure as in run {before.number}{page.cited(root.evidence[1:], 2)}."
        return FirstScreen(
            level, state(page), run_title(page.run, failed=True), again, quote=quote(page, root)
        )
    if root is not None:
        title, line = state(page), quote(page, root)
        return FirstScreen(
            level,
            title,
            run_title(page.run, failed=True, known=root.id != UNKNOWN),
            with_lines(page, root_lead(root, page.run.outcome), root) + idle_before(page, root),
            quote="" if is_in_title(line, title) else line,
            actions=tuple(remedies(page, root))[:SHOWN],
            note=note(page, root, ()),
        )
    if (request := failed_request(page)) is not None:
        said = with_lines(page, split_lead(root_explanation(request))[0], request)
        loaded = level == "healthy"
        return FirstScreen(
            level,
            state(page),
            run_title(page.run, failed=not loaded),
            f"{said} {sentence(page)}" if loaded else said,
            quote=quote(page, request),
            figures=key_figures(page.run) if loaded else (),
            actions=tuple(remedies(page, request))[:SHOWN] if request.role == "root" else (),
        )
    chosen = worthwhile(page)[:SHOWN] if level != "cut" else of_the_start(page)[: SHOWN - 1]
    verdict = sentence(page)
    title = state(page)
    ran = run_title(page.run)
    return FirstScreen(
        level,
        title,
        # CUT OFF says it already.
        ran.removesuffix(f" · {OUTCOMES['truncated']}") if level == "cut" else ran,
        verdict,
        figures=key_figures(page.run) if level != "failed" else (),
        actions=(
            *(action(page, finding, f"{title}: {verdict}") for finding in chosen),
            *(without_change(page, level) if level == "cut" or not chosen else ()),
        )[:SHOWN],
        note=note(page, chosen[0] if chosen else None, chosen),
    )
