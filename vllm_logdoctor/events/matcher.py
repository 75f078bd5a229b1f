"""Patterns tried on a record: only those with a literal on the line."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Mapping
from functools import cached_property, lru_cache, partial

from vllm_logdoctor.catalogue.index import PackIndex, Pattern
from vllm_logdoctor.catalogue.values import Search, compiled, convert, find
from vllm_logdoctor.catalogue.vllm_messages import vllm_messages
from vllm_logdoctor.events.event import Event, FieldValue
from vllm_logdoctor.parse import Record

_MOST_REMEMBERED = 4096
_LONGEST_REMEMBERED = 500


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
        self._vllm_messages = vllm_messages()
        self._tries: dict[int, _Try] = {}
        self._tries_of: dict[tuple[int, ...], list[_Try]] = {}
        # Ranks and restarts print the same lines.
        self._known = lru_cache(maxsize=_MOST_REMEMBERED)(self._find)

    def match(self, record: Record) -> Event | None:
        """Return the event of a record, or None where no pattern knows its message."""
        find = self._known if len(record.message) <= _LONGEST_REMEMBERED else self._find
        found = find(record.literals, record.message)
        return None if found is None else Event(found[0].event, found[1], found[0], record)

    def _find(
        self, literals: tuple[int, ...], message: str
    ) -> tuple[Pattern, Mapping[str, FieldValue]] | None:
        for one in self._candidates(literals):
            match = one.match(message)
            if match is not None:
                return one.pattern, _fields(one.pattern, match)
        return None

    def match_vllm_message(self, record: Record) -> Event | None:
        """Return the event of a record that no pattern takes and vLLM is known to print, or None."""
        if not record.level:
            return None
        pattern = self._vllm_messages.pattern_of(record.call_site, record.level, record.message)
        return None if pattern is None else Event(pattern.event, {}, pattern, record)

    def is_first(self, pattern: Pattern, literals: tuple[int, ...]) -> bool:
        """Return whether a pattern is the first one tried on lines with these literals."""
        tries = self._candidates(literals)
        return bool(tries) and tries[0].pattern is pattern

    def literal_number(self, literal: str) -> int:
        """Return the number of a literal, or -1."""
        literals = self._index.literals
        number = bisect_left(literals, literal)
        return number if number < len(literals) and literals[number] == literal else -1

    @property
    def signatures(self) -> frozenset[int]:
        """Literals whose lines rule pages want."""
        return self._index.signatures

    @cached_property
    def pages_only(self) -> frozenset[int]:
        """Literals of rule pages that lead to no pattern."""
        by_literal = self._index.patterns_by_literal
        return frozenset(number for number in self._index.signatures if not by_literal[number])

    def _candidates(self, literals: tuple[int, ...]) -> list[_Try]:
        known = self._tries_of.get(literals)
        if known is None:
            by_literal = self._index.patterns_by_literal
            numbers = sorted({number for literal in literals for number in by_literal[literal]})
            known = [self._tries.get(number) or self._try_of(number) for number in numbers]
            if len(self._tries_of) < _MOST_REMEMBERED:
                self._tries_of[literals] = known
        return known

    def _try_of(self, number: int) -> _Try:
        pattern = self._index.patterns[number]
        foreign = None if pattern.trusted else self._foreign
        one = self._tries[number] = _Try(pattern, None if foreign is None else partial(foreign, pattern))
        return one


class _Try:
    """A pattern as it is tried on messages; its expression is compiled when it is first tried."""

    __slots__ = ("_search", "pattern")

    def __init__(self, pattern: Pattern, search: Search | None) -> None:
        self.pattern = pattern
        self._search = search

    def match(self, message: str) -> re.Match[str] | None:
        """Match a message as it is, without the class of an exception before it, or without the signs of a quotation."""
        return find(self._search or self._compile(), message, self.pattern.anywhere)

    def _compile(self) -> Search:
        expression = compiled(self.pattern.regex)
        search: Search = expression.search if self.pattern.anywhere else expression.match
        self._search = search
        return search


def _fields(pattern: Pattern, match: re.Match[str]) -> dict[str, FieldValue]:
    if not pattern.fields:
        return {}
    groups = match.groupdict()
    values: dict[str, FieldValue] = {}
    for field in pattern.fields:
        text = groups.get(field.name)
        if text is None:
            continue
        value = "***" if field.sensitive else convert(text, field.type)
        if value is not None:
            values[field.name] = value
    return values
