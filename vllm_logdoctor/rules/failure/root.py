"""Chooses the root among all that a broken run shows: first in time, deepest in cause, never a wrapper."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.parse import Record
from vllm_logdoctor.rules.failure.build_errors import build_failure
from vllm_logdoctor.rules.failure.context import FailureContext, Observation
from vllm_logdoctor.rules.failure.matching import RuleMatch, is_vague, match_rules
from vllm_logdoctor.rules.failure.own_steps import failed_in_own_way
from vllm_logdoctor.rules.failure.rule_ids import CODE, NOT_IN_LOG, UNKNOWN
from vllm_logdoctor.rules.failure.signatures import FailureRules
from vllm_logdoctor.rules.failure.unnamed import unnamed_match
from vllm_logdoctor.run.blocks import Block, Raised
from vllm_logdoctor.run.builds import compiler_error
from vllm_logdoctor.run.lifecycle import Place
from vllm_logdoctor.run.tracelines import is_native
from vllm_logdoctor.texts import asked_once

KILLED = "process-killed-externally"
_INCIDENT_LINES = 500
_INCIDENT_SECONDS = 90.0
_EXPLAINS_LINES = 120
# /opt/x.py:12: UserWarning: text      [rank0]:[W405 23:43:54 file.cpp:1] Warning: text      WARN text
_WARNING = lazy_pattern(
    r"\w*Warning: (?!All requests failed|CUDA initialization: )|\[W\d{3,4} |\bWARN(?:ING)?\b(?<!NCCL WARN)|warnings\.warn|NCCL INFO"
    r"|<warn>|^\s*\+ |Did you have `"
)
# Error retrieving file list: [Errno -3] Temporary failure in name resolution, retrying 1 of 2
_ANNOUNCES_RETRY = lazy_pattern(r"(?i)\bretrying\b|\bwill (?:be )?retr(?:y|ied)\b|\bretry \d+ (?:of|/) ?\d+")
# <vllm.config.ModelConfig object at 0x7f0011223344>
_ADDRESS = lazy_pattern(r"<[^<>\n]{1,200} at 0x[0-9a-f]+>")
_FEWEST_WORDS = 4
_BAD_ENDS = frozenset({"crashed_at_startup", "crashed_while_serving", "truncated", "unknown", "killed"})
_BEFORE_LINES = 20
_GUESS = 40
"""Names of a lower priority rest on the place alone."""
_CAUSE, _SYMPTOM, _ECHO, _WRAPPER = 0, 1, 2, 3
_LAST_RESORT = frozenset({UNKNOWN, CODE, NOT_IN_LOG})
_WITHOUT_REASON = "nccl-error-unexplained"
"""It names no cause of its own unless NCCL printed one: what else the incident shows is its cause."""


class Verdict(Struct, frozen=True):
    """The root, what contributed, the blocks that followed, and further lines that name the same root."""

    root: RuleMatch
    contributing: tuple[RuleMatch, ...]
    followed: tuple[Block, ...]
    agreeing: tuple[Record, ...]


class _Candidate(Struct, frozen=True):
    """One block or line that may be the root; `named` is None where no rule knows it, `place` is where it begins."""

    tier: int
    observation: Observation
    named: RuleMatch | None
    place: Place


def verdict_of(context: FailureContext, rules: FailureRules, facts: Mapping[str, Any]) -> Verdict | None:
    """Return what broke the run, or None where nothing shows that it broke by itself."""
    if context.ending.outcome not in _BAD_ENDS and not context.ending.program_failed:
        return None
    candidates = sorted(
        [*_from_blocks(context, rules, facts), *_from_lines(context, rules, facts)],
        key=lambda one: (one.place, one.tier),
    )
    if not candidates:
        return None
    chosen = _chosen(candidates, context)
    root = chosen.named
    if root is None:
        return None
    same = [
        one.named for one in candidates if one.named and one is not chosen and _says_the_same(one.named, root)
    ]
    agreeing = [*(one.decisive for one in same), *(one.observation.record for one in same[:2])]
    if root.observation.block is None:
        root = replace(
            root, traceback=next((one.observation.block for one in same if one.observation.block), None)
        )
    contributing = tuple(_contributing(candidates, chosen))
    return Verdict(root, contributing, _followed(context, chosen, contributing), tuple(agreeing))


def _says_the_same(one: RuleMatch, root: RuleMatch) -> bool:
    """Return whether another match agrees with the root: of last resort are only the same words."""
    if one.rule is not root.rule:
        return False
    return root.rule.id not in _LAST_RESORT or one.observation.text == root.observation.text


def _from_blocks(
    context: FailureContext, rules: FailureRules, facts: Mapping[str, Any]
) -> Iterator[_Candidate]:
    """Yield one candidate per block that may have broken the run: its chain's best-known exception."""
    with_frames = {
        one.statement
        for number in context.ending.fatal
        for one in context.blocks[number].raised
        if one.frames
    }
    for number in context.ending.fatal:
        raised = context.blocks[number].raised
        if not any(one.frames for one in raised) and raised[-1].statement in with_frames:
            continue  # A logger printed the exception, the traceback with its places is elsewhere.
        if _repeats(context, number) or context.is_of_stopped_worker(context.blocks[number]):
            continue
        found: list[_Candidate] = []
        for observation in context.exceptions([number]):
            names = match_rules(observation, context, rules, facts)
            # What a wrapper looks like says nothing of what it wraps.
            named = next((one for one in names if not _guessed(one, observation)), None)
            named = named or unnamed_match(observation, context, rules, facts)
            found.append(
                _Candidate(
                    _tier(observation, named), observation, named, context.place(context.blocks[number].first)
                )
            )
        if found:
            yield min(
                found,
                key=lambda one: (
                    any(
                        failed_in_own_way(one.observation.raised, after) for after in _following(one, raised)
                    ),
                    one.tier,
                    _was_handled(one, raised),
                    -_priority(one),
                ),
            )


