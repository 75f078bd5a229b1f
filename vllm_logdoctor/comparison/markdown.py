"""A comparison as Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from vllm_logdoctor.comparison.comparison import Attribution, Comparison, FigureDifference, FindingDifference
from vllm_logdoctor.comparison.influence import subject_of
from vllm_logdoctor.comparison.wording import (
    both_names,
    figure_name,
    figure_value,
    load_words,
    moved_words,
    room_words,
    setting_name,
    setting_words,
    side,
    times,
)
from vllm_logdoctor.report.escape import code, inline, prose
from vllm_logdoctor.report.figures import enumeration, number, table
from vllm_logdoctor.report.naming import BOTTLENECKS, OUTCOMES
from vllm_logdoctor.rules.context import plural
from vllm_logdoctor.rules.equal_load import EqualLoad

_VERDICTS = {"better": "better", "worse": "**worse**", "same": "same", "other": ""}
_STATES = {
    "gone": "Gone",
    "new": "New",
    "unclear": "Not seen again, which says little",
    "kept": "Still there",
}
LEVELS = "Speed at equal load"
"""Title of the section that holds the levels of running requests."""

_LEVELS_SHOWN = 24
_NAMES_SHOWN = 6


def render(comparison: Comparison) -> str:
    """Return a comparison as Markdown: what came of the changes first, then the figures."""
    before, after = comparison.before, comparison.after
    lines = [f"# {both_names(before.name, after.name)}", "", headline(comparison), ""]
    if comparison.load.ratio is not None:
        lines += [*(f"- Take care: {inline(warning)}." for warning in comparison.load.warnings), ""]
    for title, body in (
        ("What changed, and what came of it", _attributions(comparison)),
        (LEVELS, _levels(comparison.load)),
        ("Start-up and capacity", _figures(comparison.figures, speed=False)),
        ("The whole run", _whole_run(comparison)),
        ("Findings", _findings(comparison.findings)),
        ("Settings that only one log shows", _one_sided(comparison)),
    ):
        if body:
            lines += [f"## {title}", "", *body, ""]
    return "\n".join(lines).rstrip() + "\n"


def headline(comparison: Comparison) -> str:
    """Return the comparison in a few sentences."""
    before, after = comparison.before, comparison.after
    said = []
    if before == after:
        said.append("Both sides are the same run of the same log.")
    models = {
        one.what["model"].rstrip("/").rpartition("/")[2] for one in (before, after) if "model" in one.what
    }
    if len(models) > 1:
        said.append("The models differ: speed and capacity are those of two models.")
    if before.outcome != after.outcome:
        said.append(f"Before: {_outcome(before.outcome)}; after: {_outcome(after.outcome)}.")
    said.append(load_words(comparison.load))
    if comparison.room:
        said.append(f"{_capital(room_words(comparison.room))}.")
    said += [f"{_capital(moved_words(figure))}." for figure in _telling(comparison.figures)]
    if not comparison.attributions:
        said.append("No setting that could matter differs.")
    return f"**{' '.join(said)}**"


def _telling(figures: Sequence[FigureDifference]) -> list[FigureDifference]:
    names = ("startup_seconds", "kv_cache_tokens")
    return [one for one in figures if one.name in names and one.verdict in ("better", "worse")]


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _outcome(name: str) -> str:
    return next((words for outcome, words in OUTCOMES.items() if outcome == name), inline(name, 60))


def _attributions(comparison: Comparison) -> list[str]:
    lines = [
        line for attribution in comparison.attributions for line in _attribution(attribution, comparison)
    ]
    for role, words in (
        ("follows", "vLLM itself chose otherwise"),
        ("idle", "Different too, but moves no figure"),
    ):
        names = [setting_name(one.name) for one in comparison.settings if one.role == role]
        more = [f"{len(names) - _NAMES_SHOWN} more"] if len(names) > _NAMES_SHOWN else []
        if names:
            lines += ["", f"{words}: {enumeration(names[:_NAMES_SHOWN] + more)}."]
    return lines


def _attribution(attribution: Attribution, comparison: Comparison) -> list[str]:
    found = [moved_words(figure) for figure in attribution.figures]
    if attribution.speed:
        found.append(f"speed at equal load {times(comparison.load.ratio)}")
    if attribution.room and comparison.room:
        found.append(room_words(comparison.room))
    found += [f"{_STATES[one.state].lower()}: {prose(one.finding.title)}" for one in attribution.findings]
    if attribution.shared_with:
        names = [setting_name(name) for name in attribution.shared_with[:_NAMES_SHOWN]]
        found.append(f"{enumeration(names)} can have moved the same; two logs can't tell which it was")
    return [
        f"- {setting_words(attribution.change)}",
        *(f"    - {line}" for line in found or [_nothing_moved(attribution, comparison.load)]),
    ]


def _nothing_moved(attribution: Attribution, load: EqualLoad) -> str:
    if not attribution.subjects:
        return "what it moves is not known here"
    if "speed" in attribution.subjects and load.verdict == "unknown":
        return "its effect on the speed is not known: no equal load"
    return "nothing that it can move has moved"


def _levels(load: EqualLoad) -> list[str]:
    if not load.pairs:
        return []
    shown = sorted(load.pairs, key=lambda pair: -min(pair.before.samples, pair.after.samples))[:_LEVELS_SHOWN]
    rows = []
    for pair in sorted(shown, key=lambda pair: pair.before.low):
        rates = (f"{number(one.generation[1])} (n={one.samples})" for one in (pair.before, pair.after))
        running = _running(pair.before.low, max(pair.before.high, pair.after.high))
        rows.append([running, *rates, times(pair.ratio)])
    header = ["running requests", "before, median tokens/s", "after, median tokens/s", "ratio"]
    left_out = len(load.pairs) - len(rows)
    shares = f"{100 * load.share_before:.0f} % of the steady samples before and {100 * load.share_after:.0f} % after"
    lines = [*table(header, rows), "", f"{shares} lie in levels that both logs have."]
    return [*lines, f"{plural(left_out, 'level')} with fewer samples not shown."] if left_out else lines


def _running(low: int, high: int) -> str:
    return str(low) if low == high else f"{low} to {high}"


def _figures(figures: Sequence[FigureDifference], speed: bool) -> list[str]:
    return figure_table([one for one in figures if (_is_traffic(one)) == speed])


def figure_table(chosen: Sequence[FigureDifference]) -> list[str]:
    """Return a table of figures before and after, or nothing of none."""
    if not chosen:
        return []
    rows = []
    for one in chosen:
        values = (figure_value(one.name, value) for value in (one.before, one.after))
        rows.append([figure_name(one.name), *values, times(one.ratio), one.note or _VERDICTS[one.verdict]])
    return table(["figure", "before", "after", "ratio", ""], rows)


def _is_traffic(figure: FigureDifference) -> bool:
    return subject_of(figure.name) in ("speed", None)


def _whole_run(comparison: Comparison) -> list[str]:
    body = _figures(comparison.figures, speed=True)
    before, after = comparison.before.bottleneck, comparison.after.bottleneck
    if before != after and before in BOTTLENECKS and after in BOTTLENECKS:
        body += ["", f"Limit before: {BOTTLENECKS[before]}. After: {BOTTLENECKS[after]}."]
    if body and comparison.figures:
        body += ["", "These figures follow the traffic: they say how each run was used, not which is faster."]
    return body


def _findings(findings: Sequence[FindingDifference]) -> list[str]:
    lines = []
    for state, words in _STATES.items():
        for one in findings:
            if one.state == state:
                note = f": {inline(one.note)}" if one.note else ""
                lines.append(f"- {words}: {prose(one.finding.title)} ({code(one.finding.rule, 120)}){note}")
    return lines


def _one_sided(comparison: Comparison) -> list[str]:
    rows = [
        [setting_name(one.name), side(one.before), side(one.after)]
        for one in comparison.one_sided
        if one.role != "idle"
    ]
    return table(["setting", "before", "after"], rows) if rows else []
