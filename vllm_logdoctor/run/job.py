"""How a batch job ended: exit status, signal, limit, elapsed time against the requested one."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import asdict, replace

from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.parse import NO_PROCESS, Record
from vllm_logdoctor.run.termination import StopKind, stops_in

# Exit_status of PBS for a job that its MOM killed at a limit; 256 + n for one that signal n ended.
# -4 to -6: MOM started anew and found the job; -11: the job was requeued.
_PBS_LIMITS = {
    **dict.fromkeys((-4, -5, -6), "node failure"),
    **dict.fromkeys((-24, -25, -28), "cpu"),
    **dict.fromkeys((-26, -27), "memory"),
    -11: "requeue",
    -29: "walltime",
}
_SLURM_LIMITS = {"TIMEOUT": "walltime", "DEADLINE": "walltime", "OUT_OF_MEMORY": "memory", "NODE_FAIL": "node failure", "BOOT_FAIL": "node failure",
    "REQUEUED": "requeue", "PREEMPTED": "requeue"}  # fmt: skip
_UNITS = {"": 1, "b": 1, "w": 8, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40, "p": 1 << 50}


NATIVE_CRASHES = {
    4: "illegal instruction",
    6: "abort",
    7: "bus error",
    8: "arithmetic error",
    11: "segmentation fault",
}
"""Signals that compiled code ends a process by."""
# /var/spool/pbs/mom_priv/jobs/12.head.SC: line 6: 17524 Killed                  vllm serve org/tiny
_SHELL_WORDS = lazy_pattern(
    r": line \d+: +\d+ (Killed|Illegal instruction|Aborted|Bus error|Floating point exception|Segmentation fault) .*vllm"
)
_SIGNALS = {"Killed": 9, "Illegal instruction": 4, "Aborted": 6, "Bus error": 7, "Floating point exception": 8,
    "Segmentation fault": 11}  # fmt: skip
_WORDS_OF_LIMIT = {"node failure": "by a failure of its node", "requeue": "so that its job runs again"}


class JobEnd(Struct, frozen=True):
    """How a job ended, as far as its shell, its batch system or the accounting says.

    Attributes:
        job: "PBS job 12.head"; "" where no batch system is known.
        exit_status: of the job script, or None.
        signal: that ended the script, or None.
        limit: what the batch system ended the job for: the limit "walltime", "memory" or "cpu", "node failure", "requeue"; else "".
        words: what says so, as printed: "Exit_status = -29".
        elapsed, walltime: seconds used and asked for, or None.
        used_memory, memory: bytes used and asked for, or None.
        file, line: where it says so, "" and 0 where it is no line of a file.
    """

    job: str = ""
    exit_status: int | None = None
    signal: int | None = None
    limit: str = ""
    words: str = ""
    elapsed: float | None = None
    walltime: float | None = None
    used_memory: int | None = None
    memory: int | None = None
    file: str = ""
    line: int = 0


def words_of_limit(limit: str) -> str:
    """Return for what the batch system killed a job.

    Example:
        >>> words_of_limit("memory"), words_of_limit("node failure")
        ('at the memory limit of its job', 'by a failure of its node')
    """
    return _WORDS_OF_LIMIT.get(limit) or f"at the {limit} limit of its job"


def shell_job_end(status: int, job: str = "") -> JobEnd:
    """Return the end of a job from the exit status that its shell reports.

    Example:
        >>> shell_job_end(143).signal, shell_job_end(271).signal, shell_job_end(7).exit_status
        (15, 15, 7)
    """
    # ksh adds 256 to the number of a signal.
    signal = next((status - base for base in (128, 256) if base < status < base + 65), None)
    return JobEnd(job, None if signal else status, signal, words=f"exit status {status}")


def pbs_job_end(attributes: Mapping[str, str], job: str = "") -> JobEnd:
    """Return the end of a job from the attributes that `qstat -xf` prints or a PBS hook sees.

    Example:
        >>> pbs_job_end({"Exit_status": "-29", "resources_used.walltime": "02:00:03", "Resource_List.walltime": "02:00:00"}).limit
        'walltime'
        >>> pbs_job_end({"Exit_status": "271"}).signal
        15
    """
    printed = attributes.get("Exit_status", "").strip()
    status = int(printed) if re.fullmatch(r"-?\d{1,9}", printed) else None
    signal = status - 256 if status is not None and status > 256 else None
    if status is not None and 128 < status < 193:
        # The shell of the job saw the signal.
        signal = status - 128
    return JobEnd(
        job=job,
        exit_status=status if signal is None and status is not None and status >= 0 else None,
        signal=signal,
        limit=_PBS_LIMITS.get(status, "") if status is not None else "",
        words=f"Exit_status = {status}" if status is not None else "",
        elapsed=seconds_of_time(attributes.get("resources_used.walltime", "")),
        walltime=seconds_of_time(attributes.get("Resource_List.walltime", "")),
        used_memory=bytes_of_size(attributes.get("resources_used.mem", "")),
        memory=bytes_of_size(attributes.get("Resource_List.mem", "")),
    )


def slurm_job_end(fields: Mapping[str, str], job: str = "") -> JobEnd:
    """Return the end of a job from the fields of `sacct` or `scontrol show job`.

    Example:
        >>> end = slurm_job_end({"State": "TIMEOUT", "ExitCode": "0:15", "Elapsed": "02:00:12", "Timelimit": "02:00:00"})
        >>> end.limit, end.signal, end.walltime
        ('walltime', 15, 7200.0)
    """
    state = fields.get("State") or fields.get("JobState", "")
    # CANCELLED by 1000
    state = state.partition(" ")[0].rstrip("+")
    status, _, signal = fields.get("ExitCode", "").partition(":")
    ended = state not in ("", "RUNNING", "COMPLETING", "PENDING") and status.isdigit()
    number = int(signal) if ended and signal.isdigit() and signal != "0" else None
    shell = JobEnd(signal=number) if number is not None or not ended else shell_job_end(int(status))
    return JobEnd(
        job=job,
        exit_status=shell.exit_status,
        signal=shell.signal,
        limit=_SLURM_LIMITS.get(state, ""),
        words=f"State={state} ExitCode={fields.get('ExitCode', '')}" if ended else "",
        elapsed=seconds_of_time(fields.get("Elapsed") or fields.get("RunTime", "")),
        walltime=seconds_of_time(fields.get("Timelimit") or fields.get("TimeLimit", "")),
        used_memory=bytes_of_size(fields.get("MaxRSS", "")),
        memory=bytes_of_size(fields.get("ReqMem", "") or fields.get("MinMemoryNode", "")),
    )


# =>> PBS: job killed: walltime 35 exceeded limit 30
_PBS_WORDS = lazy_pattern(r"job killed: walltime (\d+) exceeded limit (\d+)")
_LIMIT_OF_STOP: dict[StopKind, str] = {"walltime": "walltime", "memory": "memory"}


def job_end_in(records: Sequence[Record], files: Sequence[str]) -> JobEnd | None:
    """Return the end of a job that lines of the batch system tell, or None."""
    found = None
    for stop in stops_in(records):
        file, line = (files[stop.record.file], stop.record.line) if files else ("", 0)
        end = JobEnd(words=stop.record.text[:600], file=file, line=line)
        if stop.kind in _LIMIT_OF_STOP:
            figures = _PBS_WORDS.search(stop.record.message)
            elapsed, walltime = map(float, figures.groups()) if figures else (None, None)
            return replace(end, limit=_LIMIT_OF_STOP[stop.kind], elapsed=elapsed, walltime=walltime)
        if stop.kind == "scheduler" and found is None:
            found = replace(end, signal=15)
    return found


def signal_in_text(text: str, file: str = "") -> JobEnd | None:
    """Return the signal by which a command that names vLLM ended, as the shell of the job says it last, or None.

    Args:
        text: the output or the last part of it.
        file: name of the file whose whole text this is, or "".

    Example:
        >>> signal_in_text("job.sh: line 6: 17524 Killed                  vllm serve org/tiny").signal
        9
    """
    for number, line in reversed(list(enumerate(text.splitlines(), start=1))):
        if said := _SHELL_WORDS.search(line):
            return JobEnd(signal=_SIGNALS[said[1]], words=line[:600], file=file, line=number if file else 0)
    return None


def job_end_in_text(text: str, file: str = "") -> JobEnd | None:
    """Return the end of a job that the batch system's words in the output of the job tell, or None.

    Args:
        text: the output or the last part of it.
        file: name of the file whose whole text this is, or "".

    Example:
        >>> job_end_in_text("=>> PBS: job killed: walltime 35 exceeded limit 30").walltime
        30.0
    """
    records = [
        Record(0, number, NO_PROCESS, "", None, None, False, None, line, line, ())
        for number, line in enumerate(text.splitlines(), start=1)
    ]
    return job_end_in(records, (file,) if file else ())


def combined(first: JobEnd | None, second: JobEnd | None) -> JobEnd | None:
    """Return what two sources say of one end: each field of the first that knows it, the other fields of the second."""
    if first is None or second is None:
        return first or second
    limit_line = first if first.line or not second.line else second
    words = limit_line.words or first.words or second.words
    known = {name: value for name, value in asdict(first).items() if value not in (None, "")}
    filled = {**asdict(second), **known, "words": words}
    return JobEnd(**{**filled, "file": limit_line.file, "line": limit_line.line})


def seconds_of_time(text: str) -> float | None:
    """Return the seconds of a time as PBS and Slurm write it, or None.

    Example:
        >>> seconds_of_time("02:00:00"), seconds_of_time("1-00:00:00"), seconds_of_time("UNLIMITED")
        (7200.0, 86400.0, None)
    """
    match = re.fullmatch(r"(?:(\d{1,6})-)?(?:(?:(\d{1,6}):)?(\d{1,6}):)?(\d{1,9})(?:\.\d+)?", text.strip())
    if match is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)


def bytes_of_size(text: str) -> int | None:
    """Return the bytes of a size as PBS and Slurm write it, or None.

    Example:
        >>> bytes_of_size("6972kb"), bytes_of_size("4G"), bytes_of_size("n/a")
        (7139328, 4294967296, None)
    """
    match = re.fullmatch(r"(\d{1,18})(?:\.\d+)?([kmgtp]?)(b|w|n|c)?", text.strip().lower())
    return int(match[1]) * _UNITS[match[2]] * (8 if match[3] == "w" else 1) if match else None
