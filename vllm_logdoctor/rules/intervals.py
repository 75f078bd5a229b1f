"""For how long each limit held, and neighbouring statistics lines of one limit."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from vllm_logdoctor.rules.limits import BottleneckName
from vllm_logdoctor.rules.load import Span


def time_by_limit(spans: Sequence[Span], limits: Sequence[BottleneckName]) -> dict[BottleneckName, float]:
    """Return the seconds of each limit."""
    seconds: dict[BottleneckName, float] = defaultdict(float)
    for span, limit in zip(spans, limits, strict=True):
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
