"""Patterns tried on a record: only those whose gate stood on the line."""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Callable, Sequence

from vllm_logdoctor.events.event import Event, FieldValue
from vllm_logdoctor.frame import Record
from vllm_logdoctor.late import LatePattern
from vllm_logdoctor.packs.index import PackIndex, Pattern

# torch.OutOfMemoryError: CUDA out of memory    ValueError: Free memory on device
_EXCEPTION_TYPE = LatePattern(
    r"(?:[A-Za-z_][\w.]{1,120}(?:Error|Exception|Warning|Interrupt|Exit|Timeout|Failure)(?:\([^)]{0,80}\))?: ?)+"
)

# `Avg prompt throughput: ...     > INFO ...     (quoted in a message, a ticket, a table)
_QUOTING = " \t`'\"|>*]"

_MOST_REMEMBERED = 4096

_Match = Callable[[str], "re.Match[str] | None"]


class Matcher:
    """Finds the pattern of a record.

    Args:
        index: the packs.
        foreign: matches one pattern of a pack that others wrote, with a time limit.
    """

    def __init__(
        self, index: PackIndex, foreign: Callable[[Pattern, str], re.Match[str] | None] | None = None
    ) -> None:
        self._index = index
        self._foreign = foreign
        self._compiled: dict[int, _Match] = {}
        self._anywhere: dict[int, bool] = {}
        self._candidates_of: dict[tuple[int, ...], list[int]] = {}

    def match(self, record: Record) -> Event | None:
        """Return the event of a record, or None where no pattern knows its message."""
        for number in self._candidates(record.gates):
            match = self._try(number, record.message)
            if match is not None:
                pattern = self._index.patterns[number]
                return Event(pattern.event, _fields(pattern, match), pattern, record)
        return None

    def is_first(self, pattern: Pattern, gates: tuple[int, ...]) -> bool:
        """Say whether a pattern is the first one tried on lines with these gates."""
        numbers = self._candidates(gates)
        return bool(numbers) and self._index.patterns[numbers[0]] is pattern

    def depends_on_digits(self, gates: tuple[int, ...]) -> bool:
        """Say whether a pattern that is tried on lines with these gates may tell one number from another."""
        from vllm_logdoctor.packs.digits import takes_any_number

        regexes = [self._index.patterns[number].regex for number in self._candidates(gates)]
        return not all(map(takes_any_number, regexes))

    @property
    def gates(self) -> Sequence[str]:
        """All gates."""
        return self._index.gates

    def gate_number(self, gate: str) -> int:
        """Return the number of a gate, or -1."""
        gates = self._index.gates
        number = bisect_left(gates, gate)
        return number if number < len(gates) and gates[number] == gate else -1

    @property
    def signatures(self) -> frozenset[int]:
        """Gates whose lines the rule pages want to see."""
        return self._index.signatures

    @property
    def bare_gates(self) -> frozenset[int]:
        """Gates that lead to no pattern."""
        # A gate of no pattern is there for a rule page.
        by_gate = self._index.patterns_by_gate
        return frozenset(number for number in self._index.signatures if not by_gate[number])

    def regexes_of_gate(self, gate: int) -> list[str]:
        """Return the regexes of the patterns that a gate leads to."""
        return [self._index.patterns[number].regex for number in self._index.patterns_by_gate[gate]]

    def _candidates(self, gates: tuple[int, ...]) -> list[int]:
        known = self._candidates_of.get(gates)
        if known is None:
            by_gate = self._index.patterns_by_gate
            known = sorted({number for gate in gates for number in by_gate[gate]})
            if len(self._candidates_of) < _MOST_REMEMBERED:
                self._candidates_of[gates] = known
        return known

    def _try(self, number: int, message: str) -> re.Match[str] | None:
        tried = self._compiled.get(number) or self._compile(number)
        found = tried(message)
        if found is not None or self._anywhere[number]:
            return found
        stripped = message.lstrip()
        head = _EXCEPTION_TYPE.match(stripped)
        if head:
            return tried(stripped[head.end() :])
        plain = message.lstrip(_QUOTING)
        return tried(plain) if len(plain) != len(message) else None

    def _compile(self, number: int) -> _Match:
        pattern = self._index.patterns[number]
        self._anywhere[number] = pattern.anywhere
        tried: _Match
        if not pattern.trusted and self._foreign is not None:
            foreign = self._foreign
            tried = lambda text: foreign(pattern, text)  # noqa: E731
        else:
            compiled = re.compile(pattern.regex, re.DOTALL)
            tried = compiled.search if pattern.anywhere else compiled.match
        self._compiled[number] = tried
        return tried


def _fields(pattern: Pattern, match: re.Match[str]) -> dict[str, FieldValue]:
    groups = match.groupdict()
    values: dict[str, FieldValue] = {}
    for field in pattern.fields:
        text = groups.get(field.name)
        if text is None:
            continue
        value = "***" if field.sensitive else _typed(text, field.type)
        if value is not None:
            values[field.name] = value
    return values


def _typed(text: str, kind: str) -> FieldValue | None:
    if kind == "str":
        return text
    if kind == "bool":
        return text.strip().lower() in {"true", "1", "yes", "on", "enabled"}
    try:
        number = float(text.replace(",", "").replace("_", ""))
    except ValueError:
        return None
    if kind == "int":
        return int(number) if math.isfinite(number) else None
    return number
