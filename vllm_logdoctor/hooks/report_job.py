"""What runs in the child of a hook: analyses, writes the report, says three lines."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path

from vllm_logdoctor.errors import LogdoctorError
from vllm_logdoctor.report.escape import visible


def main(argument: str) -> int:
    """Analyse and report.

    Args:
        argument: JSON object with "logs" (paths) and "report" (path or null).

    Returns:
        0 with lines on standard output that begin with "logdoctor: ", whether they tell of a report or of
        why there is none.
    """
    task = json.loads(argument)
    try:
        lines = _reported(
            [Path(log) for log in task["logs"]], Path(task["report"]) if task["report"] else None
        )
    except LogdoctorError as error:
        lines = [f"no report: {error}"]
    except OSError as error:
        lines = [f"no report: {error.strerror or error}{f': {error.filename}' if error.filename else ''}"]
    except MemoryError:
        return _out_of_memory()
    text = "".join(f"logdoctor: {' '.join(visible(line).split())}\n" for line in lines)
    os.write(1, text.encode("utf-8", "replace"))
    return 0


def _out_of_memory() -> int:
    os.write(2, b"MemoryError\n")
    return 1


def _reported(logs: list[Path], place: Path | None) -> list[str]:
    from vllm_logdoctor.catalogue.locate import cache_directory
    from vllm_logdoctor.hooks.summary import summary
    from vllm_logdoctor.pipeline import Options, analyse
    from vllm_logdoctor.report.writers import format_of_name, render
    from vllm_logdoctor.source import inputs_from

    analysis = analyse(inputs_from(logs), Options(cache=cache_directory()))
    if place is None:
        return summary(analysis)
    write_whole(place, render(analysis, format_of_name(place.name)))
    return [*summary(analysis), f"report: {place}"]


def write_whole(place: Path, text: str) -> None:
    """Write a file so that it is there whole or not at all; a device or pipe is written to as it is.

    Raises:
        OSError: no right, no space, no such directory; names the file.
    """
    data = text.encode("utf-8", "replace")
    try:
        if place.exists() and not place.is_file():
            place.write_bytes(data)
        else:
            _replaced(place, data)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(place)) from error


def _replaced(place: Path, data: bytes) -> None:
    descriptor, part = tempfile.mkstemp(prefix=f".{place.name[:80]}.", dir=place.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(part, 0o666 & ~_umask())
        os.replace(part, place)
    except OSError:
        Path(part).unlink(missing_ok=True)
        raise


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
