"""Framing of single lines, for tests."""

from __future__ import annotations

from vllm_logdoctor.parse import Record, RecordParser
from vllm_logdoctor.scan import WantedLine


def records(text: str | bytes) -> list[Record]:
    """Return the records of one line."""
    data = text if isinstance(text, bytes) else text.encode()
    return list(RecordParser().parse(WantedLine(0, 7, data)))


def record(text: str | bytes) -> Record:
    """Return the only record of one line."""
    found = records(text)
    assert len(found) == 1
    return found[0]
