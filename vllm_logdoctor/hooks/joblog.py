"""Which files hold the log of the batch job that this process runs in."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from vllm_logdoctor.errors import LogdoctorError
from vllm_logdoctor.hooks import pbs, slurm
from vllm_logdoctor.hooks.query import Query, ask

_SHOWN_PLACES = 4


class _Found(Struct, frozen=True):
    """A job with the places where its output can be."""

    words: str
    places: Iterator[tuple[Path, ...]]


def find_job_log(
    environ: Mapping[str, str], *, job_id: str = "", own_output: Path | None = None, query: Query = ask
) -> list[Path]:
    """Find the log of a batch job.

    Looked at in this order: LOGDOCTOR_LOG, what the batch system says or its spool, the batch system's
    default names, the standard output of the calling job script.

    Args:
        environ: environment of the job: PBS_JOBID or SLURM_JOB_ID and what comes with it.
        job_id: another job than the one that this process runs in, or "".
        own_output: file that the calling script's standard output goes to, if it is one.
        query: how the batch system is asked.

    Returns:
        One or more files that exist, are not empty and can be read.

    Raises:
        LogdoctorError: no job, no such file, or no right to read it; one line that says where it looked.

    Example:
        >>> find_job_log({})
        Traceback (most recent call last):
        ...
        vllm_logdoctor.errors.LogdoctorError: neither PBS_JOBID nor SLURM_JOB_ID is set: name the log
    """
    named = environ.get("LOGDOCTOR_LOG")
    if named:
        return _readable([Path(named)], "LOGDOCTOR_LOG")
    job = _job(environ, job_id, query)
    looked: list[Path] = []
    for places in job.places:
        looked += places
        present = [place for place in places if has_text(place)]
        if present:
            return _readable(present, job.words)
    if own_output is not None and has_text(own_output):
        return [own_output]
    shown = [str(place) for place in dict.fromkeys(looked)][:_SHOWN_PLACES]
    where = ": nothing in " + ", ".join(shown) if shown else ""
    raise LogdoctorError(f"the log of {job.words} was not found{where}; set LOGDOCTOR_LOG to its path")


def job_output(environ: Mapping[str, str], *, job_id: str, own_output: Path | None) -> Path | None:
    """Return the file that the job's standard output goes to, or None where that is not known."""
    try:
        job = _job(environ, job_id, ask)
        return next((place for places in job.places for place in places if place.is_file()), own_output)
    except (LogdoctorError, OSError):
        return own_output


def file_behind(descriptor: Path) -> Path | None:
    """Return the regular file that an open descriptor (a link in /proc) writes to, or None."""
    try:
        target = Path(os.readlink(descriptor))
    except OSError:
        return None
    return target if target.is_absolute() and target.is_file() else None


def _job(environ: Mapping[str, str], job_id: str, query: Query) -> _Found:
    in_pbs, in_slurm = environ.get("PBS_JOBID"), environ.get("SLURM_JOB_ID")
    wanted = job_id or in_pbs or in_slurm
    if not wanted:
        raise LogdoctorError("neither PBS_JOBID nor SLURM_JOB_ID is set: name the log")
    if in_slurm and not in_pbs:
        slurm_job = slurm.slurm_job(environ, wanted)
        if slurm_job:
            return _Found(f"Slurm job {wanted}", slurm.output_places(slurm_job, environ, query))
    else:
        pbs_job = pbs.pbs_job(environ, wanted)
        if pbs_job:
            return _Found(f"PBS job {wanted}", pbs.output_places(pbs_job, environ, query))
    raise LogdoctorError(f"{wanted[:80]!r} is not the id of a job", 2)


def has_text(place: Path) -> bool:
    """Return whether a path is a file that is not empty."""
    try:
        return place.is_file() and place.stat().st_size > 0
    except OSError:
        return False


def _readable(places: Iterable[Path], words: str) -> list[Path]:
    chosen = list(places)
    for place in chosen:
        if not place.exists():
            raise LogdoctorError(f"{words}: no such file: {place}")
        if not os.access(place, os.R_OK):
            raise LogdoctorError(f"{words}: no right to read {place}")
    return chosen
