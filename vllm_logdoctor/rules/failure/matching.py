"""Names observations: which rule knows a text in its context."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from vllm_logdoctor.catalogue.pages import Signature
from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.parse import Record
from vllm_logdoctor.rules.failure.context import FailureContext, Observation
from vllm_logdoctor.rules.failure.facts import all_hold
from vllm_logdoctor.rules.failure.signatures import FailureRule, FailureRules, expression
from vllm_logdoctor.rules.failure.stated_steps import stated_remedy
from vllm_logdoctor.rules.failure.support import is_ruled_out, supported
from vllm_logdoctor.rules.failure.values import values_of
from vllm_logdoctor.rules.model import Confidence
from vllm_logdoctor.run.blockphase import is_of_start
from vllm_logdoctor.run.blocks import Block, Frame, Raised
from vllm_logdoctor.run.owners import (
    TENSOR_LIBRARIES,
    VLLM,
    acting_frames,
    is_file_of_vllm,
    owner_of,
    plugin_of,
)
from vllm_logdoctor.run.places import check_at, layer_call, raised_at
from vllm_logdoctor.run.tracelines import breaks_off, indentation

_SEARCHED = 20_000
_ANY_TYPES = (
    "RuntimeError",
    "ValueError",
    "AssertionError",
    "TypeError",
    "AttributeError",
    "KeyError",
    "NotImplementedError",
)
# CUDA error: CUDA driver version is
# insufficient for CUDA runtime version      (a mail or a terminal broke the line)
_BROKEN = lazy_pattern(r"\n[ \t]{0,8}(?=[a-z(])")
_ANY_WORDS = "quux zab fnord"
# docker: Error response from daemon      (no rest of the line above)
_OF_PROGRAM = lazy_pattern(r"[a-z][\w./-]*: ")
_TELLING = frozenset({"INFO", "DEBUG"})
"""Records of these levels report settings and steps: "quantization=None" above a failure speaks against no cause."""


class RuleMatch(Struct, frozen=True):
    """An observation with the rule that knows it.

    Attributes:
        rule: the rule.
        signature: the signature that matched.
        observation: what was seen.
        decisive: the line that proves it.
        values: named groups and figures, for words and changes.
        supporting: further lines that belong to it.
        traceback: where a line alone was seen, the block that reports the same failure.
        shown: lines that show a value of the words beside the error.
    """

    rule: FailureRule
    signature: Signature
    observation: Observation
    decisive: Record
    values: Mapping[str, Any]
    supporting: tuple[Record, ...] = ()
    traceback: Block | None = None
    shown: tuple[Record, ...] = ()

    @property
    def confidence(self) -> Confidence:
        """How sure the name is, by what supports it."""
        vague = bool(self.signature.regex) and is_vague(self)
        common = _by_common_words(self.rule.id, self.signature)
        return supported(self.signature, self.observation.text, vague=vague, common=common)


def match_rules(
    observation: Observation, context: FailureContext, rules: FailureRules, facts: Mapping[str, Any]
) -> list[RuleMatch]:
    """Return the rules that know an observation, the best first; where none knows its words, those of its lines put together."""
    found = _matching(observation, context, rules, facts)
    if observation.raised is not None and all(map(is_vague, found)):
        whole = _BROKEN.sub(" ", observation.text[:_SEARCHED])
        if whole != observation.text[:_SEARCHED]:
            joined = _matching(replace(observation, text=whole), context, rules, facts)
            known = [replace(one, observation=observation) for one in joined if not is_vague(one)]
            return known or found
    return found


def _matching(
    observation: Observation, context: FailureContext, rules: FailureRules, facts: Mapping[str, Any]
) -> list[RuleMatch]:
    found = []
    for rule, signature in rules.candidates(_searched(observation)):
        try:
            named = _try(rule, signature, observation, context, facts)
        except (re.error, ValueError) as error:
            rules.leave_out(rule, error)
            continue
        if named is not None:
            found.append(named)
    order = {"cause": 0, "symptom": 1, "echo": 2}
    return sorted(
        found,
        key=lambda one: (
            order[one.signature.rank],
            _is_vague(one.rule.id, one.signature),
            -one.signature.priority,
        ),
    )


def _searched(observation: Observation) -> str:
    """Return all text in which literals are looked for: of a block, its frames too."""
    if observation.raised is None:
        return observation.text[:_SEARCHED]
    return observation.text[:_SEARCHED] + "\n" + frames_text(observation)


def frames_text(observation: Observation) -> str:
    """Return the places of an exception, one per line, as frames are searched."""
    return _places(observation.raised.frames if observation.raised else (), observation)


def _try(
    rule: FailureRule,
    signature: Signature,
    observation: Observation,
    context: FailureContext,
    facts: Mapping[str, Any],
) -> RuleMatch | None:
    if not _right_place(signature, observation):
        return None
    match = expression(signature.regex).search(_text_for(signature, observation))
    if match is None:
        return None
    raised_in = _deepest_own_place(observation)
    place = raised_in.rpartition("/")[2].replace(":", ", ")
    frames = observation.raised.frames if observation.raised else ()
    raised = raised_at(frames[-1], place) if place and frames else ""
    check = check_at(frames[-1], place) if place and frames else ""
    named_groups = {
        "raised_in": raised_in, "place": place, "raised": raised, "check": check, "stated": stated_remedy(observation),
        "layer_call": layer_call(frames), **match.groupdict(),
    }  # fmt: skip
    values = values_of(rule.id, {k: v for k, v in named_groups.items() if v}, facts, context.run)
    if not _fits(rule.id, signature, observation, context, values):
        return None
    of_builds = signature.facts.get("kind") == "build"
    if not of_builds and is_ruled_out(rule, facts, _searched(observation)):
        return None
    above = (
        context.above(observation.position, signature.within) if signature.near or signature.without else ()
    )
    if signature.without and _first(signature.without, observation, above):
        return None
    near = _near(signature, observation, above)
    if signature.near and near is None:
        return None
    if near is not None:
        named = expression(signature.near).search(near.message)
        named_groups = {**named_groups, **(named.groupdict() if named else {})}
        values = values_of(rule.id, {k: v for k, v in named_groups.items() if v}, facts, context.run)
    # A text of many lines is known by all of them, and proven by one.
    lines = [*_lines_of(values.get("proof") or match[0], observation), *_wrapped(observation, context)]
    lines += _begun_above(observation, context)
    decisive = near if near is not None and signature.decisive == "near" else lines[0]
    shown = (near, *lines, observation.record)
    supporting = tuple(record for record in shown if record is not None and record is not decisive)
    return RuleMatch(rule, signature, observation, decisive, values, supporting)


def _right_place(signature: Signature, observation: Observation) -> bool:
    if observation.raised is not None:
        return signature.where in ("exception", "frames", "any")
    if observation.record.level in ("DEBUG",):
        return False
    if signature.where == "message":
        return observation.framed
    if signature.where == "native":
        return not observation.framed
    return signature.where == "any"


def _text_for(signature: Signature, observation: Observation) -> str:
    return frames_text(observation) if signature.where == "frames" else observation.text[:_SEARCHED]


def _fits(
    rule_id: str,
    signature: Signature,
    observation: Observation,
    context: FailureContext,
    values: Mapping[str, Any],
) -> bool:
    """Check the conditions that need no other line."""
    raised, block = observation.raised, observation.block
    by_itself = raised is not None and (broke_by_itself(raised) or _lacks_for_plugin(raised))
    if by_itself and _is_vague(rule_id, signature):
        return False
    if signature.type and not (
        raised and expression(signature.type).search(raised.type + " " + raised.inner)
    ):
        return False
    if (signature.frames or signature.not_frames) and not _frames_fit(signature, observation):
        return False
    if signature.raised_in and not expression(signature.raised_in).search(_deepest_own_place(observation)):
        return False
    if signature.phase:
        phase = context.phase(block) if block else context.phase_at(observation.position)
        if phase not in signature.phase:
            return False
        if not phase and block and set(signature.phase) <= _AT_WORK and is_of_start(block):
            return False
        stops_start = rule_id == _OF_SETTINGS and signature.serving is False
        if not phase and block and stops_start and not (context.ending.started or is_of_start(block)):
            return False  # An error alone, without a line or a place of a start, may be of a request.
    if signature.serving is not None and context.served_before(observation.place) != signature.serving:
        return False
    if signature.platform and context.run.platform not in signature.platform:
        return False
    return all_hold(signature.facts, values)


# too many values to unpack (expected 2)      invalid literal for int() with base 10      could not convert string to float
_ARITHMETIC = lazy_pattern(r"values to unpack|invalid literal for|could not convert string")
_CHECKS = frozenset({"ValueError", "RuntimeError"})
_OF_SETTINGS = "settings-refused"
_REFUSALS = frozenset({_OF_SETTINGS, "feature-incompatible-with-model"})
"""Rules that know a refusal by common words: what arithmetic or a tensor library says in such words refuses nothing."""
_AT_WORK = frozenset({"serving", ""})
"""Phases of a signature that is about requests, in a piece that does not show the phase too."""
_SPECIFIC = 60
_CHECKED = ("raise", "assert")


def broke_by_itself(raised: Raised) -> bool:
    """Return whether an exception that could be a refusal was raised by no check: too many values to unpack."""
    frames = acting_frames(raised.frames)
    code = frames[-1].code if frames else ""
    loading = any("load_weights" in frame.function or "weight_loader" in frame.function for frame in frames)
    owner = owner_of(frames[-1].file) if frames else ""
    if raised.name in _CHECKS and _ARITHMETIC.search(raised.text[:200]):
        return True
    if raised.name not in _CHECKS or loading or not (owner.startswith(VLLM) or owner in TENSOR_LIBRARIES):
        return False
    return bool(code) and not code.startswith(_CHECKED)


def _lacks_for_plugin(raised: Raised) -> bool:
    """Return whether vLLM's own code does not implement what a plug-in of a platform led it to: the two do not fit, whatever the model."""
    frames = acting_frames(raised.frames)
    own = bool(frames) and owner_of(frames[-1].file) == VLLM
    return own and (raised.inner or raised.name) == "NotImplementedError" and bool(plugin_of(frames))


