"""Where Slurm writes the output of a job: what `scontrol` says, else sbatch's default name."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from vllm_logdoctor.hooks.query import Query
from vllm_logdoctor.lazy import lazy_pattern

# 1234, 1234_5 (task 5 of an array), 1234_[5-7] is not one job
_JOB_ID = lazy_pattern(r"(?P<job>\d+)(?:_(?P<task>\d+))?")
# %A_%a, %5j, %%
_PATTERN = lazy_pattern(r"%(\d*)([%AaJjNnstux])")


class SlurmJob(Struct, frozen=True):
    """A Slurm job as its environment names it.

    Attributes:
        id: what scontrol is asked for; of a whole array all tasks are meant.
        own: whether this process runs in it.
        words: value by the letter that represents it in a file name pattern.
        folder: directory of submission.
    """

    id: str
    own: bool
    words: Mapping[str, str]
    folder: Path | None


def slurm_job(environ: Mapping[str, str], job_id: str) -> SlurmJob | None:
    """Return the job of that id, or None where the text is no Slurm job id.

    Example:
        >>> slurm_job({}, "12_3").words["a"]
        '3'
    """
    match = _JOB_ID.fullmatch(job_id)
    if match is None:
        return None
    own = environ.get("SLURM_JOB_ID") == job_id
    array = environ.get("SLURM_ARRAY_JOB_ID", "") if own else match["job"] if match["task"] else ""
    words = {
        "j": match["job"],
        "J": match["job"],
        "A": array or match["job"],
        "a": (environ.get("SLURM_ARRAY_TASK_ID", "") if own else match["task"]) or "4294967294",
        "x": environ.get("SLURM_JOB_NAME", "") if own else "",
        "u": environ.get("SLURM_JOB_USER") or environ.get("USER", ""),
        "N": environ.get("SLURMD_NODENAME", "") if own else "",
        "n": "0",
        "t": "0",
        "s": "batch",
        "%": "%",
    }
    folder = environ.get("SLURM_SUBMIT_DIR")
    return SlurmJob(job_id, own, words, Path(folder) if folder else None)


def output_places(job: SlurmJob, environ: Mapping[str, str], query: Query) -> Iterator[tuple[Path, ...]]:
    """Yield the places where the job's output can be, most likely first.

    Args:
        job: the job; of an array without a task number the outputs of all tasks belong together.
        environ: environment of a process of the job, or of one submitted beside it.
        query: how Slurm is asked.
    """
    answer = query(["scontrol", "show", "job", job.id])
    yield tuple(
        dict.fromkeys(path for text in records_of(answer, job) for path in _paths_of_record(text, job))
    )
    if job.folder is None:
        return
    is_task = job.words["a"] != "4294967294"
    if is_task:
        yield (job.folder / f"slurm-{job.words['A']}_{job.words['a']}.out",)
    yield (job.folder / f"slurm-{job.words['j']}.out",)
    if not job.own and not is_task:
        yield tuple(sorted(job.folder.glob(f"slurm-{job.words['j']}_*.out")))


def expanded(pattern: str, words: Mapping[str, str]) -> str:
    """Fill in a file name pattern of sbatch; a letter without a value stays as it is.

    Example:
        >>> expanded("log-%A_%3a.out", {"A": "12", "a": "7"})
        'log-12_007.out'
    """
    if "\\" in pattern:
        return pattern.replace("\\", "")

    def word(match: re.Match[str]) -> str:
        value = words.get(match[2], "")
        return value.zfill(int(match[1] or 0)) if value else match[0]

    return _PATTERN.sub(word, pattern)


def records_of(answer: str, job: SlurmJob) -> list[str]:
    """Split an answer of scontrol into jobs, tasks of an array in order; for a job's own number, which its array has too, into that job alone."""
    records = sorted((record for record in answer.split("\n\n") if record.strip()), key=_task)
    if job.own and len(records) > 1:
        return [record for record in records if record.lstrip().startswith(f"JobId={job.id} ")] or records
    return records


def _task(record: str) -> int:
    match = re.search(r"\bArrayTaskId=(\d+)", record)
    return int(match[1]) if match else 0


def _paths_of_record(record: str, job: SlurmJob) -> Iterator[Path]:
    words = {**job.words, **_words_of_record(record)}
    for name in ("StdOut", "StdErr"):
        match = re.search(rf"^\s*{name}=(.+)$", record, re.MULTILINE)
        if match is None or match[1] in ("(null)", "/dev/null"):
            continue
        path = Path(expanded(match[1].strip(), words))
        if path.is_absolute():
            yield path


def _words_of_record(record: str) -> dict[str, str]:
    names = {"JobId": "j", "ArrayJobId": "A", "ArrayTaskId": "a", "JobName": "x"}
    found = ((letter, re.search(rf"\b{name}=(\S+)", record)) for name, letter in names.items())
    return {letter: match[1] for letter, match in found if match}
