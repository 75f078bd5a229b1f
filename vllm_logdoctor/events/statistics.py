"""Statistics lines of a usual shape, read in one step: a server that runs for weeks writes a million of them.

The long way (framing, masking, patterns, a record and an event) costs ten times as much. Here a line is taken only if
its head and its gates are known, and if all of its message is words and figures that are known, so that both ways say
the same. Whatever is unusual goes the long way.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from vllm_logdoctor.events.event import Event
from vllm_logdoctor.events.fast_path import FastLine, Figures, LinePrefixes, Told
from vllm_logdoctor.events.matcher import Matcher
from vllm_logdoctor.parse import Record
from vllm_logdoctor.scan import Line

_THROUGHPUT = "throughput"
_GATE = "Avg prompt throughput: "
_MOST_HEADS = 16

_BEGINS = rb"(?=Engine \d|Avg )"
# Engine 000: Avg prompt throughput: 4.0 tokens/s, Avg generation throughput: 2.5 tokens/s, Running: 3 reqs, Waiting: 0 reqs, GPU KV cache
# usage: 1.5%, Prefix cache hit rate: 20.0%, MM cache hit rate: 5.0%
# Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 9.1 tokens/s, Running: 1 reqs, Swapped: 0 reqs, Pending: 0 reqs, GPU KV
# cache usage: 0.2%, CPU KV cache usage: 0.0%.
_MESSAGE = re.compile(
    rb"(?:Engine (\d{1,6}): )?Avg prompt throughput: (\d{1,12}\.\d{1,3}) tokens/s, Avg generation throughput: (\d{1,12}\.\d{1,3}) tokens/s, "
    rb"Running: (\d{1,12}) reqs, (?:Swapped: (\d{1,12}) reqs, )?(?:Waiting|Pending): (\d{1,12}) reqs, GPU KV cache usage: (\d{1,12}\.\d{1,3})%"
    rb"(?:, CPU KV cache usage: \d{1,12}\.\d{1,3}%\.)?(?:, Prefix cache hit rate: (\d{1,12}\.\d{1,3})%)?"
    rb"(?:, External prefix cache hit rate: (\d{1,12}\.\d{1,3})%)?(?:, MM cache hit rate: (\d{1,12}\.\d{1,3})%)?"
)


class StatisticsReader:
    """Reads statistics lines whose head is known.

    Args:
        matcher: knows the patterns.
        tell: the long way of one line: frame, label, match.
    """

    def __init__(self, matcher: Matcher, tell: Callable[[Line], Told]) -> None:
        self._gate = matcher.gate_number(_GATE)
        self._matcher = matcher
        self._tell = tell
        self._heads = LinePrefixes(_BEGINS, _MOST_HEADS)

    def read(self, line: Line) -> FastLine | None:
        """Return what a line says, or None where it has to go the long way."""
        if self._gate not in line.gates:
            return None
        head = self._heads.head_of(line.data)
        if head is None or line.gates != head.gates:
            return None
        time = self._heads.time_of(line.data, head)
        found = _MESSAGE.fullmatch(line.data, head.end)
        if time is None or found is None:
            return None
        return FastLine(line, head, time, 1, _figures(found), self._tell)

    def learn(self, line: Line, record: Record, event: Event) -> None:
        """Note the head of a line that went the long way."""
        if event.pattern.id == _THROUGHPUT and self._matcher.is_first(event.pattern, line.gates):
            self._heads.learn(line, record, event)


def _figures(found: re.Match[bytes]) -> Figures:
    """Read what a line prints; an engine without a number is the only one."""
    engine, *others = map(float, found.groups(b"nan"))
    return Figures(engine if engine == engine else 0.0, *others)
