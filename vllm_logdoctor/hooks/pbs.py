"""Where PBS keeps the output of a job: the spool of the first host, then the place the user named."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from vllm_logdoctor.errors import LogdoctorError
from vllm_logdoctor.hooks.query import Query
from vllm_logdoctor.lazy import lazy_pattern

# 1234.server, 1234[5].server, 1234[].server
_JOB_ID = lazy_pattern(r"(?P<sequence>\d+)(?:\[(?P<index>\d*)\])?(?:\.[\w.-]+)?")
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
    yield _named_places(job, environ, query)
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


def _named_places(job: PbsJob, environ: Mapping[str, str], query: Query) -> tuple[Path, ...]:
    attributes = attributes_of(job.id, query)
    if attributes and "stime" not in attributes and attributes.get("job_state") in ("F", "X"):
        raise LogdoctorError(f"PBS job {job.id} was deleted before it ran")
    named = [attributes.get("Output_Path", ""), attributes.get("Error_Path", "")]
    places = [place for text in named if text for place in _of_array(local_path(text, job), job)]
    # qsub -k oe: the files stay in the home directory of the user on the first host, whatever Output_Path says.
    home = environ.get("PBS_O_HOME") or environ.get("HOME")
    if home and set(attributes.get("Keep_Files", "n")) & set("oe") and "d" not in attributes["Keep_Files"]:
        places = [Path(home) / place.name for place in places] + places
    return tuple(dict.fromkeys(places))


def _of_array(place: Path | None, job: PbsJob) -> list[Path]:
    """Return the outputs of all subjobs where the job is a whole array."""
    if place is None or _ARRAY_INDEX not in place.name:
        return [] if place is None else [place]
    begin, _, end = place.name.partition(_ARRAY_INDEX)
    return sorted(
        path for path in _entries(place.parent) if path.name.startswith(begin) and path.name.endswith(end)
    )


def attributes_of(job_id: str, query: Query) -> dict[str, str]:
    """Return the attributes of a job that runs or, where the server keeps a history, has ended; {} without an answer."""
    return _attributes(query(["qstat", "-x", "-f", job_id]) or query(["qstat", "-f", job_id]))


def _attributes(answer: str) -> dict[str, str]:
    """Read `qstat -f`, which breaks a long value and indents its rest by a tab."""
    joined = answer.replace("\n\t", "")
    pairs = (line.strip().partition(" = ") for line in joined.splitlines())
    return {name: value for name, found, value in pairs if found}


def local_path(place: str, job: PbsJob) -> Path | None:
    """Return the path of an Output_Path or Error_Path on this host, or None."""
    # Output_Path = node17:/home/user/serve.o1234
    _, colon, path = place.partition(":")
    chosen = Path(
        (path if colon and path.startswith("/") else place).replace(_ARRAY_INDEX, job.index or _ARRAY_INDEX)
    )
    if not chosen.is_absolute():
        return None
    return chosen / f"{job.id}.OU" if chosen.is_dir() else chosen


def _default_places(job: PbsJob) -> Iterator[tuple[Path, ...]]:
    if job.folder is None:
        return
    if job.id.partition(".")[0].endswith("[]"):
        marks = tuple(f".{kind}{job.sequence}." for kind in "oe")
        marked = (path for path in _entries(job.folder) if any(mark in path.name for mark in marks))
        yield tuple(sorted(path for path in marked if path.suffix[1:].isdigit()))
        return
    endings = [f"{kind}{job.sequence}{'.' + job.index if job.index else ''}" for kind in "oe"]
    if job.name:
        # PBS names the files after the first 15 characters in some releases, after the whole name in others.
        for name in dict.fromkeys((job.name, job.name[:15])):
            yield tuple(job.folder / f"{name}.{ending}" for ending in endings)
    else:
        entries = _entries(job.folder)
        named = (path for ending in endings for path in entries if path.name.endswith("." + ending))
        yield tuple(sorted(named))


def _entries(folder: Path) -> list[Path]:
    try:
        return [Path(entry.path) for entry in os.scandir(folder)]
    except OSError:
        return []
