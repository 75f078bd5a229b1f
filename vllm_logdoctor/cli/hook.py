"""The hook commands: print scripts for PBS and Slurm, and run as their engine."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, NoReturn

import typer

hook = typer.Typer(
    name="hook",
    help="Reports at the end of PBS and Slurm jobs: prints the scripts.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Seconds = Annotated[
    int, typer.Option("--seconds", min=1, metavar="SECONDS", help="Limit of wall time for the analysis.")
]
Memory = Annotated[int, typer.Option("--memory", min=64, metavar="MIB", help="Limit of address space.")]
Command = Annotated[
    str, typer.Option("--command", metavar="PATH", help="Path of logdoctor in the script; default: this one.")
]
AllJobs = Annotated[
    bool, typer.Option("--all-jobs", help="Administrator's script: report on every job of vLLM, unasked.")
]


@hook.command()
def pbs(
    kind: Annotated[
        str, typer.Option("--kind", "-k", metavar="KIND", help="job, afterany or epilogue.")
    ] = "job",
    seconds: Seconds = 60,
    memory: Memory = 2048,
    command: Command = "",
    all_jobs: AllJobs = False,
) -> None:
    """Print a script for PBS.

    Fragment of a job script, job for afterany, or execjob_epilogue hook.
    """
    _print_script("pbs", kind, seconds, memory, command, all_jobs)


@hook.command()
def slurm(
    kind: Annotated[
        str, typer.Option("--kind", "-k", metavar="KIND", help="job, afterany or task-epilog.")
    ] = "job",
    seconds: Seconds = 60,
    memory: Memory = 2048,
    command: Command = "",
    all_jobs: AllJobs = False,
) -> None:
    """Print a script for Slurm.

    Fragment of a job script, job for afterany, or TaskEpilog.
    """
    _print_script("slurm", kind, seconds, memory, command, all_jobs)


def _print_script(system: str, kind: str, seconds: int, memory: int, command: str, all_jobs: bool) -> None:
    from vllm_logdoctor.hooks.scripts import ScriptValues, installed_command, script

    sys.stdout.write(
        script(system, kind, ScriptValues(command or installed_command(), seconds, memory, all_jobs))
    )


@hook.command()
def run(
    logs: Annotated[list[Path] | None, typer.Option("--log", help="A log; default: the job's.")] = None,
    report: Annotated[str, typer.Option("--report", help="File, directory or - for none.")] = "",
    job: Annotated[str, typer.Option("--job", help="Another job than the one this runs in.")] = "",
    seconds: Seconds = 60,
    memory_mib: Memory = 2048,
    append: Annotated[bool, typer.Option("--append", help="Add the lines to the job's output file.")] = False,
    output: Annotated[Path | None, typer.Option("--output", help="The job's output file.")] = None,
    only_vllm: Annotated[
        bool, typer.Option("--only-vllm", help="Print nothing if the log is not vLLM's.")
    ] = False,
    shell: Annotated[int | None, typer.Option("--shell", help="Process id of the job script.")] = None,
    status: Annotated[int | None, typer.Option("--status", help="Exit status of the job script.")] = None,
    facts: Annotated[str, typer.Option("--facts", help="What a PBS hook saw of the job, as JSON.")] = "",
    folder: Annotated[Path | None, typer.Option("--folder", help="Base of relative paths.")] = None,
) -> None:
    """Report on a job's log within time and memory limits.

    The exit status is always 0.
    """
    given = {**locals(), "logs": tuple(logs or ())}
    from vllm_logdoctor.hooks.engine import run_hook
    from vllm_logdoctor.hooks.request import HookRequest

    _say_and_leave(run_hook(HookRequest(**given), os.environ))


def _say_and_leave(lines: list[str]) -> NoReturn:
    """A full disk or a closed pipe must not become an exit status: nothing is left for Python to flush."""
    try:
        os.write(1, "".join(line + "\n" for line in lines).encode("utf-8", "replace"))
    finally:
        os._exit(0)
