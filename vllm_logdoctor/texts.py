"""Many texts looked for in another one, by their first characters: one look-up for each place, however many texts.

And texts that differ in digits only, made the same, so that one answer holds for all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, AnyStr, Generic, TypeVar

_KEY = 6
_LONG = 2000
"""Bytes of a text from which few are remembered, because they cost more memory."""
_LONGEST = 1 << 14
"""Bytes of a text that is remembered at all."""
_T = TypeVar("_T")
_GIB = {"": 2.0**-30, "KiB": 2.0**-20, "MiB": 2.0**-10, "GiB": 1.0}


class TextIndex(Generic[AnyStr]):
    """Finds which of many texts another one contains.

    Args:
        texts: what is looked for; a text is identified by its number among them, and may be there twice.

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
        """Return the numbers of the texts that a text contains."""
        texts, by_key = self._texts, self._by_key
        keys = {text[start : start + _KEY] for start in range(len(text) - _KEY + 1)} & by_key.keys()
        found = {number for key in keys for number in by_key[key] if texts[number] in text}
        found.update(number for number in self._short if texts[number] in text)
        return found


def shared_start(one: str, other: str) -> int:
    """Return how many characters at the beginning of two texts are equal.

    Example:
        >>> shared_start("/logs/may/a.log", "/logs/june/a.log")
        6
    """
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


_DIGITS = bytes.maketrans(b"23456789", b"11111111")


def with_equal_digits(text: str) -> bytes:
    """Return a text in which all digits but the zero are 1; in bytes, whose table is a hundred times faster than that of text.

    Example:
        >>> with_equal_digits("step 17 of 0x3a")
        b'step 11 of 0x1a'
    """
    return text.encode("utf-8", "surrogatepass").translate(_DIGITS)


def asked_once(question: Callable[[str], _T]) -> Callable[[str], _T]:
    """Ask a question once of all texts that differ in digits only: it gets them with a 1 for each digit but the zero.

    Example:
        >>> words = asked_once(str.split)
        >>> words("step 17"), words("step 20")
        (['step', '11'], ['step', '10'])
    """

    def ask(text: str) -> _T:
        answers = _answers_on(text)
        if question not in answers:
            answers[question] = question(with_equal_digits(text).decode("utf-8", "surrogatepass"))
        answer: _T = answers[question]
        return answer

    return ask


@lru_cache(maxsize=32)  # Several rules look at one line in turn.
def _answers_on(text: str) -> dict[Any, Any]:
    same = with_equal_digits(text)
    if len(same) <= _LONG:
        return _answers_on_short(same)
    return _answers_on_long(same) if len(same) <= _LONGEST else {}


def _no_answers(_: bytes) -> dict[Any, Any]:
    return {}


# The ranks of a run and the logs of a release print the same lines.
_answers_on_short = lru_cache(maxsize=16384)(_no_answers)
_answers_on_long = lru_cache(maxsize=32)(_no_answers)


def gib_of(text: str) -> float | None:
    """Return a size as GiB, that of bytes without a unit; None for other texts.

    Example:
        >>> gib_of("1.04 GiB"), gib_of("512 MiB"), gib_of("2147483648"), gib_of("all")
        (1.04, 0.5, 2.0, None)
    """
    number, _, unit = text.partition(" ")
    try:
        return float(number) * _GIB[unit]
    except (KeyError, ValueError):
        return None
