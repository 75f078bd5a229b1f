"""One wanted line to its records: colours and redraws taken off, prefixes and header read, secrets masked."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable, Iterator, Sequence
from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace

from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.parse.clock import seconds_of, with_year_of
from vllm_logdoctor.parse.json_entries import JSON_START, level_of, read_entry, time_of
from vllm_logdoctor.parse.learned_prefixes import OPENING, LearnedPrefixes
from vllm_logdoctor.parse.plain_headers import (
    LONGEST_HEAD,
    LONGEST_SHOWN,
    is_plain,
    is_unwrapped,
    is_usual,
    may_be_coloured,
    may_hold_entities,
    may_hold_header,
    may_hold_other_header,
    plain_head,
)
from vllm_logdoctor.parse.prefixes import Prefix, read_prefix
from vllm_logdoctor.parse.processes import PROCESS_PREFIX, process_of
from vllm_logdoctor.parse.quoted_lines import MESSAGE_KEYS, last_field, lines_within
from vllm_logdoctor.parse.record import NO_PROCESS, Process, Record
from vllm_logdoctor.parse.secrets import (
    Masked,
    OpenSecret,
    mask,
    may_hold_secret,
    open_secret,
    wrapped_secret,
)
from vllm_logdoctor.scan import WantedLine
from vllm_logdoctor.texts import asked_once

LONGEST_TEXT = 1 << 16
"""A record keeps this many characters; config dumps are shorter, scheduler dumps and prompts are not."""

MOST_SECRETS = 50

_LONGEST_REMEMBERED = 500
"""Characters of a line that is remembered with its head."""

_NUMBERING_FROM = 4
"""So many numbers in a row that grow with the lines are numbers of lines, not of ranks."""

# ESC[0;36m   ESC[K   [36m (ESC lost)   ^[[36m (as text)   #033[36m (rsyslog)   <-[36m and an arrow (code page 437)   ESC]8;;url ESC\
# Alternatives that begin with one character each are searched three times as fast as a group of them.
_COLOURS = lazy_pattern(
    "|".join(
        rf"{escape}\[?[0-9;?]{{0,12}}[A-Za-z]"
        for escape in (r"\x1b", r"\^\[", "#033", "<-", r"\u2190", r"\x9b")
    )
    + r"|\[(?:0|1|2|3[0-7]|9[0-7])(?:;[0-9]{1,2}){0,3}m|\x1b\][^\x07\x1b]{0,200}(?:\x07|\x1b\\)|\^M$"
)
# ESC[0;36m(EngineCore_DP0 pid=82858)ESC[0;0m INFO 02-01 13:22:25 [core.py:348] text     as vLLM colours its processes on a terminal
_COLOURED_PROCESS = lazy_pattern(r"\A\x1b\[[0-9;]{0,12}m(?P<process>\([^\x1b\r]{1,80}\))\x1b\[[0-9;]{0,12}m")
# INFO 02-09 19:43:55 [nixl_connector.py:101] text     INFO 11-18 01:29:33 engine.py:267] text
_HEADER = lazy_pattern(
    r"(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL|TRACE) +(?P<time>(?:\d{4}-)?\d\d-\d\d \d\d:\d\d:\d\d(?:[.,]\d{1,6})?)(?: |(?=\[))"
    r"\[?(?P<file>[A-Za-z0-9_./<>-]{1,160}):(?P<line>\d{1,6})\] ?"
)
# 2025-04-03 17:38:52,710 - vllm.v1.metrics.loggers - INFO - text      INFO:vllm.engine.llm_engine:text
# 2024-11-08 09:37:40,924 vllm.worker.model_runner 849 INFO     text
# 2025-07-08 14:03:55,524 - INFO - core.py:__init__:69 - text    (a formatter of the user's own)
# [2025-03-05 14:28:37,343] [INFO] [MainThread] [vllm.config] >>> text
# [2025-09-04 01:00:51,159] LMCache ERROR: text (cache_engine.py:1087:lmcache.v1.cache_engine)
# INFO  [gpu_worker.py:642]  text       [multiproc_executor.py:492] ValueError: text       oggers.py:236] text (the log starts here)
# NFO 04-09 02:05:52 [loader.py:447] text (or here)
_OTHER_HEADER = lazy_pattern(
    r"(?:(?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:[.,]\d{1,6})?)(?: -)? (?P<name>vllm[\w.]*) (?:- |\d{1,8} )(?P<level>[A-Z]{4,8})(?: - | {1,6})"
    r"|(?P<time2>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:[.,]\d{1,6})?) [-|] (?P<level4>[A-Z]{4,8}) +[-|] "
    r"(?P<file3>[\w./-]{1,160}\.py):[\w<>.]{1,80}:(?P<line3>\d{1,6}) [-|] "
    r"|\[(?P<level5>DEBUG|INFO|WARNING|ERROR|CRITICAL)\] (?:\[[\w.-]{1,40}\] )?\[(?P<module>vllm[\w.]{0,120})\] (?:>>> |[-:] )?"
    r"|\[(?P<time3>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3})\] \w{3,20} (?P<level6>DEBUG|INFO|WARN(?:ING)?|ERROR|CRITICAL) ?: "
    r"(?=[^\n]{0,2000}\([\w.-]{1,120}\.py:(?P<line4>\d{1,6}):(?P<module2>[\w.]{1,160})\)\s*$)"
    r"|(?P<level2>INFO|WARNING|ERROR|CRITICAL):(?P<name2>vllm[\w.]*):"
    r"|(?P<level3>INFO|WARNING|ERROR|CRITICAL) +\[(?P<file>[\w./-]+\.py)(?::(?P<line>\d{1,6}))?\] +"
    r"|^(?:(?P<torn>[A-Z]{1,7}) +(?P<time4>(?:\d{4}-)?\d\d-\d\d \d\d:\d\d:\d\d(?:[.,]\d{1,6})?) )?\[?(?P<file2>[\w./-]*\.py):(?P<line2>\d{1,6})\] )"
)
_LEVELS = ("INFO", "WARNING", "ERROR", "DEBUG", "CRITICAL")
_OTHER_LEVELS = ("level", "level2", "level3", "level4", "level5", "level6")
_MESSAGE_NAMES = frozenset(key.lower() for key in MESSAGE_KEYS)
# Generated text: "INFO 06-01 10:00:00 [loggers.py:127] Engine 000: ...    (what a model or a prompt says, not {"log": "INFO ...)
_QUOTED = lazy_pattern(
    r"""(?P<name>[^"'\\\s]{1,40})\s?[:=]\s?(?P<quote>["'])(?:(?!(?P=quote)).)*\Z""", re.DOTALL
)
# Graph capturing finished in **17 secs**, took **0.5 GiB**    (a log in an issue, figures set in bold)
_BOLD_FIGURE = lazy_pattern(r"(?<![\w*)\]])\*\*(?P<figure>\d[\w.,:%/ ]{0,40})\*\*(?![\w*(])")
# A line end was lost between two records: CPU KV cache usage: 0.0%.INFO 01-02 16:17:07 metrics.py:467] Avg prompt ...
# or became a space behind a statistics line: Prefix cache hit rate: 80.0% INFO 04-10 03:35:37 [loggers.py:80] Avg prompt ...
_GLUED = lazy_pattern(
    rf"(?:[^\s\"'`(\[{{=]|\d%\.? {{1,4}})(?P<record>(?:{PROCESS_PREFIX.pattern})?{_HEADER.pattern})"
)
# Processed prompts:   2%|2| 10/499 [00:05<02:36, ...]WARNING 07-18 ...     (without its picture where Markdown took it away)
_BAR = lazy_pattern(r"\d+%(?:\|| +\d+/\d+ \[)")

# Loading safetensors checkpoint shards:  25% Completed | 1/4 [00:01<00:04, 1.5s/it]     and the blocks of its bar
_FIGURES = lazy_pattern(r"[^A-Za-z]+")
_FEW_REDRAWS = 8
_NEXT_LINES = 5
"""A secret goes on in the next line, or behind blank ones, which are no records: line ends are doubled where systems meet."""


class Secret(Struct, frozen=True):
    """A line that held a secret: where, under which names, and the line with it masked."""

    file: int
    line: int
    names: tuple[str, ...]
    text: str


class RecordParser:
    """Frames lines; keeps what the whole file says: secrets seen, characters left out.

    Attributes:
        learned: prefixes that no list knows, by file.
        secrets: lines with a secret, the first ones.
        secret_count: lines with a secret in all.
        cut_characters: characters left out of overlong records.
    """

    def __init__(self, learned: LearnedPrefixes | None = None) -> None:
        self.learned = LearnedPrefixes() if learned is None else learned
        self.secrets: list[Secret] = []
        self.secret_count = 0
        self.cut_characters = 0
        self.unfinished: tuple[int, int, OpenSecret] | None = None  # With what the next line may go on.
        self._number: tuple[int, int] = (0, -1)
        self._numbered = 0

    def parse(self, line: WantedLine) -> Iterable[Record]:
        """Return the records of a line in order."""
        text = line.data.decode("utf-8", "replace").removesuffix("\r")
        if text.startswith("\x1b["):
            text = _COLOURED_PROCESS.sub(r"\g<process>", text)
        if self.unfinished is not None and "\r" not in text:
            text = self._without_rest_of_secret(line, text)
        frame = _known_frame if len(text) <= _LONGEST_REMEMBERED else _find_frame
        process, level, time, year_known, site, message, is_usual_text, is_plain_text = frame(text)
        if is_usual_text and (site is not None or not self.learned):
            return (
                Record(
                    line.file, line.number, process, level, time, None, year_known, site, message.rstrip(), text.rstrip(), line.literals
                ),
            )  # fmt: skip
        if is_plain_text:
            prefix = Prefix(0, process, None, False)
            head = len(text) - len(message)
            return (self._record(line, prefix, level, time, year_known, site, message, text, head),)
        return self._parse_any(line, text)

    def _parse_any(self, line: WantedLine, text: str) -> Iterator[Record]:
        """Yield the records of a line of any shape."""
        if text.startswith("\ufeff"):
            text = text[1:]
        if '""' in text or (text.endswith('"') and ',"' in text[:LONGEST_HEAD]):
            text = last_field(text)
        if may_hold_entities(text):
            from html import unescape

            text = unescape(text)
        if may_be_coloured(text):
            text = _COLOURS.sub("", text)
        segments = lines_within(text) if "\\n" in text else ()
        for segment in segments or (_without_redraws(text.split("\r")) if "\r" in text else (text,)):
            rest = segment
            # Redraws, line ends of old systems, or lines of a quoted log.
            if segment is not text and segment.strip() and self.unfinished is not None:
                rest = self._without_rest_of_secret(line, segment)
            while rest and not rest.isspace():
                rest = yield from self._parse_segment(line, rest)

    def _parse_segment(self, line: WantedLine, text: str) -> Generator[Record, None, str]:
        """Yield the first record of a text, with what precedes it; return what is glued behind it."""
        header = _HEADER.search(text, 0, 4000) if may_hold_header(text) else None
        if header is not None and header.start() > 0 and _is_quoted(text, header.start()):
            header = None
        if header is None:
            other = _OTHER_HEADER.search(text, 0, 400) if may_hold_other_header(text) else None
            if other is not None:
                yield self._with_other_header(line, text, other)
                return ""
            if '{"' in text[:400] and not JSON_START.match(text):
                inner = self._from_json_behind_prefix(line, text)
                if inner is not None:
                    yield inner
                    return ""
            if JSON_START.match(text) or '"textPayload"' in text or text.lstrip().startswith('"'):
                inner = self._from_json(line, text)
                if inner is not None:
                    yield inner
                    return ""
            self.learned.learn_from_traceback(line.file, text)
            prefix = self._prefix(line, text)
            yield self._record(line, prefix, "", None, False, None, text[prefix.end :], text)
            return ""
        if header.start() > 0 and (text.lstrip().startswith(("{", '"')) or '{"' in text[: header.start()]):
            inner = self._from_json(line, text)
            if inner is not None:
                yield inner
                return ""
        before = text[: header.start()]
        prefix = read_prefix(before) if before else _NO_PREFIX
        if before and prefix.end < len(before.rstrip()):
            left = before[prefix.end :]
            self.learned.learn(line.file, before)
            if _BAR.search(left) or len(left) > 120:
                yield self._record(line, prefix, "", None, False, None, left, left)
                text = text[header.start() :]
            prefix = _process_anywhere(left, prefix)
        time, year_known = seconds_of(header["time"]) or (None, False)
        site = (header["file"], int(header["line"]))
        message = text[text.find(header[0]) + len(header[0]) :]
        glued = message[_end_of_record(message) :]
        if glued:
            message, text = message[: -len(glued)], text[: -len(glued)]
        yield self._record(line, prefix, header["level"], time, year_known, site, message, text)
        return glued

    def _prefix(self, line: WantedLine, text: str) -> Prefix:
        """Read the prefixes of a line, those that the file taught first."""
        learned = self.learned.length(line.file, text) if self.learned else 0
        if not learned:
            return read_prefix(text)
        outer, inner = read_prefix(text[:learned]), read_prefix(text[learned:])
        process = outer.process if inner.process is NO_PROCESS else inner.process
        return replace(outer, end=learned + inner.end, process=process)

    def _with_other_header(self, line: WantedLine, text: str, header: re.Match[str]) -> Record:
        """Frame a record of a logger that someone else configured."""
        before = read_prefix(text[: header.start()])
        level = next(filter(None, header.group(*_OTHER_LEVELS)), "")
        level = "WARNING" if level == "WARN" else level
        level = level or next((one for one in _LEVELS if header["torn"] and one.endswith(header["torn"])), "")
        printed = header["time"] or header["time2"] or header["time3"] or header["time4"]
        file = header["file"] or header["file2"] or header["file3"] or ""
        number = header["line"] or header["line2"] or header["line3"]
        site = (file, int(number)) if number else None
        if header["module2"]:
            site = (f"{header['module2'].replace('.', '/')}.py", int(header["line4"]))
        if header["module"]:
            site = (f"{header['module'].rpartition('.')[2]}.py", 0)
        stamp = seconds_of(printed) if printed else None
        time, year_known = stamp or (before.outer_time, before.year_known)
        return self._record(line, before, level, time, year_known, site, text[header.end() :], text)

    def _from_json_behind_prefix(self, line: WantedLine, text: str) -> Record | None:
        """Frame (EngineCore pid=5) {"message": "..."}."""
        prefix = self._prefix(line, text)
        if not text.startswith('{"', prefix.end):
            return None
        inner = self._from_json(line, text[prefix.end :])
        if inner is None or inner.process is not NO_PROCESS:
            return inner
        return replace(inner, process=prefix.process, outer_time=inner.outer_time or prefix.outer_time)

    def _record(
        self, line: WantedLine, prefix: Prefix, level: str, time: float | None, year_known: bool,
        site: tuple[str, int] | None, message: str, text: str, head: int = -1,
    ) -> Record:  # fmt: skip
        """Build a record; `head` is where the message begins in the text if nothing before it can be a secret."""
        if len(message) > LONGEST_TEXT:
            self.cut_characters += len(message) - LONGEST_TEXT
            message = message[:LONGEST_TEXT]
        plain = _BOLD_FIGURE.sub(r"\g<figure>", message) if "**" in message else message
        if plain is not message:
            message, head = plain, -1
        if head >= 0:
            masked = mask(message)
            shown = text[:head] + masked.text[:LONGEST_SHOWN]
        else:
            masked, shown = _masked_with_text(message, text)
        unfinished = open_secret(text, message) or (
            wrapped_secret(text, masked.text) if masked.names else None
        )
        if unfinished is not None and (self.unfinished is None or line.number >= self.unfinished[1]):
            self.unfinished = (line.file, line.number, unfinished)
        if masked.names:
            self._note_secret(line, masked.names, shown)
        process = self._without_line_number(line, prefix.process)
        if time is not None and not year_known and prefix.year_known and prefix.outer_time is not None:
            time = with_year_of(time, prefix.outer_time)
        return Record(
            line.file, line.number, process, level, time, prefix.outer_time, year_known or prefix.year_known,
            site, masked.text.rstrip(), shown.rstrip(), line.literals,
        )  # fmt: skip

    def _without_line_number(self, line: WantedLine, process: Process) -> Process:
        """Distinguish "12: " of a numbered listing from "12: " of a rank (srun -l)."""
        if process.name or process.pid is not None or not process.rank.isdigit():
            return process
        last_line, last_number = self._number
        self._number = (line.number, int(process.rank))
        grows = line.number > last_line and int(process.rank) - last_number == line.number - last_line
        self._numbered = self._numbered + 1 if grows else 0
        return replace(process, rank="") if self._numbered >= _NUMBERING_FROM else process

    def _without_rest_of_secret(self, line: WantedLine, text: str) -> str:
        """Mask a line that continues a secret of the line before it."""
        assert self.unfinished is not None
        file, number, secret = self.unfinished
        if (line.file, line.number) < (file, number):
            return text  # Request lines wait, and are read behind lines that come after them.
        self.unfinished = None
        if line.file != file or line.number > number + (1 if secret.wrapped else _NEXT_LINES):
            return text
        masked, following = secret.without_rest(text)
        if following is not None:
            self.unfinished = (file, line.number, following)
        if masked is not text and secret.name:
            self._note_secret(line, mask(f"{secret.name}=Zq7hTk2Lw9XbV3nR").names, masked)
        return masked

    def _note_secret(self, line: WantedLine, names: tuple[str, ...], shown: str) -> None:
        self.secret_count += 1
        if len(self.secrets) < MOST_SECRETS:
            self.secrets.append(Secret(line.file, line.number, names, shown[:600]))

    def _from_json(self, line: WantedLine, text: str) -> Record | None:
        """Frame a JSON record: vLLM's own formatter, docker's json-file, a platform's export."""
        entry = read_entry(text)
        if entry is None:
            return None
        found, message = entry
        inner = _HEADER.search(message, 0, 4000)
        outer_time, year_known = time_of(found) or (None, False)
        if inner:
            prefix = read_prefix(message[: inner.start()])
            prefix = Prefix(prefix.end, prefix.process, outer_time, year_known)
            time, own_year = seconds_of(inner["time"]) or (None, False)
            site, rest = (inner["file"], int(inner["line"])), message[inner.end() :]
            return self._record(line, prefix, inner["level"], time, own_year, site, rest, message)
        inner_prefix = read_prefix(message)
        name = str(found.get("vllm_process_name") or found.get("processName") or "")
        pid = found.get("process") if isinstance(found.get("process"), int) else found.get("pid")
        process = process_of(name, pid if isinstance(pid, int) else None) if name else inner_prefix.process
        prefix = Prefix(inner_prefix.end, process, outer_time, year_known)
        return self._record(
            line, prefix, level_of(found), outer_time, year_known, None, message[inner_prefix.end :], message
        )


_Frame = tuple[Process, str, "float | None", bool, "tuple[str, int] | None", str, bool, bool]
"""Process, level, time, whether its year was printed, call site and message of a line; whether it is usual, and plain."""


def _find_frame(text: str) -> _Frame:
    """Read the head of a line, and whether the rest needs a second look."""
    head = text[: text.find("] ", 0, LONGEST_HEAD) + 2]
    plain = plain_head(head)
    if plain is None:
        process, end = _process_before(text[: text.find(") ", 0, LONGEST_HEAD) + 2])
        message = text[end:]
        usual = len(message) < LONGEST_SHOWN - LONGEST_HEAD and _is_bare(message)
        return process, "", None, False, None, message, usual, False
    message = text[len(head) :]
    usual = is_usual(message)
    return *plain, message, usual, usual or is_plain(message)


_known_frame = lru_cache(maxsize=1024)(_find_frame)  # Restarts and loops print the same lines.


@lru_cache(maxsize=512)
def _process_before(head: str) -> tuple[Process, int]:
    """Return the process that a head names, and the length of the head; a head that names none has no length."""
    found = PROCESS_PREFIX.fullmatch(head)
    return (read_prefix(head).process, len(head)) if found else (NO_PROCESS, 0)


@asked_once
def _is_bare(text: str) -> bool:
    """Return whether a line has no header, no prefix, nothing of what wraps lines, and nothing to mask here or in the next line."""
    return (
        is_unwrapped(text)
        and not text.isspace()
        and text.find(OPENING) <= 0
        and not (may_hold_header(text) and _HEADER.search(text))
        and not (may_hold_other_header(text) and _OTHER_HEADER.search(text))
        and '{"' not in text
        and "\\n" not in text
        and not text.lstrip().startswith(('"', "{", "data:"))
        and '"textPayload"' not in text
        and "**" not in text
        and read_prefix(text).end == 0
        and not may_hold_secret(text)
        and open_secret(text, text) is None
    )


def _masked_with_text(message: str, text: str) -> tuple[Masked, str]:
    """Return a message and the beginning of its whole text, masked: a secret may be in front of the message too."""
    # One that is cut in two has no shape any more.
    whole = text[: LONGEST_SHOWN + len(message)]
    if message in whole and not may_hold_secret(whole):
        return Masked(message, ()), whole[:LONGEST_SHOWN]
    masked = mask(message)
    shown = masked if whole == message else mask(whole)
    return masked, shown.text[:LONGEST_SHOWN]


def _is_quoted(text: str, end: int) -> bool:
    """Return whether a header is in quoted text, other than the message of a wrapper (msg="INFO ...")."""
    if text.find('"', 0, end) < 0 and text.find("'", 0, end) < 0:
        return False
    quoted = _QUOTED.search(text, 0, end)
    return quoted is not None and quoted["name"].lower().strip("({[,") not in _MESSAGE_NAMES


def _end_of_record(message: str) -> int:
    """Return where a message ends: before another record that no line end parts from it, or with the line."""
    found = _GLUED.search(message, 0, 4000) if ".py:" in message else None
    return len(message) if found is None or _is_quoted(message, found.end()) else found.start("record")


def _without_redraws(segments: Sequence[str]) -> Iterator[str]:
    """Yield what was drawn into one line; of redraws that differ in figures the first and the last one."""
    if len(segments) <= _FEW_REDRAWS:
        yield from segments
        return
    kinds = [_FIGURES.sub("", segment) for segment in segments]
    for number, segment in enumerate(segments):
        if not 0 < number < len(segments) - 1 or not kinds[number - 1] == kinds[number] == kinds[number + 1]:
            yield segment


_NO_PREFIX = Prefix(0, NO_PROCESS, None, False)


def _process_anywhere(text: str, prefix: Prefix) -> Prefix:
    """Find the process prefix behind a progress bar or a torn write: "...it/s](Worker_TP0 pid=9) "."""
    mark = text.rfind("(")
    if mark < 0:
        return prefix
    inner = read_prefix(text[mark:])
    if inner.process is NO_PROCESS:
        return prefix
    return Prefix(prefix.end, inner.process, prefix.outer_time, prefix.year_known)


@lru_cache(maxsize=1024)
def writer_of(head: bytes) -> Process:
    """Return who wrote a line, from what precedes its level.

    Example:
        >>> writer_of(b"\x1b[0;36m(APIServer pid=7)\x1b[0;0m ").pid, writer_of(b"web-1  | ").host
        (7, 'web-1')
    """
    text = _COLOURS.sub("", head.decode("utf-8", "replace"))
    prefix = read_prefix(text)
    return prefix.process if prefix.process.pid is not None else _process_anywhere(text, prefix).process
