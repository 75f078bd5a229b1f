"""Second opinions, apart from what logdoctor concluded and after it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from vllm_logdoctor.report.escape import code, inline
from vllm_logdoctor.report.opinion import Claim, Opinion
from vllm_logdoctor.rules.context import plural


def opinions(found: Sequence[Opinion]) -> list[str]:
    """Return the section with its heading; nothing where no model was asked."""
    lines = [line for one in found for line in ("", *opinion_lines(one))]
    return ["## Second opinion", *lines] if lines else []


def opinion_lines(opinion: Opinion) -> list[str]:
    """Return one opinion: its claims in a paragraph, then what was checked."""
    name = f"Second opinion (model {inline(opinion.model, 120)})"
    if opinion.error:
        return [f"{name}: none; {inline(opinion.error, 300)}", *_addressed(opinion)]
    holding = [claim for claim in opinion.claims if claim.holds]
    unproved = [claim for claim in opinion.claims if not claim.holds]
    if not opinion.claims:
        said = "nothing that can be shown"
    else:
        said = "; ".join(map(_claim, holding)) or "no claim of which all citations hold"
    cited = [one for claim in opinion.claims for one in claim.citations]
    held = sum(one.holds for one in cited)
    checked = f"; {held} of {plural(len(cited), 'citation')} hold" if cited else ""
    rest = f"; not proved: {'; '.join(map(_claim, unproved))}" if unproved else ""
    lines = [f"{name}: {said}{checked}{rest}."]
    details = [*_changes(opinion.claims), *_contradictions(opinion.claims), *_dropped(opinion)]
    return [*lines, *([""] if details else []), *details, *_addressed(opinion)]


def _claim(claim: Claim) -> str:
    mark = " (contradicts what logdoctor found)" if claim.contradicts else ""
    lines = ", ".join(f"L{inline(one.at, 20)}" for one in claim.citations if one.holds)
    return f"{inline(claim.text.rstrip('. '), 420)}{f' [{lines}]' if lines else ''}{mark}"


def _changes(claims: Sequence[Claim]) -> Iterator[str]:
    for change in (change for claim in claims for change in claim.changes):
        name = code(f"{change.knob} {change.value}".strip())
        if change.accepted:
            yield f"- Proposes {name}: exists in this release, not set, no law against it; its effect is not measured."
        else:
            yield f"- Refused {name}: {inline(change.reason, 300)}."


def _contradictions(claims: Sequence[Claim]) -> Iterator[str]:
    for claim in claims:
        for reason in claim.contradicts:
            yield f"- Contradicts: {inline(reason, 300)}."


def _dropped(opinion: Opinion) -> Iterator[str]:
    if opinion.dropped:
        yield f"- Dropped {plural(len(opinion.dropped), 'claim')}: {inline('; '.join(opinion.dropped), 300)}."


def _addressed(opinion: Opinion) -> list[str]:
    if not opinion.addressed:
        return []
    lines = ", ".join(f"L{inline(at, 20)}" for at in opinion.addressed[:8])
    return [f"- The log holds text that speaks to a language model [{lines}]: the opinion may repeat it."]
