"""Request lines of a usual shape, read in one step: of a stretch of them the first and the last one tell the time.

Here a line is taken only if its head is known, and if nothing in it is framed in another way, so that the long way
says the same. Whatever is unusual goes the long way.
"""

from __future__ import annotations

from collections.abc import Callable

from vllm_logdoctor.events.event import Event
from vllm_logdoctor.events.fast_path import FastLine, LinePrefixes, Told
from vllm_logdoctor.parse import LONGEST_TEXT, Record, is_plain
from vllm_logdoctor.scan import Line

_MOST_HEADS = 64
# Received request chatcmpl-1: prompt: '...      Added request chatcmpl-1.
_BEGINS = rb"(?:Received|Added|Finished) request "


class RequestReader:
    """Reads request lines whose head is known.

    Args:
        tell: the long way of one line: frame, label, match.
    """

    def __init__(self, tell: Callable[[Line], Told]) -> None:
        self._tell = tell
        self._heads = LinePrefixes(_BEGINS, _MOST_HEADS)

    def read(self, line: Line, lines: int) -> FastLine | None:
        """Return what a line says that stands for so many, or None where it has to go the long way."""
        head = self._heads.head_of(line.data)
        if head is None:
            return None
        text = line.data.decode("utf-8", "replace")
        if len(text) > LONGEST_TEXT or not is_plain(text[head.end :]):
            return None
        time = self._heads.time_of(line.data, head)
        return None if time is None else FastLine(line, head, time, lines, None, self._tell)

    def learn(self, line: Line, record: Record, event: Event | None) -> None:
        """Note the head of a line that went the long way."""
        if event is not None:
            self._heads.learn(line, record, event)
