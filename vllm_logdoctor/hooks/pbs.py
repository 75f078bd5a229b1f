"""Where PBS keeps the output of a job: the spool of the first host, then the place the user named."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from vllm_logdoctor.hooks.query import Query

# 1234.server, 1234[5].server, 1234[].server
_JOB_ID = re.compile(r"(?P<sequence>\d+)(?:\[(?P<index>\d*)\])?(?:\.[\w.-]+)?")
_ARRAY_INDEX = "^array_index^"


class PbsJob(Struct, frozen=True):
    """A PBS job as its environment names it: id, sequence number, array index, name, folder of submission."""

    id: str
    sequence: str
    index: str
    name: str
    folder: Path | None


def pbs_job(environ: Mapping[str, str], job_id: str) -> PbsJob | None:
    """Return the job of that id, or None where the text is no PBS job id.

    Example:
        >>> job = pbs_job({"PBS_JOBID": "12[3].head", "PBS_JOBNAME": "serve"}, "12[3].head")
        >>> job.sequence, job.index, job.name
        ('12', '3', 'serve')
    """
    match = _JOB_ID.fullmatch(job_id)
    if match is None:
        return None
    own = environ.get("PBS_JOBID") == job_id
    folder = environ.get("PBS_O_WORKDIR")
    return PbsJob(
        id=job_id,
        sequence=match["sequence"],
        index=match["index"] or (environ.get("PBS_ARRAY_INDEX", "") if own else ""),
        name=environ.get("PBS_JOBNAME", "") if own else "",
        folder=Path(folder) if folder else None,
    )


def output_places(job: PbsJob, environ: Mapping[str, str], query: Query) -> Iterator[tuple[Path, ...]]:
    """Yield the places where the job's output can be, most likely first.

    Args:
        job: the job.
        environ: environment of a process of the job, or of one submitted beside it.
        query: how PBS is asked.

    Yields:
        Files that belong together: standard output, and standard error where it is apart.
    """
    spool = pbs_home(environ) / "spool"
    yield (spool / f"{job.id}.OU", spool / f"{job.id}.ER")
    yield _named_places(job, query)
    yield from _default_places(job)


def pbs_home(environ: Mapping[str, str]) -> Path:
    """Return the home of PBS on this host: PBS_HOME, else what its configuration file says."""
    if environ.get("PBS_HOME"):
        return Path(environ["PBS_HOME"])
    configuration = Path(environ.get("PBS_CONF_FILE") or "/etc/pbs.conf")
    try:
        lines = configuration.read_text("utf-8", "replace").splitlines()
    except OSError:
        lines = []
    for line in lines:
        name, _, value = line.partition("=")
        if name.strip() == "PBS_HOME" and value.strip():
            return Path(value.strip().strip("\"'"))
    return Path("/var/spool/pbs")


def _named_places(job: PbsJob, query: Query) -> tuple[Path, ...]:
    attributes = _attributes(query(["qstat", "-x", "-f", job.id]) or query(["qstat", "-f", job.id]))
    named = [attributes.get("Output_Path", ""), attributes.get("Error_Path", "")]
    places = [_local_path(place, job) for place in named if place]
    return tuple(dict.fromkeys(place for place in places if place))


def _attributes(answer: str) -> dict[str, str]:
    """Read `qstat -f`, which breaks a long value and indents its rest by a tab."""
    joined = answer.replace("\n\t", "")
    pairs = (line.strip().partition(" = ") for line in joined.splitlines())
    return {name: value for name, found, value in pairs if found}


def _local_path(place: str, job: PbsJob) -> Path | None:
    # Output_Path = node17:/home/user/serve.o1234
    _, colon, path = place.partition(":")
    chosen = Path((path if colon and path.startswith("/") else place).replace(_ARRAY_INDEX, job.index))
    if not chosen.is_absolute():
        return None
    return chosen / f"{job.id}.OU" if chosen.is_dir() else chosen


def _default_places(job: PbsJob) -> Iterator[tuple[Path, ...]]:
    if job.folder is None:
        return
    endings = [f"{kind}{job.sequence}{'.' + job.index if job.index else ''}" for kind in "oe"]
    if job.name:
        # PBS names the files after the first 15 characters in some releases, after the whole name in others.
        for name in dict.fromkeys((job.name, job.name[:15])):
            yield tuple(job.folder / f"{name}.{ending}" for ending in endings)
    else:
        yield tuple(sorted(path for ending in endings for path in _ending_with(job.folder, "." + ending)))


def _ending_with(folder: Path, ending: str) -> list[Path]:
    try:
        return [Path(entry.path) for entry in os.scandir(folder) if entry.name.endswith(ending)]
    except OSError:
        return []
