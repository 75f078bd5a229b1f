"""A store as an object: add logs with any executor, tables as frames, SQL, the page."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor
from datetime import datetime
from os import PathLike, fspath
from os.path import isfile
from typing import TYPE_CHECKING, Any

from vllm_logdoctor.errors import LogdoctorError
from vllm_logdoctor.fleet.accounting import add_accounting
from vllm_logdoctor.fleet.adding import Added, add
from vllm_logdoctor.fleet.asking import ask
from vllm_logdoctor.fleet.effects import MeasuredEffect, effects_of
from vllm_logdoctor.fleet.facts import jobs_of
from vllm_logdoctor.fleet.inventory import key_of, logs_of
from vllm_logdoctor.fleet.mapping import WorkerPool, given, pool
from vllm_logdoctor.fleet.peers import Outlier, outliers_of
from vllm_logdoctor.fleet.picture import Picture, picture_of
from vllm_logdoctor.fleet.reading import ReadOptions
from vllm_logdoctor.fleet.store import Store
from vllm_logdoctor.fleet.upkeep import Health, check, compact, forget
from vllm_logdoctor.fleet.writers import html

if TYPE_CHECKING:
    import pandas
    import pyarrow

_MIB = 1 << 20


class Fleet:
    """A store of logs.

    Args:
        store: its directory.

    Raises:
        LogdoctorError: the directory holds something else (exit code 2).

    Example:
        >>> import tempfile
        >>> fleet = Fleet(tempfile.mkdtemp() + "/store")
        >>> fleet.add(["fixtures/vllm-0.11.2-kv-starved.log"], jobs=1).read
        1
        >>> fleet.table("runs")["release"].to_pylist()
        ['0.11.2']
    """

    def __init__(self, store: str | PathLike[str]) -> None:
        self.store = Store(store)

    def add(
        self,
        paths: Iterable[str | PathLike[str]],
        *,
        listed: Iterable[str] = (),
        jobs: int | None = None,
        executor: Executor | None = None,
        client: Any = None,
        workers: WorkerPool | None = None,
        time_limit: float = 60.0,
        memory_limit: int = 1024 * _MIB,
        documents: bool = True,
        again: bool = False,
        patterns: tuple[str, ...] = (),
        progress: Callable[[Added, int], None] | None = None,
    ) -> Added:
        """Read logs that are new or have grown.

        Args:
            paths: files, globs, directories.
            listed: paths of a list; those that are gone get a row with their status.
            jobs: processes of a pool on this machine; default: one per core.
            executor: an executor of concurrent.futures to use in place of the pool.
            client: a Dask client to use in place of the pool.
            workers: what the command line chose.
            time_limit, memory_limit: seconds and bytes for one log.
            documents: keep the JSON report of each log.
            again: read anew what another version of logdoctor had read.
            patterns: packs of your own.
            progress: called after each batch with what was done and the number of logs to read.

        Raises:
            LogdoctorError: a path is no file, or the store can't be written (exit code 3).
        """
        if client is not None:
            executor = client.get_executor(pure=False, retries=0)
        chosen = workers or (given(executor) if executor is not None else pool(jobs))
        reading = ReadOptions(time_limit, memory_limit, documents, patterns)
        skipped: list[str] = []
        logs = logs_of([fspath(path) for path in paths], listed, str(self.store.path), skipped)
        done = add(self.store, logs, reading, chosen, again=again, progress=progress)
        done.skipped = skipped
        return done

    def add_accounting(self, path: str | PathLike[str]) -> int:
        """Read accounting (sacct -P, qstat -xf, or a CSV) into the store; return the number of jobs."""
        return add_accounting(self.store, fspath(path))

    def table(self, name: str, columns: Sequence[str] | None = None) -> pyarrow.Table:
        """Return the rows of a table that count, as a pyarrow table."""
        return self.store.table(name, columns)

    def frame(self, name: str) -> pandas.DataFrame:
        """Return the rows of a table that count, as a pandas DataFrame."""
        return self.table(name).to_pandas()  # type: ignore[no-any-return]

    def sql(self, query: str) -> pyarrow.Table:
        """Return the answer to one SELECT over the tables and the view `jobs`."""
        return ask(self.store, query)

    def outliers(self, since: datetime | None = None) -> list[Outlier]:
        """Return runs far from their peers, the farthest first."""
        return outliers_of(self.store, jobs_of(self.store, since)).found

    def effects(self) -> list[MeasuredEffect]:
        """Return what single changes did to jobs that ran before and after them."""
        return effects_of(self.store, jobs_of(self.store))

    def picture(self, since: datetime | None = None) -> Picture:
        """Return all that the page shows."""
        return picture_of(self.store, since)

    def to_html(self, since: datetime | None = None) -> str:
        """Return the page as one self-contained HTML document."""
        return html(self.picture(since))

    def report(self, job: str, format: str = "json") -> str:
        """Return the report of a job's logs, by its id or by the path of a log.

        Args:
            job: which.
            format: json, as it was kept; md or html, from the logs, which must be there.

        Raises:
            LogdoctorError: no such job, its documents were not kept, or its logs are gone (exit code 2).
        """
        logs = self.table("logs", ["path", "files", "job", "job_number"]).to_pylist()
        key = key_of(job)
        rows = [
            row for row in logs if job in (row["job"], row["job_number"], row["path"]) or row["log"] == key
        ]
        if rows and format != "json":
            return _read_again(job, [file for row in rows for file in row["files"]], format)
        wanted = {row["log"] for row in rows}
        found = self.store.documents(wanted) if wanted else []
        if not found:
            known = 'fleet ask STORE "select job, path from logs" lists all'
            raise LogdoctorError(
                f"no report of job {job}: {'its report was not kept' if wanted else known}", 2
            )
        return "\n".join(found) + "\n"

    def check(self) -> Health:
        """Return the state of the store."""
        return check(self.store)

    def compact(self) -> int:
        """Join parts and drop superseded rows; return the number of parts before."""
        return compact(self.store)

    def forget(self, paths: Iterable[str | PathLike[str]]) -> list[str]:
        """Delete all rows of logs; return their paths."""
        return forget(self.store, [fspath(path) for path in paths])


def _read_again(job: str, files: Sequence[str], format: str) -> str:
    """Return the report of files as Markdown or HTML."""
    gone = next((file for file in files if not isfile(file)), None)
    if gone is not None:
        raise LogdoctorError(f"{gone} is gone: of job {job} only the JSON report is left (-o report.json)", 2)
    from vllm_logdoctor.api import analyze

    report = analyze(files)
    return report.to_html() if format == "html" else report.to_markdown()
