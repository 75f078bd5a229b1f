"""What to change, in order: each finding with its evidence, expected effect and how to check it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.report.alternatives import ways_beside
from vllm_logdoctor.report.effects import action_words, effect_words
from vllm_logdoctor.report.escape import code, prose
from vllm_logdoctor.report.excerpt import excerpt
from vllm_logdoctor.report.figures import capital
from vllm_logdoctor.report.naming import OBJECTIVES
from vllm_logdoctor.report.page import Page
from vllm_logdoctor.report.program_terms import in_program_terms, lines_in_program_terms
from vllm_logdoctor.report.sections.plan import changed_command
from vllm_logdoctor.report.state import failed_request, of_little_load
from vllm_logdoctor.report.steps import avoidance, worthwhile
from vllm_logdoctor.rules.model import Finding

# A 16-bit KV cache (`--kv-cache-dtype auto`), if half the capacity is enough
_FLAG = lazy_pattern(r"--[a-z][a-z0-9-]+")
_QUOTED = 2
_QUOTE = 150
_RATE = " throughput: "
_STATISTICS = 240
"""Characters of a quoted line of statistics: the cache that a finding is about comes behind four other figures."""


def changes(page: Page) -> list[str]:
    """Return the section on what to change; nothing for a run that failed."""
    first_screen = worthwhile(page)
    others = (finding for finding in page.advice if finding not in first_screen)
    asked = [finding for finding in (*first_screen, *others) if is_asked(finding)]
    words = OBJECTIVES.get(page.analysis.objective)
    lines: list[str] = [words, ""] if words and asked else []
    first = next(iter(first_screen), None)
    for position, finding in enumerate(asked, start=1):
        body = _as_before(page, finding) or list(_body(page, finding, on_first_screen=finding is first))
        lines += [page.heading(f"{position}. {prose(finding.title)}", 2), "", *body, ""]
    return lines_in_program_terms(lines, page.run)


def other_findings(page: Page) -> list[str]:
    """Return findings that ask for no change, one line each; repeated ones of an earlier run are left out."""
    earlier = {finding.id for diagnosis in page.earlier for finding in diagnosis.findings}
    shown = (page.root, failed_request(page), of_little_load(page))
    return [
        f"- **{prose(finding.title)}**{page.cited(finding.evidence)}: {in_program_terms(prose(_said(page, finding)), page.run)}"
        for finding in page.advice
        if not is_asked(finding) and finding.id not in earlier and finding not in shown
    ]


def _said(page: Page, finding: Finding) -> str:
    """Return the explanation of a finding; of a request's error under load, which the first screen is not about, with what to do."""
    ways = finding.alternatives if finding.role == "root" and page.run.samples else ()
    return " ".join((finding.explanation, *(f"{way.rstrip('.')}." for way in ways)))


def is_asked(finding: Finding) -> bool:
    """Return True if a finding asks for a change."""
    return bool(finding.changes) or finding.severity in ("critical", "high", "medium")


def _as_before(page: Page, finding: Finding) -> list[str]:
    for diagnosis in page.earlier:
        if any(one.id == finding.id and one.changes == finding.changes for one in diagnosis.findings):
            return [f"As in run {diagnosis.run.number}{page.cited(finding.evidence)}."]
    return []


def _body(page: Page, finding: Finding, on_first_screen: bool) -> Iterator[str]:
    if finding.explanation:
        yield from (prose(finding.explanation), "")
    if finding.evidence:
        yield f"- Evidence: {_quoted(page, finding)}"
    if finding.changes:
        yield f"- Change: {_steps([action_words(change, finding.alternatives) for change in finding.changes])}"
    actions = [change.knob for change in finding.changes if change.kind == "action"]
    if len(actions) == len(finding.changes) and "--" in " ".join(actions) and changed_command(page):
        yield "- Try it separately: the launch command below does not include it."
    for knob, reason in page.refused(finding):
        yield f"- Do not change {code(knob)} yet: {prose(reason)}."
    if finding.effect is not None:
        yield f"- Expected: {effect_words(finding.effect)}."
    if finding.confidence != "high":
        yield f"- Confidence in this finding: {finding.confidence}."
    if any(change.safety == "changes-results" for change in finding.changes):
        yield "- Risk: the model's answers may change."
    others = ways_beside(finding.changes, finding.alternatives)
    if others:
        yield f"- {'Alternatives' if finding.changes else 'What to do'}: {' '.join(map(_way, others))}"
    if finding.avoid and not on_first_screen:
        yield f"- {avoidance(finding)}"
    if finding.verify:
        yield f"- To check after the change: {capital(prose(finding.verify))}"


def _steps(words: Sequence[str]) -> str:
    """Return changes as one sentence; many, which are long, as one sentence each."""
    if len(words) <= _QUOTED:
        return f"{'; '.join(words)}."
    return " ".join(f"{capital(step).rstrip('.')}." for step in words)


def _quoted(page: Page, finding: Finding) -> str:
    evidence, named = finding.evidence, [change.knob for change in finding.changes]
    knobs = [*named, *(flag for words in named for flag in _FLAG.findall(words))]
    shown = [
        f"{code(excerpt(one.text, knobs, _STATISTICS if _RATE in one.text else _QUOTE))} {page.cite([one])}"
        for one in evidence[:_QUOTED]
    ]
    more = evidence[_QUOTED:]
    return "; ".join(shown) + (f"; also{page.cited(more)}" if more else "")


def _way(way: str) -> str:
    """Return another way as a sentence."""
    return f"{capital(prose(way.removeprefix('Or ')).rstrip('.'))}."
