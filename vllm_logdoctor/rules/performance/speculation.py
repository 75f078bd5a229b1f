"""Rules on speculative decoding: what drafting gains must be more than what it costs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from vllm_logdoctor.rules.context import RuleContext, action, flag, message_lines, setting_lines, whole
from vllm_logdoctor.rules.model import Change, Confidence, Effect
from vllm_logdoctor.rules.performance.published import (
    DRAFT_OFF_MIDDLE,
    MTP_OFF_MIDDLE,
    MTP_SINGLE,
    NGRAM_OFF_BUSY,
)
from vllm_logdoctor.rules.rule import Advice, Rule
from vllm_logdoctor.run.model import Speculation

# Of three drafted tokens with a quarter accepted, one step in two is checked for nothing.
LEAST_RATE = 40.0
LEAST_LAST_RATE = 0.15
# Even a poor draft model guesses the next token now and then.
LEAST_SENSE = 5.0
NEVER_TAKEN = (
    " Check whether the drafts are made for this model: its release, its vocabulary, its chat template."
)
MANY_POSITIONS = 3
# Where hardly the first drafted token is taken, fewer of them are no answer.
USELESS = 0.15
# Percent of all drafted tokens: with up to 15 a step, less is hardly ever the first one.
NONE_TAKEN = 1.0
# Drafted tokens from which the rates by position are no accident.
LEAST_DRAFTED = 500
# Less is a trial with one prompt.
FEW_DRAFTED = 100
# Steps with drafts below which the rates are those of a few answers.
FEW_STEPS = 50
# Requests with which a step has arithmetic to spare; more of them were measured apart.
FEW_REQUESTS = 4


NEARLY_ALL, SURE_LENGTH = 90.0, 3.0
"""Percent of the drafts and tokens per step from which drafting is sure to gain: a step with drafts costs less than three."""


class Acceptance(Struct, frozen=True):
    """How much of the drafts was taken: mean tokens per step, per cent, rate by position."""

    length: float | None
    rate: float | None
    positions: tuple[float, ...]

    @property
    def useful(self) -> int:
        """Number of positions that are taken often enough to be worth drafting."""
        return sum(1 for rate in self.positions if rate >= LEAST_LAST_RATE)

    @property
    def is_useless(self) -> bool:
        """Return whether even the first drafted token is hardly ever taken."""
        if self.positions:
            return self.positions[0] < USELESS
        return self.rate is not None and self.rate < NONE_TAKEN


def acceptance_of(case: RuleContext) -> Acceptance | None:
    """Return the acceptance over all that was printed, or None.

    V0 prints totals since the start; V1 prints each interval, whose drafts are added up.
    """
    lines = case.run.speculation
    if not lines:
        return None
    if lines[-1].efficiency is not None:
        return Acceptance(lines[-1].mean_length, lines[-1].acceptance, ())
    weights = [float(line.drafted or 1) for line in lines]
    accepted = [line.accepted for line in lines]
    if None in accepted:
        rate = weighted_mean([line.acceptance for line in lines], weights)
    else:
        rate = 100 * sum(number or 0 for number in accepted) / sum(weights)
    drafted = max(len(line.per_position) for line in lines)
    positions = tuple(
        weighted_mean([_at(line, place) for line in lines], weights) or 0.0 for place in range(drafted)
    )
    found = Acceptance(weighted_mean([line.mean_length for line in lines], weights), rate, positions)
    return found if found.length or found.rate is not None or positions else None


def weighted_mean(values: Sequence[float | None], weights: Sequence[float]) -> float | None:
    """Return the mean of the values that are known, or None.

    Example:
        >>> weighted_mean([1.0, None, 4.0], [2.0, 9.0, 1.0])
        2.0
    """
    known = [(value, weight) for value, weight in zip(values, weights, strict=True) if value is not None]
    total = sum(weight for _, weight in known)
    return sum(value * weight for value, weight in known) / total if total else None


def _at(line: Speculation, place: int) -> float | None:
    return line.per_position[place] if place < len(line.per_position) else None


def _without_drafts(case: RuleContext) -> str:
    """Return the alternative without drafts: they are worth least with many requests at once."""
    return f"no speculative decoding{', if many requests run at once' if case.load.peak_running > 1 else ''}"


def spec_decode_not_profitable(case: RuleContext) -> Advice | None:
    """Drafts are mostly thrown away. Needs printed acceptance figures."""
    found = acceptance_of(case)
    if found is None or not _wasteful(found) or _has_few_steps(case, found):
        return None
    drafted = len(found.positions) or _drafted(case)
    never = found.is_useless or (found.rate is not None and found.rate < LEAST_SENSE)
    text = (
        ("No drafted token is accepted:" if found.rate == 0 else "Most drafted tokens are rejected:")
        + (f" {found.length:.3g} tokens a step in the mean," if found.length else "")
        + (f" {found.rate:.3g} % of the drafted tokens are accepted" if found.rate is not None else "")
        + (
            f"; by position {', '.join(f'{100 * rate:.2g} %' for rate in found.positions)}."
            if found.positions
            else "."
        )
        + (NEVER_TAKEN if never and _method(case.run.setting("speculative_config")) != "ngram" else "")
        + " Drafted tokens cost time whether they are accepted or not. Judge by tokens per second at your"
        " number of requests, not by acceptance."
    )
    changes = _fewer(case, found, drafted)
    dropped = any(change.after is None for change in changes)
    return Advice(
        text,
        (
            *(line.evidence for line in (case.run.speculation[-1], case.run.speculation[0])),
            *setting_lines(case, "speculative_config"),
        ),
        confidence=_confidence(case, found, never),
        severity="high" if never else None,
        changes=changes,
        effect=None if found.is_useless else _without_effect(case),
        alternatives=(
            *(() if found.is_useless else (_without_drafts(case),)),
            "another drafting method",
        ),
        verify="a higher generation throughput at the same load; "
        + (
            "no line on drafted tokens any more."
            if dropped
            else "with fewer drafted tokens `Mean acceptance length` falls."
        ),
    )


def _has_few_steps(case: RuleContext, found: Acceptance) -> bool:
    """Return whether so few steps had drafts that their rates are those of a few answers; without counts they are not known."""
    drafted = sum(line.drafted or 0 for line in case.run.speculation)
    return 0 < drafted < FEW_STEPS * len(found.positions)


def _confidence(case: RuleContext, found: Acceptance, never: bool) -> Confidence:
    """Enough drafts whose last positions are hardly ever taken prove the waste, if not what shorter drafts gain."""
    if never:
        return "high"
    drafted = sum(line.drafted or 0 for line in case.run.speculation)
    return "medium" if drafted >= LEAST_DRAFTED and 0 < found.useful < len(found.positions) else "low"


def speculation_not_compared(case: RuleContext) -> Advice | None:
    """Drafts are accepted, which does not show that drafting is faster. Needs printed acceptance and few requests."""
    found = acceptance_of(case)
    running = case.load.running
    if found is None or _wasteful(found) or found.rate is None or not 1 <= running <= FEW_REQUESTS:
        return None
    if 0 < sum(one.drafted or 0 for one in case.run.speculation) < FEW_DRAFTED:
        return None
    if found.rate >= NEARLY_ALL and (found.length or 0.0) >= SURE_LENGTH:
        return None
    text = (
        f"{found.rate:.3g} % of the drafted tokens are accepted"
        + (f", {found.length:.3g} tokens per step on average" if found.length else "")
        + ". Acceptance alone does not show a gain: a step with drafts takes longer, most of all with a small model."
        f" Published for one request at a time: {MTP_SINGLE.words()} with MTP layers, 0.52 to 1.37 x with separate"
        " draft models."
    )
    return Advice(
        text,
        (case.run.speculation[-1].evidence, *setting_lines(case, "speculative_config")),
        confidence="low",
        changes=(
            action("run the same requests once without --speculative-config, and compare tokens per second"),
        ),
        verify="keep the setting with the higher `Avg generation throughput` at the same `Running`.",
    )


def speculative_decoding_eats_token_budget(case: RuleContext) -> Advice | None:
    """Draft slots are taken from the step's tokens. Needs the engine's warning; a change needs prompts that wait for tokens."""
    event = case.event("speculative-token-budget")
    budget = whole(case.run.setting("max_num_batched_tokens"))
    left = whole(event.number("tokens")) if event else None
    if event is None or left is None or (budget and left > 0.8 * budget):
        return None
    text = (
        f"Of {f'{budget:,}' if budget else 'the'} tokens of a step {left:,} are left for prompts: the rest is"
        " kept for drafts of max_num_seqs requests."
    )
    changes = (
        flag(
            case, "--max-num-batched-tokens", budget, 2 * budget, "needs-test", "more memory for activations"
        )
        if budget and case.spans("prefill-limited")
        else ()
    )
    return Advice(
        text,
        (*message_lines(case, "speculative-token-budget"), *setting_lines(case, "max_num_batched_tokens")),
        confidence="medium",
        changes=changes,
        alternatives=("a smaller --max-num-seqs, if so many requests never run at once",),
        verify="a larger number in the same line, or no such line.",
    )


def _wasteful(found: Acceptance) -> bool:
    if found.rate is not None and found.rate < LEAST_RATE and len(found.positions) != 1:
        return True
    return len(found.positions) >= MANY_POSITIONS and found.positions[-1] < LEAST_LAST_RATE


def _drafted(case: RuleContext) -> int | None:
    config = case.run.setting("speculative_config")
    return whole(config.get("num_speculative_tokens")) if isinstance(config, dict) else None


def _fewer(case: RuleContext, found: Acceptance, drafted: int | None) -> tuple[Change, ...]:
    before: Any = case.run.arguments.get("speculative_config")
    if found.is_useless:
        dropped = flag(case, "--speculative-config", before, None, "needs-test") if before else ()
        return dropped or (action("run without speculative decoding"),)
    wanted = max(1, found.useful) if found.positions else None
    if isinstance(before, dict) and wanted and drafted and wanted < drafted:
        return flag(
            case, "--speculative-config", before, {**before, "num_speculative_tokens": wanted}, "needs-test"
        )
    fewer = f" ({drafted} -> {wanted})" if wanted and drafted and wanted < drafted else ""
    return (action(f"draft fewer tokens a step{fewer}, or none"),)


def _without_effect(case: RuleContext) -> Effect | None:
    method = _method(case.run.setting("speculative_config"))
    running, metric = case.load.running, "generation_throughput"
    if method == "ngram" and running > 16:
        return NGRAM_OFF_BUSY.effect(metric)
    if 2 <= running <= 16 and "mtp" in method:
        return MTP_OFF_MIDDLE.effect(metric)
    if 2 <= running <= 16 and method in ("draft_model", "dflash", "eagle", "eagle3"):
        return DRAFT_OFF_MIDDLE.effect(metric)
    return None


def _method(config: Any) -> str:
    if isinstance(config, dict):
        return str(config.get("method", "")).lower()
    found = re.search(r"method='?([\w-]+)", str(config or ""))
    return found[1].lower() if found else ""


RULES = (
    Rule("spec-decode-not-profitable", spec_decode_not_profitable),
    Rule("speculation-not-compared", speculation_not_compared),
    Rule("speculative-decoding-eats-token-budget", speculative_decoding_eats_token_budget),
)
