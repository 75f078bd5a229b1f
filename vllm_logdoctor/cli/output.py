"""Writes what a command made into a file or to standard output."""

from __future__ import annotations

import sys
from pathlib import Path

from vllm_logdoctor.errors import LogdoctorError


def write(text: str, name: str = "-") -> None:
    """Write text as UTF-8 into a file; "-" is standard output.

    Raises:
        LogdoctorError: the file can't be written.
    """
    data = text.encode("utf-8", "replace")
    if name == "-":
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        return
    try:
        Path(name).write_bytes(data)
    except OSError as error:
        reason = error.strerror or error
        raise LogdoctorError(f"can't write {name}: {reason}; choose another place with -o") from error