def _frames_fit(signature: Signature, observation: Observation) -> bool:
    block = observation.block
    if block is None:
        return not signature.frames
    frames = [frame for one in block.raised for frame in one.frames]
    everywhere = _places(frames, observation)
    if signature.not_frames and expression(signature.not_frames).search(everywhere):
        return False
    if not signature.frames:
        return True
    if matches_by_place(signature) and not signature.raised_in and observation.raised is not None:
        everywhere = _places(_around_the_fault(observation.raised), observation, checks_only=True)
    return bool(expression(signature.frames).search(everywhere))


def _places(frames: Sequence[Frame], observation: Observation, *, checks_only: bool = False) -> str:
    """Return places one per line; code only of the one that raised: what callers pass on by name says nothing.

    Where any message will do, only a check that failed counts as code: names in other code ("if self.kv_connector_workers:") prove
    nothing.
    """
    site = observation.record.call_site
    if not frames and observation.raised is not None and site is not None:
        return f"{site[0]}:"  # The log begins inside the traceback: the place that logged it is known.
    acting = acting_frames(observation.raised.frames)[-1:] if observation.raised is not None else ()
    if checks_only:
        acting = tuple(frame for frame in acting if frame.code.startswith(_CHECKED))
    return "\n".join(f"{place_of(frame)}{': ' + frame.code if frame in acting else ''}" for frame in frames)


