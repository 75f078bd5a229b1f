"""Workers elsewhere: batch jobs through dask-jobqueue, a running Dask, or a Dask on this machine."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from vllm_logdoctor.errors import LogdoctorError
from vllm_logdoctor.fleet.mapping import WorkerPool, given, usable_cores
from vllm_logdoctor.parse.secrets import mask
from vllm_logdoctor.run.job import seconds_of_time

_BEFORE_THE_END = 120
_UNTIL_ASKED_AGAIN = 60.0
_SETTINGS = {
    # A worker that dies names its log: another attempt with the same batch would only cost more workers.
    "distributed.scheduler.allowed-failures": 0,
    "distributed.worker.daemon": True,
    "distributed.admin.tick.limit": "1h",
    "distributed.comm.timeouts.connect": "30s",
}

_IS_THERE = {"pbs": ("qstat",), "slurm": ("squeue", "-h", "-j")}
_IS_GONE = re.compile(r"Unknown Job|has finished|Invalid job id")
_REFUSED = re.compile(
    r"Exit code: (?P<status>-?\d+)\nCommand:\n(?P<command>\S+).*?\nstdout:\n(?P<stdout>.*)\nstderr:\n(?P<stderr>.*)",
    re.DOTALL,
)


class Site(Struct, frozen=True, forbid_unknown_fields=True):
    """What a site needs: the table `[fleet]` of logdoctor.toml, options of the command line before it.

    Attributes:
        queue, account, walltime, memory: of each worker's job.
        workers: jobs at most.
        cores: of each job; a worker uses one.
        interface: network interface between scheduler and workers.
        job_directives: further lines for the batch system.
        job_script_prologue: commands before the worker starts.
        python: interpreter on the nodes.
        local_directory, log_directory: places of the workers' files.
        resource_spec: what PBS is asked for in place of cores and memory.
    """

    queue: str | None = None
    account: str | None = None
    walltime: str = "00:30:00"
    memory: str = "2GB"
    workers: int = 4
    cores: int = 1
    interface: str | None = None
    job_directives: list[str] = msgspec.field(default_factory=list)
    job_script_prologue: list[str] = msgspec.field(default_factory=list)
    python: str | None = None
    local_directory: str | None = None
    log_directory: str | None = None
    resource_spec: str | None = None


def site_of(values: Mapping[str, Any]) -> Site:
    """Return the site's options.

    Raises:
        LogdoctorError: an option that is none, or has a wrong type (exit code 2).
    """
    try:
        return msgspec.convert(dict(values), Site)
    except msgspec.ValidationError as error:
        raise LogdoctorError(f"[fleet] of logdoctor.toml: {error}", 2) from error


@contextmanager
def cluster_workers(
    kind: str, values: Mapping[str, Any], note: Callable[[str], None] = lambda _: None
) -> Iterator[WorkerPool]:
    """Open workers: "slurm" or "pbs" through dask-jobqueue, "local" as processes of Dask on this machine.

    Args:
        kind: of workers.
        values: the site's options.
        note: called with why a further job was refused.

    Raises:
        LogdoctorError: a package is missing, the batch system refuses the first job, or that ends without a worker.
    """
    site = site_of(values)
    dask = _import("dask")
    # What it calls an error, a batch whose worker died, is read again.
    logging.getLogger("distributed.scheduler").setLevel(logging.CRITICAL)
    with (
        dask.config.set(_SETTINGS),
        _cluster(kind, site, note) as cluster,
        _import("distributed").Client(cluster) as client,
    ):
        if kind == "local":
            yield _workers(client, (cluster.workers and len(cluster.workers)) or usable_cores())
        else:
            yield _workers(client, site.workers, _JobWatch(client, cluster, kind, site).look)


@contextmanager
def scheduler_workers(scheduler_file: str, patience: float = 30) -> Iterator[WorkerPool]:
    """Open the workers of a Dask scheduler that runs already.

    Raises:
        LogdoctorError: no such scheduler, or it has no worker.
    """
    distributed = _import("distributed")
    # Dask waits for the file without end.
    if not os.path.isfile(scheduler_file):
        raise LogdoctorError(
            f"no scheduler file {scheduler_file}: start a scheduler with it, or name its file"
        )
    try:
        client = distributed.Client(scheduler_file=scheduler_file, timeout=patience)
    except (OSError, ValueError) as error:
        raise LogdoctorError(f"no scheduler behind {scheduler_file}: {error}") from error
    with client:
        threads = sum(client.nthreads().values())
        if not threads:
            raise LogdoctorError(
                f"the scheduler of {scheduler_file} has no worker: start `dask worker --scheduler-file {scheduler_file}`"
            )
        yield _workers(client, threads)


def _workers(client: Any, count: int, look: Callable[[], None] = lambda: None) -> WorkerPool:
    chosen = given(client.get_executor(pure=False, retries=0))
    return WorkerPool(count, chosen.executor, isolated=True, look=look)


@contextmanager
def _cluster(kind: str, site: Site, note: Callable[[str], None]) -> Iterator[Any]:
    if kind == "local":
        with _import("distributed").LocalCluster(
            threads_per_worker=1, n_workers=min(site.workers, usable_cores()), dashboard_address=None
        ) as cluster:
            yield cluster
        return
    jobqueue = _import("dask_jobqueue")
    kind_of_cluster = jobqueue.SLURMCluster if kind == "slurm" else jobqueue.PBSCluster
    refusal: Future[str] = Future()
    try:
        cluster = kind_of_cluster(
            job_cls=_noting(kind_of_cluster.job_cls, refusal, note), **_job_options(kind, site)
        )
    except (OSError, RuntimeError, ValueError) as error:
        raise LogdoctorError(f"--cluster {kind}: {error}") from error
    with cluster:
        cluster.scale(jobs=1)
        if reason := refusal.result():
            raise LogdoctorError(f"--cluster {kind}: {reason}")
        cluster.adapt(minimum_jobs=1, maximum_jobs=site.workers)
        yield cluster


class _JobWatch:
    """Distinguishes a job that waits from one that ended without a worker, for which Dask would wait forever.

    Args:
        client, cluster: of Dask.
        kind: of batch system.
        site: its options.
    """

    def __init__(self, client: Any, cluster: Any, kind: str, site: Site) -> None:
        self._client, self._cluster, self._kind = client, cluster, kind
        self._folder = site.log_directory or "."
        self._worker_came = False

    def look(self) -> None:
        """Look whether a worker may still come.

        Raises:
            LogdoctorError: none ever came, and all jobs have ended.
        """
        self._worker_came = self._worker_came or bool(self._client.nthreads())
        jobs = [] if self._worker_came else [one.job_id for one in list(self._cluster.workers.values())]
        submitted = [job for job in jobs if job]
        if submitted and all(_has_ended(self._kind, job) for job in submitted):
            words = _last_words(submitted[0], self._folder)
            raise LogdoctorError(
                f"--cluster {self._kind}: job {submitted[0]} ended without a worker: {words}"
            )


def _has_ended(kind: str, job: str) -> bool:
    """Ask the batch system; where it does not answer, the job may still wait or run."""
    try:
        asked = subprocess.run(
            [*_IS_THERE[kind], job], capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return bool(_IS_GONE.search(asked.stderr)) or (
        kind == "slurm" and asked.returncode == 0 and not asked.stdout.strip()
    )


def _last_words(job: str, folder: str) -> str:
    """Return the last line of what a job wrote, or where to look for it."""
    for file in sorted(Path(folder).glob(f"*{job}*"), key=os.path.getmtime, reverse=True):
        with suppress(OSError):
            if lines := file.read_text(errors="replace")[-4000:].strip().splitlines():
                return mask(lines[-1][-300:]).text
    return f"see its output in {os.path.abspath(folder)}"


def _noting(job: Any, first: Future[str], note: Callable[[str], None]) -> Any:
    """Return a class of jobs: why the first one was refused, or "", becomes known; a later refusal is noted once for each reason."""
    process = _import("distributed.deploy.spec").ProcessInterface
    noted = set()

    async def start(self: Any) -> None:
        reason = ""
        try:
            await job.start(self)
        except (OSError, RuntimeError, ValueError) as error:
            reason = _reason(error)
            # Dask waits for workers of a refused job for ever: without it, it asks for another one.
            await process.start(self)
            asyncio.get_running_loop().call_later(_UNTIL_ASKED_AGAIN, _drop, self)
        if not first.done():
            first.set_result(reason)
        elif reason and reason not in noted:
            noted.add(reason)
            note(f"{reason}; the jobs before it go on, another one is asked for each minute")

    async def close(self: Any) -> None:
        await job.close(self)
        await process.close(self)

    return type(job.__name__, (job,), {"start": start, "close": close})


def _drop(job: Any) -> None:
    job.status = type(job.status).closed
    cluster = job._cluster()
    for name in [name for name, one in cluster.workers.items() if one is job] if cluster else ():
        del cluster.workers[name]
        cluster.worker_spec.pop(name, None)


def _reason(error: Exception) -> str:
    """Return in one line why a job was not submitted: what the command says, where dask-jobqueue quotes it."""
    found = _REFUSED.search(str(error))
    if found is None:
        return " ".join(str(error).split())
    words = " ".join((found["stderr"].strip() or found["stdout"]).split())
    return f"{found['command']} refuses the job (exit status {found['status']}): {words[:300]}"


def _job_options(kind: str, site: Site) -> dict[str, Any]:
    seconds = seconds_of_time(site.walltime)
    if seconds is None or seconds <= 2 * _BEFORE_THE_END:
        raise LogdoctorError(f"walltime {site.walltime}: write more than four minutes as hh:mm:ss", 2)
    lifetime = ["--lifetime", f"{seconds - _BEFORE_THE_END:.0f}s", "--lifetime-stagger", "60s"]
    options: dict[str, Any] = {
        "queue": site.queue, "account": site.account, "walltime": site.walltime, "memory": site.memory, "cores": site.cores,
        "processes": 1, "interface": site.interface, "job_extra_directives": site.job_directives,
        "job_script_prologue": site.job_script_prologue, "worker_extra_args": [*lifetime, "--nthreads", "1"],
        "local_directory": site.local_directory, "log_directory": site.log_directory, "death_timeout": 60,
        "scheduler_options": {"dashboard": False, "dashboard_address": "127.0.0.1:0"},
    }  # fmt: skip
    if site.python:
        options["python"] = site.python
    if kind == "pbs" and site.resource_spec:
        options["resource_spec"] = site.resource_spec
    return options


def _import(name: str) -> Any:
    from importlib import import_module

    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        raise LogdoctorError(f"this needs {name}: pip install 'vllm-logdoctor[fleet-cluster]'", 2) from error
