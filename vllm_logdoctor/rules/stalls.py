"""Times in which requests run and nothing moves: no prompt, no token, not a block of the cache."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from vllm_logdoctor.rules.load import Span
from vllm_logdoctor.run.model import Sample

# A long prompt takes cache with every chunk and a request that ends gives its cache back: where requests run
# and not even the usage moves for so many lines and seconds, no step was finished.
LEAST_LINES = 4
LEAST_SECONDS = 30.0


def stalled(spans: Sequence[Span]) -> frozenset[tuple[int, int]]:
    """Return the places (file, line) of the statistics lines in which an engine made no progress."""
    by_engine: dict[int, list[Span]] = defaultdict(list)
    for span in spans:
        by_engine[span.sample.engine].append(span)
    return frozenset(
        (span.sample.file, span.sample.line)
        for series in by_engine.values()
        for group in _groups(series)
        if len(group) >= LEAST_LINES and sum(span.seconds for span in group) >= LEAST_SECONDS
        for span in group
    )


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
