"""Times in which requests run and nothing moves: no prompt, no token, not a block of the cache."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from vllm_logdoctor.events import Event
from vllm_logdoctor.rules.load import Span
from vllm_logdoctor.run.model import Run, Sample

# A long prompt takes cache with every chunk and a request that ends gives its cache back: where requests run
# and not even the usage moves for so many lines and seconds, no step was finished.
LEAST_LINES = 4
LEAST_SECONDS = 30.0


def stalled(run: Run, spans: Sequence[Span]) -> frozenset[tuple[int, int]]:
    """Return the places (file, line) of the statistics lines in which an engine made no progress."""
    at_end = wait_behind(run, spans) is not None
    by_engine: dict[int, list[Span]] = defaultdict(list)
    for span in spans:
        by_engine[span.sample.engine].append(span)
    return frozenset(
        (span.sample.file, span.sample.line)
        for series in by_engine.values()
        for group in _groups(series)
        if (len(group) >= LEAST_LINES and sum(span.seconds for span in group) >= LEAST_SECONDS)
        or (at_end and group and group[-1] is spans[-1])
        for span in group
    )


def wait_behind(run: Run, spans: Sequence[Span]) -> Event | None:
    """Return the last message of an engine that waits for its workers where it follows a last line without a token, or None.

    An engine that waits in a step prints no statistics: "No available shared memory broadcast block found in 60 seconds".
    """
    warned, last = run.seen("stall-warning"), spans[-1].sample if spans else None
    if warned is None or warned.last is None or last is None or not _without_tokens(last):
        return None
    record = warned.last.record
    is_behind = (record.file, record.line) > (last.file, last.line)
    waited = (record.time or 0.0) - (last.time or 0.0)
    return warned.last if is_behind and waited >= LEAST_SECONDS else None


def _groups(series: Sequence[Span]) -> list[list[Span]]:
    groups: list[list[Span]] = []
    for span in series:
        if not _without_tokens(span.sample):
            groups.append([])
        elif groups and groups[-1] and _same_place(groups[-1][-1].sample, span.sample):
            groups[-1].append(span)
        else:
            groups.append([span])
    return groups


def _without_tokens(sample: Sample) -> bool:
    return bool(sample.running) and sample.prompt == 0 and sample.generation == 0


def _same_place(one: Sample, other: Sample) -> bool:
    return one.running == other.running and one.kv_usage == other.kv_usage
