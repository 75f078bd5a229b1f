"""What is read from a file beside the log, and how a kind of file is described."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache, cached_property
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


# thread 2532738, memory of process 10291 python, 21394 cicc
_PID = re.compile(r"\b\d{2,8}\b")
# GPU 00000000:83:00.0     gpu 0000:b3:00
_BUS = re.compile(r"\b[0-9a-fA-F]{4,8}:([0-9a-fA-F]{2}:[0-9a-fA-F]{2})\b")
BEGINS = frozenset({"StartedAt", "started", "Start", "stime", "start_time"})
ENDS = frozenset({"FinishedAt", "finished", "End", "mtime", "end_time"})
_IDENTIFYING = frozenset(
    {"num_gpu_blocks", "block_size", "process start", "model", "model_id", "world size", "operators", "steps"}
)


class Identity(Struct, frozen=True):
    """What in a file may say which run it is of.

    Attributes:
        values: the first value of each name that identifies a run.
        pids: each number that may be of a process, with the times of the lines that hold it.
        times: readings that say when something began and ended.
    """

    values: dict[str, object]
    pids: dict[str, tuple[str, ...]]
    times: tuple[Reading, ...]

    @property
    def is_empty(self) -> bool:
        """Return whether the readings name nothing to join by."""
        return not self.values and not self.pids and not self.times


class EvidenceFile(Struct, frozen=True, dict=True):
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
    readings: tuple[Reading, ...]
    note: str = ""
    adds: str = ""
    place: tuple[int, int] | None = None

    @cached_property
    def identity(self) -> Identity:
        """What may say which run the file is of; asked for each run set, made once."""
        values: dict[str, object] = {}
        pids: dict[str, tuple[str, ...]] = {}
        for one in self.readings:
            if one.name in _IDENTIFYING:
                values.setdefault(one.name, one.value)
            for pid in _PID.findall(_words_on_processes(one)):
                pids[pid] = (*pids.get(pid, ()), one.time)
        return Identity(values, pids, tuple(one for one in self.readings if one.name in BEGINS | ENDS))

    @cached_property
    def cards(self) -> frozenset[str]:
        """The addresses of cards on the bus."""
        texts = (f"{one.subject} {one.value}" for one in self.readings)
        return frozenset(bus.lower() for text in texts for bus in _BUS.findall(text))


def _words_on_processes(one: Reading) -> str:
    """Return the part of a reading that may hold a process id."""
    if one.name in ("oom killed", "segfault", "xid process", "process"):
        return str(one.value)
    name = one.name if one.name.startswith("memory of process") else ""
    subject = one.subject if one.subject.startswith(("thread", "pid")) else ""
    return f"{name} {subject}" if name or subject else ""


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


def number_or_text(text: str) -> int | float | str:
    """Return the number that a text is, or the text.

    Example:
        >>> number_or_text("1,024"), number_or_text("0.5"), number_or_text("N/A")
        (1024, 0.5, 'N/A')
    """
    plain = text.strip().replace(",", "")
    for kind in (int, float):
        try:
            return kind(plain)
        except ValueError:
            continue
    return text.strip()
