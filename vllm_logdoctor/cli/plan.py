"""The plan command: the launch with every change made, in the form in which the server is started."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from vllm_logdoctor.cli.parameters import Log, Objective, RunNumber, completing
from vllm_logdoctor.errors import LogdoctorError, unknown_choice

FORMS = ("shell", "yaml", "pbs", "slurm", "systemd", "compose", "kubernetes")


def plan(
    log: Log,
    form: Annotated[
        str,
        typer.Option(
            metavar="FORM",
            help="shell, yaml, pbs, slurm, systemd, compose or kubernetes.",
            autocompletion=completing(lambda: FORMS),
        ),
    ] = "shell",
    run: RunNumber = None,
    objective: Objective = None,
    before: Annotated[
        bool, typer.Option("--before", help="The launch as it was, without the changes.")
    ] = False,
) -> None:
    """Print the launch command with every change made."""
    from vllm_logdoctor.cli.options import accepted_left_out, analysis_of, run_of, settings_here, warn
    from vllm_logdoctor.cli.settings import with_known_findings
    from vllm_logdoctor.plan.formats import render_launch
    from vllm_logdoctor.plan.launch import changed, launch_of

    if form not in FORMS:
        raise unknown_choice("form", form, FORMS)
    settings = with_known_findings(settings_here())
    analysis = analysis_of(log, settings, objective)
    chosen = run_of(analysis, run)
    launch = launch_of(chosen.run)
    if launch is None:
        raise LogdoctorError(
            "the log does not hold the arguments of a server, so that no launch can be written", 3
        )
    if not before:
        left = accepted_left_out(analysis, settings)
        warn([*left.notes, *left.warnings])
        chosen = run_of(left.analysis, run)
        launch = changed(launch, (planned.change for planned in chosen.plan.changes))
    sys.stdout.write(render_launch(launch, form).rstrip("\n") + "\n")