def place_of(frame: Frame) -> str:
    """Return a place as frames are searched: file and function."""
    return f"{frame.file}:{frame.function}"


def _around_the_fault(raised: Raised) -> Sequence[Frame]:
    """Return the innermost acting frames, from the deepest but one of vLLM's on: who called them from far away says nothing."""
    frames = acting_frames(raised.frames)
    own = [position for position, frame in enumerate(frames) if is_file_of_vllm(frame.file)]
    return frames[own[-2:][0] :] if own else frames[-3:]


def _is_vague(rule_id: str, signature: Signature) -> bool:
    """Return whether a signature needs no words, or only common ones."""
    return matches_by_place(signature) or _by_common_words(rule_id, signature)


def _by_common_words(rule_id: str, signature: Signature) -> bool:
    return rule_id in _REFUSALS and signature.priority < _SPECIFIC


def is_vague(match: RuleMatch) -> bool:
    """Return whether a match needs no words of the message, or only common ones."""
    return _is_vague(match.rule.id, match.signature)


def matches_by_place(signature: Signature) -> bool:
    """Return whether a signature takes any message: then only the place of the exception tells."""
    return (
        not signature.near and signature.where in ("exception", "any") and _takes_any_message(signature.regex)
    )


@lru_cache(maxsize=1024)
def _takes_any_message(regex: str) -> bool:
    return any(expression(regex).search(f"{name}: {_ANY_WORDS}") for name in _ANY_TYPES)