def _was_handled(one: _Candidate, raised: Sequence[Raised]) -> bool:
    """Return whether no rule knows an exception that another one replaced: raised during its handling, or raised from it to explain it."""
    unknown = one.named is None or one.named.rule.id in _LAST_RESORT
    return unknown and any(
        after.link == "context" or (after.link == "cause" and _explained_by(one.observation.raised, after))
        for after in _following(one, raised)
    )


def _following(one: _Candidate, raised: Sequence[Raised]) -> Iterator[Raised]:
    """Yield the exception of a chain that came after that of a candidate, unless it only says the same again."""
    return (
        after
        for before, after in pairwise(raised)
        if before is one.observation.raised and after.text != before.text
    )


def _explained_by(first: Raised | None, after: Raised) -> bool:
    """Return whether an exception was raised to explain a first one, which is without words or states a key that this one names.

    KeyError: <tiny.Config object at 0x7f00>      KeyError: 'rope'  ->  ValueError: Unknown embedding 'rope'
    """
    if first is None or len(after.text.split()) < _FEWEST_WORDS:
        return False
    key = first.text.strip().strip("'\"")
    return not key or bool(_ADDRESS.fullmatch(key)) or (first.name == "KeyError" and key in after.text)


def _repeats(context: FailureContext, number: int) -> bool:
    """Return whether a torn traceback follows an exception of its own process: what leaves a process is printed once more."""
    block = context.blocks[number]
    if block.last_raised.type or not block.process.name:
        return False
    above = (context.blocks[one] for one in context.ending.fatal if one < number)
    return any(
        one.process == block.process
        and one.last_raised.type
        and block.first.line - one.records[-1].line < _BEFORE_LINES
        for one in above
    )


def _guessed(named: RuleMatch, observation: Observation) -> bool:
    return observation.wrapper and (named.signature.rank == "symptom" or is_vague(named))


def _priority(candidate: _Candidate) -> int:
    return candidate.named.signature.priority if candidate.named else 0


