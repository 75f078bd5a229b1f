"""What is known of a job's end: its exit status, the batch system's accounting and words, and where its files end up."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace

from vllm_logdoctor.hooks.pbs import attributes_of, local_path, pbs_job
from vllm_logdoctor.hooks.query import Query
from vllm_logdoctor.hooks.slurm import records_of, slurm_job
from vllm_logdoctor.run.job import (
    JobEnd,
    combined,
    job_end_in_text,
    pbs_job_end,
    shell_job_end,
    signal_in_text,
    slurm_job_end,
)

_WORDS_BYTES = 1 << 16
_SACCT = ("State", "ExitCode", "Elapsed", "Timelimit", "ReqMem")


def job_end(
    environ: Mapping[str, str],
    job_id: str,
    status: int | None,
    facts: Mapping[str, str],
    outputs: Sequence[Path],
    query: Query,
    ended: bool = False,
) -> JobEnd | None:
    """Return how a job ended, or None where nothing says it.

    Args:
        environ: environment of the job or of one submitted after it.
        job_id: another job than the one that this process runs in, or "".
        status: exit status that the job's shell reports, or None.
        facts: attributes that a PBS hook saw; {} asks the batch system.
        outputs: files that the batch system may have written its own words to.
        query: how the batch system is asked.
        ended: the script of the job has ended, though the batch system may still call it running.
    """
    wanted = job_id or environ.get("PBS_JOBID") or environ.get("SLURM_JOB_ID") or ""
    in_pbs = bool(environ.get("PBS_JOBID"))
    fields = _slurm_fields(environ, wanted, query) if wanted and not in_pbs else {}
    if fields is None or "[]" in wanted:
        return JobEnd(words="the jobs of an array end each in its own way")
    name = f"{'PBS' if in_pbs else 'Slurm'} job {wanted}" if wanted else ""
    places = zip(outputs, final_paths(outputs, environ, facts), strict=True)
    end = next((said for output, final in places if (said := _said_in(output, str(final)))), None)
    if status is not None:
        end = combined(end, shell_job_end(status, name))
    if in_pbs and wanted:
        end = combined(end, pbs_job_end(facts or _with_elapsed(attributes_of(wanted, query)), name))
    elif wanted:
        end = combined(end, slurm_job_end(fields, name))
    if ended and (end is None or not end.words):
        end = combined(end, JobEnd(words="the script of the job has ended"))
    return _at_limit(end) if end else None


def facts_of(text: str) -> dict[str, str]:
    """Return the attributes that a PBS hook passes as JSON; {} for any other text."""
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return {str(name): str(value) for name, value in found.items()} if isinstance(found, dict) else {}


def final_paths(logs: Sequence[Path], environ: Mapping[str, str], facts: Mapping[str, str]) -> list[Path]:
    """Return where each log is after the job: PBS copies its spool away and deletes a private sandbox."""
    return [_final_path(log, environ, facts) for log in logs]


def _final_path(log: Path, environ: Mapping[str, str], facts: Mapping[str, str]) -> Path:
    folder = Path(environ.get("PBS_O_WORKDIR") or ".")
    if is_spooled(log):
        job = pbs_job(environ, environ.get("PBS_JOBID") or log.stem)
        named = facts.get("Output_Path" if log.suffix == ".OU" else "Error_Path", "")
        place = local_path(named, job) if named and job else None
        if place is not None and place.parent.is_dir():
            return place
        return folder / _default_name(log, environ)
    sandbox = environ.get("PBS_JOBDIR", "")
    if Path(sandbox).name.startswith("pbs.") and Path(sandbox) in log.absolute().parents:
        return folder / log.name
    return log


def is_spooled(log: Path) -> bool:
    """Return whether a file is one that PBS moves away at the end of its job: from its spool or a private sandbox."""
    return log.suffix in (".OU", ".ER") and (log.parent.name == "spool" or log.parent.name.startswith("pbs."))


def _default_name(log: Path, environ: Mapping[str, str]) -> str:
    sequence, _, rest = (environ.get("PBS_JOBID") or log.stem).partition(".")[0].partition("[")
    index = rest.rstrip("]")
    name = environ.get("PBS_JOBNAME") or "job"
    return f"{name}.{'o' if log.suffix == '.OU' else 'e'}{sequence}{'.' + index if index else ''}".replace(
        "/", "_"
    )


def _said_in(output: Path, name: str) -> JobEnd | None:
    """Return what a batch system wrote of a job's end at the end of a file, or None; in a long file the line is not known."""
    try:
        with output.open("rb") as file:
            before = max(0, output.stat().st_size - _WORDS_BYTES)
            file.seek(before)
            text = file.read(_WORDS_BYTES).decode("utf-8", "replace")
            name = "" if before else name
            return job_end_in_text(text, name) or signal_in_text(text, name)
    except OSError:
        return None


def _with_elapsed(attributes: Mapping[str, str]) -> Mapping[str, str]:
    """Add the time since the start of a running job: what the server knows of it is minutes old."""
    if attributes.get("job_state") not in ("R", "E") or "stime" not in attributes:
        return attributes
    try:
        started = time.mktime(time.strptime(attributes["stime"], "%a %b %d %H:%M:%S %Y"))
    except (ValueError, OverflowError):
        return attributes
    return {**attributes, "resources_used.walltime": str(max(0, int(time.time() - started)))}


def _slurm_fields(environ: Mapping[str, str], job_id: str, query: Query) -> dict[str, str] | None:
    """Return what Slurm knows of a job, or None for a whole array."""
    job = slurm_job(environ, job_id)
    if job is None:
        return {}
    # sacct learns of an end later, and prints an exit status above 128 without the 128.
    records = records_of(query(["scontrol", "show", "job", job_id]), job)
    if records:
        fields = r"\b(JobState|ExitCode|RunTime|TimeLimit|MinMemoryNode)=(\S+)"
        return dict(re.findall(fields, records[0])) if len(records) == 1 else None
    lines = query(["sacct", "-X", "-n", "-P", "-j", job_id, "-o", ",".join(_SACCT)]).splitlines()
    return None if len(lines) > 1 else dict(zip(_SACCT, "".join(lines).split("|"), strict=False))


def _at_limit(end: JobEnd) -> JobEnd:
    """Name the walltime where a signal came when it was used up: the shell of the job sees the signal alone."""
    used_up = end.elapsed is not None and end.walltime is not None and end.elapsed >= end.walltime
    if end.limit or end.signal not in (9, 15) or not used_up:
        return end
    return replace(end, limit="walltime")
