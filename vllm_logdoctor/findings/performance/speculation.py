"""Rules on speculative decoding: what drafting gains must be more than what it costs."""

from __future__ import annotations

import re
from typing import Any

from vllm_logdoctor.findings.model import Change, Effect, Finding
from vllm_logdoctor.findings.performance.case import (
    Case,
    action,
    finding,
    flag,
    message_lines,
    setting_lines,
    whole,
)
from vllm_logdoctor.findings.performance.published import DRAFT_OFF_MIDDLE, MTP_OFF_MIDDLE, NGRAM_OFF_BUSY
from vllm_logdoctor.frozen import frozen
from vllm_logdoctor.late import LatePattern

# Mean acceptance length: 2.09, Accepted throughput: 64.90 tokens/s, ...
# ... Per-position acceptance rate: 0.8, 0.29, Avg Draft acceptance rate: 54.5%
_LENGTH = LatePattern(r"Mean acceptance length: (?P<length>[\d.]+)")
_POSITIONS = LatePattern(r"Per-position acceptance rate: (?P<rates>[\d., ]+)")
_RATE = LatePattern(r"Avg Draft acceptance rate: (?P<rate>[\d.]+)")
# Of three drafted tokens with a quarter accepted, one step in two is checked for nothing.
LEAST_RATE = 40.0
LEAST_LAST_RATE = 0.15
MANY_POSITIONS = 3


@frozen
class Acceptance:
    """How much of the drafts was taken: mean tokens per step, per cent, rate by position."""

    length: float | None
    rate: float | None
    positions: tuple[float, ...]

    @property
    def useful(self) -> int:
        """Number of positions that are taken often enough to be worth drafting."""
        return sum(1 for rate in self.positions if rate >= LEAST_LAST_RATE)


def acceptance_of(case: Case) -> Acceptance | None:
    """Return the acceptance that was printed last, or None."""
    seen = case.run.seen("speculation")
    if seen is None or seen.last is None:
        return None
    text = seen.last.text("text")
    length, rate, positions = _LENGTH.search(text), _RATE.search(text), _POSITIONS.search(text)
    rates = (
        tuple(float(part) for part in positions["rates"].split(",") if part.strip(" .")) if positions else ()
    )
    if not (length or rate or rates):
        return None
    return Acceptance(
        float(length["length"]) if length else None, float(rate["rate"]) if rate else None, rates
    )


def spec_decode_not_profitable(case: Case) -> Finding | None:
    """Drafts are mostly thrown away. Needs printed acceptance figures."""
    found = acceptance_of(case)
    if found is None or not _wasteful(found):
        return None
    drafted = len(found.positions) or _drafted(case)
    text = (
        "Drafts are mostly thrown away:"
        + (f" {found.length:g} tokens a step in the mean" if found.length else "")
        + (f", {found.rate:g} % of the drafted tokens are taken" if found.rate is not None else "")
        + (f"; by position {', '.join(f'{rate:g}' for rate in found.positions)}." if found.positions else ".")
        + " Drafted tokens are computed whether they are taken or not. Judge by tokens per second at your"
        " number of requests, not by acceptance: the longest accepted drafts were the slowest setting in"
        " one measured series."
    )
    return finding(
        case,
        "spec-decode-not-profitable",
        "medium",
        "low",
        text,
        (*message_lines(case, "speculation"), *setting_lines(case, "speculative_config")),
        changes=_fewer(case, found, drafted),
        effect=_without_effect(case),
        alternatives=("no speculative decoding, for many requests at once", "another drafting method"),
        verify="a higher generation throughput at the same load; `Mean acceptance length` beside it.",
    )


def speculative_decoding_eats_token_budget(case: Case) -> Finding | None:
    """Draft slots are taken from the step's tokens. Needs the engine's warning."""
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
        if budget
        else ()
    )
    return finding(
        case,
        "speculative-decoding-eats-token-budget",
        "low",
        "medium",
        text,
        message_lines(case, "speculative-token-budget"),
        changes=changes,
        alternatives=("a smaller --max-num-seqs, if so many requests never run at once",),
        verify="a larger number in the same line, or no such line.",
    )


def _wasteful(found: Acceptance) -> bool:
    if found.rate is not None and found.rate < LEAST_RATE and len(found.positions) != 1:
        return True
    return len(found.positions) >= MANY_POSITIONS and found.positions[-1] < LEAST_LAST_RATE


def _drafted(case: Case) -> int | None:
    config = case.run.setting("speculative_config")
    return whole(config.get("num_speculative_tokens")) if isinstance(config, dict) else None


def _fewer(case: Case, found: Acceptance, drafted: int | None) -> tuple[Change, ...]:
    before: Any = case.run.arguments.get("speculative_config")
    wanted = max(1, found.useful) if found.positions else None
    if isinstance(before, dict) and wanted and drafted and wanted < drafted:
        return flag(
            case, "--speculative-config", before, {**before, "num_speculative_tokens": wanted}, "needs-test"
        )
    fewer = f"{drafted} -> {wanted}" if wanted and drafted and wanted < drafted else "fewer"
    return (action(f"draft fewer tokens a step ({fewer}), or none"),)


def _without_effect(case: Case) -> Effect | None:
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
