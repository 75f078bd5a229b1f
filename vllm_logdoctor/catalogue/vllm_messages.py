"""Recognises what vLLM prints and no pattern takes, by the table of all its messages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache, cached_property, lru_cache

from vllm_logdoctor.catalogue.defaults import (
    default_meaning,
    default_severity,
    default_topic,
    default_verdict,
)
from vllm_logdoctor.catalogue.index import Pattern
from vllm_logdoctor.catalogue.values import EXCEPTION_TYPES
from vllm_logdoctor.knowledge.messages import MessageTable, VllmMessage, base_name, message_table
from vllm_logdoctor.knowledge.templates import could_begin, could_print

PACK = "vllm"
"""Pack of what is recognised by the table alone."""
FEWEST_LETTERS = 10
"""A template with fewer letters of its own says too little to be recognised."""
_LETTERS_WITHOUT_HEADER = 24
_KEY = 3
_TROUBLE = frozenset({"WARNING", "ERROR", "CRITICAL"})
_LEVELS = {"exception": "error", "warn": "warning", "trace": "debug"}

_MOST_KNOWN = 4096
_LONGEST_KNOWN = 500

_ByStart = dict[str, list[tuple[str, VllmMessage]]]
"""Messages by their first characters, each with the text that its first line begins with."""


class VllmMessages:
    """Recognises messages of vLLM by the file that prints them, and the texts of its exceptions.

    Nothing is loaded before the first question.
    """

    def __init__(self) -> None:
        self._files: dict[str, _ByStart] = {}
        self._patterns: dict[str, Pattern] = {}
        # Every rank prints the lines of one traceback.
        self._known = lru_cache(maxsize=_MOST_KNOWN)(self._find)
        self._raised = lru_cache(maxsize=_MOST_KNOWN)(self._find_raised)

    def pattern_of(self, call_site: tuple[str, int] | None, level: str, message: str) -> Pattern | None:
        """Return what the table knows of a message as a pattern; None where no template fits."""
        find = self._known if len(message) <= _LONGEST_KNOWN else self._find
        return find("" if call_site is None else call_site[0], level in _TROUBLE, message)

    def is_printed(self, text: str) -> bool:
        """Return whether vLLM prints or raises a text that no header marks as its own; it must say enough for that."""
        found = self._logged("", text) or self._raised(text)
        return found is not None and _letters(found) >= _LETTERS_WITHOUT_HEADER

    def _find(self, file: str, is_trouble: bool, message: str) -> Pattern | None:
        found = self._logged(base_name(file), message) or (self._find_raised(message) if is_trouble else None)
        return None if found is None else self._pattern(found)

    @cached_property
    def _table(self) -> MessageTable:
        return message_table()

    @cached_property
    def _of_any_file(self) -> _ByStart:
        """For logs without call sites, and plug-ins that print what vLLM prints."""
        return _by_start(message for message in self._table.logged if len(message.parts[0]) >= _KEY)

    def _logged(self, base: str, message: str) -> VllmMessage | None:
        by_start = self._files.get(base)
        if by_start is None:
            messages = self._table.logged_by(base)
            if not messages:
                # Not remembered: a log can name any number of files that vLLM does not have.
                return self._first(self._of_any_file, message)
            by_start = self._files[base] = _by_start(messages)
        begun = (each for _, each in by_start.get(message[:_KEY], ()))
        cut = (each for each in begun if could_begin(each.parts, message, _LETTERS_WITHOUT_HEADER))
        return self._first(by_start, message) or next(cut, None)

    def prints_from(self, call_site: tuple[str, int] | None) -> bool:
        """Return whether a release of vLLM prints from a file; true where a log names none."""
        return call_site is None or self._table.logs_from(base_name(call_site[0]))

    @staticmethod
    def _first(by_start: _ByStart, message: str) -> VllmMessage | None:
        for key in (message[:_KEY], ""):
            for start, each in by_start.get(key, ()):
                if message.startswith(start) and could_print(each.parts, message):
                    return each
        return None

    def _find_raised(self, message: str) -> VllmMessage | None:
        """Return the exception that a message is."""
        text = message.lstrip()
        types = EXCEPTION_TYPES.match(text)
        text = text[types.end() :] if types else text
        candidates = (each for each in self._table.raised_in(text) if _says_enough(each))
        return next((each for each in candidates if could_print(each.parts, text)), None)

    def _pattern(self, message: VllmMessage) -> Pattern:
        known = self._patterns.get(message.id)
        if known is None:
            known = self._patterns[message.id] = pattern_of_message(message, self._table.versions)
        return known


@cache
def vllm_messages() -> VllmMessages:
    """Return the one recogniser of a process: to order the table takes longer than to analyse a small log."""
    return VllmMessages()


def pattern_of_message(message: VllmMessage, versions: tuple[str, ...]) -> Pattern:
    """Return a message of the table as a pattern, with what its level and place say of it."""
    level = _LEVELS.get(message.level, message.level)
    topic = default_topic(message.module, message.template, message.level)
    return Pattern(
        id=message.id,
        event=message.id,
        level=level,
        seen=", ".join(_span_texts(message, versions)),
        module=message.module,
        topic=topic,
        verdict=default_verdict(topic),
        severity=default_severity(message.level),
        meaning=default_meaning(message.level, topic),
        pack=PACK,
    )


def _span_texts(message: VllmMessage, versions: tuple[str, ...]) -> Iterator[str]:
    """Yield the ranges of releases that print a message; neighbouring spans differ in lines only."""
    start = end = -1
    for first, last, *_ in message.spans:
        if first == end + 1 and start >= 0:
            end = last
            continue
        if start >= 0:
            yield _range_text(versions[start], versions[end])
        start, end = first, last
    if start >= 0:
        yield _range_text(versions[start], versions[end])


def _range_text(first: str, last: str) -> str:
    return first if first == last else f"{first}-{last}"


def _by_start(messages: Iterable[VllmMessage]) -> _ByStart:
    """Return messages by the first characters of what they print, the ones with most text of their own first."""
    found: _ByStart = {}
    for message in sorted(messages, key=lambda each: -sum(map(len, each.parts))):
        if _says_enough(message):
            start = message.parts[0].split("\n", 1)[0]
            key = start[:_KEY] if len(start) >= _KEY else ""
            found.setdefault(key, []).append(
                (message.parts[0].lstrip("\n").split("\n", 1)[0].rstrip(), message)
            )
    return found


def _says_enough(message: VllmMessage) -> bool:
    return _letters(message) >= FEWEST_LETTERS


def _letters(message: VllmMessage) -> int:
    return sum(character.isalpha() for part in message.parts for character in part)
