"""The fleet commands: thousands of logs in a store, and one page over them."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vllm_logdoctor.cli.exit_codes import ExitCode
from vllm_logdoctor.errors import LogdoctorError, unknown_choice

if TYPE_CHECKING:
    from vllm_logdoctor.fleet.adding import Added
    from vllm_logdoctor.fleet.library import Fleet
    from vllm_logdoctor.report.model import Analysis

fleet = typer.Typer(
    name="fleet",
    help="Thousands of job logs: tables, one page over them, SQL.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
Place = Annotated[str, typer.Argument(metavar="STORE", help="Directory of the store.")]
_ASK_FORMATS = ("text", "csv", "json")
_MOST_NAMED = 5
_CLUSTERS = ("local", "slurm", "pbs")
_CLUSTER_HELP = "slurm or pbs: workers as batch jobs (local: Dask on this machine)."


@fleet.command()
def add(
    store: Place,
    paths: Annotated[
        list[str] | None, typer.Argument(metavar="PATH...", help="Logs, globs or directories.")
    ] = None,
    listed: Annotated[
        str | None,
        typer.Option("--from", metavar="FILE", help="File with one path a line, - for standard input."),
    ] = None,
    accounting: Annotated[
        list[str] | None, typer.Option(metavar="FILE", help="Of sacct -P, qstat -xf, a PBS log, a CSV.")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Processes on this machine; default: one per core.")
    ] = None,
    cluster: Annotated[str | None, typer.Option(metavar="KIND", help=_CLUSTER_HELP)] = None,
    scheduler: Annotated[
        str | None, typer.Option(metavar="FILE", help="Scheduler file of a running Dask.")
    ] = None,
    queue: Annotated[str | None, typer.Option(metavar="QUEUE", help="Queue of the workers.")] = None,
    account: Annotated[str | None, typer.Option(metavar="ACCOUNT", help="Account of the workers.")] = None,
    walltime: Annotated[str | None, typer.Option(metavar="HH:MM:SS", help="Walltime of a worker.")] = None,
    workers: Annotated[int | None, typer.Option(min=1, metavar="N", help="Workers at most.")] = None,
    time_limit: Annotated[float, typer.Option(min=0.1, metavar="SECONDS", help="Limit for one log.")] = 60.0,
    memory_limit: Annotated[str, typer.Option(metavar="SIZE", help="Memory limit for one log.")] = "1GB",
    again: Annotated[bool, typer.Option("--again", help="Read anew what another version had read.")] = False,
    no_documents: Annotated[
        bool, typer.Option("--no-documents", help="Keep no JSON report of each log.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
) -> None:
    """Read logs that are new or have grown into a store."""
    if cluster is not None and cluster not in _CLUSTERS:
        raise unknown_choice("cluster", cluster, _CLUSTERS)
    if not paths and not listed and not accounting:
        raise LogdoctorError("name logs, a list (--from FILE) or accounting (--accounting FILE)", 2)
    site: dict[str, Any] = {"queue": queue, "account": account, "walltime": walltime, "workers": workers}
    opened = _open(store, new=True)
    shows = not quiet and sys.stderr.isatty()
    for file in accounting or ():
        sys.stderr.write(f"logdoctor: {file}: {opened.add_accounting(file):,} jobs\n")
    if not paths and not listed:
        return
    with _workers(cluster, scheduler, jobs, site) as chosen:
        done = opened.add(
            paths or [],
            listed=_lines(listed) if listed else (),
            workers=chosen,
            time_limit=time_limit,
            memory_limit=_bytes(memory_limit),
            documents=not no_documents,
            again=again,
            patterns=_patterns(),
            progress=_print_progress if shows else None,
        )
    _print_added(done, quiet)
    if not (done.read or done.known or done.interrupted):
        raise LogdoctorError(f"no log in {', '.join(paths or [listed or ''])}", ExitCode.NOTHING_OF_VLLM)
    if done.interrupted:
        raise KeyboardInterrupt


@fleet.command()
def show(
    store: Place,
    output: Annotated[
        list[str] | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="File to write: .html, .md or .json; repeatable."
        ),
    ] = None,
    since: Annotated[
        str | None, typer.Option(metavar="DATE", help="Only jobs that began since, 2026-11-01.")
    ] = None,
    job: Annotated[
        str | None,
        typer.Option(
            metavar="JOB",
            help="The reports of one job, by its id or the path of a log: .json as kept, .md and .html from its logs.",
        ),
    ] = None,
) -> None:
    """Show all jobs on one page, or the report of one job."""
    from vllm_logdoctor.cli.output import write

    opened = _open(store)
    _check_outputs(opened, store, [name for name in output or () if name != "-"])
    if job is not None:
        for name in output or ["-"]:
            ending = name.rpartition(".")[2].lower()
            write(opened.report(job, ending if ending in ("md", "html") else "json"), name)
        return
    picture = opened.picture(_date(since))
    from vllm_logdoctor.fleet.writers import rendered

    texts = [(rendered(picture, name), name) for name in output or ["-"]]
    for text, name in texts:
        write(text, name)


@fleet.command()
def ask(
    store: Place,
    query: Annotated[str, typer.Argument(metavar="SQL", help="One SELECT over the tables.")],
    format: Annotated[str, typer.Option(metavar="FORMAT", help="text, csv or json.")] = "text",
) -> None:
    """Ask the tables with SQL, read-only."""
    from vllm_logdoctor.fleet.writers import table_text

    if format not in _ASK_FORMATS:
        raise unknown_choice("format", format, _ASK_FORMATS)
    sys.stdout.write(table_text(_open(store).sql(query), format))


@fleet.command()
def check(store: Place) -> None:
    """Count the parts and rows of a store and name what is damaged."""
    health = _open(store).check()
    size = sum(health.bytes.values())
    lines = [
        f"{health.parts:,} parts, {health.logs:,} logs, {health.superseded:,} superseded rows, {size / 1e6:,.1f} MB",
        *(f"  {status}: {count:,}" for status, count in health.statuses.items()),
        *(f"damaged: {problem}" for problem in health.problems),
        *(f"left over: {path}" for path in health.left_over),
    ]
    sys.stdout.write("\n".join(lines) + "\n")
    if health.problems or health.left_over:
        raise typer.Exit(1)


@fleet.command()
def compact(store: Place) -> None:
    """Join small parts and drop superseded rows."""
    opened = _open(store)
    before = opened.compact()
    sys.stdout.write(f"{before:,} parts before, {len(opened.store.parts()):,} after\n")


@fleet.command()
def forget(
    store: Place,
    paths: Annotated[
        list[str], typer.Argument(metavar="PATH...", help="Logs, directories or globs as the store has them.")
    ],
) -> None:
    """Delete all rows of logs."""
    gone = _open(store).forget(paths)
    sys.stdout.write(f"{len(gone):,} logs forgotten\n")


def with_own_effects(analysis: Analysis, store: str) -> Analysis:
    """Return an analysis whose changes say what they did to the jobs of a store."""
    effects = _open(store).effects()
    from vllm_logdoctor.fleet.effects import with_effects

    return with_effects(analysis, effects)


def _open(store: str, *, new: bool = False) -> Fleet:
    if not new and not os.path.isdir(store):
        raise LogdoctorError(f"no such store: {store}; logdoctor fleet add {store} LOG makes one")
    try:
        from vllm_logdoctor.fleet import open as open_fleet

        return open_fleet(store)
    except ModuleNotFoundError as error:
        raise LogdoctorError(f"fleet needs {error.name}: pip install 'vllm-logdoctor[fleet]'", 2) from error


def _check_outputs(opened: Fleet, store: str, outputs: Sequence[str]) -> None:
    """Refuse to write into the store, or over a log of it."""
    from vllm_logdoctor.cli.output import identity_of

    for name in outputs:
        if Path(os.path.realpath(name)).is_relative_to(os.path.realpath(store)):
            raise LogdoctorError(f"-o {name} is in the store: choose another place", 2)
    written = {identity_of(name): name for name in outputs if os.path.isfile(name)}
    for files in opened.table("logs", ["files"])["files"].to_pylist() if written else ():
        for file in files:
            if os.path.isfile(file) and identity_of(file) in written:
                raise LogdoctorError(
                    f"-o {written[identity_of(file)]} is a log of the store: choose another place", 2
                )


def _workers(cluster: str | None, scheduler: str | None, jobs: int | None, site: dict[str, Any]) -> Any:
    from contextlib import nullcontext

    if cluster is None and scheduler is None:
        from vllm_logdoctor.fleet.mapping import pool

        return nullcontext(pool(jobs))
    from vllm_logdoctor.cli.options import settings_here
    from vllm_logdoctor.fleet.cluster import cluster_workers, scheduler_workers

    if scheduler is not None:
        return scheduler_workers(scheduler)
    given = {name: value for name, value in site.items() if value is not None}

    def note(words: str) -> None:
        sys.stderr.write(f"logdoctor: --cluster {cluster}: {words}\n")

    return cluster_workers(str(cluster), {**settings_here().fleet, **given}, note)


def _patterns() -> tuple[str, ...]:
    from vllm_logdoctor.cli.options import settings_here

    return tuple(str(place.resolve()) for place in settings_here().patterns)


def _lines(name: str) -> Iterator[str]:
    try:
        with open(
            0 if name == "-" else name, encoding="utf-8", errors="surrogateescape", closefd=name != "-"
        ) as file:
            yield from (line.rstrip("\n") for line in file if line.strip())
    except OSError as error:
        raise LogdoctorError(f"can't read {name}: {error.strerror or error}") from error


def _bytes(text: str) -> int:
    from vllm_logdoctor.run.job import bytes_of_size

    size = bytes_of_size(text)
    if not size:
        raise LogdoctorError(f"--memory-limit {text}: write a size such as 1GB", 2)
    return size


def _date(text: str | None) -> Any:
    from datetime import datetime

    try:
        return datetime.fromisoformat(text) if text else None
    except ValueError as error:
        raise LogdoctorError(f"--since {text}: write a day as 2026-11-01", 2) from error


def _print_progress(done: Added, total: int) -> None:
    sys.stderr.write(f"\rlogdoctor: {done.read:,} of {total:,} logs")
    sys.stderr.flush()


def _print_skipped(skipped: Sequence[str]) -> None:
    from vllm_logdoctor.report.escape import visible

    for words in skipped[:_MOST_NAMED]:
        sys.stderr.write(f"logdoctor: skipped {visible(words)}\n")
    if len(skipped) > _MOST_NAMED:
        sys.stderr.write(f"logdoctor: skipped {len(skipped) - _MOST_NAMED:,} more\n")


def _print_added(done: Added, quiet: bool) -> None:
    _print_skipped(done.skipped)
    if quiet or not (done.read or done.known or done.interrupted):
        return
    by_status = ", ".join(f"{count:,} {status}" for status, count in done.statuses.most_common())
    read = "interrupted, no batch was ready" if done.interrupted else "nothing new"
    if done.read:
        pace = f" in {done.seconds:.0f} s ({done.read / done.seconds:.0f} a second)" if done.seconds else ""
        read = f"{done.read:,} logs read{pace}: {by_status}"
    end = "\r" if sys.stderr.isatty() else ""
    sys.stderr.write(f"{end}logdoctor: {read}; {done.known:,} were known\n")