def _deepest_own_place(observation: Observation) -> str:
    """Return file and function of the last frame that is vLLM's, or an empty text."""
    frames = acting_frames(observation.raised.frames) if observation.raised else ()
    own = next((frame for frame in reversed(frames) if is_file_of_vllm(frame.file)), None)
    return place_of(own) if own else ""


def _near(signature: Signature, observation: Observation, above: Sequence[Record]) -> Record | None:
    if not signature.near:
        return None
    wanted = expression(signature.near)
    return next((record for record in reversed(above) if wanted.search(record.message[:4000])), None)


def _first(regex: str, observation: Observation, above: Sequence[Record]) -> bool:
    unwanted = expression(regex)
    return bool(unwanted.search(observation.text[:_SEARCHED])) or any(
        unwanted.search(one.message[:4000]) for one in above if one.level not in _TELLING
    )


def _lines_of(matched: str, observation: Observation) -> list[Record]:
    """Return the lines of an exception's text that hold what matched, at most three, the first one first."""
    block = observation.block
    if block is None:
        return [observation.record]
    place = (observation.record.file, observation.record.line)
    behind = [record for record in block.records if (record.file, record.line) >= place]
    found: list[Record] = []
    for piece in matched.strip().split("\n")[:3]:
        record = _line_with(piece.strip()[:80], behind) or _line_with(piece.strip()[:80], block.records)
        if record is not None and record not in found:
            found.append(record)
    return found or [observation.record]


def _wrapped(observation: Observation, context: FailureContext) -> list[Record]:
    """Return the next line where a bare line breaks off in its middle and the next has the same indentation.

    ptxas app.ptx, line 9; fatal : Unsupported .version
    7.5; current version is '6.3'
    """
    record, behind = observation.record, context.trail[observation.position + 1 : observation.position + 2]
    text = record.message
    if observation.raised is not None or observation.framed or not breaks_off(text):
        return []
    indent = indentation(text)
    return [
        one
        for one in behind
        if not one.level
        and (one.file, one.line) == (record.file, record.line + 1)
        and indentation(one.message) == indent
        and not _OF_PROGRAM.match(one.message)
        and (indent or one.message[:1].islower() or one.message[:1].isdigit())
    ]


def _begun_above(observation: Observation, context: FailureContext) -> list[Record]:
    """Return the line above where a terminal broke it, and the text found is the rest of it.

    ValueError: To serve at least one request with the model's max seq len (4096), (4.26 GiB KV cach
    e is needed, which is larger than the available KV cache memory (4.25 GiB).
    """
    record = observation.record
    above = context.trail[max(0, observation.position - 1) : observation.position]
    rest = record.message[:1].islower() and not _OF_PROGRAM.match(record.message)
    if observation.raised is not None or observation.framed or not rest:
        return []
    return [
        one
        for one in above
        if (one.file, one.line) == (record.file, record.line - 1) and breaks_off(one.message)
    ]


def _line_with(text: str, records: Sequence[Record]) -> Record | None:
    """Return the first record that holds a text, or its part behind the name of an exception."""
    if not text:
        return None
    # Paths of Windows have slashes in places.
    exact = next(
        (one for one in records if text in one.message or text in one.message.replace("\\", "/")), None
    )
    tail = text.partition(": ")[2]
    if exact is not None or len(tail) <= 12:
        return exact
    return next((record for record in records if tail in record.message), None)
