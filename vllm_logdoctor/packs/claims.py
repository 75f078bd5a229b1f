"""Which patterns claim a text: gates first, then the regexes behind them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from vllm_logdoctor.packs.index import Pattern
from vllm_logdoctor.packs.values import match

_KEY = 6
"""Every gate has at least this many characters."""


class Claims:
    """Finds the patterns that claim a text among many, without trying each."""

    def __init__(self, patterns: Sequence[Pattern]) -> None:
        self.patterns = patterns
        self._by_key: dict[str, list[tuple[str, int]]] = {}
        for number, pattern in enumerate(patterns):
            for gate in pattern.gates:
                self._by_key.setdefault(gate[:_KEY], []).append((gate, number))

    def candidates(self, text: str) -> list[int]:
        """Return the numbers of the patterns with a gate in the text, in order."""
        found = set()
        for start in range(len(text) - _KEY + 1):
            for gate, number in self._by_key.get(text[start : start + _KEY], ()):
                if number not in found and text.startswith(gate, start):
                    found.add(number)
        return sorted(found)

    def of(self, text: str) -> Iterator[int]:
        """Return the numbers of the patterns that match the text."""
        return (number for number in self.candidates(text) if match(self.patterns[number], text))
