"""Copies of a terminal hold records cut at its width: their rows are joined again, line numbers stay."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain

SAMPLE_BYTES = 1 << 16
_NARROWEST, _WIDEST = 40, 400
_LONGEST_ROW = 4 * _WIDEST
"""Bytes of a row; a longer line was not cut at the width of a terminal."""
_MOST_ROWS = 2048
"""Rows of one record, so that a log of nothing but full rows takes time and memory in proportion."""
_FEWEST_FULL = 6
_FEWEST_HEADS = 2

# INFO 02-09 19:43:55 [loggers.py:101] text     (APIServer pid=1) INFO:     127.0.0.1:45988 - "POST     [rank0]: Traceback
# 2025-03-01T08:00:01.123456789Z INFO 03-01 08:00:01 [loggers.py:101] text     vllm-1  | INFO 03-01 08:00:01 [loggers.py:101] text
_BEGINS = re.compile(
    r"(?:[\w.-]{1,60} +\| ?)?(?:\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-][\d:]+) (?:std(?:out|err) [FP] )?)?"
    r"(?:\x1b\[[0-9;]*m)*(?:\([A-Za-z_][^()]{0,60}pid=\d+[^()]{0,40}\) ?|\[rank\d+\]:? ?){0,2}(?:\x1b\[[0-9;]*m)*"
    r"(?:(?:DEBUG|INFO|WARNING|ERROR|CRITICAL)(?::| \d|\x1b)|Traceback \(most)"
)


def unwrapped(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """Join the rows of a hard-wrapped copy; blocks of anything else pass unchanged.

    Each joined record is followed by as many empty lines as rows were joined to it, so that "\\n" counts the
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
    full = [number for number, line in enumerate(lines[:-1]) if _fills(line, width)]
    if not _NARROWEST <= width <= _WIDEST or len(full) < _FEWEST_FULL:
        return 0
    continued = sum(bool(lines[number + 1]) and not _BEGINS.match(lines[number + 1]) for number in full)
    heads = sum(_BEGINS.match(lines[number]) is not None for number in full)
    return width if heads >= _FEWEST_HEADS and continued * 10 >= len(full) * 9 else 0


def _has_long_line(data: bytes) -> bool:
    return any(len(line) > _LONGEST_ROW for line in data.split(b"\n"))


def _joined(first: bytes, rest: Iterable[bytes], width: int) -> Iterator[bytes]:
    """Yield whole records; the rows of the last one wait until what follows them is known."""
    rows: list[bytes] = []
    tail, within_long_row = b"", False
    for block in chain((first,), rest):
        *lines, tail = (tail + block).split(b"\n")
        out: list[bytes] = []
        for line in lines:
            if within_long_row:
                out.append(line + b"\n")
                within_long_row = False
                continue
            if not (rows and _goes_on(rows, line, width)):
                out.append(_record(rows, width))
                rows = []
            rows.append(line)
        if within_long_row or len(tail) > _LONGEST_ROW:
            out += [_record(rows, width), tail]
            rows, tail, within_long_row = [], b"", True
        yield b"".join(out)
    if within_long_row:
        return
    if rows and not _goes_on(rows, tail, width):
        yield _record(rows, width)
        rows = []
    yield _record([*rows, tail], width)[:-1]


def _goes_on(rows: list[bytes], line: bytes, width: int) -> bool:
    """Return whether a line continues the record of some rows; a record has so many rows at most."""
    return len(rows) < _MOST_ROWS and _is_full(rows[-1], width) and _continues(line)


def _record(rows: list[bytes], width: int) -> bytes:
    """Join rows, followed by as many line ends; a copy loses the blank at the end of a row."""
    full = (row.rstrip(b"\r") for row in rows[:-1])
    whole = [row + b" " if len(row.decode("utf-8", "replace")) < width else row for row in full]
    return b"".join([*whole, *rows[-1:]]) + b"\n" * len(rows)


def _is_full(line: bytes, width: int) -> bool:
    return len(line) >= width - 1 and _fills(line.decode("utf-8", "replace").rstrip("\r"), width)


def _fills(line: str, width: int) -> bool:
    """Return whether a row is as wide as the terminal, but for a blank at its end that a copy loses."""
    return len(line) == width or (len(line) == width - 1 and not line.endswith(" "))


def _continues(line: bytes) -> bool:
    if len(line) > _LONGEST_ROW:
        return False
    text = line.decode("utf-8", "replace").rstrip("\r")
    return bool(text) and not _BEGINS.match(text)
