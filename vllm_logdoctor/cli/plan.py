"""The plan command: the launch with every change made, in the form in which the server is started."""

from __future__ import annotations

import sys
from typing import Annotated, Optional

import typer

from vllm_logdoctor.errors import LogdoctorError, unknown_choice

FORMS = ("shell", "yaml", "pbs", "slurm", "systemd", "compose", "kubernetes")


def plan(
    log: Annotated[str, typer.Argument(metavar="LOG", help="Log, or - for standard input.")],
    form: Annotated[
        str, typer.Option(metavar="FORM", help="shell, yaml, pbs, slurm, systemd, compose or kubernetes.")
    ] = "shell",
    run: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Number of the run; default: the last.")
    ] = None,
    objective: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(metavar="GOAL", help="balanced, throughput, latency, long-context, memory or startup."),
    ] = None,
    before: Annotated[
        bool, typer.Option("--before", help="The launch as it was, without the changes.")
    ] = False,
) -> None:
    """Print the launch command with every change made."""
    from vllm_logdoctor.cli.options import accepted_left_out, options_of, settings_here, warn
    from vllm_logdoctor.cli.settings import with_known_findings
    from vllm_logdoctor.pipeline import analyse
    from vllm_logdoctor.plan.formats import render_launch
    from vllm_logdoctor.plan.launch import changed, launch_of
    from vllm_logdoctor.source import inputs_from

    if form not in FORMS:
        raise unknown_choice("form", form, FORMS)
    settings = with_known_findings(settings_here())
    analysis = analyse(inputs_from(log), options_of(settings, objective))
    if run is not None and run > len(analysis.runs):
        raise LogdoctorError(f"there is no run {run}: the log holds {len(analysis.runs)}", 2)
    chosen = analysis.runs[run - 1 if run else -1]
    launch = launch_of(chosen.run)
    if launch is None:
        raise LogdoctorError(
            "the log does not hold the arguments of a server, so that no launch can be written", 3
        )
    if not before:
        left = accepted_left_out(analysis, settings)
        warn([*left.notes, *left.warnings])
        chosen = left.analysis.runs[run - 1 if run else -1]
        launch = changed(launch, (planned.change for planned in chosen.plan.changes))
    sys.stdout.write(render_launch(launch, form).rstrip("\n") + "\n")
