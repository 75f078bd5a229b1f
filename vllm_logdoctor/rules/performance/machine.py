"""Rule on the machine of a job: cards that nvidia-smi lists, or that the job asks for, and the engine does not use."""

from __future__ import annotations

from vllm_logdoctor.events import Event
from vllm_logdoctor.rules.capacity.card import OF_THE_JOB
from vllm_logdoctor.rules.context import (
    RuleContext,
    action,
    flag,
    message_lines,
    plural,
    rounded,
    setting_lines,
    whole,
)
from vllm_logdoctor.rules.limits import SERVER_LIMITS
from vllm_logdoctor.rules.model import Change
from vllm_logdoctor.rules.performance.serving import significant
from vllm_logdoctor.rules.placement import ranks_of
from vllm_logdoctor.rules.rule import Advice, Rule
from vllm_logdoctor.run.model import Evidence, Run


def idle_cards(case: RuleContext) -> Advice | None:
    """The job's machine has more cards than the engine uses. Needs the list of nvidia-smi or the job's request in the same log."""
    run = case.run
    listed, asked = cards_listed(run), cards_asked(run)
    cards, used = asked or listed, ranks_of(run) * (whole(run.setting("data_parallel_size")) or 1)
    if not run.startup_complete or cards <= used or case.event("tensor-parallel-across-nodes") is not None:
        return None
    hours = card_hours(run, cards - used)
    text = (
        (f"The job asks for {cards} cards" if asked else f"nvidia-smi in this log lists {cards} cards")
        + f", and the engine uses {used}."
        + (
            f" The others cost {rounded(hours)} GPU-hours during this run"
            if hours
            else " The others are paid for"
        )
        + (
            ", if nothing else used them."
            if asked
            else ", if the job asked for all of them and nothing else used them."
        )
    )
    changes = _use_or_return(case, cards, used)
    fewer = changes[0].knob.startswith("ask for")
    return Advice(
        text,
        (
            *(message_lines(case, *OF_THE_JOB) if asked else _last_card(case.run)),
            *setting_lines(case, "tensor_parallel_size", "data_parallel_size"),
        ),
        confidence="medium",
        changes=changes,
        alternatives=("a second model or another job on the free cards",),
        verify=f"`nvidia-smi -L` in the job lists {plural(used, 'card')}."
        if fewer
        else "`nvidia-smi` shows memory in use on every card of the job.",
    )


def cards_listed(run: Run) -> int:
    """Return the number of cards that nvidia-smi lists in the log; 0 where there is no list."""
    cards = _cards_by_number(run)
    return max(cards) + 1 if cards else 0


def _last_card(run: Run) -> tuple[Evidence, ...]:
    """Return the line of the card with the highest number, which says how many there are."""
    cards = _cards_by_number(run)
    return (run.evidence(cards[max(cards)].record),)


def _cards_by_number(run: Run) -> dict[int, Event]:
    listed = run.seen("gpu-listed")
    events = (*listed.first, listed.last) if listed is not None and listed.last is not None else ()
    return {int(event.number("index") or 0): event for event in reversed(events)}


def cards_asked(run: Run) -> int:
    """Return the number of cards that the job asks for, of a node where its script says so; 0 where nothing tells."""
    seen = [run.seen(pattern) for pattern in OF_THE_JOB]
    counts = {int(event.number("count") or 0) for one in seen if one for event in one.first}
    return max(counts, default=0)


def card_hours(run: Run, cards: int) -> float | None:
    """Return the GPU-hours of some cards over the time of a run; None where the log has no clock."""
    if run.started is None or run.ended is None or run.ended <= run.started:
        return None
    return cards * (run.ended - run.started) / 3600


def _use_or_return(case: RuleContext, cards: int, used: int) -> tuple[Change, ...]:
    replicas = cards // ranks_of(case.run)
    before = whole(case.run.setting("data_parallel_size")) or 1
    if case.objective == "cost":
        reason = "the same work then costs fewer GPU-hours"
        return (action(f"ask for {plural(used, 'card')} in the job: {reason}", before=cards, after=used),)
    if case.bottleneck.name in SERVER_LIMITS and replicas > before:
        note = "a replica on each card; their caches and their throughput add up"
        return flag(case, "--data-parallel-size", before, replicas, "needs-test", note)
    if significant(case) and replicas > before:
        return (action(f"run a replica on each card for load peaks (--data-parallel-size {replicas})"),)
    reason = "this load does not need more" if case.load.busy else "the engine uses no more"
    return (action(f"ask for {plural(used, 'card')} in the job: {reason}", before=cards, after=used),)


# Cards that nobody uses slow nothing down: unless cost is the objective, they come behind what does.
_NO_LOSS_OF_SPEED = 0.3

RULES = (
    Rule(
        "idle-cards",
        idle_cards,
        objectives=("cost",),
        worth=lambda case, worth: worth if case.objective == "cost" else _NO_LOSS_OF_SPEED * worth,
    ),
)
