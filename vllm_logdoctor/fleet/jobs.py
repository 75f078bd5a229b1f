"""Which batch job a log belongs to, by its name, else by its content."""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec import Struct

HEAD_BYTES = 1 << 16
TAIL_BYTES = 1 << 13

_ID = r"\d{1,12}"
# slurm-1234.out   slurm-1234_7.out   job-1234.log   job.1234/vllm.log
_SLURM_NAME = re.compile(rf"(?:^|[/._-])slurm[-_.]?(?P<id>{_ID}(?:_\d+)?)(?=$|[/._-])")
# vllm.o1234   vllm.e1234.7   1234.server.OU   1234[7].server.ER
_PBS_NAME = re.compile(
    rf"(?:\.[oe](?P<id>{_ID})(?:\.\d+)?$|(?:^|/)(?P<spooled>{_ID}(?:\[\d+\])?)\.[\w.-]*\.?(?:OU|ER)$)"
)
_JOB_NAME = re.compile(rf"(?:^|[/._-])job(?:id)?[-_.]?(?P<id>{_ID}(?:_\d+)?)(?=$|[/._-])", re.IGNORECASE)
# vllm-llama-1234567.out
_NUMBER_AT_END = re.compile(
    r"[-_.](?P<id>[1-9]\d{5,8})\.(?:out|err|log|txt)(?:\.\d+)?(?:\.(?:gz|xz|bz2|zst))?$"
)
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
    """
    names = list(files)
    named = (job for name in names if (job := _of_name(name)) is not None)
    weak = (job for name in names if (job := _of_number(name)) is not None)
    return next(named, None) or _of_content(text) or next(weak, None)


def _of_name(name: str) -> Job | None:
    base = name.rsplit("/", 1)[-1]
    for system, pattern in (("slurm", _SLURM_NAME), ("pbs", _PBS_NAME), ("job", _JOB_NAME)):
        if found := pattern.search(base):
            groups = found.groupdict()
            return Job(system, groups["id"] or groups["spooled"], "name")
    return None


def _of_number(name: str) -> Job | None:
    found = _NUMBER_AT_END.search(name)
    if found is None or _DAY.fullmatch(found["id"]):
        return None
    return Job("job", found["id"], "name", name.rpartition("/")[0])


def _of_content(text: bytes) -> Job | None:
    for literal, pattern, system in _IN_CONTENT:
        if literal in text and (found := pattern.search(text)):
            return Job(system, found[1].decode(), "content")
    # To search 64 KiB with the expression takes longer than all of these.
    lowered = text.lower()
    found = _PROLOGUE.search(text) if any(words in lowered for words in _PROLOGUE_WORDS) else None
    return Job("job", found[1].decode(), "content") if found else None
