"""What a run says of its work beside the statistics lines, summed up: drafts and KV transfers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from vllm_logdoctor.run.metrics import MOST_GAUGES
from vllm_logdoctor.run.model import Evidence, Run, Speculation


class Drafts(Struct, frozen=True):
    """Speculative decoding over a run.

    Attributes:
        lines: number of lines that report it.
        accepted, drafted: tokens in all, or None where the lines do not tell or not all of them were kept.
        acceptance: accepted of the drafted tokens in percent, or None.
        mean_length: tokens per step with the bonus token, by drafted tokens, or None.
        per_position: acceptance by position of the draft in percent, mean of the lines by drafted tokens.
        evidence: the lines that were summed; of V0, which counts from its start, the first and the last one.
    """

    lines: int
    accepted: int | None
    drafted: int | None
    acceptance: float | None
    mean_length: float | None
    per_position: tuple[float, ...]
    evidence: tuple[Evidence, ...]


class TransferFigure(Struct, frozen=True):
    """One figure of a KV connector over a run: mean, highest and last value."""

    name: str
    mean: float
    highest: float
    last: float


def drafts_of(run: Run) -> Drafts | None:
    """Return what speculative decoding did, or None where no line reports it."""
    lines = run.speculation
    if not lines:
        return None
    if any(line.efficiency is not None for line in lines):
        # V0 counts from the start of the engine: its last line holds all.
        last = lines[-1]
        evidence = tuple(dict.fromkeys((lines[0].evidence, last.evidence)))
        return Drafts(len(lines), last.accepted, last.drafted, last.acceptance, None, (), evidence)
    whole = len(lines) < MOST_GAUGES
    accepted, drafted = (_sum(values) for values in _counts(lines))
    acceptance = 100 * accepted / drafted if accepted is not None and drafted else _mean_rate(lines)
    return Drafts(
        len(lines),
        accepted if whole else None,
        drafted if whole else None,
        acceptance,
        _mean_length(lines),
        _per_position(lines),
        tuple(line.evidence for line in lines),
    )


def transfers_of(run: Run) -> list[TransferFigure]:
    """Return the figures of the KV connector, in the order in which it prints them."""
    names = dict.fromkeys(name for line in run.transfers for name in line.figures)
    found = []
    for name in names:
        values = [line.figures[name] for line in run.transfers if name in line.figures]
        found.append(TransferFigure(name, sum(values) / len(values), max(values), values[-1]))
    return found


def _counts(lines: Sequence[Speculation]) -> tuple[list[int | None], list[int | None]]:
    return [line.accepted for line in lines], [line.drafted for line in lines]


def _sum(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _mean_rate(lines: Sequence[Speculation]) -> float | None:
    rates = [line.acceptance for line in lines if line.acceptance is not None]
    return sum(rates) / len(rates) if rates else None


def _mean_length(lines: Sequence[Speculation]) -> float | None:
    weighted = [(line.mean_length, line.drafted or 1) for line in lines if line.mean_length is not None]
    weight = sum(drafted for _, drafted in weighted)
    return sum(length * drafted for length, drafted in weighted) / weight if weight else None


def _per_position(lines: Sequence[Speculation]) -> tuple[float, ...]:
    rows = [(line.per_position, line.drafted or 1) for line in lines if line.per_position]
    longest = max((len(rates) for rates, _ in rows), default=0)
    columns = [[(rates[at], drafted) for rates, drafted in rows if len(rates) > at] for at in range(longest)]
    return tuple(
        100 * sum(rate * drafted for rate, drafted in column) / sum(drafted for _, drafted in column)
        for column in columns
    )
