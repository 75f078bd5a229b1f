"""What an offline engine completed, by its progress bars and by the answers that its program printed."""

from __future__ import annotations

from collections.abc import Sequence

from vllm_logdoctor.run.clock import duration
from vllm_logdoctor.run.metrics import offline_batches
from vllm_logdoctor.run.model import Evidence, Progress, Run

LEAST_CALLS = 10
"""Calls of an offline engine with one prompt each; fewer are a trial."""
_ROUNDED = 10.0
"""Seconds from which a bar that is not full, whose seconds are whole ones, still says how many tokens a prompt took."""
_NO_LIMIT = "the log has no statistics lines that show a limit"


def one_by_one(batches: Sequence[Progress]) -> bool:
    """Return whether an offline engine was given its prompts one after the other, each in a call of its own."""
    return len(batches) >= LEAST_CALLS and all(one.total == 1 for one in batches)


def completed(run: Run, batches: Sequence[Progress]) -> tuple[str, tuple[Evidence, ...]]:
    """Return what the progress bars of an offline engine say; they know prompts and time, not what limits them."""
    done, seconds = sum(one.done for one in batches), sum(one.seconds or 0.0 for one in batches)
    took = f" in {duration(seconds)}" if seconds else ""
    ends = tuple(one.evidence for one in ((batches[0], batches[-1]) if len(batches) > 1 else batches))
    if one_by_one(batches):
        return (
            f"{done:,} prompts completed{took}, each in its own call: the engine never had two at once",
            ends,
        )
    prompts = "prompt" if done == 1 else "prompts"
    whole = prompts if all(one.done == one.total for one in batches) else f"{prompts} of unfinished batches"
    reason = f"{done:,} {whole} completed{took}{_speed(batches)}; {_NO_LIMIT}"
    empty = run.seen("empty-output")
    if empty is None or not outputs_are_empty(run):
        return reason, ends
    return f"Every output that the program printed is empty. {reason}", (
        run.evidence(empty.first[0].record),
        *ends,
    )


def prints_answers(run: Run) -> bool:
    """Return whether a program printed answers, or that its evaluation got all of them."""
    return any(map(run.seen, ("printed-answer", "evaluation-progress", "training-progress")))


def printed_answers(run: Run) -> tuple[str, tuple[Evidence, ...]] | None:
    """Return how many requests an evaluation completed, steps a training made, or answers a program printed as vLLM's own examples do; or None."""
    seen = run.seen("evaluation-progress")
    if seen is not None:
        bars = {
            one.record.line: one for one in seen.first
        }  # A terminal draws a full bar twice into its line.
        done = sum(one.number("total") or 0 for one in bars.values())
        requests = f"{done:,.0f} requests" if seen.count <= len(seen.first) else "its requests"
        lines = tuple(run.evidence(one.record) for one in bars.values())
        return f"The evaluation completed {requests}; {_NO_LIMIT}", lines
    seen = run.seen("training-progress")
    if seen is not None and seen.last is not None:
        steps = seen.last.number("total") or 0
        return f"The training around vLLM made {steps:,.0f} of {steps:,.0f} steps; {_NO_LIMIT}", (
            run.evidence(seen.last.record),
        )
    seen = run.seen("printed-answer")
    if seen is None or seen.last is None:
        return None
    ends = (run.evidence(seen.first[0].record), run.evidence(seen.last.record))
    answers = "1 answer" if seen.count == 1 else f"{seen.count:,} answers"
    return f"The program printed {answers}; {_NO_LIMIT}", tuple(dict.fromkeys(ends))


def outputs_are_empty(run: Run) -> bool:
    """Return whether an offline program printed an empty output for each prompt that was completed."""
    empty = run.seen("empty-output")
    return empty is not None and empty.count >= sum(one.done for one in offline_batches(run)) > 0


def tokens_per_prompt(batches: Sequence[Progress], *, read: bool = False) -> float | None:
    """Return the output tokens of a prompt on average, or the input tokens; None where a bar leaves them open."""
    total = 0.0
    for one in batches:
        rate = one.input if read else one.output
        if rate is None or not one.seconds or (one.done < one.total and one.seconds < _ROUNDED):
            return None
        total += rate * one.seconds
    return total / sum(one.done for one in batches) if batches else None


def _speed(batches: Sequence[Progress]) -> str:
    """Return the output tokens per second over all batches, in words, where each bar prints them."""
    timed = [(one.output, one.seconds) for one in batches if one.output is not None and one.seconds]
    if len(timed) < len(batches):
        return ""
    speed = sum(rate * took for rate, took in timed) / sum(took for _, took in timed)
    if not speed:
        return ""  # A pooling model generates no tokens.
    made, read = tokens_per_prompt(batches), tokens_per_prompt(batches, read=True)
    each = f" ({tokens(read)} tokens in, {tokens(made)} out per prompt)" if made and read else ""
    return f", {speed:,.0f} output tokens/s{each}" if speed >= 100 else f", {speed:.3g} output tokens/s{each}"


def tokens(value: float) -> str:
    """Return how many tokens, without the digits that the rounding of a bar's rate makes: 1.4, 7, 1,069."""
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}".removesuffix(".0")
