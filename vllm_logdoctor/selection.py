"""Which inputs are logs: all others are named with their kind and not read as a run of vLLM."""

from __future__ import annotations

import re
from collections.abc import Iterable

from vllm_logdoctor.run.model import SourceSummary
from vllm_logdoctor.source import Input
from vllm_logdoctor.source.kinds import HEAD_BYTES, kind_of_file

# INFO 07-16 12:29:43 [api_server.py:1289] vLLM API server version 0.8.5
# INFO:     Uvicorn running on http://0.0.0.0:8000
# Traceback (most recent call last):
_OF_SERVER = re.compile(
    rb"(?:DEBUG|INFO|WARNING|ERROR|CRITICAL)\W{1,12}\d\d-\d\d \d\d:\d\d|INFO: +Uvicorn|Traceback \(most recent|vLLM API server"
    rb"|vllm serve|Avg (?:prompt|generation) throughput"
)
_MOST_BYTES = 16 << 20
_PART_OF_A_LOG = ("dmesg", "ray-log", "vllm-bench-text")
"""Kinds that stand in logs of a server too: what is left of one that was cut may hold nothing else."""


def split_by_kind(inputs: Iterable[Input]) -> tuple[list[Input], list[SourceSummary]]:
    """Part logs from files that are none.

    Returns:
        The logs in the same order, and each other file with its kind and the reason why it is not read.
    """
    logs: list[Input] = []
    others: list[SourceSummary] = []
    for source in inputs:
        kind = _kind_of(source) or source.kind or None
        if kind is None:
            logs.append(source)
        else:
            others.append(SourceSummary(source.name, source.size or 0, 0, f"skipped: {kind}", kind))
    return logs, others


def _kind_of(source: Input) -> str | None:
    if source.path is None and source.data is None:
        return None
    try:
        with source.open() as stream:
            head = stream.read(HEAD_BYTES)
            own = kind_of_file(head)
            if own is not None or _OF_SERVER.search(head):
                return own
            from vllm_logdoctor.evidence.kinds import kind_of

            found = kind_of(head.decode("utf-8", "replace"))
            if found is None or found.name in _PART_OF_A_LOG:
                return None
            # A job's log may print the state of its cards before the server starts.
            return None if _OF_SERVER.search(stream.read(_MOST_BYTES)) else found.name
    except Exception:
        # What can't be read is no reason to stop here: reading it names the reason.
        return None
