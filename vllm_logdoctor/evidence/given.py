"""Reads the files that --with names."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from vllm_logdoctor.errors import LogdoctorError
from vllm_logdoctor.evidence.model import EvidenceFile
from vllm_logdoctor.evidence.pasted import read_parts
from vllm_logdoctor.evidence.read import read_evidence


def evidence_from(names: Sequence[str], stdin: bytes | None = None) -> list[EvidenceFile]:
    """Read the files that --with names.

    Raises:
        LogdoctorError: a path that does not exist, or can't be read.
    """
    found: list[EvidenceFile] = []
    for name in names:
        if name == "-":
            found.append(read_evidence("<stdin>", stdin or b""))
            continue
        for path in _paths(name):
            try:
                found += read_parts(path)
            except OSError as error:
                raise LogdoctorError(f"can't read {path}: {error.strerror}", 3) from error
    return found


def _paths(name: str) -> list[Path]:
    path = Path(name)
    if path.is_dir():
        return sorted(one for one in path.rglob("*") if one.is_file())
    if path.exists():
        return [path]
    matches = sorted(path.parent.glob(path.name)) if any(sign in path.name for sign in "*?[") else []
    if not matches:
        raise LogdoctorError(f"no such file: {name}; --with takes files, folders, patterns or -", 3)
    return [one for one in matches if one.is_file()]
