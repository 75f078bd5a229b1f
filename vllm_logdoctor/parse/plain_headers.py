"""Cheap checks of most lines: a head that nothing but a process precedes, a text that needs no second look."""

from __future__ import annotations

from functools import lru_cache

from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.parse.clock import seconds_of
from vllm_logdoctor.parse.processes import process_of
from vllm_logdoctor.parse.record import NO_PROCESS, Process
from vllm_logdoctor.parse.secrets import may_hold_secret
from vllm_logdoctor.texts import asked_once

_ENTITIES = ("&quot;", "&lt;", "&gt;", "&amp;", "&#")
"""Of HTML: a log that was copied from the source of a page."""
LONGEST_SHOWN = 3000
LONGEST_HEAD = 320

_BARE_COLOUR = lazy_pattern(r"\[[0-9;]{1,12}m")
# (EngineCore_DP0 pid=55) INFO 01-01 00:00:49 [kv_cache_utils.py:1087] text: most records, and nothing else before the header
_PLAIN = lazy_pattern(
    r"(?:\((?:(?P<name>[A-Za-z_]\w*(?: [A-Z]{2,4}\d+)?) )?pid=(?P<pid>\d{1,9})\) )?(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL) "
    r"(?P<time>(?:\d{4}-)?\d\d-\d\d \d\d:\d\d:\d\d(?:[.,]\d{1,6})?) \[?(?P<file>[A-Za-z0-9_./]{1,160}):(?P<line>\d{1,6})\] "
)

PlainHead = tuple[Process, str, "float | None", bool, tuple[str, int]]
"""Process, level, time, whether its year was printed, call site."""


@lru_cache(maxsize=512)  # The lines of a traceback have one head, and the ranks that print it a few.
def plain_head(head: str) -> PlainHead | None:
    """Read a head that nothing but a process precedes; the first "] " of a line ends it."""
    parts = _parts_of(head)
    if parts is None:
        return None
    name, pid, level, printed, file, number = parts
    time, year_known = seconds_of(head[printed]) or (None, False)
    process = NO_PROCESS if pid is None else process_of(head[name] if name else "", int(head[pid]))
    return process, level, time, year_known, (head[file], int(head[number]))


@asked_once
def _parts_of(text: str) -> _HeadParts | None:
    """Return where the parts are in all plain heads that differ in nothing but digits."""
    found = _PLAIN.fullmatch(text)
    if found is None or _BARE_COLOUR.search(text) is not None:
        return None
    place = {part: slice(*found.span(part)) for part in ("name", "pid", "time", "file", "line")}
    return (
        place["name"] if found["name"] else None, place["pid"] if found["pid"] else None, found["level"], place["time"], place["file"],
        place["line"],
    )  # fmt: skip


_HeadParts = tuple["slice | None", "slice | None", str, slice, slice, slice]
"""Places of the name and the number of a process; level; places of time, file and line."""


def may_hold_header(text: str) -> bool:
    """Return, at little cost, whether a text may hold the header of a record: a time, a file and a line."""
    return "]" in text and text.count(":") >= 3


def may_hold_other_header(text: str) -> bool:
    """Return, at little cost, whether a text may hold the header of a logger that someone else configured."""
    return ".py" in text or ":vllm" in text or " vllm" in text or "] [vllm" in text


def is_plain(message: str) -> bool:
    """Return whether the text behind a plain head is one record: no other header in it, and nothing to take off first."""
    return ".py:" not in message and is_unwrapped(message)


def is_unwrapped(text: str) -> bool:
    """Return whether a line holds nothing that is taken off before its header is read: redraws, colours, quotes of CSV and HTML."""
    wraps = "\r" in text or '""' in text or text.endswith('"') or may_hold_entities(text)
    return not (wraps or may_be_coloured(text))


def may_hold_entities(text: str) -> bool:
    """Return, at little cost, whether a text may hold entities of HTML."""
    return "&" in text and any(one in text for one in _ENTITIES)


def may_be_coloured(text: str) -> bool:
    """Return, at little cost, whether a text may hold colour codes."""
    # "#033" is a lost escape character, whose digits may have been made 1.
    if "\x1b" in text or "^[" in text or "#0" in text or "<-" in text:
        return True
    if not text.isascii() and ("\u2190" in text or "\x9b" in text):
        return True
    return "[" in text and _BARE_COLOUR.search(text) is not None


def is_usual(message: str) -> bool:
    """Return whether a message needs nothing but its end cut off: no secret in it, no bold figure, nothing of what wraps lines."""
    return len(message) < LONGEST_SHOWN - LONGEST_HEAD and _asks_for_nothing(message)


@asked_once
def _asks_for_nothing(message: str) -> bool:
    return is_plain(message) and "**" not in message and not may_hold_secret(message)
