"""What to change, in order: each finding with its evidence, reasons, expected effect and how to verify it."""

from __future__ import annotations

from collections.abc import Iterable

from vllm_logdoctor.report.alternatives import in_full, other_ways
from vllm_logdoctor.report.effects import SAFETY, change_words, effect_words
from vllm_logdoctor.report.escape import code, prose
from vllm_logdoctor.report.excerpt import excerpt
from vllm_logdoctor.report.figures import capital, setting
from vllm_logdoctor.report.naming import OBJECTIVES
from vllm_logdoctor.report.page import Page
from vllm_logdoctor.rules.model import Change, Finding
from vllm_logdoctor.run.model import Evidence

QUOTED = 3


def changes(page: Page) -> list[str]:
    """Return the section as Markdown lines; nothing where there is nothing to change."""
    asked = [finding for finding in page.advice if is_asked(finding)]
    words = OBJECTIVES.get(page.analysis.objective)
    lines: list[str] = [words, ""] if words and asked else []
    for position, finding in enumerate(asked, start=1):
        body = _as_before(page, finding) or _body(page, finding)
        lines += [page.heading(f"{position}. {_headline(finding)}", 2), "", *body, ""]
    return lines


def worth_knowing(page: Page) -> list[str]:
    """Return findings that ask for no change, one line each; what an earlier run told is left out."""
    told = {finding.id for diagnosis in page.earlier for finding in diagnosis.findings}
    return [_known(page, f) for f in page.advice if not is_asked(f) and f.id not in told]


def is_asked(finding: Finding) -> bool:
    """Tell whether a finding asks for a change."""
    return bool(finding.changes) or finding.severity in ("critical", "high", "medium")


def remedy(page: Page, finding: Finding) -> list[str]:
    """Return what to do about a failure as Markdown lines."""
    lines: list[str] = []
    if finding.changes:
        lines += ["What to do:", "", *(_remedy_line(change, finding) for change in finding.changes)]
    others = other_ways(finding.changes, finding.alternatives)
    if others:
        lines += ["", "Or:" if finding.changes else "What to do, first choice first:", ""]
        lines += [f"- {_way(way)}" for way in others]
    if finding.avoid:
        lines += ["", f"Not: {prose(finding.avoid)}"]
    if finding.verify:
        lines += ["", f"You will see: {prose(finding.verify)}"]
    return lines


def _remedy_line(change: Change, finding: Finding) -> str:
    note = f": {prose(change.note)}" if change.note else ""
    caution = f" ({SAFETY[change.safety]})" if change.safety != "safe" else ""
    return f"- {capital(_action(change, finding) or change_words(change))}{caution}{note}"


def _action(change: Change, finding: Finding) -> str:
    """Return an action in all the words that there are for it; an empty text for another kind of change."""
    if change.kind != "action":
        return ""
    way = in_full(change, finding.alternatives)
    if way:
        return prose(way[:1].lower() + way[1:].rstrip("."))
    return (
        f"{prose(change.knob)}: {prose(change.after)}"
        if isinstance(change.after, str)
        else prose(change.knob)
    )


def _known(page: Page, finding: Finding) -> str:
    ways = f" If it matters: {_enumerated(finding.alternatives)}" if finding.alternatives else ""
    title = f"**{prose(finding.title)}.**{page.cited(finding.evidence, 3)}"
    return f"- {title} {prose(finding.explanation)}{ways}"


def _as_before(page: Page, finding: Finding) -> list[str]:
    for diagnosis in page.earlier:
        if any(told.id == finding.id and told.changes == finding.changes for told in diagnosis.findings):
            here = f" {prose(finding.explanation)}" if finding.explanation else ""
            return [f"As in run {diagnosis.run.number}.{page.cited(finding.evidence, 3)}{here}"]
    return []


def _headline(finding: Finding) -> str:
    title = prose(finding.title)
    first = finding.changes[0] if finding.changes else None
    return f"{title}: {change_words(first)}" if first and first.kind != "action" else title


def _body(page: Page, finding: Finding) -> list[str]:
    lines = [f"- **Evidence.** {_quoted(page, finding)}"] if finding.evidence else []
    if finding.explanation:
        lines.append(f"- **What it means here.** {prose(finding.explanation)}")
    if finding.changes:
        lines.append(
            "- **Change.** " + "; ".join(_change(change, finding) for change in finding.changes) + "."
        )
        lines += [f"- **Not yet.** {code(knob)} {prose(reason)}." for knob, reason in _refused(page, finding)]
    expected = effect_words(finding.effect)
    lines.append(f"- **Expected.** {expected or 'No range with an origin is known'}.")
    lines.append(f"- **Confidence.** {capital(finding.confidence)}. Severity {finding.severity}.")
    risks = _risks(finding.changes)
    if risks:
        lines.append(f"- **Risk.** {risks}")
    others = other_ways(finding.changes, finding.alternatives)
    if others:
        lines.append(f"- **Or.** {_enumerated(others)}")
    if finding.avoid:
        lines.append(f"- **Not.** {prose(finding.avoid)}")
    if finding.verify:
        lines.append(f"- **You will see** {prose(finding.verify)}")
    return lines


def put_off(page: Page, finding: Finding) -> bool:
    """Tell whether the plan holds nothing of what a finding asks for."""
    return len(_refused(page, finding)) == len(finding.changes) > 0


def _refused(page: Page, finding: Finding) -> list[tuple[str, str]]:
    plan = page.diagnosis.plan
    asked = {planned.change.knob for planned in plan.changes if finding.id in planned.findings}
    left_out = {change.knob for change in finding.changes} - asked
    return [(knob, reason) for knob, reason in plan.refused if knob in left_out]


def _change(change: Change, finding: Finding) -> str:
    if change.kind == "action":
        return _action(change, finding)
    if change.before is None or isinstance(change.before, bool):
        return change_words(change)
    return (
        change_words(change)
        if change.after is not None
        else f"{change_words(change)} (was {setting(change.before)})"
    )


def _risks(planned: tuple[Change, ...]) -> str:
    told = [prose(change.note).rstrip(".") for change in planned if change.note]
    cautions = sorted({SAFETY[change.safety] for change in planned if change.safety != "safe"})
    words = [*cautions, *dict.fromkeys(told)]
    return ". ".join(map(capital, words)) + "." if words else ""


def _quoted(page: Page, finding: Finding) -> str:
    evidence, knobs = finding.evidence, [change.knob for change in finding.changes]
    shown = [f"{code(excerpt(one.text, knobs))} {page.cite([one])}" for one in evidence[:QUOTED]]
    return "; ".join(shown) + _more(page, evidence[QUOTED:])


def _more(page: Page, evidence: tuple[Evidence, ...]) -> str:
    return f"; and {len(evidence)} more{page.cited(evidence)}" if evidence else ""


def _enumerated(ways: Iterable[str]) -> str:
    return " ".join(map(_way, ways))


def _way(way: str) -> str:
    """Return another way as a sentence; that it is one the list says already."""
    return capital(prose(way.removeprefix("Or ")).rstrip(".")) + "."
