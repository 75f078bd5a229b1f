"""Writes what a command made into files or to standard output; never over what it reads."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from vllm_logdoctor.errors import LogdoctorError
from vllm_logdoctor.files import write_whole
from vllm_logdoctor.report.own_reports import HEAD_BYTES, kind_of_file
from vllm_logdoctor.report.writers import ENDINGS, Result, ending_of, format_of_name, render_result

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
        if name != "-" and format is None and ending_of(name) not in ENDINGS:
            raise LogdoctorError(
                f"-o {name}: the ending {ending_of(name) or '(none)'} names no format; use one of"
                f" {', '.join(ENDINGS)}, or add --format",
                2,
            )
    inputs = list(inputs)
    read = {identity: str(name) for name in inputs if (identity := identity_of(name)) is not None}
    for name in outputs or ["-"]:
        identity = identity_of(1 if name == "-" else name)
        if identity in read:
            shown = "standard output" if name == "-" else name
            raise LogdoctorError(f"{shown} is also read ({read[identity]}): choose another output", 2)
    if "-" in inputs and (log := next((name for name in outputs if _may_be_a_log(name)), None)):
        raise LogdoctorError(f"{log} may be the log on standard input: choose another output", 2)


def _may_be_a_log(name: str) -> bool:
    """Return whether a file holds a log: `cat vllm.log |` does not tell which file it reads."""
    try:
        with open(name, "rb") as file:
            head = file.read(HEAD_BYTES)
    except OSError:
        return False
    return b"vllm" in head.lower() and kind_of_file(head) is None


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


def write_result(
    result: Result, format: str | None, outputs: Sequence[str], show: Callable[[], None]
) -> None:
    """Write a result to the named files, or to standard output: a view on a terminal, else Markdown."""
    texts: list[tuple[str, str]] = []
    for name in outputs or ["-"]:
        chosen = format if name == "-" else format_of_name(name, format)
        on_screen = name == "-" and not outputs and sys.stdout.isatty()
        if name == "-" and (chosen == "terminal" or (chosen is None and on_screen)):
            show()
        else:
            texts.append((render_result(result, chosen or "markdown"), name))
    for text, name in texts:
        write(text, name)


def identity_of(name: str | Path | int) -> Identity | None:
    """Return device and inode of a regular file, or of what a standard stream is redirected to; None for all else."""
    try:
        found = os.fstat(name) if isinstance(name, int) else os.fstat(0) if name == "-" else os.stat(name)
    except (OSError, ValueError):
        return None
    return (found.st_dev, found.st_ino) if stat.S_ISREG(found.st_mode) else None
