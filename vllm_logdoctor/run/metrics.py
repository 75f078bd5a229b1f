"""What an engine prints beside its statistics lines: speculative decoding, KV transfers, offline progress."""

from __future__ import annotations

import math
from typing import TypeVar

from msgspec.structs import replace

from vllm_logdoctor.events import Event
from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.run.model import Evidence, Progress, Run, Speculation, Transfer

MOST_GAUGES = 5000

Gauge = TypeVar("Gauge")

# Mean acceptance length: 2.31, Accepted throughput: 12.00 tokens/s, Accepted: 120 tokens, Per-position acceptance rate: 0.600, 0.400
_NAMED = lazy_pattern(r"(?P<name>[A-Z][A-Za-z -]{2,40}): (?P<value>\d+(?:\.\d+)?|nan)")
_PER_POSITION = lazy_pattern(r"Per-position acceptance rate: (?P<rates>\d+(?:\.\d+)?(?:, \d+(?:\.\d+)?)*)")
# Num successful transfers=12, Avg xfer time (ms)=3.1, Throughput (MB/s)=1300.5
_EQUAL = lazy_pattern(r"(?P<name>[A-Za-z][^=,]{0,60})=(?P<value>-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)(?=,|\s|$)")


def speculation_of(event: Event, time: float | None, evidence: Evidence) -> Speculation | None:
    """Read a line on speculative decoding of any version; None where nothing was drafted yet."""
    if event.name == "speculation-v0":
        return _speculation_v0(event, time, evidence)
    text = event.text("text")
    figures = {
        found["name"]: float(found["value"])
        for found in _NAMED.finditer(text)
        if found["value"].count(".") <= 1
    }
    positions = _PER_POSITION.search(text)
    drafted = _whole(figures.get("Drafted"))
    if drafted == 0:
        return None
    return Speculation(
        time,
        evidence,
        accepted=_whole(figures.get("Accepted")),
        drafted=drafted,
        acceptance=_finite(figures.get("Avg Draft acceptance rate", figures.get("Draft acceptance rate"))),
        mean_length=_finite(figures.get("Mean acceptance length")),
        per_position=tuple(float(rate) for rate in positions["rates"].split(", ")) if positions else (),
    )


def _speculation_v0(event: Event, time: float | None, evidence: Evidence) -> Speculation | None:
    rate = _finite(event.number("acceptance"))
    if rate is None:
        return None
    figures = {found["name"]: found["value"].rstrip(".") for found in _NAMED.finditer(event.record.message)}
    accepted, drafted = figures.get("Number of accepted tokens"), _drafted(figures)
    return Speculation(
        time,
        evidence,
        accepted=int(accepted) if accepted and accepted.isdecimal() else None,
        drafted=int(drafted) if drafted and drafted.isdecimal() else None,
        acceptance=100 * rate,
        efficiency=_finite(event.number("efficiency")),
    )


def transfer_of(event: Event, time: float | None, evidence: Evidence) -> Transfer | None:
    """Read a line of a KV connector; None where it holds no figure."""
    figures = {found["name"].strip(): float(found["value"]) for found in _EQUAL.finditer(event.text("text"))}
    return Transfer(time, evidence, figures) if figures else None


def progress_of(event: Event, time: float | None, evidence: Evidence) -> Progress | None:
    """Read a state of the offline progress bar; the last one of a line that was redrawn."""
    done, total = event.number("done"), event.number("total")
    if done is None or total is None:
        return None
    took, (read, made) = _took(event, int(done), int(total)), map(event.number, ("input", "output"))
    return Progress(evidence, int(done), int(total), took, read, made, time)


def offline_batches(run: Run) -> list[Progress]:
    """Return the last state of each progress bar of the offline engine, in order."""
    batches: list[Progress] = []
    for state in run.progress:
        if batches and _goes_on(batches[-1], state):
            batches[-1] = replace(state, time=batches[-1].time)
        else:
            batches.append(state)
    return [batch for batch in batches if batch.done]


def end_with_batches(run: Run) -> float | None:
    """Return when a run ended: at its last time, or later where progress bars, which print none, went on after it."""
    if run.ended is None or run.setting("data_parallel_size") not in (None, 1):
        return run.ended  # Bars of several engines at once can not be distinguished.
    end, batches = run.started or 0.0, offline_batches(run)
    for batch in batches:
        whole = batch.done == batch.total or batch is batches[-1]
        if whole and batch.seconds is not None:
            end = max(end, batch.time or 0.0) + batch.seconds
    return max(run.ended, end)


def added(series: list[Gauge], gauge: Gauge) -> list[Gauge]:
    """Return a series with one more; beyond the bound every second one is left out, never the last."""
    series.append(gauge)
    return series if len(series) < 2 * MOST_GAUGES else series[1::2]


def _goes_on(before: Progress, state: Progress) -> bool:
    """Return whether a bar shows a later state of the one before: a full one is only drawn again."""
    if before.done == before.total and (state.seconds or 0.0) > (before.seconds or 0.0) + 1.0:
        return False
    slower = state.seconds is None or before.seconds is None or state.seconds >= int(before.seconds)
    return state.total == before.total and state.done >= before.done and slower


def _took(event: Event, done: int, total: int) -> float | None:
    """Return the seconds of a bar: whole ones as printed, with their fraction where the pace of a full bar agrees.

    Processed prompts: 100%|##########| 2/2 [00:02<00:00,  1.39s/it, est. speed input: 769.99 toks/s, output: 184.05 toks/s]
    """
    whole, pace = _seconds(event.text("elapsed")), event.number("pace")
    if whole is None or not pace or done < total:
        return whole
    exact = done * pace if event.text("unit") == "s/it" else done / pace
    return exact if whole <= exact < whole + 1 else whole


def _seconds(elapsed: str) -> float | None:
    """01:05 or 1:02:03 -> seconds."""
    parts = elapsed.split(":")
    if not all(part.isdecimal() for part in parts):
        return None
    return float(sum(int(part) * 60**power for power, part in enumerate(reversed(parts))))


def _drafted(figures: dict[str, str]) -> str | None:
    """Return the drafted tokens; most releases say "draft tokens tokens"."""
    return figures.get("Number of draft tokens tokens", figures.get("Number of draft tokens"))


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _whole(value: float | None) -> int | None:
    finite = _finite(value)
    return None if finite is None else int(finite)
