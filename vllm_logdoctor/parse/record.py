"""What a line becomes: a record of one process."""

from __future__ import annotations

from msgspec import Struct


class Process(Struct, frozen=True, gc=False):
    """Who wrote a record.

    Attributes:
        name: as printed, "EngineCore_DP0", "Worker_TP1"; "" where the log does not say.
        role: "api-server", "engine-core", "worker", "coordinator", "other" or "" (not said).
        pid: process id, or None.
        rank: rank words of the name ("DP0", "TP1"), or the number after `rank=`; "" without.
        host: host, container or node name from a wrapper's prefix; "" without.
    """

    name: str = ""
    role: str = ""
    pid: int | None = None
    rank: str = ""
    host: str = ""


NO_PROCESS = Process()


class Record(Struct, frozen=True, gc=False):
    """One record, secrets masked.

    Attributes:
        file: number of the file.
        line: 1-based line number.
        process: who wrote it.
        level: "DEBUG" ... "CRITICAL", or "" for text that no logger framed.
        time: seconds on the log's own clock (day 0 is January 1st of the year, or of year 2000 where the log
            prints none), or None.
        outer_time: the same by a wrapper's clock (docker, journald, kubectl), or None.
        year_known: whether `time` holds the printed year.
        call_site: (file name, line) in vLLM that printed it, or None.
        message: the text behind the header.
        text: the whole line as evidence shows it.
        literals: numbers of the literals found on the line.
    """

    file: int
    line: int
    process: Process
    level: str
    time: float | None
    outer_time: float | None
    year_known: bool
    call_site: tuple[str, int] | None
    message: str
    text: str
    literals: tuple[int, ...] = ()
