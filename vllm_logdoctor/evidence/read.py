"""Reads one file beside the log: kind, readings, and why nothing was taken."""

from __future__ import annotations

import csv
import zlib
from pathlib import Path
from tempfile import NamedTemporaryFile

from msgspec.structs import replace

from vllm_logdoctor.evidence.kinds import evidence_kind
from vllm_logdoctor.evidence.model import MOST_READINGS, EvidenceFile, Kind, Reading
from vllm_logdoctor.evidence.plain import file_text
from vllm_logdoctor.parse.secrets import mask

HEAD_BYTES = 64 * 1024
MOST_BYTES = 64 * 1024 * 1024


def read_evidence(name: str, data: bytes) -> EvidenceFile:
    """Read a file of any known kind.

    Args:
        name: the name to show.
        data: its bytes; gz is unpacked, at most 64 MiB.

    Returns:
        Its readings with secrets masked; kind "" where no kind recognizes it.

    Example:
        >>> one = read_evidence("free.txt", b"       total   used   free\\nMem:      10      4      6\\n")
        >>> one.kind, one.readings[0].name, one.readings[0].value
        ('free', 'mem total', 10)
    """
    data, note = _unpacked(data)
    kind = evidence_kind(file_text(data[:HEAD_BYTES]))
    if kind is not None and kind.stream is not None:
        with NamedTemporaryFile() as file:
            file.write(data)
            file.flush()
            return replace(_streamed(Path(file.name), kind), file=name)
    # "\\r" of progress bars is no end of a line: numbers of lines are those of an editor.
    text = file_text(data)
    if kind is None:
        return EvidenceFile(name, "", (), note or "no kind that is known")
    lines = [mask(line).text for line in text.split("\n")]
    try:
        readings = list(kind.read(lines) if kind.read else ())
    except (
        ValueError,
        LookupError,
        TypeError,
        AttributeError,
        SyntaxError,
        RecursionError,
        MemoryError,
        csv.Error,
    ) as error:
        return EvidenceFile(name, kind.name, (), f"damaged: {type(error).__name__}", kind.adds)
    if len(readings) > MOST_READINGS:
        note = note or f"{len(readings) - MOST_READINGS:,} more readings left out"
    return EvidenceFile(name, kind.name, tuple(readings[:MOST_READINGS]), note, kind.adds)


def read_evidence_file(path: Path) -> EvidenceFile:
    """Read a file of the disk; raises OSError where it can't be opened.

    A kind with a reader of its own for large files is streamed; of all others the first 64 MiB are read.
    """
    with path.open("rb") as file:
        head = file.read(HEAD_BYTES)
        kind = evidence_kind(file_text(_unpacked(head)[0]))
        if kind is not None and kind.stream is not None:
            return _streamed(path, kind)
        data = head + file.read(MOST_BYTES + 1 - len(head))
    found = read_evidence(str(path), data[:MOST_BYTES])
    if len(data) > MOST_BYTES:
        return replace(found, note="only the first 64 MiB were read")
    return found


def _streamed(path: Path, kind: Kind) -> EvidenceFile:
    readings: list[Reading] = []
    note = ""
    try:
        readings += kind.stream(path) if kind.stream is not None else ()
    except (ValueError, LookupError, TypeError, EOFError, zlib.error) as error:
        note = f"damaged: {error}" if isinstance(error, ValueError) else f"damaged: {type(error).__name__}"
    if any(one.name == "truncated" for one in readings):
        note = "truncated: what comes before is read"
    return EvidenceFile(str(path), kind.name, tuple(readings[:MOST_READINGS]), note, kind.adds)


def _unpacked(data: bytes) -> tuple[bytes, str]:
    if not data.startswith(b"\x1f\x8b"):
        return data, ""
    unpacker = zlib.decompressobj(16 + zlib.MAX_WBITS)
    try:
        text = unpacker.decompress(data, MOST_BYTES)
    except zlib.error:
        return b"", "damaged gz"
    if unpacker.unconsumed_tail:
        return text, "only the first 64 MiB were read"
    return text, "" if unpacker.eof else "truncated gz"
