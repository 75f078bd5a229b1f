"""Parameters that several commands have."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Annotated, Any

import typer

from vllm_logdoctor.cli.analyze_options import parameter


def completing(choices: Callable[[], Iterable[str]]) -> Callable[[str], list[str]]:
    """Return what a shell completes a value to; the choices are made only when it asks."""
    return lambda incomplete: sorted(one for one in choices() if one.startswith(incomplete))


def format_option(*choices: str, words: str = "") -> Any:
    """Return the option --format as a parameter of typer; its help names the choices, unless `words` do."""
    return typer.Option(
        "--format",
        "-f",
        metavar="FORMAT",
        help=words or f"{', '.join(choices[:-1])} or {choices[-1]}.",
        autocompletion=completing(lambda: choices),
    )


Log = Annotated[str, typer.Argument(metavar="LOG", help="Log, or - for standard input.")]
RunNumber = Annotated[
    int | None, typer.Option("--run", min=1, metavar="N", help="Number of the run; default: the last.")
]
Objective = Annotated[str | None, parameter("objective")]
