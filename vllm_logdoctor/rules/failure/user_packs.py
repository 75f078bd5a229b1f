"""What packs of the user's own know of an end that no rule of the tool explains."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from vllm_logdoctor.events import Event
from vllm_logdoctor.rules.failure.context import FailureContext
from vllm_logdoctor.rules.failure.root import KILLED
from vllm_logdoctor.rules.failure.rule_ids import UNKNOWN
from vllm_logdoctor.rules.failure.silent_end import NOT_IN_LOG, STOPPED
from vllm_logdoctor.rules.model import Finding

_CAUSE = "cause-of-failure"
_LEAVES_OPEN = frozenset({NOT_IN_LOG, UNKNOWN, KILLED, STOPPED})
"""What may be said of an end without naming its cause."""


def explained_by_packs(context: FailureContext, found: Sequence[Finding]) -> list[Finding]:
    """Return the findings on an end with the user's own word for its cause, where no rule of the tool has one.

    Args:
        context: the run.
        found: what the rules of the tool say, the root first.

    Returns:
        The same, or with a root of the user's pack; what was the root then follows it, if it says anything.
    """
    roots = [finding for finding in found if finding.role == "root"]
    named = [one for one in roots if one.kind == "failure" and one.id not in _LEAVES_OPEN]
    event = None if named else _cause_of_end(context)
    if event is None:
        return list(found)
    beside = [one for one in found if one.role != "root" or (one.kind == "failure" and one.id != NOT_IN_LOG)]
    others = [replace(one, role="contributing") if one.role == "root" else one for one in beside]
    return [_finding(context, event), *others]


def _finding(context: FailureContext, event: Event) -> Finding:
    pattern = event.pattern
    return Finding(
        id=pattern.id,
        kind="failure",
        severity=pattern.severity,
        confidence="medium",
        title=f"Cause of failure according to pack {pattern.pack}",
        explanation=f"{pattern.meaning} So says the pack {pattern.pack}, which is not part of logdoctor; no rule of logdoctor explains the end.",
        role="root",
        evidence=(context.run.evidence(event.record),),
        topic=pattern.topic,
    )


def _cause_of_end(context: FailureContext) -> Event | None:
    """Return the last message that a pack of the user's own calls a cause of failure and that the run did not outlive."""
    fitting = [event for event in _fitting(context) if _not_outlived(context, event)]
    return max(fitting, key=lambda event: context.place(event.record), default=None)


def _fitting(context: FailureContext) -> Iterator[Event]:
    for seen in context.run.messages.values():
        pattern = seen.first[0].pattern
        if not pattern.trusted and pattern.verdict == _CAUSE:
            yield seen.last or seen.first[-1]


def _not_outlived(context: FailureContext, event: Event) -> bool:
    """Return whether a run ended after a message: nothing was served any more, and the start did not succeed behind it."""
    place, ready, outcome = context.place(event.record), context.ending.ready, context.ending.outcome
    if outcome == "clean_shutdown" or (ready is not None and place < ready):
        return False
    if any(one.generation > 0 and one.line > event.record.line for one in context.run.samples):
        return False
    return outcome != "running" or not any(one.level for one in context.trail if context.place(one) > place)
