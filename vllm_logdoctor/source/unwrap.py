"""Copies of a terminal hold records cut at its width: their rows are joined again, line numbers stay."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

SAMPLE_BYTES = 1 << 16
_NARROWEST, _WIDEST = 40, 400
_FEWEST_FULL = 6
_FEWEST_HEADS = 3

# INFO 02-09 19:43:55 [loggers.py:101] text     (APIServer pid=1) INFO:     127.0.0.1:45988 - "POST     [rank0]: Traceback
_BEGINS = re.compile(
    r"(?:\x1b\[[0-9;]*m)*(?:\([A-Za-z_][^()]{0,60}pid=\d+[^()]{0,40}\) ?|\[rank\d+\]:? ?){0,2}(?:\x1b\[[0-9;]*m)*"
    r"(?:(?:DEBUG|INFO|WARNING|ERROR|CRITICAL)(?::| \d|\x1b)|Traceback \(most)"
)


def unwrapped(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """Join the rows of a hard-wrapped copy; blocks of anything else pass as they are.

    Each joined record is followed by as many empty lines as rows were taken from below it, so that "\\n" counts the
    same lines as in the file.
    """
    waiting, width = b"", 0
    source = iter(blocks)
    for block in source:
        waiting += block
        if len(waiting) >= SAMPLE_BYTES or _has_long_line(waiting):
            break
    width = width_of(waiting[:SAMPLE_BYTES])
    if not width:
        if waiting:
            yield waiting
        yield from source
        return
    yield from _joined(waiting, source, width)


def width_of(sample: bytes) -> int:
    """Return the width at which the lines of a sample were cut, or 0 where they were not."""
    if _has_long_line(sample):
        return 0
    lines = [line.rstrip("\r") for line in sample.decode("utf-8", "replace").split("\n")]
    width = max(map(len, lines), default=0)
    full = [number for number, line in enumerate(lines[:-1]) if len(line) == width]
    if not _NARROWEST <= width <= _WIDEST or len(full) < _FEWEST_FULL:
        return 0
    continued = sum(bool(lines[number + 1]) and not _BEGINS.match(lines[number + 1]) for number in full)
    heads = sum(_BEGINS.match(lines[number]) is not None for number in full)
    return width if heads >= _FEWEST_HEADS and continued * 10 >= len(full) * 9 else 0


def _has_long_line(data: bytes) -> bool:
    return any(len(line) > 4 * _WIDEST for line in data.split(b"\n"))


def _joined(first: bytes, rest: Iterable[bytes], width: int) -> Iterator[bytes]:
    """Yield whole records; the last one is held back until what follows it is known."""
    waiting = first
    for block in rest:
        lines = waiting.split(b"\n")
        keep = len(lines) - 1
        while keep > 0 and _is_full(lines[keep - 1], width):
            keep -= 1
        if keep:
            yield _records(lines[:keep], width)
        waiting = b"\n".join(lines[keep:]) + block
    if waiting:
        text = _records(waiting.split(b"\n"), width)
        yield text[:-1]


def _records(lines: list[bytes], width: int) -> bytes:
    out: list[bytes] = []
    number = 0
    while number < len(lines):
        record, taken = lines[number], 0
        while _is_full(lines[number + taken], width) and _continues(lines, number + taken + 1):
            taken += 1
            record = record.rstrip(b"\r") + lines[number + taken]
        out.append(record + b"\n" * (taken + 1))
        number += taken + 1
    return b"".join(out)


def _is_full(line: bytes, width: int) -> bool:
    return len(line) >= width and len(line.decode("utf-8", "replace").rstrip("\r")) == width


def _continues(lines: list[bytes], number: int) -> bool:
    if number >= len(lines):
        return False
    text = lines[number].decode("utf-8", "replace").rstrip("\r")
    return bool(text) and not _BEGINS.match(text)
