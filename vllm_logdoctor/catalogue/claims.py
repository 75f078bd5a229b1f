"""Which patterns claim a text: gates first, then the regexes behind them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from vllm_logdoctor.catalogue.index import Pattern
from vllm_logdoctor.catalogue.values import match
from vllm_logdoctor.texts import TextIndex


class Claims:
    """Finds the patterns that claim a text among many, without trying each."""

    def __init__(self, patterns: Sequence[Pattern]) -> None:
        self.patterns = patterns
        self._owners = [number for number, pattern in enumerate(patterns) for _ in pattern.gates]
        self._gates = TextIndex([gate for pattern in patterns for gate in pattern.gates])

    def candidates(self, text: str) -> list[int]:
        """Return the numbers of the patterns with a gate in the text, in order."""
        return sorted({self._owners[gate] for gate in self._gates.found_in(text)})

    def of(self, text: str) -> Iterator[int]:
        """Return the numbers of the patterns that match the text."""
        return (number for number in self.candidates(text) if match(self.patterns[number], text))
