"""Which inputs are logs: all others are named with their kind and not read as a run of vLLM."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct, field

from vllm_logdoctor.evidence.model import EvidenceFile
from vllm_logdoctor.run.model import SourceSummary
from vllm_logdoctor.source import Input
from vllm_logdoctor.source.inputs import OTHER_FILE
from vllm_logdoctor.source.kinds import HEAD_BYTES, kind_of_file

# INFO 07-16 12:29:43 [api_server.py:1289] vLLM API server version 0.8.5
# INFO:     Uvicorn running on http://0.0.0.0:8000
# Traceback (most recent call last):
_OF_SERVER = re.compile(
    rb"(?:DEBUG|INFO|WARNING|ERROR|CRITICAL)\W{1,12}\d\d-\d\d \d\d:\d\d|INFO: +Uvicorn|Traceback \(most recent|vLLM API server"
    rb"|vllm serve|Avg (?:prompt|generation) throughput"
)
_MOST_BYTES = 16 << 20
# A client's own log, Ray's words on a dead worker and another engine's table are read as logs where --with does not name them.
_LOGS_TOO = frozenset({"dmesg", "ray-log", "llama-bench-text"})


class Selected(Struct):
    """What was given, by what it is.

    Attributes:
        logs: logs in the same order.
        others: each other file with its kind and how it was taken.
        evidence: what was read of those that are of a known kind.
    """

    logs: list[Input] = field(default_factory=list)
    others: list[SourceSummary] = field(default_factory=list)
    evidence: list[EvidenceFile] = field(default_factory=list)


def split_by_kind(inputs: Iterable[Input]) -> Selected:
    """Part logs from files that lie beside them and from files that are neither."""
    found = Selected()
    for source in inputs:
        kind = _kind_of(source)
        if kind is None and source.kind == OTHER_FILE:
            # A folder may hold weights and sources: only what is recognized is named.
            if not _is_log(source):
                continue
        else:
            kind = kind or source.kind or None
        if kind is None:
            found.logs.append(source)
        elif source.path is not None and (evidence := _evidence_of(source.path, kind)) is not None:
            found.evidence.append(evidence)
            found.others.append(
                SourceSummary(source.name, source.size or 0, 0, f"{kind}, read beside the log", kind)
            )
        else:
            found.others.append(SourceSummary(source.name, source.size or 0, 0, f"skipped: {kind}", kind))
    return found


def _evidence_of(path: Path, kind: str) -> EvidenceFile | None:
    """Return what was read of a file of one of the kinds that lie beside a log; None for reports and other texts."""
    from vllm_logdoctor.evidence.kinds import KINDS
    from vllm_logdoctor.evidence.read import read_evidence_file

    return read_evidence_file(path) if any(one.name == kind for one in KINDS) else None


def _is_log(source: Input) -> bool:
    """Return whether a file begins as a log of a server."""
    try:
        with source.open() as stream:
            return bool(_OF_SERVER.search(stream.read(HEAD_BYTES)))
    except Exception:
        return False


def _kind_of(source: Input) -> str | None:
    if source.path is None and source.data is None:
        return None
    try:
        with source.open() as stream:
            head = stream.read(HEAD_BYTES)
            own = kind_of_file(head)
            if own is not None or _OF_SERVER.search(head):
                return own
            # Most inputs are logs, which never get here: a start does not pay for the kinds.
            from vllm_logdoctor.evidence.kinds import kind_of

            found = kind_of(head.decode("utf-8", "replace"))
            # A job's log may print the state of its cards before the server starts.
            if found is None or found.name in _LOGS_TOO:
                return None
            return None if _OF_SERVER.search(stream.read(_MOST_BYTES)) else found.name
    except Exception:
        # What can't be read is no reason to stop here: reading it names the reason.
        return None
