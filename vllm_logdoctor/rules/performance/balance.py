"""Rule on data parallel engines that do not share the load."""

from __future__ import annotations

from collections import defaultdict

from vllm_logdoctor.rules.context import RuleContext, action, plural
from vllm_logdoctor.rules.limits import SERVER_LIMITS
from vllm_logdoctor.rules.load import Span, evidence_of_sample
from vllm_logdoctor.rules.performance.order import LIMIT
from vllm_logdoctor.rules.rule import Advice, Rule
from vllm_logdoctor.run.model import Sample

# An engine has room when nothing waits for it and it runs at most this share of what the fullest one runs.
ROOM = 0.6
LEAST_MOMENTS = 3
LEAST_SHARE = 0.2

Moment = list[Sample]


def engines_loaded_unevenly(case: RuleContext) -> Advice | None:
    """Requests wait for one engine while another one has room.

    Needs statistics lines of several engines that were printed at the same time.
    """
    busy = [moment for moment in moments(case.load.spans) if any(sample.running for sample in moment)]
    uneven = [moment for moment in busy if is_uneven(moment)]
    if len(uneven) < LEAST_MOMENTS or len(uneven) < LEAST_SHARE * len(busy):
        return None
    worst = max(uneven, key=lambda moment: max(sample.waiting or 0 for sample in moment))
    full = max(worst, key=lambda sample: sample.waiting or 0)
    free = min((sample for sample in worst if not sample.waiting), key=lambda sample: sample.running or 0)
    text = (
        f"In {len(uneven)} of {plural(len(busy), 'moment')} with requests, some waited for one engine while another had"
        f" room: engine {full.engine} ran {full.running} with {full.waiting} waiting when engine {free.engine} ran"
        f" {free.running} with none. Requests stay with the engine they were given to: long ones that meet on one engine"
        " make the others wait there."
    )
    return Advice(
        text,
        (evidence_of_sample(case.run, full), evidence_of_sample(case.run, free)),
        confidence="medium",
        changes=(
            action(
                "give each request to the engine with the fewest (least requests), not in turn and not by client",
                "several API servers each see only their own requests",
            ),
        ),
        avoid="Raising --max-num-seqs or memory first: a part of what exists is not used.",
        verify="`Running` of all engines within a fifth of each other, and `Waiting` at 0 while any has room.",
    )


def moments(spans: tuple[Span, ...]) -> list[Moment]:
    """Return the samples that several engines printed at one time, in order."""
    by_time: dict[float, dict[int, Sample]] = defaultdict(dict)
    for span in spans:
        if span.sample.time is not None:
            by_time[round(span.sample.time)][span.sample.engine] = span.sample
    return [list(engines.values()) for _, engines in sorted(by_time.items()) if len(engines) > 1]


def is_uneven(moment: Moment) -> bool:
    """Return whether requests wait for one engine while another one has room."""
    fullest = max((sample.running or 0 for sample in moment if sample.waiting), default=0)
    return any(not sample.waiting and (sample.running or 0) <= ROOM * fullest for sample in moment if fullest)


def _sharing_before_room(case: RuleContext, worth: float) -> float:
    """Put sharing the load before more room, where a small part of the engines' time is limited."""
    limited = sum(case.share(name) for name in SERVER_LIMITS)
    return worth + LIMIT + 1.0 - limited if limited < 0.5 else worth


RULES = (Rule("engines-loaded-unevenly", engines_loaded_unevenly, worth=_sharing_before_room),)
