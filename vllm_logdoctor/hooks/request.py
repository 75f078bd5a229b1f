"""What a hook was asked to do, and where its report goes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from vllm_logdoctor.lazy import lazy_pattern

REPORT_ENDING = ".logdoctor.md"


class HookRequest(Struct, frozen=True):
    """What a hook was asked to do.

    Attributes:
        logs: the logs, or () to find the log of the job.
        report: file or directory for the report, "-" for none, "" for LOGDOCTOR_REPORT or beside the log.
        job: id of another job to report on, or "".
        seconds: limit of wall time for the analysis.
        memory_mib: limit of its address space.
        append: add what is said to the job's output file.
        output: the job's output file, or None to find it.
        only_vllm: say nothing where the log holds nothing of vLLM.
        shell: process id of the job script, whose standard output may be the log, or None.
        status: exit status of the job script, or None.
        facts: JSON object of what a PBS hook saw of the job, or "".
        folder: what relative paths are relative to, or None for the working directory.
    """

    logs: tuple[Path, ...] = ()
    report: str = ""
    job: str = ""
    seconds: int = 60
    memory_mib: int = 2048
    append: bool = False
    output: Path | None = None
    only_vllm: bool = False
    shell: int | None = None
    status: int | None = None
    facts: str = ""
    folder: Path | None = None


def report_place(
    logs: Sequence[Path], wanted: str, environ: Mapping[str, str], folder: Path | None = None
) -> Path | None:
    """Return where the report goes, or None for nowhere.

    Args:
        logs: the logs where they are after the job (`ending.final_paths`), at least one.
        wanted: file, directory, "-" or "" as in `HookRequest`.
        environ: environment of the job.
        folder: what a relative path is relative to, or None for the working directory.

    Example:
        >>> report_place([Path("run/vllm.log")], "", {}).as_posix()
        'run/vllm.log.logdoctor.md'
        >>> report_place([Path("serve.o12.3")], "report.html", {"PBS_JOBID": "12[3].head"}).as_posix()
        'report.3.html'
        >>> report_place([Path("vllm.log")], "-", {}) is None
        True
    """
    wanted = wanted or environ.get("LOGDOCTOR_REPORT", "")
    if wanted == "-":
        return None
    name = _common_name(logs) + REPORT_ENDING
    if wanted:
        place = (folder or Path()) / wanted
        return place / name if wanted.endswith("/") or place.is_dir() else _of_subjob(place, environ)
    return logs[0] / REPORT_ENDING[1:] if logs[0].is_dir() else logs[0].with_name(name)


# 12[3].head
_SUBJOB = lazy_pattern(r"\d+\[(?P<index>\d+)\]")
# serve.o12.3      slurm-12_3.out
_OF_ARRAY = lazy_pattern(r"(?P<array>.+)[._]\d+(?P<ending>\.[a-z]+)?")


def _common_name(logs: Sequence[Path]) -> str:
    """Return the name of the one log, or of the outputs of an array what they have in common: serve.o12, slurm-12.out."""
    matches = [_OF_ARRAY.fullmatch(log.name) for log in logs]
    names = {match["array"] + (match["ending"] or "") if match else "" for match in matches}
    return names.pop() if len(logs) > 1 and len(names) == 1 and "" not in names else logs[0].name


def _of_subjob(place: Path, environ: Mapping[str, str]) -> Path:
    """Keep the reports of an array apart: all its jobs are given the same file name."""
    # A PBS hook sees no PBS_ARRAY_INDEX.
    of_id = _SUBJOB.match(environ.get("PBS_JOBID", ""))
    index = of_id["index"] if of_id else environ.get("SLURM_ARRAY_TASK_ID", "")
    return place.with_name(f"{place.stem}.{index}{place.suffix}") if index.isdigit() and place.name else place
