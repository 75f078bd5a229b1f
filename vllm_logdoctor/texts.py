"""Many texts looked for in another one, by their first characters: one look-up for each place, however many texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import AnyStr, Generic

_KEY = 6


class TextIndex(Generic[AnyStr]):
    """Finds which of many texts stand in another one.

    Args:
        texts: what is looked for; a text is told by its number among them, and may be there twice.

    Example:
        >>> sorted(TextIndex(["out of memory", "OOM", "memory"]).found_in("CUDA out of memory"))
        [0, 2]
    """

    def __init__(self, texts: Sequence[AnyStr]) -> None:
        self._texts: Sequence[AnyStr] = texts
        self._by_key: dict[AnyStr, list[int]] = {}
        self._short: list[int] = []
        for number, text in enumerate(texts):
            if len(text) < _KEY:
                self._short.append(number)
            else:
                self._by_key.setdefault(text[:_KEY], []).append(number)

    def found_in(self, text: AnyStr) -> set[int]:
        """Return the numbers of the texts that stand in a text."""
        texts, by_key = self._texts, self._by_key
        keys = {text[start : start + _KEY] for start in range(len(text) - _KEY + 1)} & by_key.keys()
        found = {number for key in keys for number in by_key[key] if texts[number] in text}
        found.update(number for number in self._short if texts[number] in text)
        return found
