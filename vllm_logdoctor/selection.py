"""Which inputs are logs: all others are named with their kind and not read as a run of vLLM."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable

from msgspec import Struct, field
from msgspec.structs import replace

from vllm_logdoctor.evidence.model import EvidenceFile
from vllm_logdoctor.report.own_reports import HEAD_BYTES, kind_of_file
from vllm_logdoctor.run.job import job_end_in_text
from vllm_logdoctor.run.model import SourceSummary
from vllm_logdoctor.source import Input, sets_of, with_words_of_jobs
from vllm_logdoctor.source.inputs import OTHER_FILE, OTHER_TEXT

# INFO 07-16 12:29:43 [api_server.py:1289] vLLM API server version 0.8.5
# INFO:     Uvicorn running on http://0.0.0.0:8000
# Traceback (most recent call last):      File "/opt/vllm/entrypoints/openai/api_server.py", line 223, in run   (its head is cut off)
_PLACE = rb"|File \"[^\"\n]{0,300}/vllm/[^\"\n]{1,200}\.py\", line \d"
_OF_SERVER = re.compile(
    rb"(?:DEBUG|INFO|WARNING|ERROR|CRITICAL)\W{1,12}\d\d-\d\d \d\d:\d\d|INFO: +Uvicorn|Traceback \(most recent|vLLM API server"
    rb"|vllm serve|vllm: (?:(?:command )?not found|Permission denied)|Avg (?:prompt|generation) throughput"
    rb"|\((?:APIServer|EngineCore|Worker)\w* pid=\d" + _PLACE
)
# collect_env imports vLLM, whose logger prints a few lines there too: it is no run without one of these.
_COLLECT_ENV = b"Collecting environment information"
_OF_RUN = re.compile(
    rb"(?:ERROR|CRITICAL)\W{1,12}\d\d-\d\d \d\d:\d\d|INFO: +Uvicorn|Traceback \(most recent|API server|vllm serve|EngineCore|LLM engine|throughput: "
    rb"|non-default args|model_runner\.py|worker\.py|Loading (?:model|weights)" + _PLACE
)
_MOST_BYTES = 16 << 20
_LONGEST_WORDS = 4096
_MOST_LOGS_OF_JOBS = 1000
"""Of more logs the error outputs beside them are not looked at."""
_MOST_PASTED = 1 << 20
"""A larger text is a log."""
# ```text    > ~~~    [10:05] bob: yes    and how collect_env, nvidia-smi, /metrics, top and the machine's words on an end begin
_MAY_BE_PASTED = re.compile(
    rb"\n[ \t>]*(?:```|~~~)|\n\[?\d\d?:\d\d(?: [AP]M)?\]? |\n# (?:HELP|TYPE) \w|\ntop - \d|Collecting environment information|NVIDIA-SMI \d"
    rb'|NVRM: |Killed process \d|"OOMKilled"|QoS Class:|Job Id: '
)
# Another engine's table is a log of that engine where --with does not name it.
_LOGS_TOO = frozenset({"llama-bench-text"})


class Selected(Struct):
    """What was given, by what it is.

    Attributes:
        logs: logs in the same order.
        others: each other file with its kind and how it was taken.
        evidence: what was read of those that are of a known kind.
        interrupted: whether standard input was interrupted before a log began.
    """

    logs: list[Input] = field(default_factory=list)
    others: list[SourceSummary] = field(default_factory=list)
    evidence: list[EvidenceFile] = field(default_factory=list)
    interrupted: bool = False


def split_by_kind(inputs: Iterable[Input]) -> Selected:
    """Part logs from files that lie beside them and from files that are neither; a pasted text is parted itself."""
    found = Selected()
    words: list[Input] = []
    for given in inputs:
        source = _with_begin(given.opened_once(), found)
        head = _head_of(source)
        if (
            source.kind == OTHER_TEXT
            and len(head) <= _LONGEST_WORDS
            and says_end_of_job(head.decode("utf-8", "replace"))
        ):
            words.append(source)
            continue
        kind = _kind_of(source, head)
        if kind is None and source.kind == OTHER_FILE:
            # A folder may hold weights and sources: only what is recognized is named.
            if not _OF_SERVER.search(head):
                continue
        else:
            kind = kind or source.kind or None
        if kind is None:
            found.logs.append(
                _parted(source, found.evidence) if _MAY_BE_PASTED.search(b"\n" + head) else source
            )
        elif evidence := _evidence_of(source, kind):
            found.evidence += evidence
            found.others.append(
                SourceSummary(source.name, source.size or 0, 0, f"{kind}, read beside the log", kind)
            )
        else:
            found.others.append(_skipped(source, kind))
    for source in words:
        if _has_log(source, found.logs):
            found.logs.append(source)
        else:
            found.others.append(_skipped(source, OTHER_TEXT))
    return found


def says_end_of_job(text: str) -> bool:
    """Return whether a text says how a job ended, and nothing of vLLM."""
    return "vllm" not in text.lower() and job_end_in_text(text) is not None


def _has_log(words: Input, logs: list[Input]) -> bool:
    """Return whether one of the logs is that of the job whose end is in a file of its own."""
    if len(logs) > _MOST_LOGS_OF_JOBS:
        return False
    return len(with_words_of_jobs(sets_of([*logs, words]), says_end_of_job)) == len(sets_of(logs))


def _skipped(source: Input, kind: str) -> SourceSummary:
    return SourceSummary(source.name, source.size or 0, 0, f"skipped: {kind}", kind)


def _evidence_of(source: Input, kind: str) -> list[EvidenceFile]:
    """Return what was read of a file of one of the kinds that lie beside a log; nothing for reports and other texts."""
    from vllm_logdoctor.evidence.kinds import KINDS
    from vllm_logdoctor.evidence.pasted import read_parts
    from vllm_logdoctor.evidence.read import read_evidence

    if not any(one.name == kind for one in KINDS):
        return []
    if source.path is not None:
        return read_parts(source.path)
    with source.open() as stream:
        return [read_evidence(source.name, stream.read(_MOST_BYTES))]


def _with_begin(source: Input, found: Selected) -> Input:
    """Return an input; a pipe with its begin in memory, whole where it is short and may be more than a log."""
    if source.path is not None or source.data is not None or (source.stream is None and sys.stdin is None):
        return source
    stream = source.stream or sys.stdin.buffer
    read = getattr(stream, "read1", stream.read)
    begin, wanted = b"", HEAD_BYTES
    try:
        while len(begin) < wanted and (piece := read(wanted - len(begin))):
            begin += piece
            is_log = _OF_SERVER.search(begin) and not _MAY_BE_PASTED.search(b"\n" + begin)
            wanted = HEAD_BYTES if is_log else _MOST_PASTED + 1
    except KeyboardInterrupt:
        found.interrupted = True
        return Input(source.name, data=begin)
    return Input(source.name, data=begin) if len(begin) < wanted else replace(source, begin=begin)


def _parted(source: Input, evidence: list[EvidenceFile]) -> Input:
    """Return the log of a text that may be pasted; what other tools printed in it goes to the evidence."""
    if source.begin:
        return source
    from vllm_logdoctor.evidence.pasted import pasted

    with source.open() as stream:
        data = stream.read(_MOST_PASTED + 1)
    if len(data) > _MOST_PASTED:
        return source
    found = pasted(source.name, data)
    evidence += found.evidence
    return source if found.log is data else Input(source.name, data=found.log)


def _head_of(source: Input) -> bytes:
    """Return the first bytes of an input; b"" where there are none to look at."""
    if source.begin or (source.path is None and source.data is None):
        return source.begin[:HEAD_BYTES]
    try:
        with source.open() as stream:
            return stream.read(HEAD_BYTES)
    except Exception:
        # What can't be read is no reason to stop here: reading it names the reason.
        return b""


def _kind_of(source: Input, head: bytes) -> str | None:
    own = kind_of_file(head)
    of_log = _OF_RUN if _COLLECT_ENV in head else _OF_SERVER
    if own is not None or not head or of_log.search(head):
        return own
    # Most inputs are logs, which never get here: a start does not pay for the kinds.
    from vllm_logdoctor.evidence.kinds import evidence_kind
    from vllm_logdoctor.evidence.plain import file_text

    found = evidence_kind(file_text(head))
    # A job's log may print the state of its cards before the server starts.
    if found is None or found.name in _LOGS_TOO or source.begin:
        return None
    try:
        with source.open() as stream:
            return None if of_log.search(stream.read(_MOST_BYTES)) else found.name
    except Exception:
        return None
