"""Parts a pasted text, such as the body of an issue or a chat, and a file into which a script wrote what several tools print."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from vllm_logdoctor.evidence.kinds import evidence_kind
from vllm_logdoctor.evidence.model import EvidenceFile, Reading
from vllm_logdoctor.evidence.plain import file_text
from vllm_logdoctor.evidence.read import read_evidence, read_evidence_file

_FENCE = re.compile(r"\s*(?:```|~~~)")
# > > text of a mail that is answered
_QUOTED = re.compile(r"(?: {0,3}> ?)+")
# INFO 07-16 12:29:43 [api_server.py:1289]    INFO:     Uvicorn running     Traceback (most recent call last):    File "a.py", line 3
_OF_LOG = re.compile(
    r"(?:DEBUG|INFO|WARNING|ERROR|CRITICAL)\W{1,12}(?:\d{4}-)?\d\d-\d\d \d\d:\d\d|INFO: +\S|Traceback \(most recent|^\W*File \"[^\"]+\", line \d"
)
_LAUNCH = re.compile(r"vllm serve|entrypoints\.|vllm/vllm-|(?:docker|podman) run")
# [10:05] bob: did you try ...      10:05 AM <bob> yes      21/11/2026, 10:05 - bob: no    A chat has no seconds, a wrapper of a log has.
_CHAT = re.compile(
    r"\[?(?:[\d/.-]{6,10},? )?\d{1,2}:\d\d(?: ?[AP]M)?\]?(?: -)? (?:<[^<>]{1,40}>|[\w. -]{2,40}:) "
)
# These are read in the log itself, or within the output of collect_env.
_LEFT_TO_LOG = frozenset(
    {
        "ray-log",
        "vllm-bench-text",
        "sglang-bench-text",
        "llama-bench-text",
        "aiperf-text",
        "vllm-bench-offline-text",
    }
)
_OF_ENVIRONMENT = frozenset({"lscpu", "nvidia-smi-topo", "nvidia-smi-csv", "kubectl-events"})
_MOST_PARTS = 12
_MOST_PARTED = 1 << 18


class Pasted(Struct, frozen=True):
    """A text by its parts.

    Attributes:
        log: the text with spaces in place of what people wrote around it.
        evidence: what other tools printed, with the lines of the text.
    """

    log: bytes
    evidence: tuple[EvidenceFile, ...] = ()


def pasted(name: str, data: bytes) -> Pasted:
    """Part a text; one without a line of a log is left as it is.

    Example:
        >>> text = b"It says\\n```\\nINFO 01-01 00:00:00 [a.py:1] x\\n```\\nValueError: of last week\\n"
        >>> pasted("issue.md", text).log.split()
        [b'INFO', b'01-01', b'00:00:00', b'[a.py:1]', b'x']
    """
    lines = data.decode("utf-8", "replace").split("\n")
    plain = [_QUOTED.sub("", line.rstrip("\r"), count=1) for line in lines]
    is_of_log = [_OF_LOG.search(line) is not None for line in plain]
    if not any(is_of_log):
        return Pasted(data)
    fenced = _fenced(plain)
    evidence: list[EvidenceFile] = []
    for first, last in _blocks(plain, is_of_log):
        evidence += _evidence(name, plain, first, last, _LEFT_TO_LOG)
    written = _written_by_people(plain, is_of_log, fenced)
    if not any(written):
        return Pasted(data, tuple(evidence[:_MOST_PARTS]))
    kept = (
        b" " * len(line) if prose else line for line, prose in zip(data.split(b"\n"), written, strict=True)
    )
    return Pasted(b"\n".join(kept), tuple(evidence[:_MOST_PARTS]))


def read_parts(path: Path) -> list[EvidenceFile]:
    """Read a file of the disk: a part for each tool whose output it holds; raises OSError where it can't be opened."""
    whole = read_evidence_file(path)
    if not whole.kind or not path.is_file() or path.stat().st_size > _MOST_PARTED:
        return [whole]
    lines = file_text(path.read_bytes()).split("\n")
    starts = _starts(lines, 0, len(lines))
    parts = list(_read(str(path), lines, starts, len(lines))) if len(starts) > 1 else []
    return parts[:_MOST_PARTS] if len(parts) > 1 else [whole]


def _fenced(lines: Sequence[str]) -> list[bool]:
    """Return which lines are between two fences."""
    found, within = [], False
    for line in lines:
        fence = _FENCE.match(line) is not None
        within = within != fence
        found.append(within and not fence)
    return found


def _blocks(lines: Sequence[str], is_of_log: Sequence[bool]) -> Iterator[tuple[int, int]]:
    """Yield the stretches without a fence and without a line of a log, as begin and end."""
    begin = 0
    for index, line in enumerate([*lines, "```"]):
        if _FENCE.match(line) or (index < len(lines) and is_of_log[index]):
            if index - begin > 1:
                yield begin, index
            begin = index + 1


def _evidence(
    name: str, lines: Sequence[str], begin: int, end: int, left: Collection[str] = ()
) -> Iterator[EvidenceFile]:
    """Yield what tools printed in a stretch."""
    return _read(name, lines, _starts(lines, begin, end), end, left)


def _starts(lines: Sequence[str], begin: int, end: int) -> list[tuple[int, str]]:
    """Return where in a stretch what a tool printed begins, and its kind: at a paragraph of another kind."""
    starts: list[tuple[int, str]] = []
    for first, last in _paragraphs(lines, begin, end):
        kind = evidence_kind("\n".join(lines[first:last]))
        before = starts[-1][1] if starts else ""
        if kind and kind.name != before and not (before == "collect-env" and kind.name in _OF_ENVIRONMENT):
            starts.append((first if starts else begin, kind.name))
    return starts


def _read(
    name: str, lines: Sequence[str], starts: Sequence[tuple[int, str]], end: int, left: Collection[str] = ()
) -> Iterator[EvidenceFile]:
    """Yield the parts that begin so."""
    for at, (first, kind_name) in enumerate(starts):
        last = starts[at + 1][0] if at + 1 < len(starts) else end
        found = read_evidence(name, "\n".join(lines[first:last]).encode("utf-8", "replace"))
        if found.readings and found.kind == kind_name and kind_name not in left:
            moved = tuple(_moved(one, first) for one in found.readings)
            yield replace(found, readings=moved, place=(first + 1, last))


def _paragraphs(lines: Sequence[str], begin: int, end: int) -> Iterator[tuple[int, int]]:
    first = begin
    for index in range(begin, end + 1):
        if index == end or not lines[index].strip():
            if index > first:
                yield first, index
            first = index + 1


def _moved(one: Reading, lines: int) -> Reading:
    if isinstance(one.line, tuple):
        return replace(one, line=tuple(line + lines for line in one.line))
    return one if one.line is None else replace(one, line=one.line + lines)


def _written_by_people(lines: Sequence[str], is_of_log: Sequence[bool], fenced: Sequence[bool]) -> list[bool]:
    """Return which lines are prose: outside of fences where the whole log is within, and what is said in a chat."""
    log_is_fenced = all(within for within, log in zip(fenced, is_of_log, strict=True) if log)
    chat = [_CHAT.match(line) is not None and not log for line, log in zip(lines, is_of_log, strict=True)]
    is_chat = 1 < sum(chat) < sum(map(bool, lines)) / 3
    written, goes_on = [], False
    for line, within, said in zip(lines, fenced, chat, strict=True):
        is_command = goes_on or _LAUNCH.search(line) is not None
        goes_on = is_command and line.rstrip().endswith("\\")
        written.append((is_chat and said) or (log_is_fenced and not within and not is_command))
    return written
