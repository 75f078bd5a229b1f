"""Parameters that several commands have."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Annotated

import typer

from vllm_logdoctor.pipeline import OBJECTIVES


def completing(choices: Callable[[], Iterable[str]]) -> Callable[[str], list[str]]:
    """Return what a shell completes a value to; the choices are made only when it asks."""
    return lambda incomplete: sorted(one for one in choices() if one.startswith(incomplete))


Log = Annotated[str, typer.Argument(metavar="LOG", help="Log, or - for standard input.")]
RunNumber = Annotated[
    int | None, typer.Option("--run", min=1, metavar="N", help="Number of the run; default: the last.")
]
Objective = Annotated[
    str | None,
    typer.Option(
        "--objective",
        metavar="GOAL",
        help=f"{', '.join(OBJECTIVES)}.",
        autocompletion=completing(lambda: OBJECTIVES),
    ),
]
