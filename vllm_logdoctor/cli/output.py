"""Writes what a command made into files or to standard output; never over what it reads."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from vllm_logdoctor.errors import LogdoctorError
from vllm_logdoctor.files import write_whole
from vllm_logdoctor.report.writers import ENDINGS, ending_of

Identity = tuple[int, int]


def check_outputs(outputs: Sequence[str], inputs: Iterable[str | Path], format: str | None) -> None:
    """Refuse outputs before anything is read or written.

    Args:
        outputs: files to write, "-" for standard output.
        inputs: files that the command reads, "-" for standard input.
        format: format that the user named; without one the ending of an output has to tell it.

    Raises:
        LogdoctorError: an output is one of the inputs, or its ending is no format's (exit code 2).
    """
    for name in outputs:
        if not name:
            raise LogdoctorError("-o '' is no file name; write for example -o report.html", 2)
        if name != "-" and format is None and ending_of(name) not in ENDINGS:
            raise LogdoctorError(
                f"-o {name}: the ending {ending_of(name) or '(none)'} names no format; use one of"
                f" {', '.join(ENDINGS)}, or add --format",
                2,
            )
    read = {identity: str(name) for name in inputs if (identity := _identity(name)) is not None}
    for name in outputs or ["-"]:
        identity = _identity(1 if name == "-" else name)
        if identity in read:
            shown = "standard output" if name == "-" else name
            raise LogdoctorError(f"{shown} is also read ({read[identity]}): choose another output", 2)


def write(text: str, name: str = "-") -> None:
    """Write text as UTF-8 into a file, whole or not at all; "-" is standard output.

    Raises:
        LogdoctorError: the file can't be written.
    """
    data = text.encode("utf-8", "replace")
    if name == "-":
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        return
    try:
        write_whole(Path(os.path.realpath(name)), data)
    except OSError as error:
        reason = error.strerror or error
        raise LogdoctorError(f"can't write {name}: {reason}; choose another place with -o") from error


def _identity(name: str | Path | int) -> Identity | None:
    """Return device and inode of a regular file, or of what a standard stream is redirected to; None for all else."""
    try:
        found = os.fstat(name) if isinstance(name, int) else os.fstat(0) if name == "-" else os.stat(name)
    except (OSError, ValueError):
        return None
    return (found.st_dev, found.st_ino) if stat.S_ISREG(found.st_mode) else None
