"""Times in which requests are there and nothing moves: no prompt, no token, not a block of the cache."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise

from msgspec import Struct

from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.parse import Record
from vllm_logdoctor.rules.load import Span
from vllm_logdoctor.run.model import Run, Sample
from vllm_logdoctor.run.termination import stops_in

# A long prompt takes cache with every chunk and a request that ends gives its cache back: where requests run
# and not even the usage moves for so many lines and seconds, no step was finished.
LEAST_LINES = 4
LEAST_SECONDS = 30.0
# An error that the engine put into the queue of a running request: output_processor.py, in get: raise output;
# async_llm_engine.py, in generator: raise result; multiprocessing/client.py, in _process_request: raise request_output
_FROM_ENGINE = lazy_pattern(
    r'/vllm/(?:v1/)?engine/\S+\.py", line \d+, in (?:get|get_nowait|generator|_process_request)\s*$'
)
_RAISES_OUTPUT = lazy_pattern(r"^\s*raise (?:output|result|request_output)\s*$")


class Silence(Struct, frozen=True):
    """What shows that the engine made no step behind its last statistics line.

    Attributes:
        record: the message of an engine that waits, or the error of a running request.
        seconds: from the statistics line to it.
        failed: whether it is the error of a request.
    """

    record: Record
    seconds: float
    failed: bool


def stalled(run: Run, spans: Sequence[Span]) -> frozenset[tuple[int, int]]:
    """Return the places (file, line) of the statistics lines in which an engine made no progress."""
    silent = silence_behind(run, spans) is not None
    by_engine: dict[int, list[Span]] = defaultdict(list)
    for span in spans:
        by_engine[span.sample.engine].append(span)
    return frozenset(
        (span.sample.file, span.sample.line)
        for series in by_engine.values()
        for group in _groups(series)
        if (len(group) >= LEAST_LINES and sum(span.seconds for span in group) >= LEAST_SECONDS)
        or (group[-1] is spans[-1] and (silent or _none_was_run(run, series)))
        for span in group
    )


def silence_behind(run: Run, spans: Sequence[Span]) -> Silence | None:
    """Return what shows that the engine made no step behind a last line without a token, or None.

    An engine that waits in a step prints no statistics: either it says that it waits ("No available shared memory broadcast
    block found in 60 seconds"), or its running requests fail after a long time without a line.
    """
    last = spans[-1].sample if spans else None
    if last is None or not last.running or not _without_tokens(last):
        return None
    warned = run.seen("stall-warning")
    if warned is not None and warned.last is not None and _follows_late(warned.last.record, last):
        return Silence(warned.last.record, _seconds_behind(warned.last.record, last), failed=False)
    error = _error_of_running_request(run, last)
    return Silence(error, _seconds_behind(error, last), failed=True) if error is not None else None


def _error_of_running_request(run: Run, last: Sample) -> Record | None:
    """Return the first error behind a line where it comes late and the engine gave it to a running request, or None.

    Errors while a server is stopped, and of requests that are refused before they run, say nothing of the engine.
    """
    behind = [one for one in run.records if (one.file, one.line) > (last.file, last.line)]
    first = next((number for number, one in enumerate(behind) if one.level in ("ERROR", "CRITICAL")), None)
    if first is None or not _follows_late(behind[first], last) or any(stops_in(behind[: first + 1])):
        return None
    block = [one for one in behind[first:] if one.call_site == behind[first].call_site]
    raised = any(
        _FROM_ENGINE.search(frame.message) and _RAISES_OUTPUT.match(code.message)
        for frame, code in pairwise(block)
    )
    return behind[first] if raised else None


def _follows_late(record: Record, last: Sample) -> bool:
    is_behind = (record.file, record.line) > (last.file, last.line)
    return is_behind and _seconds_behind(record, last) >= LEAST_SECONDS


def _seconds_behind(record: Record, last: Sample) -> float:
    return (record.time or 0.0) - (last.time or 0.0)


def _none_was_run(run: Run, series: Sequence[Span]) -> bool:
    """Return whether requests wait at both ends of the last interval, and none runs: the engine made no step in it.

    Requests that wait for KV blocks of another engine are not this one's to run.
    """
    if len(series) < 2 or run.setting("kv_transfer_config"):
        return False
    before, last = (span.sample for span in series[-2:])
    return _only_waits(before) and _only_waits(last) and (last.waiting or 0) >= (before.waiting or 0)


def _only_waits(sample: Sample) -> bool:
    return bool(sample.waiting) and sample.running == 0 and not sample.swapped


def _groups(series: Iterable[Span]) -> list[list[Span]]:
    """Return the rows of lines without a token in which neither the running requests nor the usage change."""
    groups: list[list[Span]] = []
    before: Span | None = None
    for span in series:
        if _without_tokens(span.sample):
            if before is not None and groups and groups[-1][-1] is before and _same_place(before, span):
                groups[-1].append(span)
            else:
                groups.append([span])
        before = span
    return groups


def _without_tokens(sample: Sample) -> bool:
    present = sample.running or _only_waits(sample)
    return bool(present) and sample.prompt == 0 and sample.generation == 0


def _same_place(one: Span, other: Span) -> bool:
    return one.sample.running == other.sample.running and one.sample.kv_usage == other.sample.kv_usage
