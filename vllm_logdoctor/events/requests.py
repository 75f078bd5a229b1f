"""Request lines of a usual shape, read in one step: of a stretch of them the first and the last one tell the time.

Here a line is taken only if the long way (framing, masking, patterns) took a line with the same head before, and if
nothing in it is framed in another way, so that both ways say the same. Whatever is unusual goes the long way.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from vllm_logdoctor.events.event import Event
from vllm_logdoctor.events.stamps import Stamps
from vllm_logdoctor.frame import LONGEST_TEXT, Process, Record, is_plain
from vllm_logdoctor.scan import Line

_MOST_HEADS = 64

# (APIServer pid=41) INFO 01-01 00:01:01 [logger.py:41] Received request chatcmpl-1: prompt: '...
# INFO 05-01 12:00:00 [async_llm.py:271] Added request chatcmpl-1.
_HEAD = re.compile(
    rb"(?P<before>(?:\([A-Za-z_]\w*(?: [A-Z]{2,4}\d+)? pid=\d{1,9}\) )?INFO )(?P<stamp>(?:\d{4}-)?\d\d-\d\d \d\d:\d\d:\d\d)"
    rb"(?P<rest> \[[A-Za-z][A-Za-z0-9_./]{0,150}:\d{1,6}\] (?:Received|Added|Finished) request )"
)


class RequestHead(NamedTuple):
    """What stands before the name of a request in the lines of one writer, and what the long way made of it.

    Attributes:
        before: bytes before the time.
        rest: bytes between the time and the name.
        place: where `rest` begins; the time has a fixed length.
        pattern: name of the pattern that takes the line.
        process: who writes them.
        year_known: whether their time holds the year.
    """

    before: bytes
    rest: bytes
    place: int
    pattern: str
    process: Process
    year_known: bool


Told = tuple[Record, "Event | None"]


class RequestLine(NamedTuple):
    """A request line that was read in one step, for as many like it as `lines` says.

    Attributes:
        line: the line.
        head: its head.
        time: seconds on the log's own clock.
        lines: how many it stands for.
        tell: goes the long way with it, where a record is asked for.
    """

    line: Line
    head: RequestHead
    time: float
    lines: int
    tell: Callable[[Line], Told]

    @property
    def pattern(self) -> str:
        """Name of the pattern that takes the line."""
        return self.head.pattern

    def told(self) -> Told:
        """Return the record and the event that the long way makes of the line."""
        return self.tell(self.line)


class RequestReader:
    """Reads request lines whose head is known.

    Args:
        tell: the long way of one line: frame, label, match.
    """

    def __init__(self, tell: Callable[[Line], Told]) -> None:
        self._tell = tell
        self._heads: list[RequestHead] = []
        self._stamps = Stamps()

    def read(self, line: Line, lines: int) -> RequestLine | None:
        """Return what a line says that stands for so many, or None where it has to go the long way."""
        data = line.data
        for head in self._heads:
            if data.startswith(head.before) and data.startswith(head.rest, head.place):
                break
        else:
            return None
        text = data.decode("utf-8", "replace")
        if len(text) > LONGEST_TEXT or not is_plain(text, head.place + len(head.rest)):
            return None
        time = self._stamps.seconds(data[len(head.before) : head.place])
        return None if time is None else RequestLine(line, head, time, lines, self._tell)

    def learn(self, line: Line, record: Record, event: Event | None) -> None:
        """Note the head of a line that went the long way."""
        found = _HEAD.match(line.data)
        if found is None or event is None or not event.pattern.trusted or len(self._heads) == _MOST_HEADS:
            return
        process, place = record.process, found.start("rest")
        head = RequestHead(
            found["before"], found["rest"], place, event.pattern.id, process, record.year_known
        )
        if record.outer_time is None and head not in self._heads:
            self._heads.append(head)
