"""Records whose like are only counted: a run asks nothing of the thousandth one but that it is there."""

from __future__ import annotations

from vllm_logdoctor.events import Event
from vllm_logdoctor.parse import Record
from vllm_logdoctor.run.builder import READ, TROUBLES
from vllm_logdoctor.run.environment import may_tell
from vllm_logdoctor.run.segments import BEGINNINGS


def only_counts(record: Record, event: Event) -> bool:
    """Say whether further records like one of level DEBUG say no more to a run than that they are there."""
    return (
        record.level == "DEBUG"
        and event.pattern.verdict == "information"
        and event.name not in READ
        and event.pattern.id not in BEGINNINGS
        and not may_tell(record)
        and not record.message.startswith(TROUBLES)
    )
