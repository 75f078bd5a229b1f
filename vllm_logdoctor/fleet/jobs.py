"""Which batch job a log belongs to, by its name, else by its content."""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec import Struct

HEAD_BYTES = 1 << 16
TAIL_BYTES = 1 << 13

_ID = r"\d{1,12}"
# slurm-1234.out   slurm-1234_7.out   job-1234.log
_SLURM_NAME = re.compile(rf"(?:^|[/._-])slurm[-_.]?(?P<id>{_ID}(?:_\d+)?)(?=$|[/._-])")
# vllm.o1234   vllm.e1234.7   vllm.o1234.gz   1234.server.OU   1234[7].server.ER
_PBS_NAME = re.compile(
    rf"(?:\.[oe](?P<id>{_ID})(?:\.\d+)?|(?:^|/)(?P<spooled>{_ID}(?:\[\d+\])?)\.[\w.-]*\.?(?:OU|ER))(?:\.(?:gz|xz|bz2|zst))?$"
)
_JOB_NAME = re.compile(rf"(?:^|[/._-])job(?:id)?[-_.]?(?P<id>{_ID}(?:_\d+)?)(?=$|[/._-])", re.IGNORECASE)
# vllm-llama-1234567.out   1234567_7.out   llama-1234567-node012-0.log   llama-1234567.0.err
_NUMBER_AT_END = re.compile(
    r"[-_./](?P<id>[1-9]\d{5,8}(?:_\d{1,6})?)(?:[-_.][A-Za-z]{1,12}-?\d{1,6})?(?:[-.]\d{1,3})?"
    r"\.(?:out|err|log|txt)(?:\.\d+)?(?:\.(?:gz|xz|bz2|zst))?$"
)
# slurm-1234567/rank0.log   job_1234567/logs/vllm.log
_JOB_FOLDER = re.compile(
    r"(?:.*[._-])?(?P<system>slurm|job)(?:id)?[-_.]?(?P<id>[1-9]\d{4,8}(?:_\d+)?)", re.IGNORECASE
)
# 1234567/vllm.log   1234567.server/vllm.log
_NUMBER_FOLDER = re.compile(r"(?P<id>[1-9]\d{5,8}(?:_\d+)?)(?:\.[A-Za-z][\w.-]*)?")
_DAY = re.compile(r"(?:19|20)\d\d[01]\d[0-3]\d")
# SLURM_JOB_ID=1234      export SLURM_JOBID="1234"      PBS_JOBID=1234.server      PBS_JOBID=1234[7].server
_SLURM_VARIABLE = re.compile(rb"\bSLURM_JOB_?ID\b\W{1,4}(\d{1,12})(?!\d)")
_PBS_VARIABLE = re.compile(rb"\bPBS_JOBID\b\W{1,4}(\d{1,12}(?:\[\d{1,9}\])?)(?!\d)")
# slurmstepd: error: *** JOB 1234 ON n1 CANCELLED AT ... ***      slurmstepd-n1: error: *** STEP 1234.0 ON n1 ...
_SLURM_WORDS = re.compile(rb"slurmstepd(?:-[^ :]{1,64})?: error: \*\*\* (?:JOB|STEP) (\d{1,12})(?!\d)")
# Job ID: 1234.server    (prologues of sites)
_PROLOGUE = re.compile(
    rb"^[ \t#*|=-]{0,20}(?:PBS |Slurm )?job[ _-]?id[ \t]{0,10}[:=][ \t]{0,10}(\d{2,12}(?:\[\d{1,9}\])?)(?!\d)",
    re.IGNORECASE | re.MULTILINE,
)
_PROLOGUE_WORDS = (b"jobid", b"job id", b"job_id", b"job-id")
_IN_CONTENT = ((b"SLURM_JOB", _SLURM_VARIABLE, "slurm"), (b"PBS_JOBID", _PBS_VARIABLE, "pbs"), (b"slurmstepd", _SLURM_WORDS, "slurm"))  # fmt: skip


class Job(Struct, frozen=True):
    """A batch job.

    Attributes:
        system: slurm, pbs, or job where only a number is known.
        number: its id without the server's name, as accounting has it: 1234, 1234_7 or 1234[7].
        source: name or content.
        folder: directory within which the number tells jobs apart; "" for everywhere.
    """

    system: str
    number: str
    source: str
    folder: str = ""

    @property
    def key(self) -> str:
        """Name of the job, the same for all of its logs."""
        return f"{self.system} {self.number}" + (f" in {self.folder}" if self.folder else "")


def job_of(files: Iterable[str], text: bytes = b"") -> Job | None:
    """Return the job of a log by the names of its files, then by its content; None where neither says.

    Args:
        files: paths of the log.
        text: the beginning of the log, and its end.

    Example:
        >>> job_of(["/logs/slurm-1234_7.out"]).key, job_of(["vllm.o99"]).key, job_of(["vllm.log"], b"PBS_JOBID=12.head").key
        ('slurm 1234_7', 'pbs 99', 'pbs 12')
        >>> job_of(["/logs/vllm-20261101.log"]) is None, job_of(["/logs/llama-1234567.out"]).key
        (True, 'job 1234567 in /logs')
        >>> job_of(["/logs/job-1234567/node1.log"]).key, job_of(["/logs/1234567/vllm.log"]).key
        ('job 1234567', 'job 1234567 in /logs')
    """
    names = list(files)
    named = (job for name in names if (job := _of_name(name)) is not None)
    folders = (job for name in names if (job := _of_folder(name)) is not None)
    weak = (job for name in names if (job := _of_number(name)) is not None)
    return next(named, None) or next(folders, None) or _of_content(text) or next(weak, None)


def _of_name(name: str) -> Job | None:
    base = name.rsplit("/", 1)[-1]
    for system, pattern in (("slurm", _SLURM_NAME), ("pbs", _PBS_NAME), ("job", _JOB_NAME)):
        if found := pattern.search(base):
            groups = found.groupdict()
            return Job(system, groups["id"] or groups["spooled"], "name")
    return None


def _of_folder(name: str) -> Job | None:
    """Return the job that one of the two innermost directories is named after."""
    for base in name.split("/")[-2:-4:-1]:
        if found := _JOB_FOLDER.fullmatch(base):
            return Job(found["system"].lower(), found["id"], "name")
    return None


def _of_number(name: str) -> Job | None:
    """Return the job whose number the name of a file or of its directory is: it tells jobs apart only within a directory."""
    folder, _, _ = name.rpartition("/")
    above, _, inner = folder.rpartition("/")
    for found, within in ((_NUMBER_AT_END.search(name), folder), (_NUMBER_FOLDER.fullmatch(inner), above)):
        if found is not None and not _DAY.fullmatch(found["id"]):
            return Job("job", found["id"], "name", within)
    return None


def _of_content(text: bytes) -> Job | None:
    for literal, pattern, system in _IN_CONTENT:
        if literal in text and (found := pattern.search(text)):
            return Job(system, found[1].decode(), "content")
    # To search 64 KiB with the expression takes longer than all of these.
    lowered = text.lower()
    found = _PROLOGUE.search(text) if any(words in lowered for words in _PROLOGUE_WORDS) else None
    return Job("job", found[1].decode(), "content") if found else None