def _tier(observation: Observation, named: RuleMatch | None) -> int:
    if named is None:
        return _WRAPPER if observation.wrapper else _ECHO if observation.echo else _SYMPTOM
    if named.rule.id == NOT_IN_LOG:
        return _WRAPPER if observation.wrapper else _ECHO
    if named.signature.rank == "echo":
        return _ECHO
    if observation.wrapper or (observation.echo and is_vague(named)):
        return _ECHO
    return _CAUSE if named.signature.rank == "cause" else _SYMPTOM


def _from_lines(
    context: FailureContext, rules: FailureRules, facts: Mapping[str, Any]
) -> Iterator[_Candidate]:
    """Yield lines outside of tracebacks that name a failure by themselves or explain a block below them."""
    starts = [context.blocks[number].start for number in context.ending.fatal]
    # What a logger says before a traceback is the traceback's; what a library printed before it is not.
    announced = [context.blocks[number].introduction for number in context.ending.fatal]
    introductions = {id(record) for record in announced if record is not None and not is_native(record)}
    begun = next((context.place(one) for one in context.trail if one.call_site), (0, 0))
    deaths = {id(record) for record in context.ending.deaths}
    refused = compiler_error(context.trail) if context.run.kind == "build" and UNKNOWN in rules else None
    for observation in context.lines:
        if id(observation.record) in introductions or _settled(observation, context):
            continue
        if starts and _retried(observation, context, starts):
            continue
        if (
            starts
            and not observation.framed
            and observation.place < begun
            and not _is_close(observation, starts, context)
        ):
            continue  # A command before the start failed: pip, a download. The start that broke came after it.
        warns = _only_warns(observation)
        if warns and observation.record.level != "WARNING":
            continue
        for named in match_rules(observation, context, rules, facts):
            if warns and named.signature.rank != "echo":
                continue
            alone = named.signature.alone or id(observation.record) in deaths
            if alone or _explains(observation, starts, context):
                yield _Candidate(_tier(observation, named), observation, named, observation.place)
                break
        else:
            if observation.record is refused:
                named = build_failure(refused, observation, context, rules)
                yield _Candidate(_SYMPTOM, observation, named, observation.place)


def _is_close(observation: Observation, starts: Sequence[int], context: FailureContext) -> bool:
    """Return whether a line is among the last ones before the first broken block."""
    return context.trail[starts[0]].line - observation.record.line <= _BEFORE_LINES


def _settled(observation: Observation, context: FailureContext) -> bool:
    """Return whether the run went on after a line, was asked to stop before it, or is of another day."""
    ready, stop = context.ending.ready, context.ending.stop
    if not observation.framed and (
        context.is_of_another_day(observation.record) or context.is_of_another_card(observation.record)
    ):
        return True
    if stop is not None and context.place(stop.record) < observation.place:
        return True
    if (
        ready is not None
        and observation.place < ready
        and context.run.startup_complete
        and not context.ending.failed
    ):
        return True
    return observation.record.level in ("INFO", "DEBUG") and _is_request_text(observation)


def _retried(observation: Observation, context: FailureContext, starts: Sequence[int]) -> bool:
    """Return whether a line announces another try, after which its process went on before the first broken block."""
    if not _announces_retry(observation.text[:1000]):
        return False
    process = observation.record.process
    following = context.trail[observation.position + 1 : starts[0]]
    return any(one.level == "INFO" and one.call_site and one.process == process for one in following)


@asked_once
def _announces_retry(text: str) -> bool:
    return _ANNOUNCES_RETRY.search(text) is not None


def _only_warns(observation: Observation) -> bool:
    """Return whether a line is a warning or a remark: it can explain an error, but is none."""
    if observation.framed:
        return observation.record.level not in ("ERROR", "CRITICAL")
    return _warns(observation.text[:300])


@asked_once
def _warns(text: str) -> bool:
    return _WARNING.search(text) is not None


def _is_request_text(observation: Observation) -> bool:
    return observation.text.startswith(("Received request", "Generated response", "Added request"))


