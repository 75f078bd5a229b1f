"""Wrapper prefixes: what docker, kubectl, journald, Slurm, Ray, CI systems and log viewers put before a line."""

from __future__ import annotations

import re

from msgspec import Struct

from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.parse.clock import seconds_of
from vllm_logdoctor.parse.processes import PROCESS_PREFIX, process_of
from vllm_logdoctor.parse.record import NO_PROCESS, Process

# 2024-05-01T08:45:12.669025667Z stderr F    [2025-05-20T05:24:25Z]    | 2025-03-07T05:56:13.899Z |
# 2026-04-19 12:51:56.342 | (APIServer pid=1) text      2024-07-13 15:06:36,684 - INFO - vLLM:     [2025-08-07 19:00:10]
_ISO = lazy_pattern(
    r"[\s|\"]*\[?(?P<time>\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?)(?:Z|[+-]\d\d:?\d\d)?\]?"
    r"(?: std(?:out|err) [FP])?(?:\s*\|(?: (?=\())?|\t|\s+|$)(?:- [A-Z]+ - (?:[\w.]+: ?)?)?"
)
# > [2024-09-05T00:38:34Z] INFO: ...      >   | [2024-09-05T00:38:34Z] ...      (quoted in a thread)
_QUOTED = lazy_pattern(r"(?:> ?){1,4}(?=[\s|]{0,8}\[?\d{4}-\d\d-\d\d[T ]\d)")
# Aug 19 18:34:30 vllm vllm[8707]:     авг 18 14:15:04 llm python3[28059]:
_JOURNAL = lazy_pattern(
    r"(?P<time>\w{3,8}\.? +\d{1,2} \d\d:\d\d:\d\d) (?P<host>[\w.-]+) (?P<unit>[\w./@-]+)(?:\[(?P<pid>\d+)\])?: ?"
)
# vllm-llm-1  | INFO
_COMPOSE = lazy_pattern(r"(?P<host>[\w.-]+) +\| ?")
# 2025-07-16 04:20:43 chat-vllm-1   | INFO    (Docker Desktop copies the time ahead of the name)
_COMPOSE_TIMED = lazy_pattern(r"(?P<host>[\w.-]*[a-z][\w.]*[-_]\d+) +\| ?")
# vllm-decode-6c8f9c4df6-vh88z vllm (APIServer pid=1) INFO:      kserve-container Traceback (most recent call last):      (stern)
_CONTAINER = lazy_pattern(
    r"(?P<host>[a-z0-9]+(?:-[a-z0-9]+)+) (?:[a-z][a-z0-9-]{1,40} )?"
    r"(?=  |\(\w+ pid=\d|(?:DEBUG|INFO|WARNING|ERROR|CRITICAL)[ :]|Traceback \(most|[A-Z]\w+(?:Error|Exception)\b)"
)
# [pod/vllm-0/server] INFO      [1,0]<stdout>:
_POD = lazy_pattern(r"\[pod/(?P<host>[\w./-]+)\] |\[(?P<rank>\d+,\d+)\]<std(?:out|err)>: ?")
#  12: INFO    3:   File "a.py", line 4, in f    (srun -l)
_SRUN = lazy_pattern(r" {0,4}(?P<rank>\d{1,5}): (?=.|$)")
# [rank0]: Traceback
_TORCH_RANK = lazy_pattern(r"\[rank(?P<rank>\d+)\]: ?")
# 383.1s 39 Trying    129.7s | 1009 | Trying    (Kaggle: seconds, line number)
_KAGGLE = lazy_pattern(r"\d{1,7}\.\d+s\s+(?:\| )?\d+\s+(?:\| )?")
# 1561:(Worker_TP1 pid=2295939) ERROR ...     1562-(Worker_TP1 pid=2295939) ...     (grep -n)
#     12 | (APIServer pid=1) text           (Worker_TP2 pid=479523) ERROR ...     (a listing, an indented block of Markdown)
_LIST_NUMBER = lazy_pattern(r"(?:\s+\d+\s*[|:]\s|\d{1,8}[:-]|\s+)(?=\(\w+(?: \w+)? pid=\d)")


class Prefix(Struct, frozen=True, gc=False):
    """What precedes the text of a line.

    Attributes:
        end: offset at which the text starts.
        process: process named by the prefixes; the innermost one.
        outer_time: wrapper's clock, or None.
        year_known: whether the wrapper prints a year.
    """

    end: int
    process: Process
    outer_time: float | None
    year_known: bool


def read_prefix(text: str) -> Prefix:
    """Read all wrapper and process prefixes at the start of a line.

    Example:
        >>> p = read_prefix("web-1  | (EngineCore_DP0 pid=5) INFO 01-01 00:00:00 [a.py:1] x")
        >>> p.process.role, p.process.pid, p.process.host
        ('engine-core', 5, 'web-1')
    """
    position, process = 0, NO_PROCESS
    outer, year_known, host, rank = None, False, "", ""
    for _ in range(8):
        first = text[position : position + 1]
        if first == "(":
            match = PROCESS_PREFIX.match(text, position)
            if not match:
                break
            name, own_rank, pid, ip = match.groups()
            process = process_of(name or "", int(pid), own_rank or rank, ip or host)
            position = match.end()
            continue
        match = _wrapper(text, position, first)
        if not match or match.end() == position:
            break
        found = match.groupdict()
        if found.get("time") and outer is None:
            outer, year_known = seconds_of(found["time"].replace("\t", " ")) or (None, False)
        host = found.get("host") or host
        rank = found.get("rank") or rank
        position = match.end()
    if process is NO_PROCESS and (host or rank):
        process = Process(host=host, rank=rank)
    return Prefix(position, process, outer, year_known)


def _wrapper(text: str, position: int, first: str) -> re.Match[str] | None:
    if first.isdigit():
        known = (_ISO, _SRUN, _KAGGLE, _LIST_NUMBER)
        return next((found for one in known if (found := one.match(text, position))), None)
    if first == ">":
        return _QUOTED.match(text, position)
    if first == "[":
        return _TORCH_RANK.match(text, position) or _POD.match(text, position) or _ISO.match(text, position)
    if first in ' |"\t':
        padded = _SRUN.match(text, position) if position == 0 else None
        return _ISO.match(text, position) or _LIST_NUMBER.match(text, position) or padded
    if first.isalpha():
        journal = _JOURNAL.match(text, position)
        if journal or position:
            return journal or _COMPOSE_TIMED.match(text, position)
        return _COMPOSE.match(text) or _CONTAINER.match(text)
    return None
