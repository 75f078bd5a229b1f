"""DEBUG lines that a pattern knows, read in one step once enough of them were met: a server that debugs writes millions.

What the hundredth line of a kind says is that there is one more of it. Of a stretch of such lines the first and the last one
are told, with how many they stand for, as with request lines.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from functools import cached_property

from vllm_logdoctor.events.event import Event
from vllm_logdoctor.events.fast_path import FastLine, LinePrefix, Told
from vllm_logdoctor.events.matcher import Matcher
from vllm_logdoctor.events.timestamps import Stamps
from vllm_logdoctor.parse import Record, is_plain, may_hold_secret
from vllm_logdoctor.scan import DebugKind, DebugLines, Line, may_be_debug, without_digits

OFTEN = 200
_MOST_MET = 4096

# (EngineCore_DP0 pid=55) DEBUG 01-01 00:15:46 [v1/engine/core.py:7] EngineCore loop active.
_HEAD = (
    rb"(?P<before>(?:\([A-Za-z_]\w*(?: [A-Z]{2,4}\d+)? pid=\d{1,9}\) )?DEBUG )(?:\d{4}-)?\d\d-\d\d \d\d:\d\d:\d\d"
    rb"(?P<site> \[[A-Za-z_][A-Za-z0-9_./]{0,150}:\d{1,6}\] )(?=\S)"
)


class DebugReader:
    """Reads DEBUG lines of the kinds that are only counted, and learns such kinds.

    Args:
        matcher: knows the patterns.
        tell: the long way of one line: frame, label, match.
        only_counts: says whether further records like one, of one event, would say no more than that they are there.
        lines: the kinds; what is learned is put there.
    """

    def __init__(
        self, matcher: Matcher, tell: Callable[[Line], Told], only_counts: Callable[[Record, Event], bool], lines: DebugLines
    ) -> None:  # fmt: skip
        self._matcher = matcher
        self._tell = tell
        self._only_counts = only_counts
        self._lines = lines
        self._heads: dict[DebugKind, LinePrefix] = {}
        self._met: Counter[bytes] = Counter()
        self._stamps = Stamps()

    def read(self, line: Line, lines: int) -> tuple[DebugKind, FastLine] | None:
        """Return what a line says that stands for so many, with its kind, or None where it has to go the long way."""
        kind = self._lines.kind_of(line.data)
        if kind is None:
            return None
        head = self._heads[kind]
        time = self._stamps.seconds(line.data[len(kind.before) : kind.place])
        if time is None:
            return None
        return kind, FastLine(line._replace(gates=head.gates), head, time, lines, None, self._tell)

    def with_gates(self, line: Line) -> Line:
        """Return a line that was not searched, as it is only counted, with the gates that its kind holds."""
        kind = self._lines.kind_of(line.data)
        return line if kind is None else line._replace(gates=self._heads[kind].gates)

    def learn(self, line: Line, record: Record, event: Event) -> None:
        """Note a line that went the long way; its kind is learned when it was met often."""
        if record.level != "DEBUG" or line.shaped or not may_be_debug(line.data):
            return
        text = without_digits(line.data)
        if len(self._met) >= _MOST_MET and text not in self._met:
            return
        self._met[text] += 1
        if self._met[text] % OFTEN == 0:
            self._learn(line, text, record, event)

    def _learn(self, line: Line, text: bytes, record: Record, event: Event) -> None:
        # Few logs hold so many DEBUG lines: the expression is compiled where it is asked.
        found = re.match(_HEAD, line.data)
        if found is None or not self._speaks_for_all(line, text, record, event):
            return
        kind = DebugKind(found["before"], found["site"], found.start("site"), text)
        if kind not in self._heads and self._lines.learn(kind):
            self._heads[kind] = LinePrefix(
                kind.before,
                kind.site,
                kind.place,
                line.gates,
                event.pattern.id,
                record.process,
                record.year_known,
            )

    def _speaks_for_all(self, line: Line, text: bytes, record: Record, event: Event) -> bool:
        """Say whether lines that differ from this one in digits only are framed and matched in the same way, and tell no more."""
        return (
            event.pattern.trusted
            and line.data == record.text.encode()
            and record.outer_time is None
            and is_plain(record.text[record.text.find("] ") :])
            and not may_hold_secret(record.text)
            and not self._matcher.depends_on_digits(line.gates)
            and not any(gate in text for gate in self._gates_with_digits)
            and self._only_counts(record, event)
        )

    @cached_property
    def _gates_with_digits(self) -> list[bytes]:
        """Gates that hold digits, without them: such a gate may stand on one line of a kind and not on the next."""
        gates = [gate.encode() for gate in self._matcher.gates]
        return [bare for gate in gates if (bare := without_digits(gate)) != gate]
