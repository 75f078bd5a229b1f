"""What limited each interval of a run, and for how long: a statistics line shows the requests at the end of its interval alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from vllm_logdoctor.rules.limits import FULL_BATCH, BottleneckName
from vllm_logdoctor.rules.load import Span


def interval_limits(spans: Sequence[Span], limits: Sequence[BottleneckName]) -> list[BottleneckName]:
    """Return what limited each interval; `limits` are those of the moment at its end, which a statistics line shows.

    An interval at whose end the queue is gone and most of the batch has ended is still the server's if its tokens are
    at least half of those before, and more than twice those after. An interval at whose end a batch has filled up is
    the client's if its tokens are less than half of the next one's. One at whose end freed room of the cache fills again
    is the cache's.

    Example:
        >>> from vllm_logdoctor.run.model import Sample
        >>> states = ((256, 700, 900.0), (256, 200, 9000.0), (40, 0, 8000.0), (9, 0, 800.0))
        >>> spans = [Span(Sample(0.0, n, 0, 0.0, rate, running=r, waiting=w), 10.0) for n, (r, w, rate) in enumerate(states)]
        >>> interval_limits(spans, ["max-num-seqs-limited", "max-num-seqs-limited", "client-limited", "client-limited"])
        ['client-limited', 'max-num-seqs-limited', 'max-num-seqs-limited', 'client-limited']
    """
    places: defaultdict[int, list[int]] = defaultdict(list)
    for number, span in enumerate(spans):
        places[span.sample.engine].append(number)
    found = list(limits)
    for series in places.values():
        ends = [(spans[number], limits[number]) for number in series]
        for number, before, end, after in zip(series, [None, *ends], ends, [*ends[1:], None], strict=False):
            found[number] = _limit_of_interval(before, end, after)
    return found


_End = tuple[Span, BottleneckName]
"""A statistics line, and the limit of the moment that it shows."""


def _limit_of_interval(before: _End | None, end: _End, after: _End | None) -> BottleneckName:
    span, limit = end
    if limit in FULL_BATCH:
        if after is None or after[1] != limit:
            return limit
        filled = before is None or _is_far_below(before[0], span)
        return "client-limited" if filled and _has_few_tokens(span, after[0]) else limit
    if before is None or before[1] not in FULL_BATCH:
        return limit
    if after is not None and before[1] == after[1] == "kv-cache-limited" and span.waits and after[0].waits:
        return "kv-cache-limited"
    if not _is_far_below(span, before[0]):
        return limit
    ended = after is None or _has_few_tokens(after[0], span)
    return before[1] if ended and not _has_few_tokens(span, before[0]) else limit


def _is_far_below(one: Span, full: Span) -> bool:
    """Return whether less than half of the requests of a full batch ran at another moment, and none waited."""
    return not one.waits and 2 * (one.sample.running or 0) < (full.sample.running or 0)


def _has_few_tokens(span: Span, full: Span) -> bool:
    """Return whether an interval has less than half of the tokens of another one, generated ones and prompts alike."""
    one, other = span.sample, full.sample
    return 2 * one.generation < other.generation and 2 * one.prompt <= other.prompt


def time_by_limit(spans: Sequence[Span], held: Sequence[BottleneckName]) -> dict[BottleneckName, float]:
    """Return the seconds of each limit; `held` is what limited each interval."""
    seconds: dict[BottleneckName, float] = defaultdict(float)
    for span, limit in zip(spans, held, strict=True):
        seconds[limit] += span.seconds
    return dict(seconds)


def smoothed(limits: Sequence[BottleneckName]) -> list[BottleneckName]:
    """Return the limits with single samples between two alike taken for those.

    Example:
        >>> smoothed(["idle", "client-limited", "idle"])
        ['idle', 'idle', 'idle']
    """
    out = list(limits)
    for number in range(1, len(out) - 1):
        if out[number - 1] == limits[number + 1]:
            out[number] = out[number - 1]
    return out


def majority(limits: Sequence[BottleneckName], window: int) -> list[BottleneckName]:
    """Return for each sample the limit that holds most often among so many in a row.

    Example:
        >>> majority(["idle", "idle", "client-limited", "idle"], 4)
        ['idle', 'idle', 'idle', 'idle']
    """
    out: list[BottleneckName] = []
    for start in range(0, len(limits), window):
        part = limits[start : start + window]
        out += [max(sorted(set(part)), key=part.count)] * len(part)
    return out
