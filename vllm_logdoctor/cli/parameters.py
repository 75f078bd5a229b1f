"""Parameters that several commands have."""

from __future__ import annotations

from typing import Annotated

import typer

from vllm_logdoctor.pipeline import OBJECTIVES

Log = Annotated[str, typer.Argument(metavar="LOG", help="Log, or - for standard input.")]
RunNumber = Annotated[
    int | None, typer.Option("--run", min=1, metavar="N", help="Number of the run; default: the last.")
]
Objective = Annotated[
    str | None, typer.Option("--objective", metavar="GOAL", help=f"{', '.join(OBJECTIVES)}.")
]
