"""The lines of a piece as columns, and texts compared with many lines at once, eight bytes at a time."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

Offsets = NDArray[np.int64]
Words = NDArray[np.uint64]
Truths = NDArray[np.bool_]

WORD = 8
ONES = 0x0101010101010101
_WIDEST = 64
_ROWS = 4096
_LINE_END = 10
_ALL, _HIGH_HALF, _TO_NINE = 0xFF, 0xF0, 0x06


class LineColumns(Struct, frozen=True):
    """The lines of some bytes.

    Attributes:
        data: the bytes.
        starts: offset of each line, int64.
        ends: offset of each line's end, int64: its "\\n", or the end of the bytes.
        words: the eight bytes from each offset on as a number, uint64; it shares the memory of the bytes.
    """

    data: bytes
    starts: Offsets
    ends: Offsets
    words: Words

    @classmethod
    def of(cls, data: bytes) -> LineColumns:
        """Find the lines.

        Args:
            data: eight bytes or more.

        Example:
            >>> lines = LineColumns.of(b"one\\n\\nthree")
            >>> lines.starts.tolist(), lines.ends.tolist()
            ([0, 4, 5], [3, 4, 10])
        """
        ends = np.flatnonzero(np.frombuffer(data, np.uint8) == _LINE_END)
        if not data.endswith(b"\n"):
            ends = np.append(ends, len(data))
        starts = np.empty_like(ends)
        starts[0] = 0
        starts[1:] = ends[:-1] + 1
        words: Words = np.ndarray((len(data) - WORD + 1,), "<u8", buffer=data, strides=(1,))
        return cls(data, starts, ends, words)

    def line(self, number: int) -> bytes:
        """Return a line without its end."""
        return self.data[int(self.starts[number]) : int(self.ends[number])]


class _Block:
    """Part of a text, compared as rows of 1, 2, 4 or 8 words.

    Args:
        offset: where it stands in the text.
        mask, value: what is found, masked, must be the value; as long as a row.
        six: what is added before a second comparison, where there are digits: a byte whose high half is that of a
            digit is one if it keeps that half with six more.
    """

    def __init__(self, offset: int, mask: bytes, value: bytes, six: bytes | None) -> None:
        self.offset, self.size = offset, len(mask)
        # As many rows as are compared at once: numpy is slow where the inner one of two loops is short.
        self._mask, self._value = _words(mask * _ROWS), _words(value * _ROWS)
        self._six = None if six is None else _words(six * _ROWS)
        self._truths = f"<u{self.size // WORD}"
        self._all_true = int.from_bytes(b"\1" * (self.size // WORD), "little")

    def stands_at(self, data: bytes, places: Offsets) -> Truths:
        """Say at which offsets of the text the block stands."""
        rows = np.ndarray((len(data) - self.size + 1,), f"V{self.size}", buffer=data, strides=(1,))
        words = rows[places + self.offset].view(np.uint64)
        width = self.size // WORD * _ROWS
        parts = [self._is_value(words[first : first + width]) for first in range(0, len(words), width)]
        same = parts[0] if len(parts) == 1 else np.concatenate([*parts, np.zeros(0, np.bool_)])
        stands: Truths = same.view(self._truths) == self._all_true
        return stands

    def _is_value(self, words: Words) -> Truths:
        mask, value = self._mask[: len(words)], self._value[: len(words)]
        same: Truths = (words & mask) == value
        if self._six is not None:
            same &= ((words + self._six[: len(words)]) & mask) == value
        return same


class FixedText:
    """A text with any digit at some places.

    Args:
        text: the text.
        digits: places of digits that may be others.
    """

    def __init__(self, text: bytes, digits: Collection[int] = ()) -> None:
        self.length = len(text)
        self._blocks: list[_Block] = []
        for offset in range(0, len(text), _WIDEST):
            self._blocks.append(_block(text, offset, digits))
        self._reach = self._blocks[-1].offset + self._blocks[-1].size

    def stands_at(self, lines: LineColumns, places: Offsets) -> Truths:
        """Say at which offsets the text stands; it may miss one in the last 64 bytes.

        Args:
            lines: the bytes.
            places: int64 offsets.

        Example:
            >>> lines = LineColumns.of(b"at 10:31:07 it ended\\nat 10:x1:07 it ended\\n")
            >>> text = FixedText(b"at 00:00:00 it", digits=(3, 4, 6, 7, 9, 10))
            >>> text.stands_at(lines, lines.starts).tolist()
            [True, False]
        """
        last = len(lines.data) - self._reach
        stands: Truths = places <= last
        if last >= 0:
            for block in self._blocks:
                stands &= block.stands_at(lines.data, np.minimum(places, last))
        return stands


def _block(text: bytes, offset: int, digits: Collection[int]) -> _Block:
    part = text[offset : offset + _WIDEST]
    size = next(size for size in (8, 16, 32, _WIDEST) if size >= len(part))
    is_digit = [place in digits for place in range(offset, offset + len(part))]
    mask = bytes(_HIGH_HALF if digit else _ALL for digit in is_digit).ljust(size, b"\0")
    value = bytes(byte & bits for byte, bits in zip(part.ljust(size, b"\0"), mask, strict=True))
    six = bytes(_TO_NINE if digit else 0 for digit in is_digit).ljust(size, b"\0") if any(is_digit) else None
    return _Block(offset, mask, value, six)


def _words(data: bytes) -> Words:
    return np.frombuffer(data, np.uint64)


def digits_in(text: bytes, start: int = 0, end: int | None = None) -> frozenset[int]:
    """Return the places of digits in part of a text.

    Example:
        >>> sorted(digits_in(b"a1b22", 2))
        [3, 4]
    """
    return frozenset(
        place for place in range(start, len(text) if end is None else end) if chr(text[place]).isdigit()
    )
