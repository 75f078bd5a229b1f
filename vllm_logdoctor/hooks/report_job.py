"""What runs in the child of a hook: analyses, writes the report, says three lines."""

from __future__ import annotations

import json
import os
import sys
from functools import reduce
from operator import and_
from pathlib import Path

import msgspec

from vllm_logdoctor.errors import LogdoctorError
from vllm_logdoctor.files import umask, write_whole
from vllm_logdoctor.report.escape import visible
from vllm_logdoctor.run.job import JobEnd


def main(argument: str) -> int:
    """Analyse and report.

    Args:
        argument: JSON object with "logs" (pairs of a path and the name that the report gives it), "report" (path or null)
            and "end" (a `JobEnd` or null).

    Returns:
        0 with lines on standard output that begin with "logdoctor: ", whether they tell of a report or of
        why there is none.
    """
    task = json.loads(argument)
    try:
        end = msgspec.convert(task["end"], JobEnd | None)
        lines = _reported(task["logs"], Path(task["report"]) if task["report"] else None, end)
    except LogdoctorError as error:
        lines = [f"no report: {error}"]
    except OSError as error:
        lines = [f"no report: {error.strerror or error}{f': {error.filename}' if error.filename else ''}"]
    except MemoryError:
        os.write(2, b"MemoryError\n")
        return 1
    text = "".join(f"logdoctor: {' '.join(visible(line).split())}\n" for line in lines)
    os.write(1, text.encode("utf-8", "replace"))
    return 0


def _reported(logs: list[list[str]], place: Path | None, end: JobEnd | None) -> list[str]:
    from vllm_logdoctor.catalogue.locate import cache_directory
    from vllm_logdoctor.evidence.given import evidence_from
    from vllm_logdoctor.hooks.summary import summary
    from vllm_logdoctor.pipeline import Options, analyse
    from vllm_logdoctor.report.writers import format_of_name, render
    from vllm_logdoctor.source import Input, inputs_from

    inputs = [
        Input(name, path=Path(path)) if Path(path).is_file() and name != path else one
        for path, name in logs
        for one in inputs_from(path)
    ]
    if place is not None:
        _check_place(place, [name for pair in logs for name in pair] + [str(one.path) for one in inputs])
    beside = os.environ.get("LOGDOCTOR_BESIDE", "")
    evidence = evidence_from([beside]) if os.path.isdir(beside) else ()
    analysis = analyse(inputs, Options(cache=cache_directory(), job=end), evidence=evidence)
    if place is None:
        return summary(analysis)
    text = render(analysis, format_of_name(place.name))
    try:
        write_whole(place, text.encode("utf-8", "replace"), _mode([path for path, _ in logs]))
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(place)) from error
    return [*summary(analysis), f"report: {place}"]


def _is_report(place: Path) -> bool:
    """Return whether a file is a report of this program."""
    from vllm_logdoctor.report.own_reports import HEAD_BYTES, is_own_report, kind_of_file

    if not place.is_file():
        return False
    with place.open("rb") as file:
        return is_own_report(kind_of_file(file.read(HEAD_BYTES)) or "")


def _check_place(place: Path, logs: list[str]) -> None:
    """Refuse to write over a log, where it is now or where the batch system takes it after the job."""
    if _is_report(place):
        return  # Of the run before, in a folder that is given as the log.
    for log in logs:
        if os.path.realpath(place) == os.path.realpath(log) or (
            place.exists() and os.path.isfile(log) and place.samefile(log)
        ):
            raise LogdoctorError(f"{place} is the log itself: name another file for the report")


def _mode(logs: list[str]) -> int:
    """Return the rights of a report: nobody reads it who may not read its logs."""
    modes = [os.stat(log).st_mode for log in logs if os.path.isfile(log)]
    return reduce(and_, modes, 0o666) & ~umask()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
