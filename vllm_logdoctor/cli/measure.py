"""The commands baseline and collect: the document of a run, and the script that gathers what its log does not print."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from vllm_logdoctor.errors import LogdoctorError


def baseline(
    paths: Annotated[
        list[str], typer.Argument(metavar="LOG...", help="Logs, or a directory with files beside them.")
    ],
    beside: Annotated[
        list[str] | None, typer.Option("--with", metavar="FILE", help="A file beside the log (repeatable).")
    ] = None,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="FILE", help="File to write; - for standard output.")
    ] = "-",
) -> None:
    """Write the baseline document: values with source, open questions."""
    from vllm_logdoctor.baseline.document import render
    from vllm_logdoctor.cli.options import options_of, settings_here
    from vllm_logdoctor.cli.output import check_outputs, write
    from vllm_logdoctor.evidence.given import evidence_from
    from vllm_logdoctor.pipeline import analyse
    from vllm_logdoctor.run.servers import VLLM
    from vllm_logdoctor.source import inputs_of_paths

    inputs = inputs_of_paths(paths)
    check_outputs([output], [one.path or "-" for one in inputs], "markdown")
    analysis = analyse(inputs, options_of(settings_here()), evidence=evidence_from(beside or []))
    runs = [one for one in analysis.runs if one.run.server == VLLM]
    if not runs:
        raise LogdoctorError("no run of vLLM: a baseline is of one", 4)
    write(render(runs[-1]), output)


def collect(
    log: Annotated[
        str | None, typer.Argument(metavar="[LOG]", help="Log of the server, for its port and platform.")
    ] = None,
    seconds: Annotated[int, typer.Option(min=20, metavar="SECONDS", help="How long to record.")] = 60,
    folder: Annotated[
        str, typer.Option("--folder", metavar="DIR", help="Folder for the files of the script.")
    ] = "job",
) -> None:
    """Print commands that gather what a log lacks; run none of them."""
    from vllm_logdoctor.baseline.commands import collecting

    run = None
    if log is not None:
        from vllm_logdoctor.cli.options import analysis_of

        analysis = analysis_of(log)
        run = analysis.runs[-1].run if analysis.runs else None
    sys.stdout.write("\n".join(collecting(run, os.environ, seconds, folder, log or "vllm.log")) + "\n")
