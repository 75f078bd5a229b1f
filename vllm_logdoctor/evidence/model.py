"""What is read from a file beside the log, and how a kind of file is described."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path

from msgspec import Struct

MOST_READINGS = 80
"""Readings that are kept of a file."""

Scalar = str | int | float | bool | None


class Reading(Struct, frozen=True):
    """One value of a file.

    Attributes:
        name: what it is, in the words of the tool that wrote the file.
        value: number, text or truth value; a list for a row of names or the bounds of a bucket.
        unit: unit, or "" where the name or the value has it.
        subject: "gpu 0", "thread 2532738", "engine 1", a kernel; "" for the whole file.
        line: 1-based line, several lines for a value made from them, None in files without lines.
        where: place in a file without lines, such as "traceEvents".
        how: "read", or how the value was made from what was read.
        time: clock of its line as printed, in a kernel's log; else "".

    Example:
        >>> Reading("driver", "590.48.01", line=3).how
        'read'
    """

    name: str
    value: Scalar | list[Scalar]
    unit: str = ""
    subject: str = ""
    line: int | tuple[int, ...] | None = None
    where: str = ""
    how: str = "read"
    time: str = ""


class EvidenceFile(Struct, frozen=True):
    """What was read of one file beside the log.

    Attributes:
        file: its name as given.
        kind: its kind, or "" for one that is not known.
        readings: the values, at most 80.
        note: what was left out, and why.
        adds: what its kind tells that a log does not.
        place: first and last line, where it is a part of a pasted text.
    """

    file: str
    kind: str
    readings: tuple[Reading, ...] = ()
    note: str = ""
    adds: str = ""
    place: tuple[int, int] | None = None


Lines = Sequence[str]
Reader = Callable[[Lines], Iterable[Reading]]


class Kind(Struct, frozen=True):
    """One kind of file.

    Attributes:
        name: its name in reports and JSON.
        adds: what it tells that a log does not, in words.
        mark: an expression that finds it in the beginning of a file (at most 64 KiB), line by line; or a function that tells.
        read: its readings, the most telling first; None for a kind that is streamed.
        stream: reads a file of any size by its path, where the kind has such a reader.
    """

    name: str
    adds: str
    mark: str | Callable[[str], bool]
    read: Reader | None = None
    stream: Callable[[Path], Iterable[Reading]] | None = None

    def recognizes(self, head: str) -> bool:
        """Return whether a file that begins so is of this kind."""
        return bool(_compiled(self.mark).search(head)) if isinstance(self.mark, str) else self.mark(head)


@cache
def _compiled(expression: str) -> re.Pattern[str]:
    return re.compile(expression, re.MULTILINE)


def number(text: str) -> int | float | str:
    """Return the number that a text is, or the text.

    Example:
        >>> number("1,024"), number("0.5"), number("N/A")
        (1024, 0.5, 'N/A')
    """
    plain = text.strip().replace(",", "")
    for kind in (int, float):
        try:
            return kind(plain)
        except ValueError:
            continue
    return text.strip()
