"""What a hook was asked to do, and where its report goes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

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


def report_place(logs: Sequence[Path], wanted: str, environ: Mapping[str, str]) -> Path | None:
    """Return where the report goes, or None for nowhere.

    Args:
        logs: the logs, at least one.
        wanted: file, directory, "-" or "" as in `HookRequest`.
        environ: environment of the job.

    Example:
        >>> report_place([Path("run/vllm.log")], "", {}).as_posix()
        'run/vllm.log.logdoctor.md'
        >>> job = {"PBS_JOBNAME": "serve", "PBS_JOBID": "12.head", "PBS_O_WORKDIR": "/home/user"}
        >>> report_place([Path("/var/spool/pbs/spool/12.head.OU")], "", job).as_posix()
        '/home/user/serve.o12.logdoctor.md'
        >>> report_place([Path("vllm.log")], "-", {}) is None
        True
    """
    wanted = wanted or environ.get("LOGDOCTOR_REPORT", "")
    if wanted == "-":
        return None
    spooled = _is_spooled(logs[0])
    name = (_pbs_name(environ, logs[0]) if spooled else logs[0].name) + REPORT_ENDING
    if wanted:
        place = Path(wanted)
        return place / name if wanted.endswith("/") or place.is_dir() else place
    if spooled:
        return Path(environ.get("PBS_O_WORKDIR") or ".") / name
    return logs[0] / REPORT_ENDING[1:] if logs[0].is_dir() else logs[0].with_name(name)


def _is_spooled(log: Path) -> bool:
    """PBS copies the files of its spool away at the end of a job: nothing else may be left there."""
    return log.parent.name == "spool" and log.suffix in (".OU", ".ER")


def _pbs_name(environ: Mapping[str, str], log: Path) -> str:
    sequence, _, rest = (environ.get("PBS_JOBID") or log.stem).partition(".")[0].partition("[")
    index = rest.rstrip("]")
    return f"{environ.get('PBS_JOBNAME') or 'job'}.o{sequence}{'.' + index if index else ''}".replace(
        "/", "_"
    )