def _explains(observation: Observation, starts: Sequence[int], context: FailureContext) -> bool:
    """Return whether a broken block follows closely below a line."""
    start = next((start for start in starts if start >= observation.position), None)
    if start is None:
        return False
    first = context.trail[start]
    if first.file != observation.record.file or first.line - observation.record.line > _EXPLAINS_LINES:
        return False
    then, now = observation.record.time, context.time_at(start)
    return then is None or now is None or now - then <= _INCIDENT_SECONDS


def _chosen(candidates: Sequence[_Candidate], context: FailureContext) -> _Candidate:
    """Return the earliest cause of the first incident; a known cause there goes before an earlier symptom."""
    best = min(one.tier for one in candidates)
    if best >= _ECHO:
        return next(one for one in candidates if one.tier == best)
    first = next(one for one in candidates if one.tier <= _SYMPTOM)
    if first.tier == _CAUSE:
        return _most_specific(first, candidates)
    same = [one for one in candidates if one.tier == _CAUSE and _same_incident(first, one)]
    if same:
        return same[0]
    if _priority(first) < _GUESS and (death := _death_before(candidates, first)) is not None:
        return death
    known = [
        one
        for one in candidates
        if one.tier == _SYMPTOM
        and one.named is not None
        and one.named.rule.id != UNKNOWN
        and _same_incident(first, one)
    ]
    return min(known, key=lambda one: (-_priority(one), one.place)) if known else first


def _most_specific(first: _Candidate, candidates: Sequence[_Candidate]) -> _Candidate:
    """Return the line of the same incident that names the same cause by words of its own case, else the first line."""
    same = (
        one
        for one in candidates
        if one.tier == _CAUSE
        and one.named is not None
        and first.named is not None
        and one.named.rule is first.named.rule
        and one.named.signature.title
        and _same_incident(first, one)
    )
    return max((first, *same), key=_priority)


def _death_before(candidates: Sequence[_Candidate], first: _Candidate) -> _Candidate | None:
    """Return the line that says that a process was gone before an error that no rule knows: the error follows from it."""
    return next(
        (one for one in candidates if one.named and one.named.rule.id == KILLED and one.place < first.place),
        None,
    )


def _same_incident(a: _Candidate, b: _Candidate) -> bool:
    if a.observation.record.file != b.observation.record.file:
        return True
    one, other = a.observation.record.time, b.observation.record.time
    if one is not None and other is not None:
        return abs(one - other) <= _INCIDENT_SECONDS
    return abs(a.observation.record.line - b.observation.record.line) <= _INCIDENT_LINES


def _contributing(candidates: Sequence[_Candidate], chosen: _Candidate) -> Iterator[RuleMatch]:
    """Yield up to two other causes that the log names in the same incident; beside a cause a symptom is none."""
    least = _CAUSE if chosen.tier == _CAUSE else _SYMPTOM
    seen = {chosen.named.rule.id if chosen.named else ""}
    for one in candidates:
        if len(seen) > 2 or one.named is None or one.tier > least or one.named.rule.id in seen | _LAST_RESORT:
            continue
        if one.named.rule.id == _WITHOUT_REASON and one.tier > _CAUSE and not one.named.signature.near:
            continue
        if one.observation.block is not chosen.observation.block or one.observation.block is None:
            if not _same_incident(chosen, one):
                continue
            seen.add(one.named.rule.id)
            yield one.named


def _followed(
    context: FailureContext, chosen: _Candidate, contributing: Sequence[RuleMatch]
) -> tuple[Block, ...]:
    """Return the broken blocks behind the root, and of workers that were stopped, but not those of another cause, whichever rank printed them."""
    others = {one.observation.raised.statement for one in contributing if one.observation.raised is not None}
    return tuple(
        block
        for block in map(context.blocks.__getitem__, context.ending.fatal)
        if block is not chosen.observation.block
        and (context.place(block.first) > chosen.place or context.is_of_stopped_worker(block))
        and block.last_raised.statement not in others
    )
